//! Subcommands and their options, as the command line takes them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::options::{self, MachineOptions, PaceOptions, SetupOptions, ShapeOptions};
use super::{claims, page, regress};
use crate::orchestrate::Test;
use crate::suites::{self, Profile};

#[derive(Debug, Parser)]
#[command(name = "benchtool", version, about = "Benchmarks key-value engines side by side")]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
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
    /// Make the page, the plots and the CSV, or a section of a Markdown page, from result files
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
pub(super) struct CommonOptions {
    /// Engines, separated by commas [default: all that are available]
    #[arg(short, long, value_delimiter = ',')]
    pub(super) engine: Vec<String>,
    /// Engine that ratios refer to
    #[arg(long, default_value = "rocksdb")]
    pub(super) baseline: String,
    /// Repetitions; the order of the engines alternates [default: 1, or what the suite asks for]
    #[arg(long, alias = "reps")]
    pub(super) repeat: Option<u32>,
    /// Folder for the databases; a subfolder is made and removed
    #[arg(short, long, alias = "db-path", alias = "db", default_value = "bench-data")]
    pub(super) dir: PathBuf,
    /// Keep the databases
    #[arg(long)]
    pub(super) keep_db: bool,
    /// Write all results as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Append results as CSV
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Write a page with plots, the results and their sums into a folder
    #[arg(long, value_name = "DIR")]
    pub(super) html: Option<PathBuf>,
    /// Show every column of the table of latencies, memory and bytes
    #[arg(long)]
    pub(super) details: bool,
    /// Kill a job that takes longer than this many seconds
    #[arg(long, default_value_t = 1800)]
    pub(super) job_timeout: u64,
    #[command(flatten)]
    pub(super) machine: MachineOptions,
}

#[derive(Debug, Args)]
pub(super) struct SuiteOptions {
    /// Name of the suite
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(suites::names()))]
    pub(super) name: String,
    /// How much is done
    #[arg(long, value_enum, default_value_t = Profile::Quick)]
    pub(super) profile: Profile,
    /// Factor on the sizes of the data sets and on time limits
    #[arg(long, default_value_t = 1.0)]
    pub(super) scale: f64,
    /// Only tests whose name contains this, or matches it with * for any characters
    #[arg(long)]
    pub(super) only: Option<String>,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

#[derive(Debug, Args)]
pub(super) struct RunOptions {
    #[command(flatten)]
    pub(super) common: CommonOptions,
    #[command(flatten)]
    pub(super) shape: ShapeOptions,
    #[command(flatten)]
    pub(super) pace: PaceOptions,
    #[command(flatten)]
    pub(super) setup: SetupOptions,
    /// Name of the test in reports
    #[arg(long)]
    pub(super) test_name: Option<String>,
    /// Use the database in this folder; it must hold the data set that the options describe
    #[arg(long, value_name = "DIR")]
    pub(super) use_existing_db: Option<PathBuf>,
    /// Write all operations into a file that `replay` can repeat (one engine, one repetition)
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ReplayOptions {
    /// The trace
    pub(super) trace: PathBuf,
    /// Worker threads, each with the lines of its share of the keys
    #[arg(short, long, default_value_t = 1)]
    pub(super) threads: u64,
    #[command(flatten)]
    pub(super) setup: SetupOptions,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl RunOptions {
    /// The test that the options describe.
    ///
    /// # Errors
    /// What is wrong with them, for people.
    pub(super) fn test(&self) -> Result<Test, String> {
        options::test(&self.shape, &self.pace, &self.setup, self.test_name.as_ref())
    }
}

/// The arguments, with the options that stand for subcommands replaced by them.
pub(super) fn arguments() -> Vec<std::ffi::OsString> {
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
