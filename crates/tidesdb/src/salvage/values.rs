//! Values in the value logs of a damaged database.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::FileKind;
use tidesdb_files::vlog::{ValuePointer, VlogReader};

use crate::salvage::report::Loss;
use crate::salvage::source::Source;

/// Reads values, and remembers which could not be read.
#[derive(Debug)]
pub(crate) struct Values<'a> {
    source: &'a Source,
    /// Or why there is none.
    readers: HashMap<u64, Result<VlogReader, String>>,
    /// The loss that the next one may belong to, by value log: lost values of keys that follow each
    /// other.
    open: HashMap<u64, Loss>,
    scratch: Vec<u8>,
}

impl<'a> Values<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        Self { source, readers: HashMap::new(), open: HashMap::new(), scratch: Vec::new() }
    }

    /// Replaces `value` by the value at an encoded pointer; returns why when it can't be read.
    ///
    /// # Errors
    /// [`Error::Io`] that says nothing of the value.
    pub(crate) fn read(
        &mut self,
        pointer: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Result<(), String>> {
        let Ok(pointer) = ValuePointer::decode(pointer) else {
            return Ok(Err("the pointer to the value is malformed".to_owned()));
        };
        let reader = match self.readers.entry(pointer.file) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let kind = FileKind::ValueLog(pointer.file);
                unknown.insert(match self.source.file(kind) {
                    // Each record is sealed by itself, whatever became of the header.
                    Ok(file) => {
                        Ok(VlogReader::without_header(file, &self.source.path(kind), pointer.file))
                    }
                    Err(Error::Corruption { detail, .. }) => Err(detail),
                    Err(other) => return Err(other),
                })
            }
        };
        let reader = match reader {
            Ok(reader) => reader,
            Err(reason) => return Ok(Err(reason.clone())),
        };
        match reader.read_into(&pointer, &mut self.scratch, value) {
            Ok(()) => Ok(Ok(())),
            Err(Error::Corruption { detail, .. }) => Ok(Err(detail)),
            Err(other) => Err(other),
        }
    }

    /// Notes that the value of `key` is lost.
    pub(crate) fn lose(&mut self, pointer: &[u8], key: &[u8], reason: String, out: &mut Vec<Loss>) {
        let place = ValuePointer::decode(pointer);
        let number = place.map_or(0, |pointer| pointer.file);
        let (offset, bytes) = place.map_or((0, 0), |p| (p.offset, p.record_bytes()));
        let path: PathBuf = self.source.path(FileKind::ValueLog(number));
        let same = self.open.get(&number).is_some_and(|open| open.reason == reason);
        if !same && let Some(done) = self.open.remove(&number) {
            out.push(done);
        }
        let loss = self.open.entry(number).or_insert_with(|| {
            let mut loss = Loss::new(path, offset, 0, reason);
            loss.first_key = Some(key.to_vec());
            loss.entries = Some(0);
            loss
        });
        let end = (loss.offset + loss.bytes).max(offset.saturating_add(bytes));
        loss.offset = loss.offset.min(offset);
        loss.bytes = end - loss.offset;
        loss.last_key = Some(key.to_vec());
        loss.entries = loss.entries.map(|entries| entries + 1);
    }

    /// Notes that a value was read: a loss of that value log does not go on behind it.
    pub(crate) fn found(&mut self, pointer: &[u8], out: &mut Vec<Loss>) {
        if self.open.is_empty() {
            return;
        }
        let number = ValuePointer::decode(pointer).map_or(0, |pointer| pointer.file);
        out.extend(self.open.remove(&number));
    }

    /// Ends all losses.
    pub(crate) fn finish(&mut self, out: &mut Vec<Loss>) {
        let mut losses: Vec<Loss> = self.open.drain().map(|(_, loss)| loss).collect();
        losses.sort_by(|a, b| (&a.file, a.offset).cmp(&(&b.file, b.offset)));
        out.extend(losses);
    }
}
