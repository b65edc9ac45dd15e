//! Lines from a file or a pipe. The first error ends a script; a key that is not there does not.

use std::io::{self, BufRead, Write};

use super::session::{Outcome, Session};
use crate::failure::{Failure, Result, note};
use crate::interrupt;

/// Longest line of a script, in bytes.
const MOST_LINE_BYTES: u64 = 64 << 20;

/// Runs the lines of `input`.
///
/// # Errors
/// That of the first line that failed, with its number; `not found` at the end if a key was.
pub(super) fn run(session: &mut Session, input: impl BufRead) -> Result<()> {
    interrupt::install_for_shell()?;
    interrupt::begin_command();
    run_lines(session, input, &mut io::stdout())
}

/// As [`run`], with the output to `output`. When its reader has gone, the script goes on without: a
/// transaction that was begun is still committed.
pub(super) fn run_lines(
    session: &mut Session,
    mut input: impl BufRead,
    output: &mut dyn Write,
) -> Result<()> {
    let (mut absent, mut closed) = (false, None);
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
        if bytes.len() as u64 == MOST_LINE_BYTES && !bytes.ends_with(b"\n") {
            // What is left of it is no line of its own: nothing behind it is run.
            let most = MOST_LINE_BYTES >> 20;
            return Err(Failure::usage(format!("line {number}: it is longer than {most} MiB"))
                .hint("`tidesdb put KEY --value-file FILE` and `tidesdb load` take large values"));
        }
        let line = std::str::from_utf8(&bytes)
            .map_err(|_| Failure::usage(format!("line {number}: it is not UTF-8")))?;
        let done = match closed {
            None => session.execute(line, output),
            Some(_) => session.execute(line, &mut io::sink()),
        };
        match done {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Exit) => break,
            Ok(Outcome::NotFound) => {
                note(format_args!("line {number}: not found"));
                absent = true;
            }
            Err(failure) if failure.is_output_closed() => closed = Some(failure),
            Err(failure) => return Err(failure.at_line(number)),
        }
    }
    if absent { Err(Failure::not_found()) } else { closed.map_or(Ok(()), Err) }
}
