//! A set of results: what the JSON file holds, and what every report is made from.
//!
//! Written once at the end of a run (also of an interrupted one) and read back by `report`,
//! `regress` and `claims`. Readers never trust it: a file that is not one is an error that names
//! the place, unknown fields are ignored, and missing optional ones read as empty.

use super::environment::Environment;
use super::median;
use crate::orchestrate::Run;
use crate::spec::{OperationResult, Status};
use bench_compare::EngineInfo;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// Number of the form of the file; raised when a reader has to know the difference.
pub(crate) const SCHEMA: u32 = 2;

/// An engine of the set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EngineNote {
    /// Name.
    pub(crate) name: String,
    /// Version, or the library that it was loaded from.
    #[serde(default)]
    pub(crate) version: String,
    /// Where parity is not reached, in the words of its adapter.
    #[serde(default)]
    pub(crate) not_equal: String,
}

/// Everything about one invocation of the tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResultSet {
    /// [`SCHEMA`] of the writer.
    pub(crate) schema: u32,
    /// The command line, without the program.
    #[serde(default)]
    pub(crate) command: Vec<String>,
    /// The machine.
    #[serde(default)]
    pub(crate) environment: Environment,
    /// The engines in the order of the columns.
    pub(crate) engines: Vec<EngineNote>,
    /// Jobs and results in the order in which they ran.
    pub(crate) runs: Vec<Run>,
    /// Jobs that an interruption of the run kept from being begun.
    #[serde(default)]
    pub(crate) unfinished: usize,
}

/// One line of a report: an operation of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Name of the test.
    pub(crate) test: String,
    /// Its name: PUT, GET and so on.
    pub(crate) operation: String,
    /// What a reader sees: the test, with the operation if the test has several.
    pub(crate) label: String,
}

/// Median, extremes and number of the repetitions of one measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    /// The median.
    pub(crate) median: f64,
    /// The lowest.
    pub(crate) low: f64,
    /// The highest.
    pub(crate) high: f64,
    /// Repetitions that have it.
    pub(crate) count: usize,
}

impl Summary {
    /// Summarises the repetitions; `None` if there is none.
    pub(crate) fn of(values: Vec<f64>) -> Option<Self> {
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        let count = values.len();
        median(values).map(|median| Self { median, low, high, count })
    }

    /// Half the distance of the extremes over the median.
    pub(crate) fn spread(&self) -> f64 {
        if self.median.abs() < f64::EPSILON {
            return 0.0;
        }
        (self.high - self.low) / 2.0 / self.median.abs()
    }
}

impl ResultSet {
    /// The set of a run that has just ended.
    pub(crate) fn new(runs: Vec<Run>, engines: &[EngineInfo]) -> Self {
        let version_seen = |name: &str| {
            let versions = runs.iter().filter(|run| run.spec.engine == name);
            versions.map(|run| &run.result.version).find(|version| !version.is_empty()).cloned()
        };
        let engines = engines
            .iter()
            .map(|engine| EngineNote {
                name: engine.name.to_owned(),
                version: version_seen(engine.name).unwrap_or_else(|| engine.version.clone()),
                not_equal: engine.unequal.clone(),
            })
            .collect();
        Self {
            schema: SCHEMA,
            command: std::env::args().skip(1).collect(),
            environment: Environment::here(),
            engines,
            runs,
            unfinished: 0,
        }
    }

    /// Reads a file written by [`ResultSet::write`].
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
        let set: Self = serde_json::from_str(&text)
            .map_err(|error| failed(&format!("not a result file of this tool: {error}")))?;
        if set.schema > SCHEMA {
            return Err(failed(&format!(
                "written by a newer tool (form {}, this one knows {SCHEMA})",
                set.schema
            )));
        }
        Ok(set)
    }

    /// Writes the file.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        replace(path, (text + "\n").as_bytes())
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A name of this set: when and on which machine it was made.
    pub(crate) fn id(&self) -> String {
        let host: String = self.environment.host_id.chars().take(6).collect();
        format!("{}-{host}", self.environment.finished_unix)
    }

    /// Names of the engines in order, those that only the rows name at the end.
    pub(crate) fn engine_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.engines.iter().map(|note| note.name.clone()).collect();
        for run in &self.runs {
            if !names.contains(&run.spec.engine) {
                names.push(run.spec.engine.clone());
            }
        }
        names.retain(|name| self.runs.iter().any(|run| run.spec.engine == *name));
        names
    }

    /// All lines, in the order in which their tests first ran.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for test in super::test_names(&self.runs) {
            let mut operations: Vec<&str> = Vec::new();
            for run in self.runs.iter().filter(|run| run.spec.test == test) {
                for operation in &run.result.operations {
                    if !operations.contains(&operation.operation.as_str()) {
                        operations.push(&operation.operation);
                    }
                }
            }
            let failed = |run: &Run| run.spec.test == test && BAD.contains(&run.result.status);
            if operations.is_empty() && self.runs.iter().any(failed) {
                // Every repetition failed: the test must show all the same.
                operations.push("");
            }
            for operation in &operations {
                let label = match operations.len() {
                    1 => test.clone(),
                    _ => format!("{test}: {operation}"),
                };
                lines.push(Line { test: test.clone(), operation: (*operation).to_owned(), label });
            }
        }
        lines
    }

    /// The repetitions of a test on an engine.
    pub(crate) fn repetitions<'a>(
        &'a self,
        test: &'a str,
        engine: &'a str,
    ) -> impl Iterator<Item = &'a Run> + 'a {
        self.runs.iter().filter(move |run| run.spec.test == test && run.spec.engine == engine)
    }

    /// Any repetition of a test.
    pub(crate) fn example(&self, test: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.spec.test == test)
    }

    /// What was measured of a line on an engine, over the repetitions.
    pub(crate) fn summary(
        &self,
        line: &Line,
        engine: &str,
        measure: impl Fn(&Run, &OperationResult) -> Option<f64>,
    ) -> Option<Summary> {
        let values = self.repetitions(&line.test, engine).filter_map(|run| {
            let operation = operation_of(run, &line.operation)?;
            measure(run, operation).filter(|value| value.is_finite())
        });
        Summary::of(values.collect())
    }

    /// The worst status of a test on an engine; `None` if it did not run.
    pub(crate) fn status(&self, test: &str, engine: &str) -> Option<Status> {
        let has = |status: &Status| {
            self.repetitions(test, engine).any(|run| run.result.status == *status)
        };
        let any = self.repetitions(test, engine).map(|run| run.result.status).next();
        BAD.into_iter().find(has).or(any)
    }
}

/// Writes a file so that one that was there before is only lost once the new one is complete. What
/// is no file, such as a pipe, is written to as it is.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        return fs::write(path, bytes);
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let outcome = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, path));
    if outcome.is_err() {
        // Half of it is of no use, and the disk may be full because of it.
        drop(fs::remove_file(&partial));
    }
    outcome
}

/// What a row may not be, from the worst on.
pub(crate) const BAD: [Status; 3] = [Status::Failed, Status::Invalid, Status::Interrupted];

/// Whether a test is the loading of a data set, which is reported but never compared.
pub(crate) fn is_load(test: &str) -> bool {
    test.starts_with("load, ")
}

/// The operation of a run by its name.
pub(crate) fn operation_of<'a>(run: &'a Run, name: &str) -> Option<&'a OperationResult> {
    run.result.operations.iter().find(|operation| operation.operation == name)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn summaries_have_median_and_extremes_of_repetitions() {
        assert_eq!(Summary::of(vec![]), None);
        let summary = Summary::of(vec![90.0, 110.0, 100.0]).unwrap();
        assert_eq!(
            (summary.median, summary.low, summary.high, summary.count),
            (100.0, 90.0, 110.0, 3)
        );
        assert!((summary.spread() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_file_reads_back_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("set.json");
        let set = sample::set();
        set.write(&path).unwrap();
        assert!(ResultSet::read(&path).unwrap() == set);
    }

    #[test]
    fn other_files_are_refused_with_their_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("other.json");
        fs::write(&path, "{\"schema\": 1}").unwrap();
        let problem = ResultSet::read(&path).unwrap_err();
        assert!(problem.contains("other.json") && problem.contains("not a result file"));
        let newer = ResultSet { schema: SCHEMA + 1, ..sample::set() };
        newer.write(&path).unwrap();
        assert!(ResultSet::read(&path).unwrap_err().contains("newer tool"));
    }

    #[test]
    fn lines_name_operations_where_there_are_several() {
        let labels: Vec<String> =
            sample::set().lines().into_iter().map(|line| line.label).collect();
        assert!(labels.contains(&"write_random_b1".to_owned()), "{labels:?}");
        assert!(labels.contains(&"mixed_random: GET".to_owned()), "{labels:?}");
        assert!(labels.contains(&"mixed_random: PUT".to_owned()), "{labels:?}");
    }

    #[test]
    fn the_worst_repetition_decides_the_status() {
        let mut set = sample::set();
        assert_eq!(set.status("read_random", "tidesdb"), Some(Status::Valid));
        let run = set.runs.iter_mut().find(|run| run.spec.test == "read_random").unwrap();
        let engine = run.spec.engine.clone();
        run.result.status = Status::Invalid;
        assert_eq!(set.status("read_random", &engine), Some(Status::Invalid));
        assert_eq!(set.status("no such test", "tidesdb"), None);
    }
}
