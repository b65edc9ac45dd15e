//! `benchtool regress`: the gate between two versions.
//!
//! Exit codes: 0 passed, 3 a regression, 4 void (the control moved), 2 the sets cannot be compared.

use crate::report::regress::{self, Question};
use crate::report::set::ResultSet;
use crate::terminal::say;
use clap::Args;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

const REGRESSION: u8 = 3;
const VOID: u8 = 4;

/// Options of `regress`.
#[derive(Debug, Args)]
pub(super) struct RegressOptions {
    /// Results of the version before (JSON, five repetitions or more)
    baseline: PathBuf,
    /// Results of the version to be judged
    candidate: PathBuf,
    /// The engine that changed
    #[arg(long, default_value = crate::ours::NAME)]
    engine: String,
    /// An engine that did not change: if it moved by 3 %, the result is void
    #[arg(long, value_name = "ENGINE")]
    control: Option<String>,
    /// Older results, for how much a test varies by itself
    #[arg(long, value_name = "FILE", num_args = 1..)]
    history: Vec<PathBuf>,
    /// Changes up to this many percent never count (at least 3)
    #[arg(long, default_value_t = 3.0, value_name = "PERCENT")]
    fail_on_regress: f64,
    /// Write the answer as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the answer as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl RegressOptions {
    /// Compares, prints and returns the exit code.
    pub(super) fn run(&self) -> Result<ExitCode, String> {
        let before = ResultSet::read(&self.baseline)?;
        let after = ResultSet::read(&self.candidate)?;
        let history: Result<Vec<ResultSet>, String> =
            self.history.iter().map(|path| ResultSet::read(path)).collect();
        let question = Question {
            engine: self.engine.clone(),
            control: self.control.clone(),
            floor: self.fail_on_regress / 100.0,
        };
        let answer = regress::answer(&before, &after, &history?, &question)?;
        let text = regress::markdown(&answer);
        say(text.trim_end());
        let write = |path: &PathBuf, text: &str| {
            fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        if let Some(path) = &self.markdown {
            write(path, &text)?;
        }
        if let Some(path) = &self.json {
            write(path, &regress::json(&answer)?)?;
        }
        Ok(match (&answer.void, answer.fails()) {
            (Some(_), _) => ExitCode::from(VOID),
            (None, true) => ExitCode::from(REGRESSION),
            (None, false) => ExitCode::SUCCESS,
        })
    }
}
