//! White space in text: around values, and values of nothing else.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, StringArray};
use serde::Serialize;

/// What is done to white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Normalize {
    /// Whether it is removed around values.
    pub(crate) trim_strings: bool,
    /// Whether values of nothing else become null.
    pub(crate) blank_to_null: bool,
}

/// What became of the values of a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Normalized {
    /// Values that lost white space.
    pub(crate) trimmed: u64,
    /// Values that became null.
    pub(crate) made_null: u64,
}

/// Whether white space stands around a value, or nothing else in it.
pub(crate) fn is_padded(value: &str) -> bool {
    value.trim().len() < value.len()
}

impl Normalize {
    /// What a value becomes; `None` is null.
    fn of(self, value: &str) -> Option<&str> {
        let trimmed = value.trim();
        if self.blank_to_null && trimmed.is_empty() {
            None
        } else {
            Some(if self.trim_strings { trimmed } else { value })
        }
    }

    /// Whether a value becomes another one.
    pub(crate) fn changes(self, value: &str) -> bool {
        self.of(value) != Some(value)
    }

    /// How many values change.
    pub(crate) fn count(self, values: &StringArray) -> Normalized {
        let mut counts = Normalized::default();
        for value in values.iter().flatten() {
            match self.of(value) {
                None => counts.made_null += 1,
                Some(normal) => counts.trimmed += u64::from(normal.len() < value.len()),
            }
        }
        counts
    }

    /// What the values become.
    pub(crate) fn apply(self, values: &ArrayRef) -> ArrayRef {
        let values = values.as_string::<i32>();
        Arc::new(values.iter().map(|value| self.of(value?)).collect::<StringArray>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_goes_as_asked_and_is_counted() {
        // CL-04
        let values = [Some(" USA"), Some(" "), Some("USA"), None, Some("a b\t"), Some("")];
        let array = StringArray::from(values.to_vec());
        let check = |trim_strings, blank_to_null, expected: [Option<&str>; 6], counts| {
            let normalize = Normalize { trim_strings, blank_to_null };
            let normal = normalize.apply(&(Arc::new(array.clone()) as ArrayRef));
            assert_eq!(normal.as_string::<i32>().iter().collect::<Vec<_>>(), expected);
            let found = normalize.count(&array);
            assert_eq!((found.trimmed, found.made_null), counts);
        };
        let (usa, ab) = (Some("USA"), Some("a b"));
        check(true, true, [usa, None, usa, None, ab, None], (2, 2));
        check(true, false, [usa, Some(""), usa, None, ab, Some("")], (3, 0));
        check(false, true, [Some(" USA"), None, usa, None, Some("a b\t"), None], (0, 2));
        assert!(is_padded(" USA") && is_padded(" ") && !is_padded("USA") && !is_padded(""));
    }
}
