//! `gdelt-sample`: draws reproducible samples from a dataset's Parquet files.

use std::process::ExitCode;

fn main() -> ExitCode {
    stage::main(sample::run)
}
