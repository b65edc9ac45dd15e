//! `benchtool claims`: the published claims against a set of results.
//!
//! Exit codes: 0 no comparable claim is missed, 3 one is, 2 there is nothing to compare.

use crate::report::claims::{self, Outcome};
use crate::report::set::ResultSet;
use crate::terminal::say;
use clap::Args;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

const MISSED: u8 = 3;

/// Options of `claims`.
#[derive(Debug, Args)]
pub(super) struct ClaimsOptions {
    /// Results (JSON)
    file: PathBuf,
    /// The engine that the claims are relative to, with all its profiles
    #[arg(long, default_value = "rocksdb")]
    baseline: String,
    /// Write the answer as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the answer as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl ClaimsOptions {
    /// Checks, prints and returns the exit code.
    pub(super) fn run(&self) -> Result<ExitCode, String> {
        let set = ResultSet::read(&self.file)?;
        let checked = claims::check(&set, &self.baseline)?;
        let text = claims::markdown(&checked);
        say(text.trim_end());
        let write = |path: &PathBuf, text: &str| {
            fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        if let Some(path) = &self.markdown {
            write(path, &text)?;
        }
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(&checked).map_err(|e| e.to_string())?;
            write(path, &text)?;
        }
        if checked.iter().all(|claim| claim.outcome == Outcome::NotComparable) {
            return Err("no claim is comparable with this set".to_owned());
        }
        let missed = checked.iter().any(|claim| claim.outcome == Outcome::Missed);
        Ok(if missed { ExitCode::from(MISSED) } else { ExitCode::SUCCESS })
    }
}
