//! Explains the state of a database: what takes space, time and memory, and what to do about it.
//!
//! [`Facts`] are gathered from the engine and the operating system, [`diagnose`] is a pure function
//! of them, and [`report`] puts both into words or JSON. Where the system has a number (files in
//! the directory, free space, descriptors, resident memory) it is shown with the engine's.

mod diagnosis;
mod event_log;
mod facts;
mod formats;
mod report;
mod system;
#[cfg(test)]
mod tests;

use tidesdb::Db;

#[cfg(test)]
use self::diagnosis::Severity;
use self::diagnosis::{Finding, diagnose};
use self::facts::{Facts, FamilyFacts};

/// Who looks at a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Viewer {
    /// The process that uses it: what it has counted says something.
    #[default]
    User,
    /// A command that has opened it for this look: it has counted nothing.
    Visitor,
}

/// The report on an open database, in words or as JSON.
///
/// # Errors
/// Those of the engine.
pub(crate) fn examine(db: &Db, viewer: Viewer, json: bool) -> tidesdb::Result<String> {
    let facts = Facts::of(db, viewer)?;
    let findings = diagnose(&facts);
    let report = if json { report::as_json } else { report::as_text };
    Ok(report(&facts, &findings))
}
