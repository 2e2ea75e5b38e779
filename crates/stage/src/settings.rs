//! Settings, in layers: built-in < `/etc/gdelt-mill.toml` < `./gdelt-mill.toml` or `--config` <
//! `GDELT_MILL_*` < flags. One file holds the settings of all stages; a key that no stage knows is
//! an error that names the file and the key.

mod clean;
mod convert;

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use arrow::datatypes::Schema;
use catalog::{AggregatePeriod, Column, Dataset, Directory, FeedChoice, Layout};
use figment::providers::{Env, Format as _, Serialized, Toml};
use figment::{Figment, Source};
use io_budget::{Limit, Options, Sharing, StorageClass};
use serde::{Deserialize, Serialize};

pub use clean::{CleanSettings, EventMarkers};
pub use convert::{ConvertSettings, DatasetConversion};
pub use figment::value::Value;

/// Settings of the whole machine.
pub const SITE_FILE: &str = "/etc/gdelt-mill.toml";
/// Settings of the current directory, read unless `--config` names another file.
pub const LOCAL_FILE: &str = "gdelt-mill.toml";
/// Variables with this prefix are settings: `GDELT_MILL_IO__READS` is `reads` in `[io]`.
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
    pub reads: RequestLimit,
    /// Writes, creates, syncs and renames in flight at once.
    pub writes: RequestLimit,
    /// Mean round trip over five seconds above which an adapted limit becomes 1.
    pub latency_ceiling_ms: NonZeroU64,
    /// Whether files are read past the page cache.
    pub direct: bool,
    /// Storage classes by directory, where what the system says is wrong.
    pub class: BTreeMap<PathBuf, StorageClass>,
    /// Who shares the limits.
    pub share: Share,
    /// The name under which they are shared, in place of the storage's own.
    pub budget_key: Option<String>,
    /// Hosts that work on the same storage: limits are divided by it.
    pub expected_hosts: NonZeroUsize,
}

impl Default for IoSettings {
    fn default() -> Self {
        let ceiling = u64::try_from(io_budget::Options::LATENCY_CEILING.as_millis()).unwrap_or(0);
        Self {
            reads: RequestLimit(Limit::Auto),
            writes: RequestLimit(Limit::Auto),
            latency_ceiling_ms: NonZeroU64::new(ceiling).unwrap_or(NonZeroU64::MIN),
            direct: false,
            class: BTreeMap::new(),
            share: Share(Sharing::Host),
            budget_key: None,
            expected_hosts: NonZeroUsize::MIN,
        }
    }
}

impl IoSettings {
    /// These settings as a budget takes them.
    pub fn options(&self, cpus: NonZeroUsize) -> Options {
        Options {
            reads: self.reads.0,
            writes: self.writes.0,
            latency_ceiling: Duration::from_millis(self.latency_ceiling_ms.get()),
            direct: self.direct,
            classes: self.class.clone(),
            expected_hosts: self.expected_hosts,
            sharing: self.share.0.clone(),
            key: self.budget_key.clone(),
            memory: state_directory(),
            cpus,
            ..Options::default()
        }
    }
}

/// Where programs of this user keep what is worth knowing in the next run, as the XDG base
/// directory specification has it.
fn state_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    Some(state?.join("gdelt-mill"))
}

/// A limit on requests in flight: a number, `auto` or `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "NumberOrWord", into = "NumberOrWord")]
pub struct RequestLimit(pub Limit);

impl FromStr for RequestLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) => NumberOrWord::Number(number),
            Err(_) => NumberOrWord::Word(text.to_owned()),
        }
        .try_into()
    }
}

/// How a limit is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, `auto` or `unlimited`")]
pub(crate) enum NumberOrWord {
    Number(i64),
    Word(String),
}

impl TryFrom<NumberOrWord> for RequestLimit {
    type Error = String;

    fn try_from(written: NumberOrWord) -> Result<Self, String> {
        let limit = match &written {
            NumberOrWord::Word(word) if word == "auto" => Some(Limit::Auto),
            NumberOrWord::Word(word) if word == "unlimited" => Some(Limit::Unlimited),
            NumberOrWord::Word(_) => None,
            NumberOrWord::Number(number) => {
                usize::try_from(*number).ok().and_then(NonZeroUsize::new).map(Limit::Fixed)
            }
        };
        limit.map(Self).ok_or_else(|| match written {
            NumberOrWord::Word(word) => format!("`{word}` is no number, `auto` or `unlimited`"),
            NumberOrWord::Number(number) => format!("{number} is less than 1"),
        })
    }
}

impl From<RequestLimit> for NumberOrWord {
    fn from(limit: RequestLimit) -> Self {
        match limit.0 {
            Limit::Auto => Self::Word("auto".into()),
            Limit::Unlimited => Self::Word("unlimited".into()),
            Limit::Fixed(number) => Self::Number(i64::try_from(number.get()).unwrap_or(i64::MAX)),
        }
    }
}

/// Who shares the limits: `host`, `process`, or an absolute path, the directory by which processes
/// of several users do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Share(pub Sharing);

impl TryFrom<String> for Share {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "host" => Ok(Self(Sharing::Host)),
            "process" => Ok(Self(Sharing::Process)),
            path if path.starts_with('/') => Ok(Self(Sharing::Directory(path.into()))),
            _ => Err(format!("`{text}` is not `host`, `process` or an absolute path")),
        }
    }
}

impl From<Share> for String {
    fn from(share: Share) -> Self {
        match share.0 {
            Sharing::Host => "host".into(),
            Sharing::Process => "process".into(),
            Sharing::Directory(path) => path.to_string_lossy().into_owned(),
        }
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
    /// Parquet of yearly and monthly events, in directories named by year and month.
    pub hive: Option<PathBuf>,
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
    fn named(&self) -> [(Directory, Option<&PathBuf>); 8] {
        use AggregatePeriod::{Day, Month, Year};
        [
            (Directory::Raw, self.raw.as_ref()),
            (Directory::Converted, self.converted.as_ref()),
            (Directory::Hive, self.hive.as_ref()),
            (Directory::Cleaned, self.cleaned.as_ref()),
            (Directory::Aggregated(Day), self.aggregated_day.as_ref()),
            (Directory::Aggregated(Month), self.aggregated_month.as_ref()),
            (Directory::Aggregated(Year), self.aggregated_year.as_ref()),
            (Directory::Catalog, self.catalog.as_ref()),
        ]
    }
}

impl Settings {
    /// Reads the layers. `config` is the file named on the command line, `flags` are single
    /// settings given there, by dotted key.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] when a file cannot be read or a value is wrong.
    pub fn load(config: Option<&Path>, flags: &[(&str, Value)]) -> Result<Self, SettingsError> {
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
        self.convert.check()?;
        if let Some(relative) = self.io.class.keys().find(|directory| directory.is_relative()) {
            let problem = format!("`{}` is no absolute path", relative.display());
            return Err(SettingsError::value("io.class", &problem));
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
        self.clean.iter().try_for_each(|(dataset, clean)| clean.check(*dataset))?;
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

    /// The columns of cleaned files, in their order there: those that conversion and cleaning keep.
    pub fn cleaned_columns(&self, dataset: Dataset) -> Vec<Column> {
        let converted = self.convert.of(dataset);
        let mut columns = self.clean(dataset).output_columns(dataset);
        columns.retain(|column| !dataset.columns().contains(column) || converted.keeps(column));
        columns
    }

    /// The arrow schema of cleaned files.
    pub fn cleaned_schema(&self, dataset: Dataset) -> Schema {
        let (columns, clean) = (self.cleaned_columns(dataset), self.clean(dataset));
        Schema::new(columns.iter().map(|column| clean.output_field(column)).collect::<Vec<_>>())
    }

    /// The settings of `gdelt-clean` for a dataset.
    pub fn clean(&self, dataset: Dataset) -> CleanSettings {
        self.clean.get(&dataset).cloned().unwrap_or_default()
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
    fn load(toml: &str, flags: &[(&str, Value)]) -> Result<Settings, String> {
        use std::io::Write as _;
        let mut file = tempfile::Builder::new().suffix("mill.toml").tempfile().unwrap();
        file.write_all(toml.as_bytes()).unwrap();
        Settings::load(Some(file.path()), flags).map_err(|error| error.to_string())
    }

    #[test]
    fn later_layers_win() {
        let toml = "root = 'file'\njobs = 3\n[io]\nreads = 5\nwrites = 4\n\
                    [directories.gkg-v2]\nraw = '/nfs/gkg'\n\
                    [clean.mentions]\nrequire = ['Confidence']";
        let settings = load(toml, &[("io.writes", 9.into())]).unwrap();
        assert_eq!(settings.root.as_deref(), Some(Path::new("file")));
        assert_eq!(settings.jobs.map(NonZeroUsize::get), Some(3));
        let fixed = |number| RequestLimit(Limit::Fixed(NonZeroUsize::new(number).unwrap()));
        assert_eq!((settings.io.reads, settings.io.writes), (fixed(5), fixed(9)));
        let layout = settings.layout().expect("a root is set");
        assert_eq!(layout.directory(Dataset::GkgV2, Directory::Raw), Path::new("/nfs/gkg"));
        assert!(settings.clean(Dataset::Mentions).is_active(Dataset::Mentions));
        assert!(settings.clean(Dataset::Events).is_active(Dataset::Events));
        assert!(!settings.clean(Dataset::GkgV2).is_active(Dataset::GkgV2));
    }

    #[test]
    fn wrong_settings_name_their_file_and_key() {
        for (toml, parts) in [
            ("reads = 1", ["mill.toml", "`reads`", "expected one of root"]),
            ("[io]\nreeds = 1", ["mill.toml", "`reeds` in [io]", "reads"]),
            ("[io]\nreads = 0", ["mill.toml", "io.reads", "0 is less than 1"]),
            ("[io]\nreads = 'fast'", ["mill.toml", "io.reads", "`fast` is no number"]),
            ("[io]\nreads = 2.5", ["mill.toml", "io.reads", "`auto` or `unlimited`"]),
            ("[io]\nreads = -1", ["mill.toml", "io.reads", "-1 is less than 1"]),
            ("[io]\nreads = true", ["mill.toml", "io.reads", "expected a number"]),
            ("[io]\nlatency_ceiling_ms = 0", ["mill.toml", "io.latency_ceiling_ms", "nonzero"]),
            ("[io]\nshare = 'lab'", ["mill.toml", "io.share", "`lab` is not"]),
            ("[io.class]\n'/nfs' = 'tape'", ["mill.toml", "io.class", "tape"]),
            ("[io.class]\n'nfs' = 'hdd'", ["io.class", "`nfs`", "absolute"]),
            ("datasets = ['gkg']", ["mill.toml", "datasets", "gkg-v2"]),
            ("[directories.gkg]\nraw = ''", ["mill.toml", "gkg", "gkg-v2"]),
            ("root = ''", ["settings", "root", "empty"]),
            ("jobs = 100000", ["jobs", "100000", "1024"]),
            ("[convert]\nmax_rejects = 1.5", ["convert.max_rejects", "1.5", "share"]),
            ("[convert]\nmax_expansion = 0", ["mill.toml", "convert.max_expansion", "nonzero"]),
            (
                "[convert.datasets.events]\ncodec = 'gzip'",
                ["mill.toml", "convert.datasets.events.codec", "`gzip` is no codec"],
            ),
            (
                "[convert.datasets.gkg-v2]\ncolumns = ['GCAM']",
                ["convert.datasets.gkg-v2.columns", "`GCAM`", "no column of gkg-v2"],
            ),
            (
                "[convert.datasets.events-reduced]\ncolumns = ['Source']",
                ["convert.datasets.events-reduced", "`Date`", "left out"],
            ),
            ("[clean.events]\nrequire = ['Dya']", ["clean.events.require", "`Dya`", "no column"]),
            (
                "[clean.events]\ncolumns = ['EventDate']",
                ["clean.events.columns", "EventDate", "no"],
            ),
            ("[clean.events]\nlabels = ['Day']", ["clean.events.labels", "`Day`", "with codes"]),
            ("[clean.events]\nnarrow = ['Day']", ["clean.events.narrow", "`Day`", "fractions"]),
            (
                "[clean.gkg-v2]\nplaces_table = 'x'",
                ["clean.gkg-v2.places_table", "events", "events-15min"],
            ),
            (
                "[clean.events]\nevent_markers = 'lose'",
                ["mill.toml", "clean.events.event_markers", "lose"],
            ),
        ] {
            let error = load(toml, &[]).expect_err(toml);
            for part in parts {
                assert!(error.contains(part), "{toml}: {error}");
            }
        }
    }

    #[test]
    fn limits_are_numbers_or_words() {
        for (toml, expected) in [
            ("reads = 'auto'", Limit::Auto),
            ("reads = 'unlimited'", Limit::Unlimited),
            ("reads = 4", Limit::Fixed(NonZeroUsize::new(4).unwrap())),
            ("writes = 4", Limit::Auto),
        ] {
            let settings = load(&format!("[io]\n{toml}"), &[]).unwrap();
            assert_eq!(settings.io.reads, RequestLimit(expected), "{toml}");
            assert_eq!("4".parse(), Ok(RequestLimit(Limit::Fixed(NonZeroUsize::new(4).unwrap()))));
        }
    }

    #[test]
    fn a_named_file_must_exist() {
        let error = Settings::load(Some(Path::new("/missing.toml")), &[]).expect_err("missing");
        assert!(error.to_string().contains("/missing.toml"), "{error}");
    }
}
