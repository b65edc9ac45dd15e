//! Runs the tests: one child process per engine, test and repetition.
//!
//! In each repetition the order of the engines is turned around (A B, B A, ...), and so it is from
//! test to test. Tests that need data work on a database that a child loaded once per engine and
//! data set; tests that change it get a copy. The load is reported as a row of its own. A child
//! that fails, hangs or dies becomes a FAILED row. After an interruption the running child ends
//! early and its numbers are kept, nothing else is started. Before anything is started the folder
//! is locked and the space that the run needs is compared with what is free.
//!
//! Threads: the caller's only, plus one that reads the child's output.

mod loads;
mod process;

pub(crate) use self::loads::store_identity;
use self::loads::{load_name, load_shape};
use self::process::spawn;
use crate::child::INTERRUPTED;
use crate::machine::{self, ControlGroup, FolderLock};
use crate::measure::disk;
use crate::report::parity;
use crate::spec::{JobResult, JobSpec, Setup, Shape, Status};
use crate::terminal::warn;
use crate::{ALLOCATED_BY, suites};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Set by the second Ctrl-C: the running job is killed instead of being asked to end.
pub(crate) static IMPATIENT: AtomicBool = AtomicBool::new(false);

/// A test of a suite: everything but the engine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Test {
    /// Name in reports.
    pub(crate) name: String,
    /// What is done.
    pub(crate) shape: Shape,
    /// Engine settings.
    pub(crate) setup: Setup,
    /// Repetitions that the suite asks for.
    pub(crate) repeat: u32,
    /// The allocator that the test is about; its library is in `setup` if there is one.
    pub(crate) allocator: Option<&'static str>,
}

/// What to run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Engines by name.
    pub(crate) engines: Vec<String>,
    /// Tests in order.
    pub(crate) tests: Vec<Test>,
    /// Repetitions of each test; `None`: what the suite asks for.
    pub(crate) repeat: Option<u32>,
    /// Folder under which the databases are made.
    pub(crate) directory: PathBuf,
    /// Leave the databases there.
    pub(crate) keep: bool,
    /// Longest time of a child.
    pub(crate) job_timeout: Duration,
    /// A database to use instead of new ones; it is neither loaded nor removed.
    pub(crate) existing: Option<PathBuf>,
    /// Where calls are written down.
    pub(crate) record: Option<PathBuf>,
    /// Calls to repeat.
    pub(crate) replay: Option<PathBuf>,
}

impl Plan {
    fn repetitions(&self, test: &Test) -> u32 {
        self.repeat.unwrap_or(test.repeat).max(1)
    }

    /// Bytes that the databases of the run take at the same time, roughly: the loaded ones stay, a
    /// job that writes has one more, and merges need as much again for a while.
    fn needed_bytes(&self) -> u64 {
        let bytes = |shape: &Shape| {
            let record = (shape.key_size + shape.value_size) as u64;
            (shape.num + shape.spare).saturating_mul(record)
        };
        let largest = self.tests.iter().map(|test| bytes(&test.shape)).max().unwrap_or(0);
        let mut stores: Vec<(String, u64)> = Vec::new();
        for test in self.tests.iter().filter(|test| test.shape.workload.needs_data()) {
            let identity = store_identity("", &test.shape, &test.setup);
            if !stores.iter().any(|store| store.0 == identity) {
                stores.push((identity, bytes(&test.shape)));
            }
        }
        let loaded: u64 = stores.iter().map(|store| store.1).sum();
        let keeping = self.engines.iter().filter(|engine| is_persistent(engine)).count() as u64;
        loaded.saturating_mul(keeping).saturating_add(largest.saturating_mul(3))
    }

    fn check_space(&self) -> Result<(), String> {
        let Some(free) = machine::free_space(&self.directory) else { return Ok(()) };
        let needed = self.needed_bytes();
        if needed <= free {
            return Ok(());
        }
        Err(format!(
            "{} has {} MiB free, the data sets need about {} MiB; choose another --dir, fewer \
             records, or fewer engines",
            self.directory.display(),
            free >> 20,
            needed.div_ceil(1 << 20)
        ))
    }
}

/// Whether an engine's database outlives its process.
fn is_persistent(engine: &str) -> bool {
    !engine.starts_with("broken-") && engine != "memory" && engine != "null"
}

/// A job and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The job.
    pub(crate) spec: JobSpec,
    /// Its result.
    pub(crate) result: JobResult,
}

/// A loaded database that tests may use.
struct Store {
    identity: String,
    directory: PathBuf,
    /// The result that tests which need it get, if it cannot be used.
    problem: Option<JobResult>,
}

struct Orchestrator<'a> {
    plan: &'a Plan,
    root: PathBuf,
    stores: Vec<Store>,
    runs: Vec<Run>,
    bar: ProgressBar,
    /// Control groups made so far; each job has one of its own, so that its peak is the job's.
    groups: u64,
}

/// Runs a plan; returns all rows, the loads included, and how many jobs an interruption left
/// undone.
pub(crate) fn run(plan: &Plan) -> Result<(Vec<Run>, usize), String> {
    plan.check_space()?;
    let lock = FolderLock::take(&plan.directory)?;
    let root = new_folder(&plan.directory)?;
    let rounds: u32 = plan.tests.iter().map(|test| plan.repetitions(test)).sum();
    let jobs = plan.engines.len() * rounds as usize;
    let bar = ProgressBar::new(jobs as u64);
    let style = ProgressStyle::with_template(
        "{bar:20} {pos}/{len}, {elapsed} gone, about {eta} left: {wide_msg}",
    );
    if let Ok(style) = style {
        bar.set_style(style);
    }
    // Jobs take many seconds: the clock has to move between them.
    bar.enable_steady_tick(Duration::from_secs(1));
    let mut orchestrator = Orchestrator {
        plan,
        root: root.clone(),
        stores: Vec::new(),
        runs: Vec::new(),
        bar,
        groups: 0,
    };
    let done = orchestrator.run_all();
    orchestrator.bar.finish_and_clear();
    if plan.keep {
        warn(format!("databases kept in {}", root.display()));
    } else if let Err(error) = fs::remove_dir_all(&root) {
        warn(format!("benchtool: could not remove {}: {error}", root.display()));
    }
    drop(lock);
    // Gone only if nothing else is in it.
    drop(fs::remove_dir(&plan.directory));
    Ok((orchestrator.runs, jobs - done))
}

/// Makes the run's folder below a locked one. What lies there already may be kept databases, or
/// those of a run that was killed; they are left alone and named.
fn new_folder(above: &Path) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", above.display());
    let older = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("run-");
    let older: Vec<_> = fs::read_dir(above).map_err(failed)?.flatten().filter(older).collect();
    if let Some(first) = older.first() {
        let bytes: u64 = older.iter().map(|entry| disk::size_of(&entry.path()).allocated).sum();
        let (first, size) = (first.path(), bytes >> 20);
        let (first, whose) = (first.display(), "left by an earlier run or kept for --keep-db");
        warn(match older.len() {
            1 => format!("{first}, {whose}, takes {size} MiB"),
            count => format!("{count} folders like {first}, {whose}, take {size} MiB"),
        });
    }
    let mut root = above.join(format!("run-{}", std::process::id()));
    // The number of a process comes again.
    while root.exists() {
        root.as_mut_os_string().push("x");
    }
    fs::create_dir(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    Ok(root)
}

fn interrupted() -> bool {
    // ORDERING: the flag carries no data.
    INTERRUPTED.load(Ordering::Relaxed)
}

/// The engines in the order in which they run a repetition of a test. The first one finds the
/// machine as the test before has left it: with one repetition, too, that is not always the same.
fn in_turn(engines: &[String], test: usize, repetition: u32) -> Vec<&String> {
    if (test + repetition as usize).is_multiple_of(2) {
        engines.iter().collect()
    } else {
        engines.iter().rev().collect()
    }
}

/// Why an engine can't be tested with the allocator that a test is about. It would be measured with
/// another one, under this one's name.
fn without_allocator(test: &Test, engine: &str) -> Option<String> {
    let wanted = test.allocator?;
    if parity::is_linked_with_an_allocator(engine) {
        return (wanted != ALLOCATED_BY).then(|| {
            format!("linked with {ALLOCATED_BY}; a build with --features system-allocator is not")
        });
    }
    let missing = wanted != suites::SYSTEM_ALLOCATOR && test.setup.preload.is_none();
    missing.then(|| format!("no library of {wanted} was found"))
}

impl Orchestrator<'_> {
    /// Runs the jobs; returns how many of them were begun.
    fn run_all(&mut self) -> usize {
        let mut begun = 0;
        for (index, test) in self.plan.tests.iter().enumerate() {
            for repetition in 0..self.plan.repetitions(test) {
                for engine in in_turn(&self.plan.engines, index, repetition) {
                    if interrupted() {
                        return begun;
                    }
                    begun += 1;
                    self.run_test(test, engine, repetition);
                    self.bar.inc(1);
                }
            }
        }
        begun
    }

    fn run_test(&mut self, test: &Test, engine: &str, repetition: u32) {
        let recorded = self.plan.record.is_some();
        let uses_store = test.shape.workload.needs_data() && is_persistent(engine) && !recorded;
        let mut spec = JobSpec {
            test: test.name.clone(),
            engine: engine.to_owned(),
            repetition,
            shape: test.shape.clone(),
            setup: test.setup.clone(),
            directory: self.root.join(format!("{engine}-work")),
            loaded: uses_store,
            record: self.plan.record.clone(),
            replay: self.plan.replay.clone(),
            control_group: None,
            wait_for_kill: false,
        };
        if let Some(reason) = without_allocator(test, engine) {
            return self.enter(spec, JobResult::skipped(reason));
        }
        if let Some(directory) = &self.plan.existing {
            spec.directory.clone_from(directory);
            spec.loaded = true;
            self.run_child(spec);
            return;
        }
        if !uses_store {
            return self.run_and_remove(spec);
        }
        let store = match self.store(&spec) {
            Ok(directory) => directory,
            Err(result) => return self.enter(spec, *result),
        };
        if spec.shape.workload.mutates() {
            if let Err(error) = disk::copy_tree(&store, &spec.directory) {
                self.clear(&spec.directory);
                let problem = format!("copy of the loaded database: {error}");
                return self.enter(spec, JobResult::failed(problem));
            }
            return self.run_and_remove(spec);
        }
        spec.directory = store;
        self.run_child(spec);
    }

    fn run_and_remove(&mut self, spec: JobSpec) {
        let directory = spec.directory.clone();
        self.run_child(spec);
        if !self.plan.keep {
            self.clear(&directory);
        }
    }

    /// Removes a job's database, so that the next one finds nothing of it.
    fn clear(&self, directory: &Path) {
        if !directory.exists() {
            return;
        }
        if let Err(error) = fs::remove_dir_all(directory) {
            let problem = format!("benchtool: {}: {error}", directory.display());
            self.bar.suspend(|| warn(problem));
        }
    }

    /// Shows and keeps a result.
    fn enter(&mut self, spec: JobSpec, mut result: JobResult) {
        if interrupted() && result.status == Status::Failed {
            // It was ended by us or with us, and failed at nothing.
            result.status = Status::Interrupted;
        }
        let line = progress_line(&spec, &result);
        self.bar.suspend(|| warn(line));
        self.runs.push(Run { spec, result });
    }

    /// The loaded database for a job, loading it if it is the first to ask; the error says why
    /// there is none.
    fn store(&mut self, spec: &JobSpec) -> Result<PathBuf, Box<JobResult>> {
        let identity = store_identity(&spec.engine, &spec.shape, &spec.setup);
        let index = match self.stores.iter().position(|store| store.identity == identity) {
            Some(index) => index,
            None => {
                let store = self.load(spec, identity);
                self.stores.push(store);
                self.stores.len() - 1
            }
        };
        let store = &self.stores[index];
        match &store.problem {
            None => Ok(store.directory.clone()),
            Some(problem) => Err(Box::new(problem.clone())),
        }
    }

    fn load(&mut self, spec: &JobSpec, identity: String) -> Store {
        let directory = self.root.join(format!("{}-store-{}", spec.engine, self.stores.len()));
        let load = JobSpec {
            test: load_name(&spec.shape),
            shape: load_shape(&spec.shape),
            // Read settings do not matter for the load; equal ones make its row comparable.
            setup: Setup {
                cache: Setup::default().cache,
                sync: crate::spec::Sync::None,
                memory_limit: None,
                ..spec.setup.clone()
            },
            directory: directory.clone(),
            loaded: false,
            repetition: 0,
            ..spec.clone()
        };
        let result = self.run_child(load);
        let reason = result.problems.first().map_or("interrupted", String::as_str);
        let problem = match result.status {
            Status::Valid => None,
            Status::Skipped => Some(JobResult::skipped(reason.to_owned())),
            _ => Some(JobResult::failed(format!("no loaded database: {reason}"))),
        };
        Store { identity, directory, problem }
    }

    fn run_child(&mut self, mut spec: JobSpec) -> JobResult {
        self.bar.set_message(format!("{} {}", spec.engine, spec.test));
        let mut note = None;
        self.groups += 1;
        let limit = spec.setup.memory_limit;
        // Lives as long as the job.
        let group = limit.map(|limit| ControlGroup::new(limit, self.groups));
        match &group {
            Some(Ok(group)) => spec.control_group = Some(group.directory().to_path_buf()),
            Some(Err(problem)) => note = Some(format!("no memory limit was set: {problem}")),
            None => {}
        }
        let mut result = spawn(&spec, self.plan.job_timeout).unwrap_or_else(JobResult::failed);
        result.notes.extend(note);
        self.enter(spec, result.clone());
        result
    }
}

fn progress_line(spec: &JobSpec, result: &JobResult) -> String {
    let status = match result.status {
        Status::Valid => String::new(),
        status => format!("  {status:?}: {}", result.problems.join("; ")),
    };
    let conflicts = match result.conflicts {
        0 => String::new(),
        conflicts => format!("  {conflicts} conflicts"),
    };
    let throughput = result.throughput() / 1_000.0;
    format!("{:<14} {:<34} {throughput:>10.1} K/s{conflicts}{status}", spec.engine, spec.test)
}

#[cfg(test)]
mod tests;
