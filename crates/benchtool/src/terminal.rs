//! What a person sees: results on standard output, everything else on standard error.
//!
//! Either may be gone, as behind `| head -1` or after a window was closed. That is no reason to
//! lose a measurement of hours, so nothing here fails, where `println!` and `eprintln!` would
//! panic.

use std::fmt::Display;
use std::io::Write;

/// Shows results: a line, or several.
pub(crate) fn say(text: impl Display) {
    drop(writeln!(std::io::stdout(), "{text}"));
}

/// Writes what happens, or went wrong, to standard error.
pub(crate) fn warn(text: impl Display) {
    drop(writeln!(std::io::stderr(), "{text}"));
}
