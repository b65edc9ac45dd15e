//! TSV: key, tab, value, one record a line, no header.
//!
//! Tabs, line breaks and backslashes inside a field are escaped as [`crate::encoding`] says, or
//! the fields are hexadecimal or base64; so a field never holds a separator and every byte string
//! can be written.

use std::io::{self, BufRead, Write};

use super::lines::Lines;
use super::{Position, Record, RecordReader, RecordWriter, Row, Step};
use crate::encoding::Encoding;

/// Reads TSV.
pub(super) struct Reader<R> {
    lines: Lines<R>,
    encoding: Encoding,
}

impl<R: BufRead> Reader<R> {
    /// Records of `input`, which begins at `start`.
    pub(super) fn new(input: R, encoding: Encoding, start: Position) -> Self {
        Self { lines: Lines::new(input, start), encoding }
    }
}

impl<R: BufRead> RecordReader for Reader<R> {
    fn next(&mut self, record: &mut Record) -> io::Result<Step> {
        let encoding = self.encoding;
        let Some(line) = self.lines.next()? else { return Ok(Step::End) };
        Ok(match parse(line.bytes, encoding, record) {
            Ok(()) => Step::Record { line: line.number },
            Err(reason) => Step::Bad { line: line.number, reason },
        })
    }

    fn position(&self) -> Position {
        self.lines.position()
    }
}

fn parse(line: &[u8], encoding: Encoding, record: &mut Record) -> Result<(), String> {
    let mut fields = line.split(|&byte| byte == b'\t');
    let (Some(key), Some(value), None) = (fields.next(), fields.next(), fields.next()) else {
        let count = line.split(|&byte| byte == b'\t').count();
        return Err(format!(
            "{count} column{} instead of 2; a tab inside a field is written \\t",
            if count == 1 { "" } else { "s" }
        ));
    };
    record.key.clear();
    record.value.clear();
    encoding.decode(key, &mut record.key).map_err(|error| format!("in the key: {error}"))?;
    encoding.decode(value, &mut record.value).map_err(|error| format!("in the value: {error}"))
}

/// Writes TSV.
pub(super) struct Writer {
    encoding: Encoding,
    line: Vec<u8>,
}

impl Writer {
    /// A writer of fields in that encoding.
    pub(super) fn new(encoding: Encoding) -> Self {
        Self { encoding, line: Vec::new() }
    }
}

impl RecordWriter for Writer {
    fn write(&mut self, out: &mut dyn Write, row: Row<'_>) -> io::Result<()> {
        self.line.clear();
        self.encoding.encode(row.key, &mut self.line);
        if let Some(value) = row.value {
            self.line.push(b'\t');
            self.encoding.encode(value, &mut self.line);
        }
        self.line.push(b'\n');
        out.write_all(&self.line)
    }
}
