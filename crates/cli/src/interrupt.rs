//! Ctrl-C as a request, not as an end.
//!
//! A command that has something to finish calls [`install`] and asks [`requested`] between its
//! steps. The first signal (SIGINT, SIGTERM or SIGHUP) only sets a flag; the second one ends the
//! process at once, which costs nothing that was committed. Commands that do not install the
//! handler are ended by the first signal. Work of the engine that does not ask is ended by closing
//! the database under it ([`ending`]).
//!
//! The handler runs on a thread of the `ctrlc` crate, so it may print.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tidesdb::{Db, Error};

use crate::failure::{Failure, Result, note};

/// Time between two looks at whether work is to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Exit code of a process that was interrupted, as shells report SIGINT.
const INTERRUPTED: i32 = 130;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// A command of the shell runs.
static RUNNING: AtomicBool = AtomicBool::new(false);

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

/// As [`install`], for a shell: a signal gives up the command that runs and not the shell, and ends
/// the process when none runs. At the prompt Ctrl-C is a key and no signal.
///
/// # Errors
/// When the operating system refuses the handler.
pub(crate) fn install_for_shell() -> Result<()> {
    ctrlc::set_handler(|| {
        // ORDERING: relaxed, all of them; the flags guard no other memory.
        if !RUNNING.load(Ordering::Relaxed) || REQUESTED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
    })
    .map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))
}

/// A command begins, which was not asked to stop yet.
pub(crate) fn begin_command() {
    // ORDERING: relaxed; see `install_for_shell`.
    REQUESTED.store(false, Ordering::Relaxed);
    RUNNING.store(true, Ordering::Relaxed);
}

/// The command has ended.
pub(crate) fn end_command() {
    // ORDERING: relaxed; see `install_for_shell`.
    RUNNING.store(false, Ordering::Relaxed);
}

/// True once the user has asked the command to stop.
pub(crate) fn requested() -> bool {
    // ORDERING: relaxed; see `install`.
    REQUESTED.load(Ordering::Relaxed)
}

/// Does work on a database, which is closed when the user asks the command to stop: the work ends
/// then, and leaves what its documentation says of an error. `interrupted` is the message.
///
/// # Errors
/// That of the work, or that it was interrupted.
pub(crate) fn ending<T>(
    db: &Db,
    interrupted: &str,
    work: impl FnOnce() -> tidesdb::Result<T>,
) -> Result<T> {
    install()?;
    let (working, ended) = mpsc::channel::<()>();
    let closer = db.clone();
    thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if requested() {
                    // The work reports what became of it.
                    return drop(closer.close());
                }
            }
        });
        let done = work();
        drop(working);
        match done {
            Err(Error::Closed) if requested() => Err(Failure::interrupted(interrupted)),
            done => Ok(done?),
        }
    })
}
