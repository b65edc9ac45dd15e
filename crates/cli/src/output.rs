//! What commands say on standard output.

use std::io::{self, Write};

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::failure::{Failure, Result};

/// Prints all that a command has to say.
///
/// # Errors
/// Those of standard output.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<()> {
    let mut output = io::stdout().lock();
    let written = output.write_all(text.as_ref()).and_then(|()| output.flush());
    written.map_err(|error| Failure::output(&error))
}

/// JSON for people and programs, with a line break at its end.
///
/// # Errors
/// When it can't be written as JSON.
pub(crate) fn pretty(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value);
    Ok(text.map_err(|error| Failure::new(format!("cannot write the report: {error}")))? + "\n")
}

/// Whether a command that changes something says what it has done, where a program asks.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Say what was done as JSON
    #[arg(long)]
    json: bool,
}

impl OutputArgs {
    /// Prints what was done, if that was asked for.
    ///
    /// # Errors
    /// Those of standard output.
    pub(crate) fn report(&self, what: &Value) -> Result<()> {
        if self.json { print(format!("{what}\n")) } else { Ok(()) }
    }
}
