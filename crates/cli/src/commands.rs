//! The commands, one file each. A command opens the database, does its work and says in words
//! what went wrong; `main` turns that into an exit code.

mod copies;
mod count;
mod delete;
mod doctor;
mod dump;
mod families;
mod generate;
mod get;
mod inspect;
mod load;
mod maintain;
mod options;
mod put;
mod salvage;
mod scan;
mod shell;
mod stats;
mod upgrade;
mod verify;

pub(crate) use self::copies::{CopyArgs, NamesArgs};
pub(crate) use self::count::{CountedState, counted};
pub(crate) use self::doctor::DoctorArgs;
pub(crate) use self::families::{confirm_drop, listed as families_of};
pub(crate) use self::generate::{CompletionsArgs, ManArgs};
pub(crate) use self::get::{Expiries, Values};
pub(crate) use self::inspect::InspectArgs;
pub(crate) use self::options::{OptionsArgs, OptionsForm, OptionsFormat, shown as options_of};
pub(crate) use self::salvage::{RepairArgs, RestoreArgs, SalvageArgs};
pub(crate) use self::shell::ShellArgs;
pub(crate) use self::stats::text as stats_of;
pub(crate) use self::verify::verdict_on;
use crate::args::Command;
use crate::failure::Result;

/// Runs one command.
///
/// # Errors
/// Whatever kept the command from doing what was asked.
pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::Get(args) => get::run(&args),
        Command::Put(args) => put::run(&args),
        Command::Delete(args) => delete::run(&args),
        Command::Scan(args) => scan::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Count(args) => count::run(&args),
        Command::Flush(args) => maintain::flush(&args),
        Command::Compact(args) => maintain::compact(&args),
        Command::Options(args) => options::run(&args),
        Command::Families(args) => families::list(&args),
        Command::CreateFamily(args) => families::create(&args),
        Command::DropFamily(args) => families::drop(&args),
        Command::RenameFamily(args) => copies::rename(&args),
        Command::CloneFamily(args) => copies::clone(&args),
        Command::Checkpoint(args) => copies::checkpoint(&args),
        Command::Backup(args) => copies::backup(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Shell(args) => shell::run(&args),
        Command::Completions(args) => generate::completions(&args),
        Command::Man(args) => generate::man(&args),
        Command::Restore(args) => salvage::restore(&args),
        Command::Salvage(args) => salvage::salvage(&args),
        Command::Repair(args) => salvage::repair(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Upgrade(args) => upgrade::run(&args),
    }
}
