//! `gdelt-convert`: turns raw GDELT files into Parquet. All that it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    stage::main(|arguments| convert::run(&arguments))
}
