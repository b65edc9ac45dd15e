//! Shows what is in a file of a database, part by part.
//!
//! The file may lie outside of any database, have another name, and be damaged: each part is shown
//! with what is wrong with it, and the rest goes on behind it as far as it can be found. What a
//! file is follows from its name, otherwise from its first or last bytes; its number, which seals
//! its checksums, is taken from the file itself where that is possible.

mod closed;
mod log;
mod manifest;
mod table;
mod value_log;

use std::path::Path;
use std::sync::Arc;

use tidesdb_base::checksum;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::{self, FileKind};
use tidesdb_sys::vfs::{File, OpenMode, ReadOnlyFile, RealVfs, Vfs};

use crate::salvage::lenient::LenientFile;

/// What to show.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct InspectOptions {
    /// Shows entries of tables, operations of the log and tables of manifest edits one by one.
    /// Default: false.
    pub entries: bool,
    /// Number of the file, where neither its name nor its content shows it. Default: none.
    pub number: Option<u64>,
}

impl InspectOptions {
    /// Sets [`InspectOptions::entries`].
    #[must_use]
    pub const fn entries(mut self, entries: bool) -> Self {
        self.entries = entries;
        self
    }

    /// Sets [`InspectOptions::number`].
    #[must_use]
    pub const fn number(mut self, number: Option<u64>) -> Self {
        self.number = number;
        self
    }
}

/// One thing that is known of a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// A number.
    Number(u64),
    /// Text for people.
    Text(String),
    /// Texts for people, of things of one kind.
    List(Vec<String>),
    /// Bytes, such as a key.
    Bytes(Vec<u8>),
}

impl From<Vec<String>> for Field {
    fn from(texts: Vec<String>) -> Self {
        Self::List(texts)
    }
}

impl From<u64> for Field {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u8>> for Field {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// What it is.
    pub what: &'static str,
    /// Offset of its first byte, if it has a place of its own.
    pub offset: Option<u64>,
    /// Its length in bytes.
    pub bytes: Option<u64>,
    /// What is known of it, each with its name.
    pub fields: Vec<(&'static str, Field)>,
    /// What is wrong with it.
    pub problem: Option<String>,
}

impl Item {
    /// A part at a place.
    pub(crate) const fn at(what: &'static str, offset: u64, bytes: u64) -> Self {
        Self { what, offset: Some(offset), bytes: Some(bytes), fields: Vec::new(), problem: None }
    }

    /// A part without a place of its own.
    pub(crate) const fn of(what: &'static str) -> Self {
        Self { what, offset: None, bytes: None, fields: Vec::new(), problem: None }
    }

    /// The same with something more that is known of it.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, field: impl Into<Field>) -> Self {
        self.fields.push((name, field.into()));
        self
    }

    /// The same with what is wrong.
    #[must_use]
    pub(crate) fn wrong(mut self, problem: impl Into<String>) -> Self {
        self.problem = Some(problem.into());
        self
    }

    /// What an error says is wrong at a place.
    pub(crate) fn problem(error: &Error) -> Self {
        match error {
            Error::Corruption { offset, detail, .. } => {
                let item = Self::of("problem").wrong(detail.clone());
                Self { offset: Some(*offset), ..item }
            }
            other => Self::of("problem").wrong(other.to_string()),
        }
    }
}

/// Takes the parts of a file; an error ends the inspection.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(Item) -> Result<()>;

/// A file that is looked into.
pub(crate) struct Inspected<'a> {
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: &'a Path,
    /// The number in its name, or the one that was given.
    pub(crate) number: Option<u64>,
    pub(crate) options: InspectOptions,
}

/// Shows the parts of the file at `path`, in order. `visit` gets each; an error that it returns
/// ends the inspection. What is wrong is in the items: damage is no error.
///
/// # Errors
/// [`Error::InvalidArgument`] when the file is none of a database's, as far as is known;
/// [`Error::Io`]; those of `visit`.
pub fn inspect(
    path: &Path,
    options: InspectOptions,
    visit: &mut dyn FnMut(Item) -> Result<()>,
) -> Result<()> {
    let vfs = RealVfs::new();
    let file = vfs.open(path, OpenMode::Read).map_err(|e| Error::io("open", path, e))?;
    let file: Arc<dyn File> = Arc::new(ReadOnlyFile(LenientFile(file)));
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let kind = match name.as_deref().and_then(naming::parse) {
        Some(kind) => Some(kind),
        None => kind_by_content(file.as_ref(), path)?,
    };
    let named = name.as_deref().and_then(naming::parse).and_then(FileKind::number);
    let inspected = Inspected { file, path, number: options.number.or(named), options };
    match kind {
        Some(FileKind::Table(_)) => table::inspect(&inspected, visit),
        Some(FileKind::ValueLog(_)) => value_log::inspect(&inspected, visit),
        Some(FileKind::LogSegment(_)) => log::inspect(&inspected, visit),
        Some(FileKind::Manifest(_)) => manifest::inspect(&inspected, visit),
        Some(FileKind::Current) => inspect_current(&inspected, visit),
        Some(FileKind::Closed) => closed::inspect(&inspected, visit),
        Some(FileKind::Lock | FileKind::EventLog) | None => {
            let text = format!("{} is no file of a database, by name and content", path.display());
            Err(Error::InvalidArgument(text))
        }
    }
}

fn kind_by_content(file: &dyn File, path: &Path) -> Result<Option<FileKind>> {
    let mut start = [0; 9];
    let read =
        |bytes: &mut [u8], at| file.read_at(bytes, at).map_err(|e| Error::io("read", path, e));
    read(&mut start, 0)?;
    let kind = match &start {
        [b'T', b'D', b'B', b'V', b'A', b'L', b'U', b'E', _] => FileKind::ValueLog(0),
        [b'T', b'D', b'B', b'W', b'A', b'L', b'\r', b'\n', _] => FileKind::LogSegment(0),
        [b'T', b'D', b'B', b'M', b'A', b'N', b'I', b'\n', _] => FileKind::Manifest(0),
        b"MANIFEST-" => FileKind::Current,
        _ => {
            let format = tidesdb_files::formats::Format::Table;
            return Ok(format.version_of(file, path)?.map(|_| FileKind::Table(0)));
        }
    };
    Ok(Some(kind))
}

fn inspect_current(inspected: &Inspected<'_>, visit: Visit<'_>) -> Result<()> {
    let mut bytes = [0; 257];
    let read = inspected.file.read_at(&mut bytes, 0);
    let read = read.map_err(|e| Error::io("read", inspected.path, e))?;
    let text = bytes.get(..read).unwrap_or_default();
    let mut item = Item::at("current", 0, read as u64);
    match tidesdb_files::manifest::named_by(text) {
        Some(number) => {
            let name = FileKind::Manifest(number).name();
            let sum = format!("{:016x}", checksum::plain(name.as_bytes()));
            let whole = format!("{name} {sum}\n").as_bytes() == text;
            item = item.with("manifest", name);
            if !whole {
                item =
                    item.wrong(format!("the checksum of that name is {sum}, not what stands here"));
            }
        }
        None => item = item.wrong("it does not name a manifest"),
    }
    visit(item)
}
