//! The audit of codes: values that no table of codes knows, and codes with white space around
//! them. The dictionary of a column chunk tells whether there are any; rows are decoded only then.

use std::collections::{BTreeMap, HashMap};

use arrow::array::AsArray as _;
use catalog::CodeTable;
use catalog::ledger::CodeCounts;
use io_budget::parquet::ParquetFile;
use stage::work::{TaskError, add_codes};

use crate::dictionaries::Dictionaries;
use crate::rows::for_each_batch;
use crate::steps::text::is_padded;

/// Codes of a column that are counted by themselves, at most.
const MOST_CODES: usize = 100;
/// Under which the rows with other codes are counted.
const OTHER_CODES: &str = "(others)";
/// Characters of a code that are kept: in a damaged file it may be anything.
const CODE_LENGTH: usize = 64;

/// A column with codes.
#[derive(Debug, Clone)]
pub(crate) struct CodedColumn {
    name: String,
    position: usize,
    /// Its table; a composed code, as `Actor1Code`, has none.
    table: Option<CodeTable>,
}

/// The columns of text of a file that hold codes.
pub(crate) fn coded_columns(file: &ParquetFile) -> Vec<CodedColumn> {
    let fields = file.schema().fields().iter().enumerate();
    let coded = fields.filter(|(_, field)| {
        field.data_type().is_string()
            && (field.name().contains("Code") && !field.name().ends_with("_Label"))
    });
    coded
        .map(|(position, field)| CodedColumn {
            name: field.name().clone(),
            position,
            table: CodeTable::of_column(field.name()),
        })
        .collect()
}

impl CodedColumn {
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    fn is_unknown(&self, code: &str) -> bool {
        self.table.is_some_and(|table| table.label(code).is_none())
    }
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct CodeAudit {
    /// The unknown codes.
    pub(crate) unknown: CodeCounts,
    /// Codes with white space around them, by name of the count.
    pub(crate) padded: BTreeMap<String, u64>,
}

impl CodeAudit {
    /// Adds the codes of a row group.
    pub(crate) fn add(
        &mut self,
        file: &ParquetFile,
        group: usize,
        columns: &[CodedColumn],
        dictionaries: &Dictionaries,
    ) -> Result<(), TaskError> {
        for column in columns {
            let is_odd = |code: &str| is_padded(code) || column.is_unknown(code);
            if !dictionaries.may_hold(column.position, is_odd) {
                continue;
            }
            for_each_batch(file, group, vec![column.position], |_, rows| {
                let mut odd: BTreeMap<&str, u64> = BTreeMap::new();
                let mut known: HashMap<&str, bool> = HashMap::new();
                for code in rows.column(column.position).as_string::<i32>().iter().flatten() {
                    if *known.entry(code).or_insert_with(|| is_odd(code)) {
                        *odd.entry(code).or_default() += 1;
                    }
                }
                for (code, rows) in odd {
                    self.note(column, code, rows);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Adds the codes of another row group or file.
    pub(crate) fn merge(&mut self, other: Self) {
        add_codes(&mut self.unknown, &other.unknown);
        for (name, rows) in other.padded {
            *self.padded.entry(name).or_default() += rows;
        }
    }

    fn note(&mut self, column: &CodedColumn, code: &str, rows: u64) {
        if is_padded(code) {
            let name = format!("padded values in {}", column.name);
            *self.padded.entry(name).or_default() += rows;
        }
        if column.is_unknown(code) {
            let known = self.unknown.entry(column.name.clone()).or_default();
            let code: String = code.chars().take(CODE_LENGTH).collect();
            let is_counted = known.len() < MOST_CODES || known.contains_key(&code);
            let code = if is_counted { code } else { OTHER_CODES.to_owned() };
            *known.entry(code).or_default() += rows;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_a_damaged_file_do_not_fill_the_ledger() {
        let column = CodedColumn {
            name: String::from("EventCode"),
            position: 0,
            table: Some(CodeTable::Event),
        };
        let mut audit = CodeAudit::default();
        for number in 0..500 {
            audit.note(&column, &format!("?{number:0200}"), 2);
            audit.note(&column, &format!("{number}?"), 2);
        }
        let codes = &audit.unknown["EventCode"];
        assert!(codes.len() <= MOST_CODES + 1);
        assert!(codes.keys().all(|code| code.chars().count() <= CODE_LENGTH));
        assert_eq!(codes.values().sum::<u64>(), 2_000);
    }
}
