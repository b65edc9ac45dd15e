//! Libraries, limits and settings that concern the machine.

use std::path::PathBuf;

use clap::Args;

use super::super::numbers::parse_size;
use crate::spec::Setup;

/// A setting in an engine's own words: `ENGINE:NAME=VALUE`.
fn parse_engine_option(text: &str) -> Result<(String, String, String), String> {
    let form = "give ENGINE:NAME=VALUE";
    let (engine, rest) = text.split_once(':').ok_or(form)?;
    let (name, value) = rest.split_once('=').ok_or(form)?;
    Ok((engine.to_owned(), name.to_owned(), value.to_owned()))
}

/// Libraries, limits and settings that concern the machine.
#[derive(Debug, Default, Args)]
pub(in crate::cli) struct MachineOptions {
    /// RocksDB library to load
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) rocksdb_lib: Option<PathBuf>,
    /// Library with TidesDB's C interface, for the engine tidesdb-c
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) lib: Option<PathBuf>,
    /// Memory of each child, page cache included (a control group)
    #[arg(long, value_parser = parse_size)]
    pub(in crate::cli) mem_limit: Option<u64>,
    /// Processors of each child, as in 0,1 or 0-3
    #[arg(long, value_name = "LIST")]
    pub(in crate::cli) cpus: Option<String>,
    /// A setting in an engine's own words; may be given several times
    #[arg(long, value_name = "ENGINE:NAME=VALUE", value_parser = parse_engine_option)]
    pub(in crate::cli) engine_opt: Vec<(String, String, String)>,
}

impl MachineOptions {
    /// Enters the options into the settings of a test.
    pub(in crate::cli) fn enter(&self, setup: &mut Setup) {
        setup.rocksdb_library.clone_from(&self.rocksdb_lib);
        setup.tidesdb_library.clone_from(&self.lib);
        setup.memory_limit = self.mem_limit.or(setup.memory_limit);
        setup.processors.clone_from(&self.cpus);
        setup.engine_options.extend(self.engine_opt.iter().cloned());
    }
}
