//! Runs the tests: one child process per engine, test and repetition.
//!
//! In each repetition the order of the engines is turned around (A B, B A, ...). Tests that need data
//! work on a database that a child loaded once per engine and data set; tests that change it get a
//! copy. The load is reported as a row of its own. A child that fails, hangs or dies becomes a FAILED
//! row. After an interruption the running child ends early and its figures are kept, nothing else
//! is started.
//!
//! Threads: the caller's only, plus one that reads the child's output.

use crate::child::{INTERRUPTED, MARK};
use crate::measure::disk;
use crate::spec::{JobResult, JobSpec, Pattern, Setup, Shape, Status, Workload};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A test of a suite: everything but the engine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Test {
    /// Name in reports.
    pub(crate) name: String,
    /// What is done.
    pub(crate) shape: Shape,
    /// Engine settings.
    pub(crate) setup: Setup,
}

/// What to run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Engines by name.
    pub(crate) engines: Vec<String>,
    /// Tests in order.
    pub(crate) tests: Vec<Test>,
    /// Repetitions of each.
    pub(crate) repeat: u32,
    /// Folder under which the databases are made.
    pub(crate) directory: PathBuf,
    /// Leave the databases there.
    pub(crate) keep: bool,
    /// Longest time of a child.
    pub(crate) job_timeout: Duration,
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
    /// Why it cannot be used.
    problem: Option<String>,
}

struct Orchestrator<'a> {
    plan: &'a Plan,
    root: PathBuf,
    stores: Vec<Store>,
    runs: Vec<Run>,
    bar: ProgressBar,
}

/// Runs a plan and returns all rows, the loads included.
pub(crate) fn run(plan: &Plan) -> Result<Vec<Run>, String> {
    let root = plan.directory.join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let jobs = plan.tests.len() * plan.engines.len() * plan.repeat as usize;
    let bar = ProgressBar::new(jobs as u64);
    let style = ProgressStyle::with_template(
        "{bar:20} {pos}/{len}, {elapsed} gone, about {eta} left: {wide_msg}",
    );
    if let Ok(style) = style {
        bar.set_style(style);
    }
    // Jobs take many seconds: the clock has to move between them.
    bar.enable_steady_tick(Duration::from_secs(1));
    let mut orchestrator =
        Orchestrator { plan, root: root.clone(), stores: Vec::new(), runs: Vec::new(), bar };
    let outcome = orchestrator.run_all();
    orchestrator.bar.finish_and_clear();
    if plan.keep {
        eprintln!("databases kept in {}", root.display());
    } else if let Err(error) = remove(&plan.directory, &root) {
        eprintln!("benchtool: could not remove {}: {error}", root.display());
    }
    outcome.map(|()| orchestrator.runs)
}

/// Removes the run's folder, and the one above if nothing else is in it.
fn remove(above: &Path, root: &Path) -> std::io::Result<()> {
    fs::remove_dir_all(root)?;
    if fs::read_dir(above)?.next().is_none() {
        fs::remove_dir(above)?;
    }
    Ok(())
}

fn interrupted() -> bool {
    // ORDERING: the flag carries no data.
    INTERRUPTED.load(Ordering::Relaxed)
}

impl Orchestrator<'_> {
    fn run_all(&mut self) -> Result<(), String> {
        for test in &self.plan.tests {
            for repetition in 0..self.plan.repeat {
                let mut engines = self.plan.engines.clone();
                if repetition % 2 == 1 {
                    engines.reverse();
                }
                for engine in engines {
                    if interrupted() {
                        return Ok(());
                    }
                    self.run_test(test, &engine, repetition)?;
                    self.bar.inc(1);
                }
            }
        }
        Ok(())
    }

    fn run_test(&mut self, test: &Test, engine: &str, repetition: u32) -> Result<(), String> {
        let persistent = !engine.starts_with("broken-") && engine != "memory" && engine != "null";
        let uses_store = test.shape.workload.needs_data() && persistent;
        let mut spec = JobSpec {
            test: test.name.clone(),
            engine: engine.to_owned(),
            repetition,
            shape: test.shape.clone(),
            setup: test.setup.clone(),
            directory: self.root.join(format!("{engine}-work")),
            loaded: uses_store,
        };
        if !uses_store {
            return self.run_and_remove(spec);
        }
        let store = match self.store(&spec)? {
            Ok(directory) => directory,
            Err(problem) => {
                let result = JobResult::failed(format!("no loaded database: {problem}"));
                self.runs.push(Run { spec, result });
                return Ok(());
            }
        };
        if spec.shape.workload.mutates() {
            disk::copy_tree(&store, &spec.directory)
                .map_err(|error| format!("copy of {}: {error}", store.display()))?;
            return self.run_and_remove(spec);
        }
        spec.directory = store;
        self.run_child(spec);
        Ok(())
    }

    fn run_and_remove(&mut self, spec: JobSpec) -> Result<(), String> {
        let directory = spec.directory.clone();
        self.run_child(spec);
        if directory.exists() && !self.plan.keep {
            fs::remove_dir_all(&directory)
                .map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        Ok(())
    }

    /// The loaded database for a job, loading it if it is the first to ask; the inner error says
    /// why there is none.
    fn store(&mut self, spec: &JobSpec) -> Result<Result<PathBuf, String>, String> {
        let identity = store_identity(spec);
        let index = match self.stores.iter().position(|store| store.identity == identity) {
            Some(index) => index,
            None => {
                let store = self.load(spec, identity);
                self.stores.push(store);
                self.stores.len() - 1
            }
        };
        let store = &self.stores[index];
        Ok(match &store.problem {
            None => Ok(store.directory.clone()),
            Some(problem) => Err(problem.clone()),
        })
    }

    fn load(&mut self, spec: &JobSpec, identity: String) -> Store {
        let directory = self.root.join(format!("{}-store-{}", spec.engine, self.stores.len()));
        let load = JobSpec {
            test: format!("load, batches of 1000 ({} records)", spec.shape.num),
            shape: load_shape(&spec.shape),
            // Read settings do not matter for the load; equal ones make its row comparable.
            setup: Setup {
                cache: crate::cli::default_setup().cache,
                sync: crate::spec::Sync::None,
                ..spec.setup.clone()
            },
            directory: directory.clone(),
            loaded: false,
            repetition: 0,
            engine: spec.engine.clone(),
        };
        let result = self.run_child(load);
        let problem = (result.status != Status::Valid)
            .then(|| result.problems.first().cloned().unwrap_or_else(|| "interrupted".to_owned()));
        Store { identity, directory, problem }
    }

    fn run_child(&mut self, spec: JobSpec) -> JobResult {
        self.bar.set_message(format!("{} {}", spec.engine, spec.test));
        let result = spawn(&spec, self.plan.job_timeout).unwrap_or_else(JobResult::failed);
        let line = progress_line(&spec, &result);
        self.bar.suspend(|| eprintln!("{line}"));
        self.runs.push(Run { spec, result: result.clone() });
        result
    }
}

/// Two jobs with the same identity can use the same loaded database.
fn store_identity(spec: &JobSpec) -> String {
    let Shape { num, key_size, value_size, layout, compress_ratio, seed, .. } = &spec.shape;
    let Setup { memtable, block, compression, bloom_bits, .. } = &spec.setup;
    format!(
        "{} {num} {key_size} {value_size} {layout:?} {compress_ratio} {seed} {memtable} {block} \
         {compression:?} {bloom_bits}",
        spec.engine
    )
}

fn load_shape(shape: &Shape) -> Shape {
    Shape {
        workload: Workload::Write,
        pattern: Pattern::Random,
        threads: 1,
        batch: 1_000,
        seconds: None,
        operations: None,
        warm: false,
        ..shape.clone()
    }
}

fn progress_line(spec: &JobSpec, result: &JobResult) -> String {
    let status = match result.status {
        Status::Valid => String::new(),
        status => format!("  {status:?}: {}", result.problems.join("; ")),
    };
    let throughput = result.throughput() / 1_000.0;
    format!("{:<14} {:<34} {throughput:>10.1} K/s{status}", spec.engine, spec.test)
}

/// Runs a job in a child process.
fn spawn(spec: &JobSpec, timeout: Duration) -> Result<JobResult, String> {
    let program = std::env::current_exe().map_err(|error| format!("own program: {error}"))?;
    let job = serde_json::to_string(spec).map_err(|error| format!("job: {error}"))?;
    let mut child = Command::new(program)
        .arg("child")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("child process: {error}"))?;
    let mut input = child.stdin.take();
    if let Some(input) = &mut input {
        writeln!(input, "{job}").map_err(|error| format!("child process: {error}"))?;
    }
    let Some(mut output) = child.stdout.take() else {
        return Err("child process without output".to_owned());
    };
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        output.read_to_end(&mut text).map(|_| text)
    });
    let ended = wait(&mut child, input, timeout)?;
    let text = reader.join().map_err(|_| "reader of the child's output panicked".to_owned())?;
    let text = text.map_err(|error| format!("child process: {error}"))?;
    let text = String::from_utf8_lossy(&text);
    match text.lines().find_map(|line| line.strip_prefix(MARK)) {
        Some(result) => {
            serde_json::from_str(result).map_err(|error| format!("child's result: {error}"))
        }
        None => Err(ended),
    }
}

/// Waits for the end of a child; returns how it ended, in words.
fn wait(
    child: &mut Child,
    input: Option<std::process::ChildStdin>,
    timeout: Duration,
) -> Result<String, String> {
    let start = Instant::now();
    let mut input = input;
    loop {
        let ended = child.try_wait().map_err(|error| format!("child process: {error}"))?;
        if let Some(status) = ended {
            return Ok(format!("the child process ended without a result ({status})"));
        }
        if interrupted() {
            // Closing its standard input tells the child to finish early.
            input = None;
        }
        if start.elapsed() > timeout {
            drop(input);
            child.kill().map_err(|error| format!("child process: {error}"))?;
            child.wait().map_err(|error| format!("child process: {error}"))?;
            return Ok(format!("killed after {} s", timeout.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
