//! All that a run needs, made once in the stage's main function.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use catalog::ledger::Ledger;
use catalog::{Dataset, DateRange, Directory, Layout};
use clap::Parser;
use figment::value::Value;
use io_budget::{Budget, Usage};

use crate::cli::{CommonArgs, FileArgs};
use crate::guard;
use crate::settings::Settings;
use crate::{Cpus, Error, ExitStatus, Interrupt, Printer};

/// What a run needs beside the stage's own flags.
#[derive(Debug)]
pub struct Session {
    /// The settings, resolved.
    pub settings: Settings,
    /// The right to use the storage.
    pub budget: Budget,
    /// The voice on stderr.
    pub printer: Printer,
    /// Whether the run should end.
    pub interrupt: Interrupt,
    /// The days asked for.
    pub range: DateRange,
    /// The processors that may be used.
    pub cpus: Cpus,
    /// Whether nothing may be changed.
    pub dry_run: bool,
    /// Whether it is only asked how storage would be used.
    pub explain_io: bool,
    /// Whether the summary goes to stdout as JSON.
    pub json: bool,
    /// When the run began.
    pub started: Instant,
}

impl Session {
    /// Resolves flags and settings. `extra` are single settings that the stage's own flags give.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`] or [`Error::Usage`] when they are wrong.
    pub fn start(
        common: &CommonArgs,
        files: Option<&FileArgs>,
        extra: &[(String, Value)],
    ) -> Result<Self, Error> {
        let started = Instant::now();
        let mut flags: Vec<(&str, Value)> = common.settings();
        flags.extend(files.map(FileArgs::settings).unwrap_or_default());
        flags.extend(extra.iter().map(|(key, value)| (key.as_str(), value.clone())));
        let settings = Settings::load(common.config.as_deref(), &flags)?;
        if let Some(files) = files
            && !files.names_files()
            && (files.out.is_some() || files.out_dir.is_some())
        {
            let message = "--out and --out-dir are for named files, and none is named";
            return Err(Error::usage(message, "name files, or leave the output away"));
        }
        let range = DateRange { start: common.start_date, end: common.end_date };
        if let (Some(start), Some(end)) = (range.start, range.end)
            && start > end
        {
            let message = format!("--start-date {start} is after --end-date {end}");
            return Err(Error::usage(message, "exchange the two dates"));
        }
        let cpus = Cpus::detect();
        let budget = Budget::new(settings.io.options(cpus.count));
        let printer = Printer::new(common.quiet, common.verbose, common.no_progress);
        printer.detail(format!("processors: {cpus}"));
        Ok(Self {
            settings,
            budget,
            printer,
            interrupt: Interrupt::listen()?,
            range,
            cpus,
            dry_run: common.dry_run,
            explain_io: common.explain_io,
            json: common.json,
            started,
        })
    }

    /// Where `--explain-io` is given, says how the storage of these files and of the archive's
    /// directories would be used, and why; then there is nothing else to do.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when neither a root is set nor a file is named, [`Error::Io`] when stdout
    /// is closed.
    pub fn explain_io<'a>(
        &self,
        files: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Result<Option<ExitStatus>, Error> {
        if !self.explain_io {
            return Ok(None);
        }
        let above = |file: &PathBuf| match file.parent() {
            Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
            Some(parent) => parent.to_owned(),
            None => file.clone(),
        };
        let mut directories: Vec<PathBuf> = files.into_iter().map(above).collect();
        if directories.is_empty() || self.settings.root.is_some() {
            let layout = self.layout()?;
            for dataset in Dataset::ALL {
                let is_named = self.settings.datasets.contains(&dataset);
                let of_dataset = Directory::ALL.map(|it| layout.directory(dataset, it));
                for directory in of_dataset {
                    let exists = || self.budget.stat(&directory).map(|stat| stat.is_some());
                    if is_named || (self.settings.datasets.is_empty() && exists()?) {
                        directories.push(directory);
                    }
                }
            }
        }
        directories.dedup();
        let usages: Vec<Usage> = directories.iter().map(|it| self.budget.usage(it)).collect();
        let text = if self.json {
            serde_json::to_string(&usages).map_err(|error| Error::Internal(error.to_string()))?
        } else {
            usages.chunk_by(Usage::is_as).map(explained).collect::<Vec<_>>().join("\n\n")
        };
        print(&text)?;
        Ok(Some(ExitStatus::Done))
    }

    /// Where files stand.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when no root is set.
    pub fn layout(&self) -> Result<Layout, Error> {
        self.settings.layout().ok_or_else(|| {
            Error::usage(
                "no archive root is set",
                "give --root DIR, or set root in gdelt-mill.toml",
            )
        })
    }

    /// Worker threads for work on a whole archive.
    pub fn jobs(&self) -> NonZeroUsize {
        self.settings.jobs.unwrap_or(self.cpus.count)
    }

    /// Threads that keep as many reads in flight as the storage of a file allows.
    pub fn reader_threads(&self, file: Option<&Path>) -> usize {
        let directory = file.and_then(Path::parent);
        directory.map_or(1, |directory| self.budget.usage(directory).read_threads())
    }

    /// Worker threads for work on files like this one that mostly waits for the storage.
    pub fn waiting_jobs(&self, file: Option<&Path>) -> NonZeroUsize {
        self.jobs().saturating_add(self.reader_threads(file))
    }

    /// Warns of join keys that the settings in a section leave out of a dataset's files.
    pub fn warn_of_keys(&self, dataset: Dataset, section: &str, keeps: impl Fn(&str) -> bool) {
        if let Some(key) = dataset.join_keys().iter().find(|key| !keeps(key)) {
            self.printer.warn(format!(
                "{key} is left out of {dataset}, which cannot be joined without it: name it in \
                 {section}.{dataset}.columns"
            ));
        }
    }

    /// The ledger of a dataset.
    pub fn ledger(&self, layout: &Layout, dataset: Dataset) -> Ledger {
        Ledger::new(&self.budget, &layout.directory(dataset, Directory::Catalog))
    }
}

/// How the files of directories are used, where it is the same for all of them.
fn explained(alike: &[Usage]) -> String {
    let Some((last, others)) = alike.split_last() else { return String::new() };
    let names = others.iter().map(|usage| format!("{}\n", usage.directory.display()));
    names.chain([last.to_string()]).collect()
}

/// Prints a result.
///
/// # Errors
///
/// [`Error::Io`] when stdout is closed.
pub fn print(text: &str) -> Result<(), Error> {
    use std::io::Write as _;
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.map_err(|source| io_budget::Error::new("write to", "stdout".as_ref(), source).into())
}

/// Runs a stage: parses the command line, runs `body`, prints the error if there is one, and maps
/// the outcome to an exit code.
pub fn main<A: Parser>(body: impl FnOnce(A) -> Result<ExitStatus, Error>) -> ExitCode {
    guard::install();
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help goes to stdout and ends well, a wrong flag goes to stderr and does not.
            let _printed = error.print();
            let code = if error.use_stderr() { ExitStatus::Usage } else { ExitStatus::Done };
            return code.into();
        }
    };
    let status = body(arguments).unwrap_or_else(|error| {
        Printer::new(false, false, true).error(&error, error.hint().as_deref());
        if std::env::args_os().any(|argument| argument == "--json") {
            print_error(&error);
        }
        error.status()
    });
    status.into()
}

/// Tells a script what stopped the run, in place of a summary.
fn print_error(error: &Error) {
    use std::io::Write as _;
    let object = serde_json::json!({
        "exit_code": error.status().code(),
        "error": error.to_string(),
        "hint": error.hint(),
    });
    // Nobody is left to tell when stdout is closed.
    let _written = writeln!(std::io::stdout(), "{object}");
}
