//! What a command reports when it cannot do its work: a message, a hint and an exit code.
//!
//! Every error of the engine, of a file and of the command line becomes a [`Failure`] on its way
//! to `main`, which prints it to standard error. A closed pipe on standard output is the wish of
//! the reader: it ends the output quietly, and changes nothing of what the command did or found.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use tidesdb::{Error, ErrorKind};

/// Result of every fallible step of a command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Exit code 1: what was asked for is not there, and nothing went wrong.
    NotFound,
    /// Exit code 2.
    Error,
    /// Exit code 3: the work was done, and something was lost.
    Lossy,
    /// Exit code 130, as shells report a process that SIGINT ended.
    Interrupted,
    /// Exit code 0: the reader of our output has seen enough, and there is nothing else to report.
    OutputClosed,
}

/// Why a command stopped, for people.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// An error, exit code 2.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { kind: Kind::Error, message: message.into(), hint: None }
    }

    /// A command line that makes no sense, exit code 2 as clap's own.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(message)
    }

    /// The answer is that there is no such key, exit code 1.
    pub(crate) fn not_found() -> Self {
        Self { kind: Kind::NotFound, ..Self::new("not found") }
    }

    /// So many of the keys are not there, exit code 1.
    pub(crate) fn absent(count: u64) -> Self {
        let keys = if count == 1 { "key" } else { "keys" };
        Self { kind: Kind::NotFound, ..Self::new(format!("{count} {keys} not found")) }
    }

    /// The work was done as far as possible, exit code 3.
    pub(crate) fn lossy(message: impl Into<String>) -> Self {
        Self { kind: Kind::Lossy, ..Self::new(message) }
    }

    /// The user asked to stop, exit code 130.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self { kind: Kind::Interrupted, ..Self::new(message) }
    }

    /// A file operation that failed, such as `("read", path, error)`.
    pub(crate) fn file(operation: &str, path: impl AsRef<Path>, error: &io::Error) -> Self {
        Self::new(format!("cannot {operation} {}: {error}", path.as_ref().display()))
    }

    /// A write to standard output that failed.
    pub(crate) fn output(error: &io::Error) -> Self {
        let failure = Self::new(format!("cannot write to standard output: {error}"));
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { kind: Kind::OutputClosed, ..failure };
        }
        failure
    }

    /// The same with advice on what to do next; it replaces the one there was.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same with more advice behind what there is.
    pub(crate) fn and(mut self, advice: &str) -> Self {
        self.hint.get_or_insert_default().push_str(advice);
        self
    }

    /// The same, said of a line of a script.
    pub(crate) fn at_line(mut self, number: u64) -> Self {
        self.message = format!("line {number}: {}", self.message);
        self
    }

    /// True when standard output has no reader any more.
    pub(crate) fn is_output_closed(&self) -> bool {
        self.kind == Kind::OutputClosed
    }

    /// Prints the failure and returns the exit code of the process.
    pub(crate) fn report(&self) -> ExitCode {
        let code = match self.kind {
            Kind::OutputClosed => return ExitCode::SUCCESS,
            Kind::NotFound => 1,
            Kind::Error => 2,
            Kind::Lossy => 3,
            Kind::Interrupted => 130,
        };
        match self.kind {
            Kind::NotFound | Kind::Lossy => note(&self.message),
            Kind::Interrupted => note(format_args!("interrupted: {}", self.message)),
            Kind::Error | Kind::OutputClosed => note(format_args!("error: {}", self.message)),
        }
        if let Some(hint) = &self.hint {
            note(format_args!("hint: {hint}"));
        }
        ExitCode::from(code)
    }
}

impl From<tidesdb::Error> for Failure {
    fn from(error: tidesdb::Error) -> Self {
        match &error {
            Error::ReadOnly => {
                return Self::new(error.to_string())
                    .hint("--read-only keeps it from being changed");
            }
            Error::Io { operation, path, source } if error.kind() == ErrorKind::Io => {
                return Self::new(format!("cannot {operation} {}: {source}", path.display()));
            }
            _ => {}
        }
        let hint = match error.kind() {
            ErrorKind::Locked => {
                "one process at a time owns a database: close the other one, or wait for it to end"
            }
            ErrorKind::Full => "free some space on the disk, then run the command again",
            ErrorKind::Corruption => {
                "`tidesdb verify --db DIR` lists all that is damaged, `tidesdb salvage` reads what is left"
            }
            ErrorKind::LogFailed => "once the disk works, run the command again",
            ErrorKind::ChangeUncertain => {
                "once the disk works, look with `tidesdb families --db DIR` whether it was made"
            }
            ErrorKind::Broken => "run the command again, and please report this",
            _ => return Self::new(error.to_string()),
        };
        Self::new(error.to_string()).hint(hint)
    }
}

/// What comes of a command that has printed what it found, and has a verdict. A reader that has
/// gone changes no verdict; any other failure of the output comes first.
pub(crate) fn judged(printed: Result<()>, verdict: Result<()>) -> Result<()> {
    match printed {
        Err(failure) if !failure.is_output_closed() => Err(failure),
        printed => verdict.and(printed),
    }
}

/// Prints a line to standard error. There is no place to report it when that fails, so it is not an
/// error.
pub(crate) fn note(line: impl Display) {
    let _unreportable = writeln!(io::stderr().lock(), "{line}");
}
