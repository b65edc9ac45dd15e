//! Lines of a byte stream with their position, shared by the formats that have one record a line.
//!
//! A line ends with LF or CR LF or with the input. A byte order mark in front of the first line
//! and blank lines are skipped.

use std::io::{self, BufRead};

use super::Position;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads one line after the other.
pub(super) struct Lines<R> {
    input: R,
    next: Position,
    line: Vec<u8>,
}

/// A line without its end.
pub(super) struct Line<'a> {
    /// Counted from 1.
    pub(super) number: u64,
    /// Its bytes.
    pub(super) bytes: &'a [u8],
}

impl<R: BufRead> Lines<R> {
    /// Lines of `input`, which begins at `start`.
    pub(super) fn new(input: R, start: Position) -> Self {
        Self { input, next: start, line: Vec::new() }
    }

    /// Where the next line begins.
    pub(super) fn position(&self) -> Position {
        self.next
    }

    /// The next line that is not blank.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            self.line.clear();
            let length = self.input.read_until(b'\n', &mut self.line)?;
            if length == 0 {
                return Ok(None);
            }
            let Position { offset, line: number } = self.next;
            self.next = Position { offset: offset + length as u64, line: number + 1 };
            let without_end = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            let without_end = without_end.strip_suffix(b"\r").unwrap_or(without_end);
            let mark = if offset == 0 && without_end.starts_with(BYTE_ORDER_MARK) {
                BYTE_ORDER_MARK.len()
            } else {
                0
            };
            let (begin, end) = (mark, without_end.len());
            if begin < end {
                let bytes = self.line.get(begin..end).unwrap_or_default();
                return Ok(Some(Line { number, bytes }));
            }
        }
    }
}
