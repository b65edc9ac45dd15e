//! The program `tidesdb`; see the library for what it does.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    tidesdb_cli::run()
}
