//! The steps: which are active for a dataset, in the one order in which they are done, and their
//! rules, as functions of arrays. No files here, but for the table of places.

pub(crate) mod dates;
pub(crate) mod derive;
pub(crate) mod markers;
pub(crate) mod places;
pub(crate) mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;

use arrow::datatypes::Field;
use catalog::{Column, DATE_ORIGINALS, Dataset};
use serde::Serialize;
use stage::settings::{CleanSettings, EventMarkers};
use stage::{Error, Session};

use places::TableIdentity;
use text::Normalize;

/// Raised when the rules change, so that files are made again.
const RULES_VERSION: u32 = 2;

/// A step with its settings, as files note it. Their order here is the one in which they are done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
enum Step {
    #[serde(rename = "errata")]
    Dates {
        /// The name of the repair.
        date_1920: bool,
        keep_original: bool,
        /// Whether the columns that keep GDELT's own values are in the output.
        originals_written: bool,
    },
    #[serde(rename = "errata")]
    Markers {
        event_markers: EventMarkers,
    },
    Normalize(Normalize),
    Places {
        table: TableIdentity,
    },
    Require {
        columns: Vec<String>,
    },
    Derive {
        event_date: bool,
        labels: Vec<String>,
    },
    Project {
        columns: Vec<String>,
    },
    Narrow {
        columns: Vec<String>,
    },
}

impl Step {
    /// Whether the output can no longer tell what the input held.
    fn is_lossy(&self) -> bool {
        match self {
            Self::Dates { originals_written, .. } => !originals_written,
            Self::Derive { .. } => false,
            Self::Markers { .. }
            | Self::Normalize(_)
            | Self::Places { .. }
            | Self::Require { .. }
            | Self::Project { .. }
            | Self::Narrow { .. } => true,
        }
    }

    /// The setting that asks for it.
    fn setting(&self) -> &'static str {
        match self {
            Self::Dates { .. } => "date_1920",
            Self::Markers { .. } => "event_markers",
            Self::Normalize(_) => "trim_strings or blank_to_null",
            Self::Places { .. } => "places_table",
            Self::Require { .. } => "require",
            Self::Derive { .. } => "event_date or labels",
            Self::Project { .. } => "columns",
            Self::Narrow { .. } => "narrow",
        }
    }
}

/// A step as files note it.
#[derive(Serialize)]
struct Noted<'a> {
    #[serde(flatten)]
    step: &'a Step,
    lossy: bool,
}

/// What is done to files of a dataset.
#[derive(Debug, Clone)]
pub(crate) struct Steps {
    /// The columns that a file can have.
    pub(crate) known: Vec<Column>,
    /// The columns of every cleaned file.
    pub(crate) output: Vec<Column>,
    /// The same as arrow fields.
    pub(crate) fields: Vec<Field>,
    /// Whether dates of 1920 are repaired.
    pub(crate) date_1920: bool,
    /// Whether rows that are markers are dropped.
    pub(crate) drops_markers: bool,
    /// What is done to white space.
    pub(crate) normalize: Option<Normalize>,
    /// The table of places.
    pub(crate) places_table: Option<PathBuf>,
    /// Columns in which a null drops the row.
    pub(crate) require: Vec<String>,
    /// Whether all columns are kept, rather than those that are listed.
    pub(crate) keeps_all: bool,
    list: Vec<Step>,
}

impl Steps {
    /// The steps of every dataset that has an active one, of those that the run is about.
    ///
    /// # Errors
    ///
    /// [`Error`] when a table of places cannot be read.
    pub(crate) fn by_dataset(session: &Session) -> Result<BTreeMap<Dataset, Self>, Error> {
        let asked = &session.settings.datasets;
        let mut active = BTreeMap::new();
        for dataset in Dataset::ALL {
            let settings = session.settings.clean(dataset);
            let is_asked = asked.is_empty() || asked.contains(&dataset);
            if is_asked && settings.is_active(dataset) {
                active.insert(dataset, Self::of(session, dataset, &settings)?);
            }
        }
        Ok(active)
    }

    fn of(session: &Session, dataset: Dataset, settings: &CleanSettings) -> Result<Self, Error> {
        let output = session.settings.cleaned_columns(dataset);
        let normalize = (settings.trim_strings || settings.blank_to_null).then_some(Normalize {
            trim_strings: settings.trim_strings,
            blank_to_null: settings.blank_to_null,
        });
        let table = match &settings.places_table {
            Some(path) => Some(TableIdentity::of(&session.budget, path)?),
            None => None,
        };
        Ok(Self {
            known: settings.known_columns(dataset).collect(),
            fields: output.iter().map(|column| settings.output_field(column)).collect(),
            date_1920: settings.date_1920(dataset),
            drops_markers: settings.event_markers == EventMarkers::Drop,
            normalize,
            places_table: settings.places_table.clone(),
            require: settings.require.clone(),
            keeps_all: settings.columns.is_empty(),
            list: list(dataset, settings, &output, normalize, table),
            output,
        })
    }

    /// Digest of all that shapes an output.
    pub(crate) fn fingerprint(&self) -> Result<String, Error> {
        stage::fingerprint(&(RULES_VERSION, &self.list))
    }

    /// The steps as they are noted in files.
    pub(crate) fn note(&self) -> Result<String, Error> {
        let noted = self.list.iter().map(|step| Noted { step, lossy: step.is_lossy() });
        serde_json::to_string(&noted.collect::<Vec<_>>())
            .map_err(|error| Error::Internal(error.to_string()))
    }

    /// The settings of the steps that lose something of their input.
    pub(crate) fn lossy(&self) -> Vec<&'static str> {
        self.list.iter().filter(|step| step.is_lossy()).map(Step::setting).collect()
    }
}

/// The active steps, in order.
fn list(
    dataset: Dataset,
    settings: &CleanSettings,
    output: &[Column],
    normalize: Option<Normalize>,
    table: Option<TableIdentity>,
) -> Vec<Step> {
    // In the order of the file, in which they are written: that of the settings changes nothing.
    let in_order = |names: &[String]| {
        let columns = settings.known_columns(dataset).map(|column| column.name);
        columns.filter(|name| names.iter().any(|it| it == name)).map(str::to_owned).collect()
    };
    let event_markers = settings.event_markers;
    [
        settings.date_1920(dataset).then(|| Step::Dates {
            date_1920: true,
            keep_original: settings.keep_original,
            originals_written: DATE_ORIGINALS.iter().all(|column| output.contains(column)),
        }),
        (event_markers == EventMarkers::Drop).then_some(Step::Markers { event_markers }),
        normalize.map(Step::Normalize),
        table.map(|table| Step::Places { table }),
        (!settings.require.is_empty())
            .then(|| Step::Require { columns: in_order(&settings.require) }),
        (settings.event_date || !settings.labels.is_empty()).then(|| Step::Derive {
            event_date: settings.event_date,
            labels: in_order(&settings.labels),
        }),
        (!settings.columns.is_empty())
            .then(|| Step::Project { columns: in_order(&settings.columns) }),
        (!settings.narrow.is_empty()).then(|| Step::Narrow { columns: in_order(&settings.narrow) }),
    ]
    .into_iter()
    .flatten()
    .collect()
}
