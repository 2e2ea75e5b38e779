//! `gdelt-clean`: repairs converted GDELT files. All that it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    stage::main(clean::run)
}
