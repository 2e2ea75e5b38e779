//! Rows whose event code is a marker and no code: `---` (a pattern of words that makes no event),
//! with the root `--`, or `X`, of which no manual speaks.

use arrow::array::{Array as _, StringArray};
use arrow::buffer::BooleanBuffer;

/// The columns that say together that a row is a marker.
pub(crate) const COLUMNS: [&str; 3] = ["EventCode", "EventBaseCode", "EventRootCode"];

/// What stands in them, in each case.
const MARKERS: [[&str; 3]; 2] = [["---", "---", "--"], ["X", "X", "X"]];

/// Whether a value of the column at this place of [`COLUMNS`] may be that of a marker.
pub(crate) fn is_of_marker(place: usize, value: &str) -> bool {
    MARKERS.iter().any(|marker| marker[place] == value)
}

/// The rows that are markers, of `count`, as all columns say that the file has.
pub(crate) fn rows(columns: [Option<&StringArray>; 3], count: usize) -> BooleanBuffer {
    let holds = |row: usize, marker: &[&str; 3]| {
        let mut here =
            columns.iter().zip(marker).filter_map(|(column, value)| Some(((*column)?, value)));
        here.all(|(column, value)| column.is_valid(row) && column.value(row) == *value)
    };
    let is_any_here = columns.iter().any(Option::is_some);
    BooleanBuffer::collect_bool(count, |row| {
        is_any_here && MARKERS.iter().any(|marker| holds(row, marker))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_says_so_in_all_its_columns() {
        let codes = StringArray::from(vec![Some("---"), Some("X"), Some("---"), Some("010"), None]);
        let bases = StringArray::from(vec![Some("---"), Some("X"), Some("010"), Some("010"), None]);
        let roots = StringArray::from(vec![Some("--"), Some("X"), Some("--"), Some("01"), None]);
        let found = rows([Some(&codes), Some(&bases), Some(&roots)], 5);
        assert_eq!(found.iter().collect::<Vec<_>>(), [true, true, false, false, false]);
        let found = rows([None, None, Some(&roots)], 5);
        assert_eq!(found.iter().collect::<Vec<_>>(), [true, true, true, false, false]);
        assert_eq!(rows([None; 3], 5).count_set_bits(), 0);
        assert!(is_of_marker(2, "--") && is_of_marker(0, "X") && !is_of_marker(0, "--"));
    }
}
