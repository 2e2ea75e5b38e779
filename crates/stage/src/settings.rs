//! Settings, in layers: built-in < `/etc/gdelt-mill.toml` < `./gdelt-mill.toml` or `--config` <
//! `GDELT_MILL_*` < flags. One file holds the settings of all stages; a key that no stage knows is
//! an error that names the file and the key.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use catalog::{AggregatePeriod, Column, DATE_ORIGINALS, Dataset, Directory, FeedChoice, Layout};
use figment::providers::{Env, Format as _, Serialized, Toml};
use figment::{Figment, Source};
use serde::{Deserialize, Serialize};

/// Settings of the whole machine.
pub const SITE_FILE: &str = "/etc/gdelt-mill.toml";
/// Settings of the current directory, read unless `--config` names another file.
pub const LOCAL_FILE: &str = "gdelt-mill.toml";
/// Variables with this prefix are settings: `GDELT_MILL_IO__MAX_READS` is `max_reads` in `[io]`.
pub const ENVIRONMENT_PREFIX: &str = "GDELT_MILL_";

/// More threads than this are a slip of the finger, and systems refuse to start them.
const MOST_JOBS: usize = 1_024;

/// All settings, resolved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The archive's root directory.
    pub root: Option<PathBuf>,
    /// The datasets to work on; none means all.
    pub datasets: Vec<Dataset>,
    /// The feeds to take.
    pub feed: FeedChoice,
    /// The order in which files are begun.
    pub order: Order,
    /// Worker threads; unset means one per processor that the process may use.
    pub jobs: Option<NonZeroUsize>,
    /// How storage may be used.
    pub io: IoSettings,
    /// Directories that stand elsewhere than under the root.
    pub directories: BTreeMap<Dataset, DirectorySettings>,
    /// Settings of `gdelt-convert`.
    pub convert: ConvertSettings,
    /// Settings of `gdelt-clean`, by dataset.
    pub clean: BTreeMap<Dataset, CleanSettings>,
}

/// The order in which files are begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Oldest first.
    #[default]
    Asc,
    /// Newest first.
    Desc,
}

/// How storage may be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IoSettings {
    /// Reads, listings, opens and stats in flight at once.
    pub max_reads: NonZeroUsize,
    /// Writes, creates, syncs and renames in flight at once.
    pub max_writes: NonZeroUsize,
}

impl Default for IoSettings {
    fn default() -> Self {
        let io_budget::Caps { reads, writes } = io_budget::Caps::default();
        Self { max_reads: reads, max_writes: writes }
    }
}

/// Directories of a dataset that stand elsewhere than under the root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DirectorySettings {
    /// The zips as published.
    pub raw: Option<PathBuf>,
    /// Parquet, a file per zip.
    pub converted: Option<PathBuf>,
    /// Repaired Parquet.
    pub cleaned: Option<PathBuf>,
    /// Parquet of days.
    pub aggregated_day: Option<PathBuf>,
    /// Parquet of months.
    pub aggregated_month: Option<PathBuf>,
    /// Parquet of years.
    pub aggregated_year: Option<PathBuf>,
    /// The ledger and the rejects.
    pub catalog: Option<PathBuf>,
}

impl DirectorySettings {
    fn named(&self) -> [(Directory, Option<&PathBuf>); 7] {
        use AggregatePeriod::{Day, Month, Year};
        [
            (Directory::Raw, self.raw.as_ref()),
            (Directory::Converted, self.converted.as_ref()),
            (Directory::Cleaned, self.cleaned.as_ref()),
            (Directory::Aggregated(Day), self.aggregated_day.as_ref()),
            (Directory::Aggregated(Month), self.aggregated_month.as_ref()),
            (Directory::Aggregated(Year), self.aggregated_year.as_ref()),
            (Directory::Catalog, self.catalog.as_ref()),
        ]
    }
}

/// Settings of `gdelt-convert`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConvertSettings {
    /// The largest share of a file's records that may be rejected, from 0 to 1; above it the file
    /// fails.
    pub max_rejects: f64,
}

impl Default for ConvertSettings {
    fn default() -> Self {
        Self { max_rejects: 0.01 }
    }
}

/// Settings of `gdelt-clean` for one dataset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CleanSettings {
    /// Whether dates of 1920 that stand for 2020 are repaired; unset means yes for `events` and
    /// `events-15min`.
    pub date_1920: Option<bool>,
    /// Columns in which a null drops the row.
    pub require: Vec<String>,
    /// Columns to keep; none means all.
    pub columns: Vec<String>,
}

impl Settings {
    /// Reads the layers. `config` is the file named on the command line, `flags` are single
    /// settings given there, by dotted key.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] when a file cannot be read or a value is wrong.
    pub fn load(
        config: Option<&Path>,
        flags: &[(&str, figment::value::Value)],
    ) -> Result<Self, SettingsError> {
        let mut figment = Figment::from(Serialized::defaults(Self::default()));
        let site = Path::new(SITE_FILE);
        if is_file(site)? {
            figment = figment.merge(Toml::file_exact(site));
        }
        let local = config.unwrap_or(Path::new(LOCAL_FILE));
        if is_file(local)? {
            figment = figment.merge(Toml::file_exact(local));
        } else if config.is_some() {
            return Err(SettingsError::value(&local.display().to_string(), "no such file"));
        }
        figment = figment.merge(Env::prefixed(ENVIRONMENT_PREFIX).split("__"));
        for (key, value) in flags {
            figment = figment.merge((*key, value.clone()));
        }
        let settings: Self = figment.extract().map_err(SettingsError::from_figment)?;
        settings.validated()
    }

    fn validated(self) -> Result<Self, SettingsError> {
        if !(0.0..=1.0).contains(&self.convert.max_rejects) {
            let problem = format!("{} is not a share from 0 to 1", self.convert.max_rejects);
            return Err(SettingsError::value("convert.max_rejects", &problem));
        }
        if self.root.as_deref() == Some(Path::new("")) {
            return Err(SettingsError::value("root", "is empty"));
        }
        if let Some(jobs) = self.jobs
            && jobs.get() > MOST_JOBS
        {
            let problem = format!("{jobs} threads are more than {MOST_JOBS}");
            return Err(SettingsError::value("jobs", &problem));
        }
        for (dataset, clean) in &self.clean {
            let known =
                |name: &String| clean.known_columns(*dataset).any(|column| column.name == name);
            let unknown = clean.require.iter().chain(&clean.columns).find(|name| !known(name));
            if let Some(name) = unknown {
                let key = format!("clean.{dataset}");
                let problem = format!("`{name}` is no column of {dataset}");
                return Err(SettingsError::value(&key, &problem));
            }
        }
        Ok(self)
    }

    /// Where files stand, if a root is set.
    pub fn layout(&self) -> Option<Layout> {
        let mut layout = Layout::new(self.root.as_deref()?);
        for (dataset, directories) in &self.directories {
            for (directory, path) in directories.named() {
                if let Some(path) = path {
                    layout = layout.with_directory(*dataset, directory, path);
                }
            }
        }
        Some(layout)
    }

    /// The settings of `gdelt-clean` for a dataset.
    pub fn clean(&self, dataset: Dataset) -> CleanSettings {
        self.clean.get(&dataset).cloned().unwrap_or_default()
    }
}

impl CleanSettings {
    /// Whether dates of 1920 are repaired in this dataset.
    pub fn date_1920(&self, dataset: Dataset) -> bool {
        let events = matches!(dataset, Dataset::Events | Dataset::Events15Min);
        self.date_1920.unwrap_or(events) && events
    }

    /// The columns that cleaned files can have: the dataset's and those that the repair adds.
    pub fn known_columns(&self, dataset: Dataset) -> impl Iterator<Item = &'static Column> {
        let added = if self.date_1920(dataset) { DATE_ORIGINALS } else { &[] };
        dataset.columns().iter().chain(added)
    }

    /// The columns of cleaned files, in their order there.
    pub fn output_columns(&self, dataset: Dataset) -> Vec<Column> {
        let wanted = |column: &&Column| {
            self.columns.is_empty() || self.columns.iter().any(|name| name == column.name)
        };
        self.known_columns(dataset).filter(wanted).copied().collect()
    }

    /// Whether any step changes files of this dataset. Without one there are no cleaned copies and
    /// later stages read the converted files.
    pub fn is_active(&self, dataset: Dataset) -> bool {
        self.date_1920(dataset) || !self.require.is_empty() || !self.columns.is_empty()
    }
}

/// Whether a settings file is there.
#[expect(clippy::disallowed_methods, reason = "a settings file is not archive storage")]
fn is_file(path: &Path) -> Result<bool, SettingsError> {
    let at = path.display().to_string();
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(SettingsError::value(&at, "not a file")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(SettingsError::value(&at, &error.to_string())),
    }
}

/// Wrong settings: which, where, and what is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{}", problems.join("\n"))]
pub struct SettingsError {
    problems: Vec<String>,
}

impl SettingsError {
    fn value(key: &str, problem: &str) -> Self {
        Self { problems: vec![format!("settings: {key}: {problem}")] }
    }

    fn from_figment(error: figment::Error) -> Self {
        let describe = |error: figment::Error| {
            let source = error.metadata.as_ref().map(|metadata| match &metadata.source {
                Some(Source::File(path)) => path.display().to_string(),
                _ if metadata.name.contains("environment") => {
                    format!("environment variables {ENVIRONMENT_PREFIX}*")
                }
                _ => String::from("command line"),
            });
            let key = error.path.join(".");
            let source = source.unwrap_or_else(|| String::from("settings"));
            match &error.kind {
                figment::error::Kind::UnknownField(name, known) => {
                    // The path ends with the unknown key itself.
                    let section = error.path.split_last().map_or(&[][..], |(_, section)| section);
                    let at = match section {
                        [] => String::new(),
                        section => format!(" in [{}]", section.join(".")),
                    };
                    format!(
                        "{source}: unknown key `{name}`{at}, expected one of {}",
                        known.join(", ")
                    )
                }
                kind if key.is_empty() => format!("{source}: {kind}"),
                kind => format!("{source}: {key}: {kind}"),
            }
        };
        Self { problems: error.into_iter().map(describe).collect() }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        String::from("the settings are described in docs/settings.md")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads settings as if `toml` stood in the file named on the command line.
    fn load(toml: &str, flags: &[(&str, figment::value::Value)]) -> Result<Settings, String> {
        use std::io::Write as _;
        let mut file = tempfile::Builder::new().suffix("mill.toml").tempfile().unwrap();
        file.write_all(toml.as_bytes()).unwrap();
        Settings::load(Some(file.path()), flags).map_err(|error| error.to_string())
    }

    #[test]
    fn later_layers_win() {
        let toml = "root = 'file'\njobs = 3\n[io]\nmax_reads = 5\nmax_writes = 4\n\
                    [directories.gkg-v2]\nraw = '/nfs/gkg'\n\
                    [clean.mentions]\nrequire = ['Confidence']";
        let settings = load(toml, &[("io.max_writes", 9.into())]).unwrap();
        assert_eq!(settings.root.as_deref(), Some(Path::new("file")));
        assert_eq!(settings.jobs.map(NonZeroUsize::get), Some(3));
        assert_eq!((settings.io.max_reads.get(), settings.io.max_writes.get()), (5, 9));
        let layout = settings.layout().expect("a root is set");
        assert_eq!(layout.directory(Dataset::GkgV2, Directory::Raw), Path::new("/nfs/gkg"));
        assert!(settings.clean(Dataset::Mentions).is_active(Dataset::Mentions));
        assert!(settings.clean(Dataset::Events).is_active(Dataset::Events));
        assert!(!settings.clean(Dataset::GkgV2).is_active(Dataset::GkgV2));
    }

    #[test]
    fn wrong_settings_name_their_file_and_key() {
        for (toml, parts) in [
            ("max_reads = 1", ["mill.toml", "`max_reads`", "expected one of root"]),
            ("[io]\nmax_reeds = 1", ["mill.toml", "`max_reeds` in [io]", "max_reads"]),
            ("[io]\nmax_reads = 0", ["mill.toml", "io.max_reads", "nonzero"]),
            ("[io]\nmax_reads = '4'", ["mill.toml", "io.max_reads", "string"]),
            ("[io]\nmax_reads = 2.5", ["mill.toml", "io.max_reads", "float"]),
            ("[io]\nmax_reads = -1", ["mill.toml", "io.max_reads", "-1"]),
            ("[io]\nmax_reads = true", ["mill.toml", "io.max_reads", "bool"]),
            ("datasets = ['gkg']", ["mill.toml", "datasets", "gkg-v2"]),
            ("[directories.gkg]\nraw = ''", ["mill.toml", "gkg", "gkg-v2"]),
            ("root = ''", ["settings", "root", "empty"]),
            ("jobs = 100000", ["jobs", "100000", "1024"]),
            ("[convert]\nmax_rejects = 1.5", ["convert.max_rejects", "1.5", "share"]),
            ("[clean.events]\nrequire = ['Dya']", ["clean.events", "`Dya`", "no column"]),
        ] {
            let error = load(toml, &[]).expect_err(toml);
            for part in parts {
                assert!(error.contains(part), "{toml}: {error}");
            }
        }
    }

    #[test]
    fn a_named_file_must_exist() {
        let error = Settings::load(Some(Path::new("/missing.toml")), &[]).expect_err("missing");
        assert!(error.to_string().contains("/missing.toml"), "{error}");
    }
}
