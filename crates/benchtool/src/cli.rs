//! The command line: subcommands, options, and how they become tests.
//!
//! `run` is one test from options (`options`), `compare` the short comparison of all engines at
//! hand, `suite` a named list of tests, `replay` a recorded list of operations, `engines` the list
//! of engines. The hidden `child` runs one job. `--suite NAME`, `--compare`, `--list-engines` and
//! `--list-suites` in the first place stand for subcommands, as other tools have them. Sizes take
//! the suffixes K, M and G (powers of 1024), counts K and M (powers of 1000).

mod arguments;
mod choice;
mod claims;
mod execute;
mod numbers;
mod options;
mod outputs;
mod page;
mod regress;

use std::process::ExitCode;

use clap::Parser;

use self::arguments::{Cli, Command, arguments};
use self::execute::{Files, execute, handle_interrupts, replay};
use crate::spec::Setup;
use crate::suites::{self, Profile};
use crate::terminal::say;
use crate::{child, engines, report};

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
            list_suites();
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
                tests.retain(|test| suites::is_named(&test.name, part));
            }
            execute(&options.common, tests, Files::default())
        }
        Command::Replay(options) => replay(&options),
    }
}

fn list_suites() {
    let heading = "tests  minutes per engine, quick and standard, at most";
    say(format!("{:<10} {heading}", "suite"));
    let all = suites::SUITES.into_iter();
    for (name, purpose) in all.chain([("seeds", "the tests of the published runs, flaws included")])
    {
        let minutes =
            |profile| (suites::budget(&suites::tests(name, profile, 1.0), 1) / 60.0).ceil();
        let count = suites::tests(name, Profile::Quick, 1.0).len();
        let (quick, standard) = (minutes(Profile::Quick), minutes(Profile::Standard));
        say(format!("{name:<10} {count:>5}  {quick:>3} {standard:>4}  {purpose}"));
    }
}

#[cfg(test)]
mod tests;
