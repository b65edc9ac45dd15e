//! Files of records: JSON lines, TSV and CSV, read by `load` and written by `dump` and `scan`.
//!
//! A reader turns bytes into records and always knows where the next record begins, so that a
//! load can go on from there. A writer turns a record into bytes. What a writer wrote, the reader
//! of the same format and encoding gives back byte for byte, for every key and value.
//!
//! Input is hostile: a record that makes no sense is reported with its line and skipped or
//! refused by the caller, never a panic. How long a record may be is the business of
//! [`crate::source`].
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

use std::ffi::OsStr;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::encoding::Encoding;

mod csv;
mod dump_header;
mod json_lines;
mod lines;
#[cfg(test)]
mod tests;
mod text;
mod tsv;

pub(crate) use self::dump_header::{BEGINS_WITH as DUMP_BEGINS_WITH, DumpHeader, DumpedFamily};

/// Bytes read from the input at a time.
const INPUT_BUFFER_BYTES: usize = 256 << 10;

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON object a line: {"key": "...", "value": "..."}
    Jsonl,
    /// Key, tab, value, with \t \n \r \\ and \xNN escapes
    Tsv,
    /// Comma-separated with quotes, first row names the columns
    Csv,
}

impl Format {
    /// The format that a file name's extension stands for.
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        let extension = path.extension().and_then(OsStr::to_str)?.to_ascii_lowercase();
        match extension.as_str() {
            "jsonl" | "ndjson" | "json" => Some(Self::Jsonl),
            "tsv" | "tab" => Some(Self::Tsv),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// One key and its value, as read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The key.
    pub(crate) key: Vec<u8>,
    /// The value.
    pub(crate) value: Vec<u8>,
    /// The family that it belongs to; dumps of several families have it.
    pub(crate) family: Option<String>,
    /// Unix second at which it expires; dumps have it.
    pub(crate) expires_at: Option<u64>,
}

/// What is written of a record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row<'a> {
    /// The key.
    pub(crate) key: &'a [u8],
    /// The value, unless only keys are wanted.
    pub(crate) value: Option<&'a [u8]>,
    /// The family, where the output holds several. JSON lines only.
    pub(crate) family: Option<&'a str>,
    /// Unix second at which it expires, where that is wanted. TSV has no place for it.
    pub(crate) expires_at: Option<u64>,
}

/// Where in the input the next record begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// Bytes before it.
    pub(crate) offset: u64,
    /// Its line, counted from 1.
    pub(crate) line: u64,
}

impl Position {
    /// The begin of the input.
    pub(crate) const START: Self = Self { offset: 0, line: 1 };
}

/// Which columns of a CSV file hold the key and the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Columns {
    /// Index of the key's column.
    pub(crate) key: usize,
    /// Index of the value's column.
    pub(crate) value: usize,
    /// Columns of every row.
    pub(crate) count: usize,
}

/// What a reader found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A record, now in the caller's buffer.
    Record {
        /// The line it begins on.
        line: u64,
    },
    /// Something that is not one. The reader stands behind it.
    Bad {
        /// The line it begins on.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The end of the input.
    End,
}

/// Reads records of one format.
pub(crate) trait RecordReader {
    /// Reads the next record into `record`, whose old content is lost.
    ///
    /// # Errors
    /// When the input cannot be read.
    fn next(&mut self, record: &mut Record) -> io::Result<Step>;

    /// Where the next record begins, or blank lines in front of it.
    fn position(&self) -> Position;

    /// The columns in use, in formats that have them and once they are known.
    fn columns(&self) -> Option<Columns> {
        None
    }
}

/// Writes records of one format.
pub(crate) trait RecordWriter {
    /// Writes what stands before the first record.
    fn begin(&mut self, _out: &mut dyn Write, _with_values: bool) -> io::Result<()> {
        Ok(())
    }

    /// Writes a record.
    fn write(&mut self, out: &mut dyn Write, row: Row<'_>) -> io::Result<()>;
}

/// How to read a file.
#[derive(Clone, Debug)]
pub(crate) struct ReaderOptions {
    /// Its format.
    pub(crate) format: Format,
    /// How keys and values are written in it.
    pub(crate) encoding: Encoding,
    /// Name of the key's column or field.
    pub(crate) key_field: String,
    /// Name of the value's column or field.
    pub(crate) value_field: String,
    /// Whether the first row of a CSV file names the columns.
    pub(crate) header: bool,
    /// JSON lines that `dump` wrote: a header, and fields of the tool's own.
    pub(crate) is_dump: bool,
}

/// A reader over `input`, which begins at `start`. `columns` are those of an earlier reader of the
/// same input.
///
/// # Errors
/// When the first row of a CSV file cannot be read or lacks a column; the error says so.
pub(crate) fn reader<'a>(
    input: impl Read + 'a,
    options: &ReaderOptions,
    start: Position,
    columns: Option<Columns>,
) -> io::Result<Box<dyn RecordReader + 'a>> {
    let buffered = |input| BufReader::with_capacity(INPUT_BUFFER_BYTES, input);
    Ok(match options.format {
        Format::Jsonl => Box::new(json_lines::Reader::new(buffered(input), options, start)),
        Format::Tsv => Box::new(tsv::Reader::new(buffered(input), options.encoding, start)),
        Format::Csv => Box::new(csv::Reader::new(input, options, start, columns)?),
    })
}

/// A writer of `format`.
pub(crate) fn writer(format: Format, encoding: Encoding) -> Box<dyn RecordWriter> {
    match format {
        Format::Jsonl => Box::new(json_lines::Writer::new(encoding)),
        Format::Tsv => Box::new(tsv::Writer::new(encoding)),
        Format::Csv => Box::new(csv::Writer::new(encoding)),
    }
}

/// A writer for people, which shortens long values if `cut` is set. Nothing reads its output back.
pub(crate) fn text_writer(encoding: Encoding, cut: bool) -> Box<dyn RecordWriter> {
    Box::new(text::Writer::new(encoding, cut))
}
