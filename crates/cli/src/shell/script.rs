//! Lines from a file or a pipe. The first error ends a script; a key that is not there does not.

use std::io::{self, BufRead};

use super::session::{Outcome, Session};
use crate::failure::{Failure, Result, note};
use crate::interrupt;

/// Longest line of a script, in bytes.
const MOST_LINE_BYTES: u64 = 64 << 20;

/// Runs the lines of `input`.
///
/// # Errors
/// That of the first line that failed, with its number; `not found` at the end if a key was.
pub(super) fn run(session: &mut Session, mut input: impl BufRead) -> Result<()> {
    interrupt::install_for_shell()?;
    interrupt::begin_command();
    let mut absent = false;
    let mut bytes = Vec::new();
    for number in 1u64.. {
        bytes.clear();
        let read = io::Read::take(&mut input, MOST_LINE_BYTES).read_until(b'\n', &mut bytes);
        let failed = |error: &io::Error| Failure::file("read", "standard input", error);
        if read.map_err(|error| failed(&error))? == 0 {
            break;
        }
        if interrupt::requested() {
            return Err(Failure::interrupted(format!("line {number} was not begun")));
        }
        let line = std::str::from_utf8(&bytes)
            .map_err(|_| Failure::usage(format!("line {number}: it is not UTF-8")))?;
        match session.execute(line, &mut io::stdout().lock()) {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Exit) => break,
            Ok(Outcome::NotFound) => {
                note(format_args!("line {number}: not found"));
                absent = true;
            }
            Err(failure) => return Err(failure.at_line(number)),
        }
    }
    if absent { Err(Failure::not_found()) } else { Ok(()) }
}
