//! The stages that are measured on local storage.

/// A stage that both programs have, with the same flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The zips
    Convert,
    /// The converted files: the default steps, and one column that gkg-v2 must have
    Clean,
    /// The converted files, by days
    Aggregate,
}

/// The column that a row of gkg-v2 needs in order to stay when it is cleaned.
pub(super) const REQUIRED_COLUMN: &str = "V2DOCUMENTIDENTIFIER";

impl Stage {
    /// The command of gdeltforge.
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Convert => "convert",
            Self::Clean => "clean",
            Self::Aggregate => "aggregate",
        }
    }

    /// The program of this workspace.
    pub(super) fn program(self) -> String {
        format!("gdelt-{}", self.command())
    }

    /// The flags that make both do the same.
    pub(super) fn flags(self, dataset: &str) -> Vec<&str> {
        let mut flags = vec!["--dataset", dataset];
        if self == Self::Aggregate {
            flags.extend(["--period", "day", "--source", "converted"]);
        }
        flags
    }
}
