//! What a command that changes something says of it, where a program asks.

use std::io::{self, Write};

use clap::Args;
use serde_json::Value;

use crate::failure::{Failure, Result};

/// Whether to say it.
#[derive(Debug, Args)]
pub(crate) struct ToldArgs {
    /// Say what was done as JSON
    #[arg(long)]
    json: bool,
}

impl ToldArgs {
    /// Prints what was done, if that was asked for.
    ///
    /// # Errors
    /// Those of standard output.
    pub(crate) fn tell(&self, what: &Value) -> Result<()> {
        if !self.json {
            return Ok(());
        }
        let mut output = io::stdout().lock();
        writeln!(output, "{what}")
            .and_then(|()| output.flush())
            .map_err(|error| Failure::output(&error))
    }
}
