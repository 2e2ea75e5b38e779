//! `gdelt-iobench`: measures storage. All that it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    stage::main(|arguments| iobench::run(&arguments))
}
