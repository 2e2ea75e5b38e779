//! `gdelt-aggregate`: joins 15-minute GDELT files into files of days, months or years. All that it
//! does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    stage::main(aggregate::run)
}
