//! Settings of `gdelt-clean`.

use std::path::PathBuf;

use arrow::datatypes::{DataType, Field};
use catalog::{CodeTable, Column, ColumnType, DATE_ORIGINALS, Dataset, EVENT_DATE, label_column};
use serde::{Deserialize, Serialize};

use super::SettingsError;

/// Settings of `gdelt-clean` for one dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch in the settings file")]
pub struct CleanSettings {
    /// Whether dates of 1920 that stand for 2020 are repaired; unset means yes for `events` and
    /// `events-15min`.
    pub date_1920: Option<bool>,
    /// Whether GDELT's own values of repaired dates are kept in columns of their own.
    pub keep_original: bool,
    /// What is done to rows whose event code is a marker.
    pub event_markers: EventMarkers,
    /// Whether white space around text is removed.
    pub trim_strings: bool,
    /// Whether text of nothing but white space becomes null.
    pub blank_to_null: bool,
    /// The table of places by which geographic points are resolved; unset means they are not.
    pub places_table: Option<PathBuf>,
    /// Columns in which a null drops the row.
    pub require: Vec<String>,
    /// Whether the day of an event is added as a date, in `EventDate`.
    pub event_date: bool,
    /// Columns with codes whose meaning is added, in `<column>_Label`.
    pub labels: Vec<String>,
    /// Columns to keep; none means all.
    pub columns: Vec<String>,
    /// Columns of 64-bit fractions that are written with 32 bits.
    pub narrow: Vec<String>,
    /// Whether sources may be deleted though a step loses something of them.
    pub allow_lossy_delete_source: bool,
}

impl Default for CleanSettings {
    fn default() -> Self {
        Self {
            date_1920: None,
            keep_original: true,
            event_markers: EventMarkers::default(),
            trim_strings: false,
            blank_to_null: false,
            places_table: None,
            require: Vec::new(),
            event_date: false,
            labels: Vec::new(),
            columns: Vec::new(),
            narrow: Vec::new(),
            allow_lossy_delete_source: false,
        }
    }
}

/// What is done to rows whose event code is a marker (`---` or `X`) and no code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventMarkers {
    /// They are counted.
    #[default]
    Keep,
    /// They are dropped.
    Drop,
}

/// Whether a dataset has single events, with their codes and places.
fn has_events(dataset: Dataset) -> bool {
    matches!(dataset, Dataset::Events | Dataset::Events15Min)
}

fn named<'a>(columns: impl IntoIterator<Item = &'a Column>, name: &str) -> Option<Column> {
    columns.into_iter().find(|column| column.name == name).copied()
}

impl CleanSettings {
    /// Whether dates of 1920 are repaired in this dataset.
    pub fn date_1920(&self, dataset: Dataset) -> bool {
        self.date_1920.unwrap_or(true) && has_events(dataset)
    }

    /// All columns that cleaning can add to a dataset, in their order in files.
    pub fn addable_columns(dataset: Dataset) -> impl Iterator<Item = Column> {
        let of_events = DATE_ORIGINALS.iter().copied().chain([EVENT_DATE]);
        let labels = dataset.columns().iter().filter_map(|column| label_column(column.name));
        of_events.filter(move |_| has_events(dataset)).chain(labels)
    }

    /// Whether these settings add a column, of those that can be.
    fn adds(&self, dataset: Dataset, column: Column) -> bool {
        if column == EVENT_DATE {
            self.event_date
        } else if DATE_ORIGINALS.contains(&column) {
            self.date_1920(dataset) && self.keep_original
        } else {
            self.labels.iter().any(|name| label_column(name) == Some(column))
        }
    }

    /// The columns that cleaned files can have: the dataset's and those that steps add.
    pub fn known_columns(&self, dataset: Dataset) -> impl Iterator<Item = Column> {
        let added = Self::addable_columns(dataset).filter(move |it| self.adds(dataset, *it));
        dataset.columns().iter().copied().chain(added)
    }

    /// The columns of cleaned files, in their order there.
    pub fn output_columns(&self, dataset: Dataset) -> Vec<Column> {
        let wanted = |column: &Column| {
            self.columns.is_empty() || self.columns.iter().any(|name| name == column.name)
        };
        self.known_columns(dataset).filter(wanted).collect()
    }

    /// A column as cleaned files have it.
    pub fn output_field(&self, column: &Column) -> Field {
        let is_narrow = self.narrow.iter().any(|name| name == column.name);
        let data_type = if is_narrow { DataType::Float32 } else { column.column_type.data_type() };
        Field::new(column.name, data_type, true)
    }

    /// Whether any step changes files of this dataset. Without one there are no cleaned copies and
    /// later stages read the converted files.
    pub fn is_active(&self, dataset: Dataset) -> bool {
        self.date_1920(dataset)
            || self.event_markers == EventMarkers::Drop
            || self.trim_strings
            || self.blank_to_null
            || self.places_table.is_some()
            || self.event_date
            || [&self.require, &self.labels, &self.columns, &self.narrow]
                .iter()
                .any(|list| !list.is_empty())
    }

    /// Refuses columns that do not exist and steps that the dataset has nothing for.
    pub(super) fn check(&self, dataset: Dataset) -> Result<(), SettingsError> {
        let wrong = |key: &str, problem: String| {
            Err(SettingsError::value(&format!("clean.{dataset}.{key}"), &problem))
        };
        let of_events = [
            ("date_1920", self.date_1920 == Some(true)),
            ("event_markers", self.event_markers == EventMarkers::Drop),
            ("places_table", self.places_table.is_some()),
            ("event_date", self.event_date),
        ];
        if let Some((key, _)) = of_events.iter().find(|(_, is_set)| *is_set && !has_events(dataset))
        {
            return wrong(key, String::from("is for events and events-15min only"));
        }
        for name in &self.labels {
            if named(dataset.columns(), name).is_none() || CodeTable::of_column(name).is_none() {
                return wrong("labels", format!("`{name}` is no column of {dataset} with codes"));
            }
        }
        let known: Vec<Column> = self.known_columns(dataset).collect();
        for (key, names) in [("require", &self.require), ("columns", &self.columns)] {
            if let Some(name) = names.iter().find(|name| named(&known, name).is_none()) {
                return wrong(key, format!("`{name}` is no column of {dataset}"));
            }
        }
        for name in &self.narrow {
            if named(&known, name).map(|column| column.column_type) != Some(ColumnType::Float64) {
                return wrong("narrow", format!("`{name}` is no column of fractions of {dataset}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(columns: impl IntoIterator<Item = Column>) -> Vec<&'static str> {
        columns.into_iter().map(|column| column.name).collect()
    }

    #[test]
    fn added_columns_stand_behind_the_dataset_s_own_in_one_order() {
        let settings = CleanSettings {
            event_date: true,
            labels: ["EventCode", "Actor1CountryCode"].map(String::from).to_vec(),
            ..CleanSettings::default()
        };
        let columns = names(settings.output_columns(Dataset::Events));
        assert_eq!(
            columns[57..],
            [
                "SOURCEURL",
                "Day_original",
                "MonthYear_original",
                "Year_original",
                "FractionDate_original",
                "EventDate",
                "Actor1CountryCode_Label",
                "EventCode_Label",
            ]
        );
        let settings = CleanSettings { keep_original: false, ..CleanSettings::default() };
        assert_eq!(names(settings.output_columns(Dataset::Events)).len(), 58);
        assert_eq!(names(CleanSettings::addable_columns(Dataset::Mentions)), [""; 0]);
        let reduced = names(CleanSettings::addable_columns(Dataset::EventsReduced));
        assert_eq!(reduced, ["CAMEOCode_Label"]);
    }

    #[test]
    fn a_step_is_active_once_it_can_change_a_file() {
        let is_active = |settings: CleanSettings, dataset| settings.is_active(dataset);
        assert!(is_active(CleanSettings::default(), Dataset::Events15Min));
        assert!(!is_active(CleanSettings::default(), Dataset::GkgV2));
        let counted = CleanSettings { date_1920: Some(false), ..CleanSettings::default() };
        assert!(!is_active(counted.clone(), Dataset::Events));
        let dropped = CleanSettings { event_markers: EventMarkers::Drop, ..counted };
        assert!(is_active(dropped, Dataset::Events));
    }
}
