//! The interactive shell: lines of a terminal or of a script, run one after the other on one open
//! database.
//!
//! | file | what |
//! |---|---|
//! | `words` | a line cut into words |
//! | `line` | the commands, as clap parses them from words |
//! | `session` | the database, the family in use, the transaction; runs the commands |
//! | `records` | commands that read and write records |
//! | `terminal`, `completion` | lines from a terminal: editing, history, Tab |
//! | `script` | lines from standard input |
//!
//! Ctrl-C gives up the command that runs and keeps the shell; Ctrl-D leaves. Work that cannot be
//! given up (a flush, a compaction) goes on in the background then.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod completion;
mod line;
mod records;
mod script;
mod session;
mod terminal;
#[cfg(test)]
mod tests;
mod words;

use std::io::{self, IsTerminal};

pub(crate) use self::session::Session;
// The readers of bytes for fuzzing ask for it from outside.
#[cfg(feature = "testing")]
pub(crate) use self::words::split;
use crate::failure::{Result, judged};

/// Runs lines from standard input until it ends: as a shell when it is a terminal, otherwise as a
/// script.
///
/// # Errors
/// That of the line at which a script ended; what was left undone at the end.
pub(crate) fn run(mut session: Session) -> Result<()> {
    let done = if io::stdin().is_terminal() {
        terminal::run(&mut session)
    } else {
        script::run(&mut session, io::stdin().lock())
    };
    let closed = session.close();
    judged(done, closed)
}
