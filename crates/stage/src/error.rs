//! Why a run stopped, and the exit code that says so.

use std::path::Path;
use std::process::ExitCode;

use parquet::errors::ParquetError;

use crate::settings::SettingsError;

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// 0: all is done, or was done already.
    Done,
    /// 1: the run stopped.
    Stopped,
    /// 2: wrong usage or settings, or no input matched; nothing was started.
    Usage,
    /// 3: finished, but some files failed; the summary names them.
    FilesFailed,
    /// 128 + the signal: interrupted, with nothing half-written.
    Interrupted(u8),
}

impl ExitStatus {
    /// The number that the process exits with.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Stopped => 1,
            Self::Usage => 2,
            Self::FilesFailed => 3,
            Self::Interrupted(signal) => 128_u8.saturating_add(signal),
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}

/// An error with all that caused it, on one line.
pub fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}

/// Why a run stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line asks for something that does not exist or does not fit together.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// No file matched what was asked for.
    #[error("no input matched: {message}")]
    NoInput {
        /// Where was looked, for what.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// The storage failed.
    #[error(transparent)]
    Io(#[from] io_budget::Error),
    /// A Parquet file that the run cannot do without is not readable.
    #[error(transparent)]
    Parquet(#[from] io_budget::parquet::Error),
    /// The ledger failed.
    #[error(transparent)]
    Ledger(#[from] catalog::ledger::Error),
    /// Input that cannot be worked on, found before or during the work.
    #[error("{message}")]
    Input {
        /// The file, the place in it and what was wrong.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// A signal asked the process to end.
    #[error("interrupted: finished files are kept and a rerun continues from there")]
    Interrupted {
        /// The signal's number.
        signal: u8,
    },
    /// The program or a library contradicts itself: a bug to report.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// A usage error.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }

    /// An input error.
    pub fn input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Input { message: message.into(), hint: hint.into() }
    }

    /// A failure of a Parquet writer: of the storage below it, or of the writer itself.
    pub fn encoding(output: &Path, error: ParquetError) -> Self {
        let internal = |error: &dyn std::error::Error| {
            Self::Internal(format!("cannot write {}: {error}", output.display()))
        };
        match error {
            ParquetError::External(source) => match source.downcast::<std::io::Error>() {
                Ok(source) => Self::Io(io_budget::Error::new("write", output, *source)),
                Err(source) => internal(&*source),
            },
            other => internal(&other),
        }
    }

    /// The exit code for this error.
    pub fn status(&self) -> ExitStatus {
        match self {
            Self::Usage { .. } | Self::Settings(_) | Self::NoInput { .. } => ExitStatus::Usage,
            Self::Io(_)
            | Self::Parquet(_)
            | Self::Ledger(_)
            | Self::Input { .. }
            | Self::Internal(_) => ExitStatus::Stopped,
            Self::Interrupted { signal } => ExitStatus::Interrupted(*signal),
        }
    }

    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Usage { hint, .. } | Self::NoInput { hint, .. } | Self::Input { hint, .. } => {
                Some(hint.clone())
            }
            Self::Settings(error) => Some(error.hint()),
            Self::Io(error) if error.is_out_of_space() => {
                Some("free some space or raise the quota, then run the same command again".into())
            }
            Self::Io(error) if error.is_not_found() => {
                Some("check the path, and that its file system is mounted".into())
            }
            Self::Io(error) if error.source.kind() == std::io::ErrorKind::PermissionDenied => {
                Some("check who may read and write there".into())
            }
            Self::Internal(_) => Some("please report it with the command that led here".into()),
            Self::Io(_) | Self::Parquet(_) | Self::Ledger(_) | Self::Interrupted { .. } => None,
        }
    }
}
