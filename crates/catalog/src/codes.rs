//! What the codes in GDELT's columns mean.
//!
//! Source: the compilation of `GdeltForge` (Apache-2.0, `data/codes.json`), which enlarges GDELT's
//! own look-up tables and the CAMEO manual by codes that occur in the data, such as the markers
//! `---`, `--` and `X` of events without one.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::schema::LABELS;
use crate::{Column, Dataset};

/// A table of codes. Places have FIPS 10-4 countries of two letters, actors CAMEO countries of
/// three, and neither are ISO's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeTable {
    /// Countries of actors, in three letters.
    #[serde(alias = "ACTOR_COUNTRY_CODES")]
    ActorCountry,
    /// Countries of places, in two letters.
    #[serde(alias = "GEO_COUNTRY_CODES")]
    GeoCountry,
    /// Ethnic groups.
    #[serde(alias = "ACTOR_ETHNIC_CODES")]
    Ethnic,
    /// Known groups, such as the United Nations.
    #[serde(alias = "ACTOR_KNOWN_GROUP_CODES")]
    KnownGroup,
    /// Religions.
    #[serde(alias = "ACTOR_RELIGION_CODES")]
    Religion,
    /// Types and roles of actors.
    #[serde(alias = "ACTOR_TYPE_CODES")]
    ActorType,
    /// Actions.
    #[serde(alias = "EVENT_CODES")]
    Event,
}

/// The column that cleaning can add for the labels of a column's codes; `None` if it has no codes.
pub fn label_column(column: &str) -> Option<Column> {
    LABELS.iter().find(|label| label.name.strip_suffix("_Label") == Some(column)).copied()
}

/// A code and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Code {
    /// The table it is from.
    pub table: CodeTable,
    /// As it stands in the data. GDELT writes ethnic groups in lower case.
    pub code: &'static str,
    /// What it means.
    pub label: &'static str,
}

/// Label by code.
type Labels = BTreeMap<String, String>;

static TABLES: LazyLock<BTreeMap<CodeTable, Labels>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/codes.json")).expect("a test reads the file")
});

impl CodeTable {
    /// All tables.
    pub const ALL: [Self; 7] = [
        Self::ActorCountry,
        Self::GeoCountry,
        Self::Ethnic,
        Self::KnownGroup,
        Self::Religion,
        Self::ActorType,
        Self::Event,
    ];

    /// Its name for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::ActorCountry => "actor-country",
            Self::GeoCountry => "geo-country",
            Self::Ethnic => "ethnic",
            Self::KnownGroup => "known-group",
            Self::Religion => "religion",
            Self::ActorType => "actor-type",
            Self::Event => "event",
        }
    }

    /// The table of a column's codes.
    pub fn of_column(column: &str) -> Option<Self> {
        Some(match column {
            "Actor1CountryCode" | "Actor2CountryCode" => Self::ActorCountry,
            "Actor1Geo_CountryCode"
            | "Actor2Geo_CountryCode"
            | "ActionGeo_CountryCode"
            | "Geo_CountryCode" => Self::GeoCountry,
            "Actor1EthnicCode" | "Actor2EthnicCode" => Self::Ethnic,
            "Actor1KnownGroupCode" | "Actor2KnownGroupCode" => Self::KnownGroup,
            "Actor1Religion1Code"
            | "Actor1Religion2Code"
            | "Actor2Religion1Code"
            | "Actor2Religion2Code" => Self::Religion,
            "Actor1Type1Code" | "Actor1Type2Code" | "Actor1Type3Code" | "Actor2Type1Code"
            | "Actor2Type2Code" | "Actor2Type3Code" => Self::ActorType,
            "EventCode" | "EventBaseCode" | "EventRootCode" | "CAMEOCode" => Self::Event,
            _ => return None,
        })
    }

    /// The columns that hold its codes, each once.
    pub fn columns(self) -> impl Iterator<Item = &'static str> {
        let datasets = [Dataset::Events, Dataset::EventsReduced, Dataset::GkgV1Counts];
        let names = datasets.into_iter().flat_map(|of| of.columns().iter().map(|it| it.name));
        names.filter(move |name| Self::of_column(name) == Some(self))
    }

    /// Its codes, in order.
    pub fn codes(self) -> impl Iterator<Item = Code> {
        let labels = TABLES.get(&self).into_iter().flatten();
        labels.map(move |(code, label)| Code { table: self, code, label })
    }

    /// What a code means, in any letter case: the data write ethnic groups in another case than the
    /// manual.
    pub fn label(self, code: &str) -> Option<&'static str> {
        let exact = TABLES.get(&self).and_then(|labels| labels.get(code));
        exact.map(String::as_str).or_else(|| {
            self.codes()
                .find(|known| known.code.eq_ignore_ascii_case(code))
                .map(|known| known.label)
        })
    }

    /// The codes for a term: the code of this name, or else all whose code or label has the term in
    /// it; in any letter case.
    pub fn search(self, term: &str) -> Vec<Code> {
        let exact: Vec<_> =
            self.codes().filter(|known| known.code.eq_ignore_ascii_case(term)).collect();
        if !exact.is_empty() {
            return exact;
        }
        let term = term.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&term);
        self.codes().filter(|known| has(known.code) || has(known.label)).collect()
    }
}

impl fmt::Display for CodeTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// No table and no column with codes has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no table of codes and no column with codes")]
pub struct UnknownCodes(String);

/// By the name of a table or of a column, in any letter case.
impl FromStr for CodeTable {
    type Err = UnknownCodes;

    fn from_str(name: &str) -> Result<Self, UnknownCodes> {
        let is_named = |table: &Self| {
            let mut columns = table.columns();
            table.name().eq_ignore_ascii_case(name)
                || columns.any(|column| column.eq_ignore_ascii_case(name))
        };
        Self::ALL.into_iter().find(is_named).ok_or_else(|| UnknownCodes(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_its_codes_and_columns() {
        let counts = CodeTable::ALL.map(|table| (table.codes().count(), table.columns().count()));
        assert_eq!(counts, [(262, 2), (280, 4), (639, 2), (115, 2), (31, 4), (39, 6), (321, 4)]);
        assert_eq!(TABLES.len(), CodeTable::ALL.len());
        for table in CodeTable::ALL {
            assert_eq!(table.name().parse(), Ok(table));
            for column in table.columns() {
                assert_eq!(column.parse(), Ok(table));
            }
        }
        assert!("Day".parse::<CodeTable>().is_err());
    }

    #[test]
    fn every_column_with_codes_and_no_other_has_one_for_labels() {
        for column in Dataset::ALL.iter().flat_map(|dataset| dataset.columns()) {
            let label = label_column(column.name).map(|label| label.name);
            let expected = format!("{}_Label", column.name);
            assert_eq!(label, CodeTable::of_column(column.name).map(|_| expected.as_str()));
        }
    }

    #[test]
    fn codes_are_looked_up_in_any_case_and_keep_their_leading_zeros() {
        // CL-06, CL-07, CL-09
        let label = |table: CodeTable, code| table.label(code);
        assert_eq!(label(CodeTable::ActorCountry, "USA"), Some("United States"));
        assert_eq!(label(CodeTable::GeoCountry, "US"), Some("United States"));
        assert_eq!(label(CodeTable::GeoCountry, "USA"), None);
        assert_eq!(label(CodeTable::GeoCountry, "MP"), Some("Mauritius"));
        assert_eq!(label(CodeTable::Ethnic, "KUR"), label(CodeTable::Ethnic, "kur"));
        assert!(label(CodeTable::Ethnic, "kur").is_some());
        assert_ne!(label(CodeTable::Event, "010"), label(CodeTable::Event, "10"));
        assert_eq!(label(CodeTable::Event, "1"), None);
        for marker in ["---", "--", "X"] {
            assert!(label(CodeTable::Event, marker).is_some(), "{marker}");
        }
    }

    #[test]
    fn a_search_gives_the_exact_code_or_all_that_hold_the_term() {
        let codes = |table: CodeTable, term| -> Vec<_> {
            table.search(term).into_iter().map(|found| found.code).collect()
        };
        assert_eq!(codes(CodeTable::GeoCountry, "fr"), ["FR"]);
        let french = codes(CodeTable::GeoCountry, "FRENCH");
        assert!(french.contains(&"FG") && french.contains(&"FP"), "{french:?}");
        assert_eq!(codes(CodeTable::GeoCountry, "nowhere"), [""; 0]);
    }
}
