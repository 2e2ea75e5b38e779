//! `gdelt-catalog`: looks things up. All that it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    stage::main(|arguments| catalog_cli::run(&arguments))
}
