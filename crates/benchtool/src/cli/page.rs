//! `benchtool report`: a page from result files that are there already.

use crate::report::html;
use crate::report::set::ResultSet;
use crate::terminal::say;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `report`.
#[derive(Debug, Args)]
pub(super) struct ReportOptions {
    /// Result files (JSON); of several, the last is reported and the others are its history
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder for the page, the plots and the sums
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Engine that ratios refer to
    #[arg(long, default_value = "rocksdb")]
    baseline: String,
}

impl ReportOptions {
    /// Writes the page.
    pub(super) fn run(&self) -> Result<ExitCode, String> {
        let mut sets = Vec::new();
        for file in &self.files {
            sets.push(ResultSet::read(file)?);
        }
        let Some(last) = sets.pop() else { return Err("no result file".to_owned()) };
        let page = html::write(&last, &sets, &self.baseline, &self.out)?;
        say(page.display());
        Ok(ExitCode::SUCCESS)
    }
}
