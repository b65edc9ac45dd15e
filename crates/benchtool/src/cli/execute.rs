//! Running tests: what is refused before anything starts, the run, and what is written of it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use bench_compare::EngineInfo;

use super::arguments::{CommonOptions, ReplayOptions};
use super::choice::choose_engines;
use super::options::{self, PaceOptions, ShapeOptions};
use super::outputs;
use crate::orchestrate::{self, Plan, Test};
use crate::report::set::ResultSet;
use crate::spec::{Shape, Workload, problem_of_setup, problem_of_shape};
use crate::terminal::warn;
use crate::workload::{Dataset, trace};
use crate::{child, report};

/// Files of a run beside its databases.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) existing: Option<PathBuf>,
    pub(super) record: Option<PathBuf>,
    pub(super) replay: Option<PathBuf>,
}

/// Repeats a trace.
///
/// # Errors
/// A trace that can't be read, and those of [`execute`].
pub(super) fn replay(options: &ReplayOptions) -> Result<ExitCode, String> {
    // Read here once, so that a bad trace is refused before any engine is started.
    let lines = trace::read_lines(&options.trace)?;
    let shape = ShapeOptions::default();
    let name = "replay".to_owned();
    let mut test = options::test(&shape, &PaceOptions::default(), &options.setup, Some(&name))?;
    test.shape = Shape {
        workload: Workload::Replay,
        threads: options.threads,
        num: (lines.len() as u64).max(1),
        ..Shape::default()
    };
    let files = Files { replay: Some(options.trace.clone()), ..Files::default() };
    execute(&options.common, vec![test], files)
}

/// Refuses combinations that cannot mean anything, before anything is started.
fn check(
    options: &CommonOptions,
    engines: &[EngineInfo],
    tests: &[Test],
    files: &Files,
) -> Result<(), String> {
    if tests.is_empty() {
        return Err("no test is left to run".to_owned());
    }
    let counts = [
        ("--repeat", u64::from(options.repeat.unwrap_or(1)), 1_000),
        ("--job-timeout", options.job_timeout, 1_000_000),
    ];
    if let Some((name, _, most)) = counts.iter().find(|count| !(1..=count.2).contains(&count.1)) {
        return Err(format!("{name} must be from 1 to {most}"));
    }
    // Whatever is wrong with a test is wrong usage, not a failure of an engine.
    for test in tests {
        let shape = &test.shape;
        let problem = problem_of_setup(&test.setup).or_else(|| problem_of_shape(shape));
        let problem = problem.or_else(|| Dataset::possible(shape).err());
        if let Some(problem) = problem {
            return Err(format!("{}: {problem}", test.name));
        }
    }
    let single = engines.len() == 1 && options.repeat.unwrap_or(1) == 1;
    if !single && (files.record.is_some() || files.existing.is_some()) {
        return Err("--record and --use-existing-db take one engine and one repetition".to_owned());
    }
    if let Some(folder) = files.existing.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(format!("no database at {}", folder.display()));
    }
    for (engine, ..) in &options.machine.engine_opt {
        if !engines.iter().any(|chosen| chosen.name == engine) {
            return Err(format!("--engine-opt names {engine:?}, which is not among the engines"));
        }
    }
    options.machine.cpus.as_deref().map_or(Ok(()), crate::machine::check_processors)?;
    outputs::check(options)
}

/// Runs tests and writes what came of them.
///
/// # Errors
/// Wrong usage, for people; failures of engines are in the results.
pub(super) fn execute(
    options: &CommonOptions,
    mut tests: Vec<Test>,
    files: Files,
) -> Result<ExitCode, String> {
    let engines = choose_engines(options)?;
    for test in &mut tests {
        options.machine.enter(&mut test.setup);
    }
    check(options, &engines, &tests, &files)?;
    handle_interrupts(true)?;
    let plan = Plan {
        engines: engines.iter().map(|engine| engine.name.to_owned()).collect(),
        tests,
        repeat: options.repeat,
        directory: options.dir.clone(),
        keep: options.keep_db,
        job_timeout: std::time::Duration::from_secs(options.job_timeout),
        existing: files.existing,
        record: files.record,
        replay: files.replay,
    };
    let (runs, unfinished) = orchestrate::run(&plan)?;
    let set = ResultSet { unfinished, ..ResultSet::new(runs, &engines) };
    let written = outputs::write(&set, options);
    if let Some(shared) = set.environment.shared() {
        warn(shared);
    }
    // ORDERING: the flag carries no data.
    if child::INTERRUPTED.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(130));
    }
    Ok(if written && report::all_valid(&set.runs) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The first interruption ends the run orderly. In the parent a second one kills the running job,
/// and a third one ends the program wherever it is.
pub(super) fn handle_interrupts(parent: bool) -> Result<(), String> {
    ctrlc::set_handler(move || {
        // ORDERING: the flags carry no data.
        let second = child::INTERRUPTED.swap(true, Ordering::Relaxed);
        if !parent {
            return;
        }
        if !second {
            warn("ending the running job; once more kills it");
        } else if orchestrate::IMPATIENT.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })
    .map_err(|error| format!("signal handler: {error}"))
}
