//! CSV as RFC 4180 defines it: fields with commas, quotes or line breaks are quoted, quotes
//! doubled.
//!
//! The first row names the columns, unless the options say there is none; then there are two
//! columns, key and value. Fields hold the raw bytes, so binary data makes a file that is not
//! UTF-8 and still round-trips; the hex and base64 encodings keep it readable.
//!
//! Positions come from the parser: the offset behind a row is where a later reader can go on. A
//! row may span lines; its number is the one it begins on.

use std::io::{self, Read, Write};

use ::csv::{ByteRecord, ReaderBuilder};

use super::{Columns, Position, ReaderOptions, Record, RecordReader, RecordWriter, Row, Step};
use crate::encoding::Encoding;

/// The parser takes one off the beginning of what it reads.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// An input with a byte order mark in front of it, if there is to be one.
struct Marked<R> {
    mark: &'static [u8],
    input: R,
}

impl<R: Read> Read for Marked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // In one piece with what follows: the parser takes a piece with nothing else for the end.
        match buffer.split_at_mut_checked(self.mark.len()) {
            Some((front, rest)) if !rest.is_empty() => {
                let read = self.input.read(rest)?;
                front.copy_from_slice(self.mark);
                Ok(std::mem::take(&mut self.mark).len() + read)
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

/// Reads CSV.
pub(super) struct Reader<R> {
    rows: ::csv::Reader<Marked<R>>,
    start: Position,
    /// Bytes that the parser reads before the input.
    in_front: u64,
    columns: Columns,
    encoding: Encoding,
    row: ByteRecord,
}

impl<R: Read> Reader<R> {
    /// Records of `input`, which begins at `start`. Columns that are known from an earlier reader
    /// spare it the first row.
    ///
    /// # Errors
    /// When the first row cannot be read, is missing or lacks a column.
    pub(super) fn new(
        input: R,
        options: &ReaderOptions,
        start: Position,
        columns: Option<Columns>,
    ) -> io::Result<Self> {
        // In the middle of a file such bytes belong to a field: the parser gets a mark to take off.
        let in_front = if start.offset > 0 { BYTE_ORDER_MARK } else { b"" };
        let input = Marked { mark: in_front, input };
        let rows = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(input);
        let mut reader = Self {
            rows,
            start,
            in_front: in_front.len() as u64,
            columns: columns.unwrap_or(Columns { key: 0, value: 1, count: 2 }),
            encoding: options.encoding,
            row: ByteRecord::new(),
        };
        if columns.is_none() && options.header && reader.next_row()? {
            reader.columns = find_columns(&reader.row, options).map_err(io::Error::other)?;
        }
        Ok(reader)
    }

    fn next_row(&mut self) -> io::Result<bool> {
        self.rows.read_byte_record(&mut self.row).map_err(io::Error::from)
    }

    fn take(&self, index: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let field = self.row.get(index).unwrap_or_default();
        out.clear();
        if self.encoding == Encoding::Text {
            out.extend_from_slice(field);
            return Ok(());
        }
        self.encoding
            .decode(field, out)
            .map_err(|error| format!("in column {}: {error}", index + 1))
    }

    fn parse(&self, record: &mut Record) -> Result<(), String> {
        let (found, expected) = (self.row.len(), self.columns.count);
        if found != expected {
            let columns = if found == 1 { "column" } else { "columns" };
            return Err(format!("{found} {columns} instead of {expected}"));
        }
        self.take(self.columns.key, &mut record.key)?;
        self.take(self.columns.value, &mut record.value)
    }
}

fn find_columns(header: &ByteRecord, options: &ReaderOptions) -> Result<Columns, String> {
    let find = |name: &str| {
        header.iter().position(|field| field == name.as_bytes()).ok_or_else(|| {
            let names: Vec<_> = header.iter().map(String::from_utf8_lossy).collect();
            format!("the first row has no column '{name}'; its columns are: {}", names.join(", "))
        })
    };
    let (key, value) = (find(&options.key_field)?, find(&options.value_field)?);
    Ok(Columns { key, value, count: header.len() })
}

impl<R: Read> RecordReader for Reader<R> {
    fn next(&mut self, record: &mut Record) -> io::Result<Step> {
        if !self.next_row()? {
            return Ok(Step::End);
        }
        let line = self.row.position().map_or(1, ::csv::Position::line);
        let line = self.start.line + line - 1;
        Ok(match self.parse(record) {
            Ok(()) => Step::Record { line },
            Err(reason) => Step::Bad { line, reason },
        })
    }

    fn position(&self) -> Position {
        let position = self.rows.position();
        Position {
            offset: self.start.offset + position.byte().saturating_sub(self.in_front),
            line: self.start.line + position.line() - 1,
        }
    }

    fn columns(&self) -> Option<Columns> {
        Some(self.columns)
    }
}

/// Writes CSV.
pub(super) struct Writer {
    encoding: Encoding,
    field: Vec<u8>,
    line: Vec<u8>,
}

impl Writer {
    /// A writer of fields in that encoding; text means the raw bytes.
    pub(super) fn new(encoding: Encoding) -> Self {
        Self { encoding, field: Vec::new(), line: Vec::new() }
    }

    fn push_field(&mut self, bytes: &[u8]) {
        self.field.clear();
        let field = if self.encoding == Encoding::Text {
            bytes
        } else {
            self.encoding.encode(bytes, &mut self.field);
            &self.field
        };
        let special = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
        if !field.iter().any(special) {
            self.line.extend_from_slice(field);
            return;
        }
        self.line.push(b'"');
        for (index, piece) in field.split(|&byte| byte == b'"').enumerate() {
            if index > 0 {
                self.line.extend_from_slice(b"\"\"");
            }
            self.line.extend_from_slice(piece);
        }
        self.line.push(b'"');
    }
}

impl RecordWriter for Writer {
    fn begin(&mut self, out: &mut dyn Write, with_values: bool) -> io::Result<()> {
        out.write_all(if with_values { b"key,value\n" } else { b"key\n" })
    }

    fn write(&mut self, out: &mut dyn Write, row: Row<'_>) -> io::Result<()> {
        self.line.clear();
        self.push_field(row.key);
        if let Some(value) = row.value {
            self.line.push(b',');
            self.push_field(value);
        }
        self.line.push(b'\n');
        out.write_all(&self.line)
    }
}
