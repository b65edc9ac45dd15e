//! The first line of a dump: which families it holds, each with its options.
//!
//! By this line a load knows that what follows was written by `dump`, and that the fields `family`
//! and `expires_at` of a record are the tool's own and not data of a user.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use tidesdb::FamilyOptions;

/// With what the line begins; compared before it is parsed.
pub(crate) const BEGINS_WITH: &[u8] = b"{\"tidesdb_dump\":";

/// Form of the line and of the records behind it.
const VERSION: u32 = 1;

/// The families of a dump.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DumpHeader {
    /// The form; first, as it is recognised by it.
    tidesdb_dump: u32,
    /// The families, in order. Records name theirs unless there is only one.
    pub(crate) families: Vec<DumpedFamily>,
}

/// A family and its options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DumpedFamily {
    /// Its name.
    pub(crate) name: String,
    /// Its settings, by the names that `create-family --set` takes.
    options: BTreeMap<String, String>,
}

impl DumpedFamily {
    /// A family with these options.
    pub(crate) fn new(name: &str, options: &FamilyOptions) -> Self {
        let text = options.to_text();
        let settings = text.lines().filter_map(|line| line.split_once('='));
        let options = settings.map(|(name, value)| (name.trim().into(), value.trim().into()));
        Self { name: name.to_owned(), options: options.collect() }
    }

    /// Its options.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn options(&self) -> Result<FamilyOptions, String> {
        let lines: Vec<String> =
            self.options.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        FamilyOptions::from_text(&lines.join("\n")).map_err(|error| error.to_string())
    }
}

impl DumpHeader {
    /// The header of a dump of these families.
    pub(crate) const fn new(families: Vec<DumpedFamily>) -> Self {
        Self { tidesdb_dump: VERSION, families }
    }

    /// Writes it as a line.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        out.write_all(&line)
    }

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(line: &[u8]) -> Result<Self, String> {
        let header: Self = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if header.tidesdb_dump != VERSION {
            return Err(format!(
                "it is a dump of version {}, and this tool reads version {VERSION}",
                header.tidesdb_dump
            ));
        }
        Ok(header)
    }
}
