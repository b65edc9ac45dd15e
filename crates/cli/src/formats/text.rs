//! Text for people: key, two spaces, value, with escapes; at a terminal long values are cut and
//! say how long they are. It is written only, never read back.

use std::io::{self, Write};

use super::{RecordWriter, Row};
use crate::encoding::Encoding;

/// Characters of a value that are shown when values are cut.
const SHOWN_CHARACTERS: usize = 100;

/// Writes text.
pub(super) struct Writer {
    encoding: Encoding,
    cut: bool,
    line: Vec<u8>,
}

impl Writer {
    /// A writer of fields in that encoding, which cuts long values if asked to.
    pub(super) fn new(encoding: Encoding, cut: bool) -> Self {
        Self { encoding, cut, line: Vec::new() }
    }

    fn push_value(&mut self, value: &[u8]) {
        // No encoding makes bytes shorter, and a character has four bytes at most.
        let enough = SHOWN_CHARACTERS * 4;
        let head = value.get(..enough).filter(|_| self.cut).unwrap_or(value);
        let begin = self.line.len();
        self.encoding.encode(head, &mut self.line);
        if !self.cut {
            return;
        }
        let text = String::from_utf8_lossy(self.line.get(begin..).unwrap_or_default());
        let Some((cut, _)) = text.char_indices().nth(SHOWN_CHARACTERS) else { return };
        self.line.truncate(begin + cut);
        self.line.extend_from_slice(format!("… ({} bytes)", value.len()).as_bytes());
    }
}

impl RecordWriter for Writer {
    fn write(&mut self, out: &mut dyn Write, row: Row<'_>) -> io::Result<()> {
        self.line.clear();
        self.encoding.encode(row.key, &mut self.line);
        if let Some(value) = row.value {
            self.line.extend_from_slice(b"  ");
            self.push_value(value);
        }
        if let Some(second) = row.expires_at {
            self.line.extend_from_slice(format!("  (expires at {second})").as_bytes());
        }
        self.line.push(b'\n');
        out.write_all(&self.line)
    }
}
