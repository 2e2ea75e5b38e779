//! `gdelt-crossref`: joins events with the GKG records of the articles that report them.

use std::process::ExitCode;

fn main() -> ExitCode {
    stage::main(crossref::run)
}
