//! Explains the state of a database: what takes space, time and memory, and what to do about it.
//!
//! [`Facts`] are gathered from the engine and the operating system, [`diagnose`] is a pure function
//! of them, and [`report`] puts both into words or JSON. Where the system has a figure (files in
//! the directory, free space, descriptors, resident memory) it is shown beside the engine's.

mod diagnosis;
mod facts;
mod formats;
pub(crate) mod report;
mod system;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use self::diagnosis::Severity;
pub(crate) use self::diagnosis::{Finding, diagnose};
pub(crate) use self::facts::{Facts, FamilyFacts};
