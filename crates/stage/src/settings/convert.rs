//! Settings of `gdelt-convert`.

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};

use catalog::{Column, Dataset};
use serde::{Deserialize, Serialize};

use super::SettingsError;
use crate::Codec;

/// Settings of `gdelt-convert`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConvertSettings {
    /// The largest share of a file's records that may be rejected, from 0 to 1; above it the file
    /// fails.
    pub max_rejects: f64,
    /// How many times its compressed length a member may have, if that is more than 16 MiB.
    pub max_expansion: NonZeroU64,
    /// The length in bytes that a member may have.
    pub max_member_bytes: NonZeroU64,
    /// Whether yearly and monthly events stand in directories named by year and month.
    pub hive: bool,
    /// Settings by dataset.
    pub datasets: BTreeMap<Dataset, DatasetConversion>,
}

impl Default for ConvertSettings {
    fn default() -> Self {
        let at_least_one = |number| NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN);
        Self {
            max_rejects: 0.01,
            // GDELT's own files stay below 20.
            max_expansion: at_least_one(100),
            // Its longest member, the reduced events file, has 6.6 GB.
            max_member_bytes: at_least_one(32 << 30),
            hive: false,
            datasets: BTreeMap::new(),
        }
    }
}

/// Settings of `gdelt-convert` for one dataset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatasetConversion {
    /// Columns to keep; none means all.
    pub columns: Vec<String>,
    /// How pages are compressed.
    pub codec: Codec,
    /// Rows of a row group; unset means what suits the dataset.
    pub row_group_rows: Option<NonZeroUsize>,
}

impl DatasetConversion {
    /// Whether a column is kept.
    pub fn keeps(&self, column: &Column) -> bool {
        self.columns.is_empty() || self.columns.iter().any(|name| name == column.name)
    }

    /// The columns of converted files, in their order there.
    pub fn output_columns(&self, dataset: Dataset) -> Vec<Column> {
        dataset.columns().iter().filter(|column| self.keeps(column)).copied().collect()
    }

    /// The columns of the dataset that are dropped.
    pub fn dropped_columns(&self, dataset: Dataset) -> Vec<&'static str> {
        let columns = dataset.columns().iter().filter(|column| !self.keeps(column));
        columns.map(|column| column.name).collect()
    }
}

impl ConvertSettings {
    /// The settings of a dataset.
    pub fn of(&self, dataset: Dataset) -> DatasetConversion {
        self.datasets.get(&dataset).cloned().unwrap_or_default()
    }

    /// Refuses values that mean nothing.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        if !(0.0..=1.0).contains(&self.max_rejects) {
            let problem = format!("{} is not a share from 0 to 1", self.max_rejects);
            return Err(SettingsError::value("convert.max_rejects", &problem));
        }
        for (dataset, settings) in &self.datasets {
            let known = |name: &String| dataset.columns().iter().any(|column| column.name == name);
            if let Some(name) = settings.columns.iter().find(|name| !known(name)) {
                let key = format!("convert.datasets.{dataset}.columns");
                let problem = format!("`{name}` is no column of {dataset}");
                return Err(SettingsError::value(&key, &problem));
            }
            let reduced_date = dataset.date_column();
            if *dataset == Dataset::EventsReduced
                && !settings.columns.is_empty()
                && settings.columns.iter().all(|name| name != reduced_date)
            {
                let problem = format!("`{reduced_date}`, by which files are split, is left out");
                return Err(SettingsError::value("convert.datasets.events-reduced", &problem));
            }
        }
        Ok(())
    }
}
