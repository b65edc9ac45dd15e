//! `tidesdb options`: shows the options of a family, and changes them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::args::OptionsArgs;
use crate::database::{self, Access};
use crate::failure::{Failure, Result};
use crate::settings;

/// Runs the command.
///
/// # Errors
/// When a setting is unknown or wrong, and those of the engine and of standard output.
pub(crate) fn run(args: &OptionsArgs) -> Result<()> {
    let access = if args.set.is_empty() { Access::Read } else { Access::Change };
    let db = database::open(&args.target.database.db, access)?;
    let family = database::family(&db, &args.target.family)?;
    if !args.set.is_empty() {
        family.set_options(settings::changed(&family.options(), &args.set)?)?;
    }
    let options = family.options().to_text();
    drop(family);
    if access == Access::Change {
        db.close()?;
    }
    let text = if args.json {
        let pairs = options.lines().filter_map(|line| line.split_once(" = "));
        let map: BTreeMap<&str, &str> = pairs.collect();
        serde_json::to_string_pretty(&map).map_err(|error| Failure::new(error.to_string()))?
    } else {
        options
    };
    writeln!(io::stdout().lock(), "{text}").map_err(|error| Failure::output(&error))
}
