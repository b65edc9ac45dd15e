//! Ctrl-C as a request, not as an end.
//!
//! A command that has something to finish calls [`install`] and asks [`requested`] between its
//! steps. The first signal (SIGINT, SIGTERM or SIGHUP) only sets a flag; the second one ends the
//! process at once, which costs nothing that was committed. Commands that do not install the
//! handler are ended by the first signal.
//!
//! The handler runs on a thread of the `ctrlc` crate, so it may print.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, Result, note};

/// Exit code of a process that was interrupted, as shells report SIGINT.
const INTERRUPTED: i32 = 130;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Turns the signals that ask the process to end into a request.
///
/// # Errors
/// When the operating system refuses the handler.
pub(crate) fn install() -> Result<()> {
    ctrlc::set_handler(|| {
        // ORDERING: relaxed; the flag guards no other memory.
        if REQUESTED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
        note("\nfinishing what was begun; once more to stop at once");
    })
    .map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))
}

/// True once the user has asked the command to stop.
pub(crate) fn requested() -> bool {
    // ORDERING: relaxed; see `install`.
    REQUESTED.load(Ordering::Relaxed)
}
