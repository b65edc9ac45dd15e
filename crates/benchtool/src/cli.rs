//! The command line: subcommands, options, and how they become tests.
//!
//! `run` is one test from options (`options`), `compare` the short comparison of all engines at
//! hand, `suite` a named list of tests, `replay` a recorded list of operations, `engines` the list
//! of engines. The hidden `child` runs one job. `--suite NAME`, `--compare`, `--list-engines` and
//! `--list-suites` in the first place stand for subcommands, as other tools have them. Sizes take
//! the suffixes K, M and G (powers of 1024), counts K and M (powers of 1000).

mod claims;
mod options;
mod outputs;
mod page;
mod regress;

use crate::child;
use crate::engines;
use crate::orchestrate::{self, Plan, Test};
use crate::report;
use crate::report::set::ResultSet;
use crate::spec::{Setup, Shape, Workload, problem_of_setup, problem_of_shape};
use crate::suites::{self, Profile};
use crate::terminal::{say, warn};
use crate::workload::Dataset;
use crate::workload::trace;
use bench_compare::EngineInfo;
use clap::{Args, Parser, Subcommand};
use options::{MachineOptions, PaceOptions, SetupOptions, ShapeOptions};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

#[derive(Debug, Parser)]
#[command(name = "benchtool", version, about = "Benchmarks key-value engines side by side")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one test, given by options
    Run(Box<RunOptions>),
    /// Compare all engines at hand in about a minute
    Compare(Box<CommonOptions>),
    /// Run a named suite of tests
    Suite(Box<SuiteOptions>),
    /// Repeat the operations of a trace and check every result
    Replay(Box<ReplayOptions>),
    /// List the suites
    Suites,
    /// List the engines, their versions and whether they can be used
    Engines(MachineOptions),
    /// Make the page, the plots and the CSV from result files
    Report(page::ReportOptions),
    /// Compare two versions: exit code 3 if the candidate is worse beyond the noise
    Regress(regress::RegressOptions),
    /// Check the published claims against results: exit code 3 if one is missed
    Claims(claims::ClaimsOptions),
    /// Run one job given on standard input
    #[command(hide = true)]
    Child,
}

#[derive(Debug, Args)]
struct CommonOptions {
    /// Engines, separated by commas [default: all that are available]
    #[arg(short, long, value_delimiter = ',')]
    engine: Vec<String>,
    /// Engine that ratios refer to
    #[arg(long, default_value = "rocksdb")]
    baseline: String,
    /// Repetitions; the order of the engines alternates [default: 1, or what the suite asks for]
    #[arg(long, alias = "reps")]
    repeat: Option<u32>,
    /// Folder for the databases; a subfolder is made and removed
    #[arg(short, long, alias = "db-path", alias = "db", default_value = "bench-data")]
    dir: PathBuf,
    /// Keep the databases
    #[arg(long)]
    keep_db: bool,
    /// Write all results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Append results as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a page with plots, the results and their sums into a folder
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    /// Show every column of the table of latencies, memory and bytes
    #[arg(long)]
    details: bool,
    /// Kill a job that takes longer than this many seconds
    #[arg(long, default_value_t = 1800)]
    job_timeout: u64,
    #[command(flatten)]
    machine: MachineOptions,
}

#[derive(Debug, Args)]
struct SuiteOptions {
    /// Name of the suite
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(suites::names()))]
    name: String,
    /// How much is done
    #[arg(long, value_enum, default_value_t = Profile::Quick)]
    profile: Profile,
    /// Factor on the sizes of the data sets and on time limits
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Only tests whose name contains this, or matches it with * for any characters
    #[arg(long)]
    only: Option<String>,
    #[command(flatten)]
    common: CommonOptions,
}

#[derive(Debug, Args)]
struct RunOptions {
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    shape: ShapeOptions,
    #[command(flatten)]
    pace: PaceOptions,
    #[command(flatten)]
    setup: SetupOptions,
    /// Name of the test in reports
    #[arg(long)]
    test_name: Option<String>,
    /// Use the database in this folder; it must hold the data set that the options describe
    #[arg(long, value_name = "DIR")]
    use_existing_db: Option<PathBuf>,
    /// Write all operations into a file that `replay` can repeat (one engine, one repetition)
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ReplayOptions {
    /// The trace
    trace: PathBuf,
    /// Worker threads, each with the lines of its share of the keys
    #[arg(short, long, default_value_t = 1)]
    threads: u64,
    #[command(flatten)]
    setup: SetupOptions,
    #[command(flatten)]
    common: CommonOptions,
}

impl RunOptions {
    fn test(&self) -> Result<Test, String> {
        options::test(&self.shape, &self.pace, &self.setup, self.test_name.as_ref())
    }
}

fn parse_number(text: &str, thousand: u64) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let (digits, power) = match upper.as_bytes().last() {
        Some(b'K') => (&upper[..upper.len() - 1], 1),
        Some(b'M') => (&upper[..upper.len() - 1], 2),
        Some(b'G') => (&upper[..upper.len() - 1], 3),
        _ => (upper.as_str(), 0),
    };
    let number: u64 =
        digits.parse().map_err(|_| format!("not a number: {text} (digits, with K, M or G)"))?;
    number.checked_mul(thousand.pow(power)).ok_or_else(|| format!("too large: {text}"))
}

fn parse_size(text: &str) -> Result<u64, String> {
    parse_number(text, 1024)
}

fn parse_count(text: &str) -> Result<u64, String> {
    parse_number(text, 1000)
}

/// The arguments, with the options that stand for subcommands replaced by them.
fn arguments() -> Vec<std::ffi::OsString> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    let first = arguments.get(1).and_then(|first| first.to_str()).unwrap_or_default();
    let command = match first {
        "--suite" => "suite",
        "--compare" | "-c" => "compare",
        "--list-engines" => "engines",
        "--list-suites" => "suites",
        "--null-engine" => {
            arguments[1] = "run".into();
            arguments.extend(["--engine".into(), "null".into()]);
            return arguments;
        }
        _ => return arguments,
    };
    arguments[1] = command.into();
    arguments
}

/// Parses the command line and runs it.
pub(crate) fn main() -> Result<ExitCode, String> {
    match Cli::parse_from(arguments()).command {
        Command::Child => {
            handle_interrupts(false)?;
            child::main()?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Engines(machine) => {
            let mut setup = Setup::default();
            machine.enter(&mut setup);
            let engines = engines::catalogue(&setup);
            say(report::table::engines(&engines));
            Ok(ExitCode::SUCCESS)
        }
        Command::Report(options) => options.run(),
        Command::Regress(options) => options.run(),
        Command::Claims(options) => options.run(),
        Command::Suites => {
            let heading = "tests  minutes per engine, quick and standard, at most";
            say(format!("{:<10} {heading}", "suite"));
            let all = suites::SUITES.into_iter();
            for (name, purpose) in
                all.chain([("seeds", "the tests of the published runs, flaws included")])
            {
                let minutes =
                    |profile| (suites::budget(&suites::tests(name, profile, 1.0), 1) / 60.0).ceil();
                let count = suites::tests(name, Profile::Quick, 1.0).len();
                let (quick, standard) = (minutes(Profile::Quick), minutes(Profile::Standard));
                say(format!("{name:<10} {count:>5}  {quick:>3} {standard:>4}  {purpose}"));
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Run(options) => {
            let test = options.test()?;
            let files = Files {
                existing: options.use_existing_db.clone(),
                record: options.record.clone(),
                replay: None,
            };
            execute(&options.common, vec![test], files)
        }
        Command::Compare(options) => {
            execute(&options, suites::tests("compare", Profile::Quick, 1.0), Files::default())
        }
        Command::Suite(options) => {
            if !(options.scale > 0.0 && options.scale <= 1e6) {
                return Err("--scale must be above 0 and at most 1000000".to_owned());
            }
            let mut tests = suites::tests(&options.name, options.profile, options.scale);
            if let Some(part) = &options.only {
                tests.retain(|test| matches(part, &test.name));
            }
            execute(&options.common, tests, Files::default())
        }
        Command::Replay(options) => replay(&options),
    }
}

/// Whether a name contains a text, or is described by one with `*`.
fn matches(pattern: &str, name: &str) -> bool {
    if !pattern.contains('*') {
        return name.contains(pattern);
    }
    let parts: Vec<&str> = pattern.split('*').collect();
    let mut rest = name;
    for (index, part) in parts.iter().enumerate() {
        let last = index + 1 == parts.len();
        let found = match (index, last) {
            (0, _) => rest.starts_with(part).then_some(0),
            (_, true) => rest.ends_with(part).then(|| rest.len() - part.len()),
            _ => rest.find(part),
        };
        let Some(place) = found else { return false };
        rest = &rest[place + part.len()..];
    }
    true
}

fn replay(options: &ReplayOptions) -> Result<ExitCode, String> {
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

/// Files of a run beside its databases.
#[derive(Debug, Default)]
struct Files {
    existing: Option<PathBuf>,
    record: Option<PathBuf>,
    replay: Option<PathBuf>,
}

/// The first interruption ends the run orderly. In the parent a second one kills the running job,
/// and a third one ends the program wherever it is.
fn handle_interrupts(parent: bool) -> Result<(), String> {
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

/// Engines of the benchmark's own tests, which are not listed.
const HIDDEN: [&str; 8] = [
    "memory",
    "broken-drops",
    "broken-stale",
    "broken-deletes",
    "broken-seek",
    "broken-updates",
    "broken-expiry",
    "broken-tidesdb",
];

/// The engines to run: the named ones, or all that are available.
fn choose_engines(options: &CommonOptions) -> Result<Vec<EngineInfo>, String> {
    let mut setup = Setup::default();
    options.machine.enter(&mut setup);
    let known = engines::catalogue(&setup);
    if options.engine.is_empty() {
        let extra = ["null", "rocksdb-tuned"];
        let usable = |engine: &EngineInfo| {
            engine.available.is_ok()
                && !extra.contains(&engine.name)
                && engines::check_library(&setup, engine.name).is_ok()
        };
        return Ok(known.into_iter().filter(usable).collect());
    }
    let mut chosen = Vec::new();
    for name in &options.engine {
        let found = known.iter().find(|engine| engine.name == name);
        let engine = match (found, HIDDEN.iter().find(|hidden| *hidden == name)) {
            (Some(engine), _) => engine.clone(),
            (None, Some(hidden)) => EngineInfo {
                name: hidden,
                version: String::new(),
                available: Ok(()),
                unequal: "a test object of the benchmark".to_owned(),
            },
            (None, None) => {
                let names: Vec<&str> = known.iter().map(|engine| engine.name).collect();
                return Err(format!("no engine {name:?}; there are: {}", names.join(", ")));
            }
        };
        if let Err(reason) = &engine.available {
            return Err(format!("engine {name} cannot be used: {reason}"));
        }
        if chosen.iter().any(|other: &EngineInfo| other.name == engine.name) {
            return Err(format!("engine {name} is named twice"));
        }
        engines::check_library(&setup, name)
            .map_err(|reason| format!("engine {name} cannot be used: {reason}"))?;
        chosen.push(engine);
    }
    Ok(chosen)
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

fn execute(
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

#[cfg(test)]
mod tests;
