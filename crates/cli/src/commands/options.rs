//! `tidesdb options`: shows the options of families, and changes them.

use std::collections::BTreeMap;

use clap::{ArgAction, Args, ValueEnum, ValueHint};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use tidesdb::options_file::OptionsFile;
use tidesdb::{Db, Error, FamilyOptions};

use crate::args::DatabaseArgs;
use crate::database::{self, Access};
use crate::failure::{Failure, Result, note};
use crate::options_files;
use crate::output::{pretty, print};
use crate::table::printable;

/// The family of commands that name none.
const DEFAULT_FAMILY: &str = "default";

/// Arguments of `options`.
#[derive(Debug, Args)]
pub(crate) struct OptionsArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Column family; without it toml, ini and JSON show all of them, and else `default` is meant
    #[arg(long, short, value_name = "NAME")]
    pub(crate) family: Option<String>,
    /// Change a setting, such as compression=zstd or write_buffer_size=64MB; may be repeated
    #[arg(long, value_name = "NAME=VALUE", action = ArgAction::Append, conflicts_with = "apply")]
    pub(crate) set: Vec<String>,
    /// Change the settings that a TOML or INI file names, of all families that it names
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) apply: Option<PathBuf>,
    /// Form of the output; toml and ini are what --apply and --options take
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "lines")]
    pub(crate) format: OptionsFormat,
    /// Print JSON instead of lines
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

/// Formats of `options`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OptionsFormat {
    /// A setting on each line
    Lines,
    /// A table for each family
    Toml,
    /// A section for each family, with the keys of TidesDB's files
    Ini,
}

/// Runs the command.
///
/// # Errors
/// When a setting is unknown or wrong, and those of the engine and of standard output.
pub(crate) fn run(args: &OptionsArgs) -> Result<()> {
    let changes = !args.set.is_empty() || args.apply.is_some();
    let file = args.apply.as_deref().map(options_files::read).transpose()?;
    let db =
        database::open(&args.database.db, if changes { Access::Change } else { Access::Read })?;
    let named = args.family.as_deref();
    if let Some(file) = &file {
        let changed = apply(&db, file, named, args.json)?;
        database::close(db)?;
        return if args.json { print(pretty(&json!({ "changed": changed }))?) } else { Ok(()) };
    }
    if changes {
        let family = database::family(&db, named.unwrap_or(DEFAULT_FAMILY))?;
        family.set_options(options_files::changed(family.options(), &args.set)?)?;
    }
    let form = if args.json { OptionsForm::Json } else { OptionsForm::Of(args.format) };
    // What has changed is that of one family, named or not.
    let of = named.or(if args.json && changes { Some(DEFAULT_FAMILY) } else { None });
    let text = shown(&db, of, form)?;
    if changes {
        database::close(db)?;
    }
    print(text)
}

/// How options are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionsForm {
    /// In one of the formats.
    Of(OptionsFormat),
    /// As JSON: an object of settings, or without a family one of families by name.
    Json,
}

/// The options as text.
///
/// # Errors
/// When the family does not exist.
pub(crate) fn shown(db: &Db, family: Option<&str>, form: OptionsForm) -> Result<String> {
    let OptionsForm::Of(format) = form else { return as_json(db, family) };
    if format == OptionsFormat::Lines {
        let family = database::family(db, family.unwrap_or(DEFAULT_FAMILY))?;
        let lines = family.options().to_text();
        return Ok(lines.lines().map(|line| printable(line) + "\n").collect());
    }
    let names = family.map_or_else(|| database::visible_families(db), |name| vec![name.to_owned()]);
    let mut file = OptionsFile::new();
    for name in &names {
        file = file.with_family(name, &database::family(db, name)?.options());
    }
    Ok(if format == OptionsFormat::Toml { file.to_toml() } else { file.to_ini() })
}

fn as_json(db: &Db, family: Option<&str>) -> Result<String> {
    if let Some(family) = family {
        return pretty(&options_json(&database::family(db, family)?.options()));
    }
    let families = database::visible_families(db).into_iter().map(|name| {
        let options = options_json(&database::family(db, &name)?.options());
        Ok((name, options))
    });
    pretty(&Value::Object(families.collect::<Result<_>>()?))
}

/// The options of a family by their names: numbers, switches and words.
pub(crate) fn options_json(options: &FamilyOptions) -> Value {
    let text = options.to_text();
    let pairs = text.lines().filter_map(|line| line.split_once(" = "));
    pairs.map(|(name, value)| (name.to_owned(), typed(value))).collect()
}

/// The value of a setting as JSON has it.
fn typed(text: &str) -> Value {
    let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    let number = || if is_number { text.parse::<serde_json::Number>().ok() } else { None };
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => number().map_or_else(|| Value::String(text.to_owned()), Value::Number),
    }
}

/// Changes what the file names, of one family or of all, and reports what has changed; returns it
/// as JSON if that is to be the report. All mistakes are found before the first family is changed.
fn apply(db: &Db, file: &OptionsFile, family: Option<&str>, quiet: bool) -> Result<Value> {
    let names: Vec<&str> =
        file.families().filter(|name| family.is_none_or(|f| f == *name)).collect();
    if names.is_empty() {
        return Err(Failure::new(match family {
            Some(family) => format!("the file names no family '{family}'"),
            None => "the file names no family".to_owned(),
        })
        .hint("settings of the database are given at each open: tidesdb COMMAND --options FILE"));
    }
    if file.names_database() {
        note(
            "warning: settings under [database] are not stored: give the file at each open, by \
             --options FILE",
        );
    }
    let (mut changes, mut problems) = (Vec::new(), Vec::new());
    for name in names {
        let family = database::family(db, name)?;
        let old = family.options();
        let new = file.family_options(name, old.clone())?;
        if new.key_order != old.key_order {
            let (wanted, present) = (&new.key_order, &old.key_order);
            problems.push(format!(
                "family '{name}': key_order is {wanted}, but stays {present}: it can't be changed"
            ));
        }
        changes.push((family, old, new));
    }
    if !problems.is_empty() {
        return Err(Error::InvalidOptions(problems).into());
    }
    let mut report = Map::new();
    for (family, old, new) in changes {
        let name = family.name();
        let changed = differences(&old, &new);
        family.set_options(new)?;
        if !quiet && changed.is_empty() {
            note(format_args!("family '{name}': nothing changes"));
        }
        for (setting, was, is) in changed.iter().filter(|_| !quiet) {
            let line = format!("{setting} was {was}, is {is}");
            note(format_args!("family '{name}': {}", printable(&line)));
        }
        let changed = changed.into_iter().map(|(setting, was, is)| {
            let change = json!({ "was": typed(&was), "is": typed(&is) });
            (setting, change)
        });
        report.insert(name.to_string(), changed.collect());
    }
    Ok(Value::Object(report))
}

/// What has changed: settings, with their values before and after.
fn differences(old: &FamilyOptions, new: &FamilyOptions) -> Vec<(String, String, String)> {
    let (old, new) = (old.to_text(), new.to_text());
    let old: BTreeMap<&str, &str> = old.lines().filter_map(|line| line.split_once(" = ")).collect();
    let new = new.lines().filter_map(|line| line.split_once(" = "));
    let changed = new.filter_map(|(name, is)| {
        let was = old.get(name).copied().unwrap_or_default();
        (was != is).then(|| (name.to_owned(), was.to_owned(), is.to_owned()))
    });
    changed.collect()
}
