//! Openings as a workload: of a cleanly closed database, of one whose process was killed, and of a
//! checkpoint.
//!
//! `reopen` opens and closes the loaded database several times. `recover` starts a process that
//! writes the data set and then waits; it is killed, so that nothing is closed or flushed, and the
//! job's own opening is what is measured. Everything that was acknowledged must be there, since a
//! process that dies takes nothing from the operating system. Engines that keep unsynced commits in
//! their own memory promise less: what they lost is counted, and there are no numbers, since
//! opening an emptier database is another thing.

use super::phases::{Check, Outcome, checkpoint_directory};
use super::{MARK, open};
use crate::data::expect::Expectation;
use crate::measure::recorder::{Limits, Recorder, Schedule};
use crate::measure::series::Kind;
use crate::spec::{JobResult, JobSpec, Settle, Shape, Status, Workload};
use crate::workload::check::verify_contents;
use crate::workload::{Dataset, Tally};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Openings of a clean database.
const REOPENINGS: usize = 5;
static NEVER: AtomicBool = AtomicBool::new(false);

/// Openings before the one that the job goes on with.
pub(super) struct Openings {
    earlier: Vec<Duration>,
    count: u64,
}

impl Openings {
    /// All openings as a measured phase; `may_lack` says that records may be missing.
    pub(super) fn outcome(self, last: Duration, may_lack: bool) -> Result<Outcome, String> {
        let limits = Limits {
            time: None,
            interrupted: &NEVER,
            sample_every: 1,
            schedule: Schedule::default(),
        };
        let mut measured = Recorder::start(limits)?.finish();
        let series = &mut measured.series[Kind::Primary as usize];
        let all: Vec<Duration> = self.earlier.into_iter().chain([last]).collect();
        for time in &all {
            series.histogram.saturating_record(time.as_nanos() as u64);
            series.operations += 1;
        }
        measured.span.1 = measured.span.0 + all.iter().sum::<Duration>();
        measured.longest_gap = Duration::ZERO;
        let count = self.count;
        let expectation =
            if may_lack { Expectation::Remains { count } } else { Expectation::Full { count } };
        let check = Check::Contents(expectation);
        Ok(Outcome { measured, second: None, tally: Tally::default(), check })
    }
}

/// What has to happen before the job opens its database; `None` for jobs that measure something
/// else.
pub(super) fn before_the_job(spec: &JobSpec) -> Result<Option<Openings>, String> {
    let count = spec.shape.num;
    match spec.shape.workload {
        Workload::Reopen => {
            let mut earlier = Vec::new();
            // A database that is not loaded yet gets its load from the job; it has one opening.
            for _ in 1..REOPENINGS {
                if !spec.loaded {
                    break;
                }
                let start = std::time::Instant::now();
                let engine = open(spec)?;
                earlier.push(start.elapsed());
                engine.close().map_err(|error| format!("close: {error}"))?;
            }
            Ok(Some(Openings { earlier, count }))
        }
        Workload::Recover => {
            fill_and_kill(spec)?;
            Ok(Some(Openings { earlier: Vec::new(), count }))
        }
        _ => Ok(None),
    }
}

/// Lets another process write the data set, and kills it.
fn fill_and_kill(spec: &JobSpec) -> Result<(), String> {
    let shape = Shape {
        workload: Workload::Write,
        settle: Settle::None,
        seconds: None,
        ..spec.shape.clone()
    };
    let victim = JobSpec { shape, wait_for_kill: true, control_group: None, ..spec.clone() };
    let job = serde_json::to_string(&victim).map_err(|error| format!("job: {error}"))?;
    let failed = |error: std::io::Error| format!("process to be killed: {error}");
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .arg("child")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut input = child.stdin.take().ok_or("a process without input")?;
    writeln!(input, "{job}").map_err(failed)?;
    let output = child.stdout.take().ok_or("a process without output")?;
    let mut result = Err("the process to be killed ended by itself".to_owned());
    for line in BufReader::new(output).lines() {
        let line = line.map_err(failed)?;
        if let Some(text) = line.strip_prefix(MARK) {
            let done: JobResult = serde_json::from_str(text).map_err(|error| error.to_string())?;
            result = match done.status {
                Status::Valid => Ok(()),
                _ => Err(done.problems.join("; ")),
            };
            break;
        }
    }
    child.kill().map_err(failed)?;
    child.wait().map_err(failed)?;
    drop(input);
    result
}

/// Turns the result of a `recover` that lost what its engine does not promise to keep into one
/// without numbers that says how much that was.
pub(super) fn without_what_was_lost(result: &mut JobResult) {
    let (expected, visible) = (result.keys_expected, result.keys_visible.unwrap_or_default());
    let lost = expected.saturating_sub(visible);
    if result.status != Status::Valid || lost == 0 {
        return;
    }
    result.status = Status::Skipped;
    result.operations.clear();
    result.problems = vec![format!(
        "opening what a killed process left: under this sync mode the engine keeps commits in its \
         memory, and {lost} of {expected} acknowledged records were gone with it; that is all it \
         promises, so there are no figures (with --sync full nothing may be lost)"
    )];
}

/// Opens the checkpoint of a job as a database of its own and checks that everything is in it.
pub(super) fn verify_checkpoint(
    spec: &JobSpec,
    dataset: &Dataset,
    result: &mut JobResult,
) -> Result<(), String> {
    let directory = checkpoint_directory(spec);
    let copy = JobSpec { directory: directory.clone(), ..spec.clone() };
    let engine = open(&copy)?;
    let full = Expectation::Full { count: dataset.shape.num };
    let verified = verify_contents(engine.as_ref(), dataset, &full)?;
    engine.close().map_err(|error| format!("close: {error}"))?;
    if verified.tally.wrong > 0 {
        result.status = Status::Invalid;
        result.wrong += verified.tally.wrong;
        result.problems.extend(verified.tally.problems);
    }
    std::fs::remove_dir_all(&directory).map_err(|error| format!("checkpoint: {error}"))
}
