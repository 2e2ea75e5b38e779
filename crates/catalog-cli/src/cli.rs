//! The command line of `gdelt-catalog`.

use catalog::{CodeTable, UnknownCodes};
use clap::{Args, Parser, Subcommand};

/// Look things up in what is known of the GDELT archive
#[derive(Debug, Clone, Parser)]
#[command(name = "gdelt-catalog", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Say what the codes in GDELT's columns mean
    Codes(CodesArgs),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = CODES_EXAMPLES)]
pub(crate) struct CodesArgs {
    /// A column, such as `ActionGeo_CountryCode`, or a table of codes; without it the tables are
    /// listed
    #[arg(value_name = "COLUMN", value_parser = parse_table)]
    pub(crate) table: Option<CodeTable>,
    /// Show the code of this name, or else all codes whose name or meaning has this in it, in any
    /// letter case
    #[arg(long, value_name = "TERM", allow_hyphen_values = true)]
    pub(crate) search: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const CODES_EXAMPLES: &str = "\
Examples:
  gdelt-catalog codes
  gdelt-catalog codes EventCode
  gdelt-catalog codes ActionGeo_CountryCode --search iraq
  gdelt-catalog codes --search kurd

Exit codes: 0 done, 1 the output is closed, 2 wrong usage or nothing found.";

fn parse_table(name: &str) -> Result<CodeTable, String> {
    name.parse().map_err(|error: UnknownCodes| {
        let tables = CodeTable::ALL.map(CodeTable::name).join(", ");
        let columns: Vec<_> = CodeTable::ALL.into_iter().flat_map(CodeTable::columns).collect();
        format!("{error}; the tables are {tables}, the columns {}", columns.join(", "))
    })
}
