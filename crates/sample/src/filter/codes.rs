//! Codes in a filter that no table of codes knows for their column: most often those of the other
//! code system. Events have countries of actors in three letters and of places in two.

use catalog::CodeTable;

use super::{Filter, Literal, Test};

/// What to say of each code in a filter that its column's table does not know as it stands there.
pub(crate) fn unknown(filter: &Filter) -> Vec<String> {
    match filter {
        Filter::All(filters) | Filter::Any(filters) => filters.iter().flat_map(unknown).collect(),
        Filter::Not(filter) => unknown(filter),
        Filter::Test { column, test: Test::In(literals) } => {
            let Some(table) = CodeTable::of_column(column.name) else { return Vec::new() };
            let texts = literals.iter().filter_map(|literal| match literal {
                Literal::Text(text) => Some(text.as_str()),
                Literal::Whole(_) | Literal::Fraction(_) => None,
            });
            let unknown = texts.filter(|text| table.codes().all(|known| known.code != *text));
            unknown.map(|code| message(column.name, table, code)).collect()
        }
        Filter::Test { .. } => Vec::new(),
    }
}

fn message(column: &str, table: CodeTable, code: &str) -> String {
    let what = format!("no table of codes knows `{code}` in {column}");
    match meant(table, code) {
        Some(meant) => format!("{what}: did you mean `{meant}`?"),
        None => format!("{what}: gdelt-catalog codes {column} lists its codes"),
    }
}

/// The code of the table that means the same: in another letter case, or in another table.
fn meant(table: CodeTable, code: &str) -> Option<&'static str> {
    let in_table = |is: &dyn Fn(&str, &str) -> bool| {
        table.codes().find(|known| is(known.code, known.label)).map(|known| known.code)
    };
    let others = || CodeTable::ALL.into_iter().filter_map(|other| other.label(code));
    in_table(&|known, _| known.eq_ignore_ascii_case(code))
        .or_else(|| in_table(&|_, label| label.eq_ignore_ascii_case(code)))
        .or_else(|| others().find_map(|label| in_table(&|_, known| known == label)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::Dataset;

    #[test]
    fn the_code_that_is_meant_is_named() {
        // CL-06, CL-09
        for (filter, said) in [
            (r#"{"ActionGeo_CountryCode": "USA"}"#, Some("did you mean `US`?")),
            (r#"{"Actor1CountryCode": ["FRA", "US"]}"#, Some("did you mean `USA`?")),
            (r#"{"ActionGeo_CountryCode": "Mauritius"}"#, Some("did you mean `MP`?")),
            (r#"{"Actor1EthnicCode": "KUR"}"#, Some("did you mean `kur`?")),
            (r#"{"NOT": {"EventRootCode": "1"}}"#, Some("gdelt-catalog codes EventRootCode")),
            (r#"{"EventRootCode": ["01", "---", "X"]}"#, None),
            (r#"{"Actor1Code": "nothing has a table here"}"#, None),
        ] {
            let found = unknown(&Filter::parse(Dataset::Events, filter).unwrap());
            assert_eq!(found.len(), usize::from(said.is_some()), "{filter}: {found:?}");
            let names = |said: &str| found.iter().any(|message| message.contains(said));
            assert!(said.is_none_or(names), "{filter}: {found:?}");
        }
    }
}
