//! What codes mean: the tables, one of them, or those codes that a term finds.

use catalog::{Code, CodeTable};
use stage::{Error, ExitStatus};

use crate::cli::CodesArgs;

/// Prints codes.
pub(crate) fn run(args: &CodesArgs) -> Result<ExitStatus, Error> {
    let CodesArgs { table, search, json } = args;
    let tables = table.as_ref().map_or(&CodeTable::ALL[..], std::slice::from_ref);
    let found: Vec<Code> = match (table, search) {
        (None, None) => {
            let text = if *json { tables_as_json() } else { tables_as_text() };
            return stage::print(&text).map(|()| ExitStatus::Done);
        }
        (_, Some(term)) => tables.iter().flat_map(|table| table.search(term)).collect(),
        (Some(table), None) => table.codes().collect(),
    };
    if found.is_empty() {
        let term = search.as_deref().unwrap_or_default();
        return Err(Error::NoInput {
            message: format!("no code and no meaning has `{term}` in it"),
            hint: String::from("search for less of the word, or in all tables"),
        });
    }
    let text = if *json {
        serde_json::to_string(&found).map_err(|error| Error::Internal(error.to_string()))?
    } else {
        codes_as_text(&found, table.is_none())
    };
    stage::print(&text)?;
    Ok(ExitStatus::Done)
}

fn tables_as_text() -> String {
    let line = |table: CodeTable| {
        let columns: Vec<_> = table.columns().collect();
        format!("{:13} {:4} codes  {}", table.name(), table.codes().count(), columns.join(", "))
    };
    CodeTable::ALL.map(line).join("\n")
}

fn tables_as_json() -> String {
    let object = |table: CodeTable| {
        serde_json::json!({
            "table": table,
            "codes": table.codes().count(),
            "columns": table.columns().collect::<Vec<_>>(),
        })
    };
    serde_json::Value::from_iter(CodeTable::ALL.map(object)).to_string()
}

/// A line for each code, with its table where there may be several.
fn codes_as_text(codes: &[Code], tells_table: bool) -> String {
    let width = codes.iter().map(|code| code.code.len()).max().unwrap_or(0);
    let line = |Code { table, code, label }: &Code| {
        let table = if tells_table { format!("{:13} ", table.name()) } else { String::new() };
        format!("{table}{code:width$}  {label}")
    };
    codes.iter().map(line).collect::<Vec<_>>().join("\n")
}
