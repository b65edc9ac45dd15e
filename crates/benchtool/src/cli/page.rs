//! `benchtool report`: a page from result files that are there already, and a section of a Markdown
//! page.

use crate::report::set::ResultSet;
use crate::report::{html, markdown};
use crate::terminal::say;
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `report`.
#[derive(Debug, Args)]
pub(super) struct ReportOptions {
    /// Result files (JSON); of several, the last is reported and the others are its history
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder for the page, the plots and the sums [default: the comparison is printed as Markdown]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep the results in this file, without histograms and without names of folders
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Put the comparison into this Markdown page, made from the file that is kept
    #[arg(long, value_name = "PAGE", requires = "keep")]
    into: Option<PathBuf>,
    /// The commit that was measured, to be kept with the results
    #[arg(long, value_name = "HASH", requires = "keep")]
    commit: Option<String>,
    /// Engine that ratios refer to
    #[arg(long, default_value = "rocksdb")]
    baseline: String,
}

impl ReportOptions {
    /// Writes what is asked for.
    pub(super) fn run(&self) -> Result<ExitCode, String> {
        let mut sets = Vec::new();
        for file in &self.files {
            sets.push(ResultSet::read(file)?);
        }
        let Some(mut last) = sets.pop() else { return Err("no result file".to_owned()) };
        if let Some(keep) = &self.keep {
            let commit = self.commit.as_deref().unwrap_or(&last.environment.commit);
            last = markdown::condensed(&last, commit);
            if let Some(folder) = keep.parent() {
                fs::create_dir_all(folder)
                    .map_err(|error| format!("{}: {error}", folder.display()))?;
            }
            last.write(keep)?;
            say(format!("results: {}", keep.display()));
        }
        if let (Some(page), Some(keep)) = (&self.into, &self.keep) {
            self.put_into(page, keep, &last)?;
            say(format!("page: {}", page.display()));
        }
        if let Some(out) = &self.out {
            say(html::write(&last, &sets, &self.baseline, out)?.display());
        } else if self.keep.is_none() {
            say(markdown::section(&last, &self.baseline)?.trim_end());
        }
        Ok(ExitCode::SUCCESS)
    }

    fn put_into(&self, page: &Path, keep: &Path, set: &ResultSet) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", page.display());
        let text = fs::read_to_string(page).map_err(|error| failed(&error))?;
        let section = markdown::section(set, &self.baseline)?;
        let name = keep.display().to_string();
        let text = markdown::put_into(&text, &name, &section).map_err(|error| failed(&error))?;
        fs::write(page, text).map_err(|error| failed(&error))
    }
}
