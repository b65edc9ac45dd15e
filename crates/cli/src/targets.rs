//! Where the records of a load go: into one family, or into those that a dump names.

use std::collections::HashMap;

use tidesdb::{Db, ErrorKind, Family, FamilyOptions, WriteBatch};

use crate::database;
use crate::failure::{Failure, Result, note};
use crate::formats::{DUMP_BEGINS_WITH, DumpHeader, Record};
use crate::source::Source;

/// The family of records when no other is named.
const DEFAULT_FAMILY: &str = "default";

/// The header of the input if it is a dump. The input is read from its begin afterwards.
///
/// # Errors
/// When the input cannot be read or is a dump of a form that this tool does not know.
pub(crate) fn header(source: &mut Source) -> Result<Option<DumpHeader>> {
    let Some(line) = source.first_line_with(DUMP_BEGINS_WITH)? else { return Ok(None) };
    let header = DumpHeader::read(&line)
        .map_err(|reason| Failure::new(format!("line 1 of {}: {reason}", source.name())))?;
    Ok(Some(header))
}

/// The families that a load fills.
#[derive(Debug)]
pub(crate) enum Targets {
    /// All records go into one.
    One(Family),
    /// Each record names its own.
    Named(HashMap<String, Family>),
}

impl Targets {
    /// Opens the families, and creates those that are missing: with the options that the dump has
    /// for them, or the default ones. `chosen` is the name that the user gave.
    ///
    /// # Errors
    /// When a family belongs to the tool, when several would be loaded into one, and those of the
    /// engine.
    pub(crate) fn open(db: &Db, header: Option<&DumpHeader>, chosen: Option<&str>) -> Result<Self> {
        let Some(header) = header else {
            let family = database::family_or_new(db, chosen.unwrap_or(DEFAULT_FAMILY))?;
            return Ok(Self::One(family));
        };
        if chosen.is_some() && header.families.len() != 1 {
            return Err(Failure::usage(format!(
                "the input is a dump of {} families, which do not go into one",
                header.families.len()
            ))
            .hint("leave out --family"));
        }
        let families = header.families.iter().map(|dumped| {
            let options = dumped.options().map_err(|reason| {
                Failure::new(format!("the options of family '{}': {reason}", dumped.name))
            })?;
            open_with_options(db, chosen.unwrap_or(&dumped.name), options)
        });
        let families: Vec<Family> = families.collect::<Result<_>>()?;
        Ok(match <[Family; 1]>::try_from(families) {
            Ok([one]) => Self::One(one),
            Err(families) => {
                let named = families.into_iter().map(|family| (family.name().to_string(), family));
                Self::Named(named.collect())
            }
        })
    }

    /// What the load is remembered by; empty when its input names the families.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::One(family) => family.name().to_string(),
            Self::Named(_) => String::new(),
        }
    }

    /// In words.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::One(family) => format!("family '{}'", family.name()),
            Self::Named(families) => format!("{} families", families.len()),
        }
    }

    /// The names of the families, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::One(family) => vec![family.name().to_string()],
            Self::Named(families) => {
                let mut names: Vec<String> = families.keys().cloned().collect();
                names.sort_unstable();
                names
            }
        }
    }

    /// Adds a record to the batch; the inner error says what is wrong with the record.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn put(
        &self,
        batch: &mut WriteBatch,
        record: &Record,
    ) -> Result<std::result::Result<(), String>> {
        let family = match (self, &record.family) {
            (Self::One(family), _) => family,
            (Self::Named(families), Some(name)) => match families.get(name) {
                Some(family) => family,
                None => return Ok(Err(format!("the first line names no family '{name}'"))),
            },
            (Self::Named(_), None) => return Ok(Err("it names no family".to_owned())),
        };
        let expires_at = record.expires_at.unwrap_or(0);
        match batch.put_expiring_at(family, &record.key, &record.value, expires_at) {
            Ok(()) => Ok(Ok(())),
            Err(error) if error.kind() == ErrorKind::Invalid => Ok(Err(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }
}

fn open_with_options(db: &Db, name: &str, options: FamilyOptions) -> Result<Family> {
    database::refuse_hidden(name)?;
    database::know_order(db, &options.key_order)?;
    let family = db.open_family(name, options.clone())?;
    if family.options() != options {
        note(format_args!(
            "warning: family '{name}' was there with other options than the dump's, and keeps them"
        ));
    }
    Ok(family)
}
