//! The command line: subcommands, options, and how they become tests.
//!
//! `run` is one test from options, `compare` the short comparison of all engines at hand, `suite` a
//! named list of tests, `engines` the list of engines. The hidden `child` runs one job. Sizes take the
//! suffixes K, M and G (powers of 1024), counts K and M (powers of 1000).

mod claims;
mod page;
mod regress;

use crate::child;
use crate::data::keys::Layout;
use crate::engines;
use crate::orchestrate::{self, Plan, Test};
use crate::report;
use crate::report::set::ResultSet;
use crate::spec::{Codec, Pattern, Setup, Shape, Sync, Workload};
use crate::suites;
use bench_compare::EngineInfo;
use clap::{Args, Parser, Subcommand};
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
    Compare(CommonOptions),
    /// Run a named suite of tests
    Suite(SuiteOptions),
    /// List the engines, their versions and whether they can be used
    Engines {
        /// RocksDB library to load
        #[arg(long, value_name = "PATH")]
        rocksdb_lib: Option<PathBuf>,
    },
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
    #[arg(long, value_delimiter = ',')]
    engine: Vec<String>,
    /// Engine that ratios refer to
    #[arg(long, default_value = "rocksdb")]
    baseline: String,
    /// Repetitions; the order of the engines alternates
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// Folder for the databases; a subfolder is made and removed
    #[arg(long, default_value = "bench-data")]
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
    /// RocksDB library to load
    #[arg(long, value_name = "PATH")]
    rocksdb_lib: Option<PathBuf>,
    /// Show every column of the table of latencies, memory and bytes
    #[arg(long)]
    details: bool,
    /// Kill a job that takes longer than this many seconds
    #[arg(long, default_value_t = 1800)]
    job_timeout: u64,
}

#[derive(Debug, Args)]
struct SuiteOptions {
    /// Name of the suite
    #[arg(value_parser = suites::NAMES)]
    name: String,
    /// Factor on the sizes of the data sets and on time limits
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Only tests whose name contains this
    #[arg(long)]
    only: Option<String>,
    #[command(flatten)]
    common: CommonOptions,
}

#[derive(Debug, Args)]
struct RunOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// What to do
    #[arg(long, value_enum, default_value_t = Workload::Write)]
    workload: Workload,
    /// In which order
    #[arg(long, value_enum, default_value_t = Pattern::Random)]
    pattern: Pattern,
    /// Records of the data set
    #[arg(long, value_parser = parse_count, default_value = "1M")]
    num: u64,
    /// Operations of a test that does not write [default: until --seconds are over]
    #[arg(long, value_parser = parse_count)]
    ops: Option<u64>,
    /// Worker threads
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Operations per commit
    #[arg(long, default_value_t = 1)]
    batch: u64,
    /// Bytes per key
    #[arg(long, default_value_t = 16)]
    key_size: usize,
    /// Bytes per value
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Rows per range
    #[arg(long, default_value_t = 100)]
    range_size: u64,
    /// Share of writes in a mixed workload, in percent
    #[arg(long, default_value_t = 50)]
    write_percent: u64,
    /// Consecutive keys instead of scattered ones
    #[arg(long)]
    dense_keys: bool,
    /// Compressed size of values over their size
    #[arg(long, default_value_t = 0.5)]
    compress_ratio: f64,
    /// Exponent of the Zipfian pattern (not 1)
    #[arg(long, default_value_t = 0.99)]
    theta: f64,
    /// Scan downwards
    #[arg(long)]
    reverse: bool,
    /// Touch the whole data set before measuring reads
    #[arg(long)]
    warm: bool,
    /// Seed of keys, values and orders
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Time limit of the measured phase [default: none for writes, 10 for the rest]
    #[arg(long)]
    seconds: Option<f64>,
    /// Block cache
    #[arg(long, value_parser = parse_size, default_value = "64M")]
    cache: u64,
    /// One memtable
    #[arg(long, value_parser = parse_size, default_value = "64M")]
    memtable: u64,
    /// Memtables in memory before writers wait
    #[arg(long, default_value_t = 4)]
    memtable_count: u32,
    /// Data block
    #[arg(long, value_parser = parse_size, default_value = "4K")]
    block: u64,
    /// Block codec
    #[arg(long, value_enum, default_value_t = Codec::Lz4)]
    compression: Codec,
    /// Durability of commits
    #[arg(long, value_enum, default_value_t = Sync::None)]
    sync: Sync,
    /// Period of interval syncs in microseconds
    #[arg(long, default_value_t = 128_000)]
    sync_interval_us: u64,
    /// Filter bits per key
    #[arg(long, default_value_t = 10)]
    bloom_bits: u32,
    /// Background threads of the engine
    #[arg(long, default_value_t = 2)]
    background_threads: u32,
}

fn parse_number(text: &str, thousand: u64) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let (digits, power) = match upper.as_bytes().last() {
        Some(b'K') => (&upper[..upper.len() - 1], 1),
        Some(b'M') => (&upper[..upper.len() - 1], 2),
        Some(b'G') => (&upper[..upper.len() - 1], 3),
        _ => (upper.as_str(), 0),
    };
    let number: u64 = digits.parse().map_err(|_| format!("not a number: {text}"))?;
    number.checked_mul(thousand.pow(power)).ok_or_else(|| format!("too large: {text}"))
}

fn parse_size(text: &str) -> Result<u64, String> {
    parse_number(text, 1024)
}

fn parse_count(text: &str) -> Result<u64, String> {
    parse_number(text, 1000)
}

/// The parity settings that tests start from.
pub(crate) fn default_setup() -> Setup {
    Setup {
        cache: 64 << 20,
        memtable: 64 << 20,
        memtable_count: 4,
        block: 4096,
        compression: Codec::Lz4,
        sync: Sync::None,
        sync_interval_us: 128_000,
        bloom_bits: 10,
        background_threads: 2,
        rocksdb_library: None,
    }
}

impl RunOptions {
    fn test(&self) -> Test {
        let writes = self.workload == Workload::Write;
        let layout = if self.dense_keys { Layout::Dense } else { Layout::Scattered };
        let seconds = match (self.seconds, writes || self.ops.is_some()) {
            (Some(seconds), _) => Some(seconds),
            (None, true) => None,
            (None, false) => Some(10.0),
        };
        let shape = Shape {
            workload: self.workload,
            pattern: self.pattern,
            num: self.num,
            threads: self.threads,
            batch: self.batch,
            key_size: self.key_size,
            value_size: self.value_size,
            range_size: self.range_size,
            write_percent: self.write_percent,
            layout,
            compress_ratio: self.compress_ratio,
            theta: self.theta,
            reverse: self.reverse,
            operations: self.ops,
            seconds,
            warm: self.warm,
            seed: self.seed,
        };
        let setup = Setup {
            cache: self.cache,
            memtable: self.memtable,
            memtable_count: self.memtable_count,
            block: self.block,
            compression: self.compression,
            sync: self.sync,
            sync_interval_us: self.sync_interval_us,
            bloom_bits: self.bloom_bits,
            background_threads: self.background_threads,
            rocksdb_library: None,
        };
        let name = format!("{}_{}", self.workload.name(), self.pattern.name());
        Test { name, shape, setup }
    }
}

/// Parses the command line and runs it.
pub(crate) fn main() -> Result<ExitCode, String> {
    match Cli::parse().command {
        Command::Child => {
            handle_interrupts(false)?;
            child::main()?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Engines { rocksdb_lib } => {
            let engines = engines::catalogue(rocksdb_lib.as_deref());
            println!("{}", report::table::engines(&engines));
            Ok(ExitCode::SUCCESS)
        }
        Command::Report(options) => options.run(),
        Command::Regress(options) => options.run(),
        Command::Claims(options) => options.run(),
        Command::Run(options) => execute(&options.common, vec![options.test()]),
        Command::Compare(options) => execute(&options, suites::tests("compare", 1.0)),
        Command::Suite(options) => {
            if !(options.scale > 0.0 && options.scale.is_finite()) {
                return Err("--scale must be positive".to_owned());
            }
            let mut tests = suites::tests(&options.name, options.scale);
            if let Some(part) = &options.only {
                tests.retain(|test| test.name.contains(part.as_str()));
            }
            execute(&options.common, tests)
        }
    }
}

/// The first interruption ends the run orderly; a second one in the parent exits at once.
fn handle_interrupts(parent: bool) -> Result<(), String> {
    ctrlc::set_handler(move || {
        // ORDERING: the flag carries no data.
        if child::INTERRUPTED.swap(true, Ordering::Relaxed) && parent {
            std::process::exit(130);
        }
    })
    .map_err(|error| format!("signal handler: {error}"))
}

/// The engines to run: the named ones, or all that are available.
fn choose_engines(options: &CommonOptions) -> Result<Vec<EngineInfo>, String> {
    let known = engines::catalogue(options.rocksdb_lib.as_deref());
    if options.engine.is_empty() {
        let extra = ["null", "rocksdb-tuned"];
        let usable =
            |engine: &EngineInfo| engine.available.is_ok() && !extra.contains(&engine.name);
        return Ok(known.into_iter().filter(usable).collect());
    }
    let mut chosen = Vec::new();
    for name in &options.engine {
        let found = known.iter().find(|engine| engine.name == name);
        let hidden = ["memory", "broken-drops", "broken-stale", "broken-deletes", "broken-seek"];
        let engine = match (found, hidden.iter().find(|hidden| *hidden == name)) {
            (Some(engine), _) => engine.clone(),
            (None, Some(hidden)) => EngineInfo {
                name: hidden,
                version: String::new(),
                available: Ok(()),
                unequal: "a test object of the benchmark",
            },
            (None, None) => {
                let names: Vec<&str> = known.iter().map(|engine| engine.name).collect();
                return Err(format!("no engine {name:?}; there are: {}", names.join(", ")));
            }
        };
        if let Err(reason) = &engine.available {
            return Err(format!("engine {name} cannot be used: {reason}"));
        }
        chosen.push(engine);
    }
    Ok(chosen)
}

fn execute(options: &CommonOptions, mut tests: Vec<Test>) -> Result<ExitCode, String> {
    if tests.is_empty() {
        return Err("no test is left to run".to_owned());
    }
    let engines = choose_engines(options)?;
    handle_interrupts(true)?;
    for test in &mut tests {
        test.setup.rocksdb_library.clone_from(&options.rocksdb_lib);
    }
    let plan = Plan {
        engines: engines.iter().map(|engine| engine.name.to_owned()).collect(),
        tests,
        repeat: options.repeat.max(1),
        directory: options.dir.clone(),
        keep: options.keep_db,
        job_timeout: std::time::Duration::from_secs(options.job_timeout),
    };
    let runs = orchestrate::run(&plan)?;
    let set = ResultSet::new(runs, &engines);
    let width = report::table::width();
    println!("{}", report::table::throughput(&set, &options.baseline, width));
    println!("{}", report::table::details(&set, options.details, width));
    println!("{}", report::table::notes(&set, width));
    if let Some(path) = &options.json {
        set.write(path)?;
    }
    if let Some(path) = &options.csv {
        report::csv::append(path, &set)?;
    }
    if let Some(folder) = &options.html {
        let page = report::html::write(&set, &[], &options.baseline, folder)?;
        println!("report: {}", page.display());
    }
    // ORDERING: the flag carries no data.
    if child::INTERRUPTED.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(130));
    }
    Ok(if report::all_valid(&set.runs) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_count("5m"), Ok(5_000_000));
        assert!(parse_size("x").is_err());
        assert!(parse_size("99999999999G").is_err());
    }

    #[test]
    fn options_reach_the_test() {
        let line = "benchtool run --workload read --pattern zipfian --num 5K --cache 1G \
            --sync full --compression none --threads 8 --engine memory,null";
        let Command::Run(options) = Cli::parse_from(line.split_whitespace()).command else {
            panic!("not a run");
        };
        let test = options.test();
        assert_eq!(test.name, "read_zipfian");
        assert_eq!((test.shape.num, test.shape.threads), (5_000, 8));
        assert_eq!(test.shape.seconds, Some(10.0));
        assert_eq!((test.setup.cache, test.setup.sync), (1 << 30, Sync::Full));
        assert_eq!(test.setup.compression, Codec::None);
        assert_eq!(options.common.engine, ["memory", "null"]);
    }
}
