//! Hands bytes to each reader of bytes from outside: what `fuzz/` and the test of hostile bytes
//! call.
//!
//! Checksums would keep made-up bytes from all that lies behind them. So most readers here get
//! bytes as if their checksum had matched, or bytes that are sealed on the way. Each does with what
//! was read what a caller would do with it. They return nothing: whatever the bytes are, a reader
//! may refuse them, and must not panic, hang, or take memory out of proportion.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tidesdb_base::codec::put_u32;
use tidesdb_base::compress::Compression;
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sys::vfs::{File, ReadAt, ReadOnlyFile};

use crate::filter::{Filters, key_hash, prefix_hash};
use crate::manifest::{Edit, SalvagedManifest, named_by, read_manifest};
use crate::sstable::{Readahead, SalvagedTable, Table, TableIterator, Uncached};
use crate::vlog::{SalvagedRecord, ValuePointer, VlogReader};
use crate::wal::{BatchReader, SegmentHeader, SegmentReader, SurvivingOperations, record};
use crate::{manifest, sstable, vlog};

/// A reader of bytes from outside.
pub type Reader = fn(&[u8]);

/// All readers, each with the name of its fuzz target.
pub const READERS: &[(&str, Reader)] = &[
    ("log_record", log_record),
    ("log_segment", log_segment),
    ("batch", batch),
    ("manifest_edit", manifest_edit),
    ("manifest", manifest_file),
    ("current", current),
    ("table", table),
    ("table_sealed", table_sealed),
    ("table_block", sstable::read_hostile_block),
    ("table_sections", sstable::read_hostile_sections),
    ("filter", filter),
    ("value_log", value_log),
    ("value_record", value_record),
    ("pointer", pointer),
    ("options", options),
];

/// A file that is bytes in memory.
#[derive(Debug)]
struct Bytes(Vec<u8>);

fn file(bytes: &[u8]) -> Arc<dyn File> {
    Arc::new(ReadOnlyFile(Bytes(bytes.to_vec())))
}

impl ReadAt for Bytes {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        let rest = self.0.get(from..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(rest) {
            *to = *from;
        }
        Ok(count)
    }

    fn file_len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

fn path() -> &'static Path {
    Path::new("hostile")
}

/// The text of a family's options: what is read is written so that it is read as the same.
fn options(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(options) = FamilyOptions::from_text(&text) {
        let again = FamilyOptions::from_text(&options.to_text()).ok();
        assert!(again.as_ref() == Some(&options), "{options:?} became {again:?}");
    }
    let _ = DbOptions::default().with_text(&text);
}

fn log_record(bytes: &[u8]) {
    let _ = record::claimed_length(bytes, 0);
    let _ = record::sync_mark(bytes, u64::MAX);
    if let Some(view) = record::open(bytes, 1, 0) {
        batch(view.payload);
    }
}

fn log_segment(bytes: &[u8]) {
    let file = file(bytes);
    let header = SegmentHeader { number: 1, base: 64, previous_end: 0, synced: 0 };
    let readers = [
        SegmentReader::open(Arc::clone(&file), path()).ok().flatten(),
        SegmentReader::with_header(file, path(), header).ok(),
    ];
    for mut reader in readers.into_iter().flatten() {
        loop {
            match reader.next_record() {
                Ok(Some((view, _))) => batch(view.payload),
                Ok(None) => match reader.skip_break() {
                    Ok(Some(_)) => {}
                    _ => break,
                },
                Err(_) => break,
            }
        }
        let _ = reader.behind_break();
    }
}

fn batch(bytes: &[u8]) {
    for operation in BatchReader::new(bytes).flatten() {
        pointer(operation.value);
    }
    let _ = SurvivingOperations::new(bytes).count();
}

fn manifest_edit(bytes: &[u8]) {
    if let Ok(edit) = Edit::decode(bytes) {
        debug_assert_eq!(Edit::decode(&edit.encode()), Ok(edit));
    }
}

/// The bytes as they are, and as the records of a manifest that are sealed.
fn manifest_file(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), manifest::sealed(3, bytes)] {
        let file = ReadOnlyFile(Bytes(bytes));
        let _ = read_manifest(&file, path(), 3);
        let _ = SalvagedManifest::survey(&file, path(), 3);
        let _ = SalvagedManifest::claimed_number(&file, path());
    }
}

fn current(bytes: &[u8]) {
    let _ = manifest::current::number_in(bytes);
    let _ = named_by(bytes);
}

fn read_table(bytes: &[u8]) {
    let file = file(bytes);
    if let Ok(table) = Table::open(Arc::clone(&file), path(), 1) {
        let _ = table.verify();
        let _ = table.keys_between(4);
        let _ = table.lookup(b"key", u64::MAX, &Uncached);
        let mut entries = TableIterator::new(&table, Uncached, Readahead::Bytes(4096));
        let mut walked = entries.seek_to_last();
        while walked.is_ok() && entries.valid() {
            walked = entries.prev();
        }
        let _ = entries.seek(b"key");
    }
    if let Ok(remains) = SalvagedTable::survey(file, path(), 1) {
        for part in remains.parts() {
            if let sstable::Part::Data(handle) = part {
                let _ = remains.entries(*handle);
            }
        }
    }
}

fn table(bytes: &[u8]) {
    read_table(bytes);
    let _ = SalvagedTable::claimed_identity(file(bytes).as_ref(), path());
}

/// Bytes as the raw sections of a table, all sealed: lengths of data, filter, index and whether the
/// index is a tree stand in front.
fn table_sealed(bytes: &[u8]) {
    let Some((&[tree, a, b, c, d, e], rest)) = bytes.split_first_chunk() else { return };
    let length = |low, high| usize::from(u16::from_le_bytes([low, high])).min(4096);
    let (data, rest) = rest.split_at(length(a, b).min(rest.len()));
    let (filter, rest) = rest.split_at(length(c, d).min(rest.len()));
    let (index, properties) = rest.split_at((usize::from(e) * 4).min(rest.len()));
    read_table(&sstable::sealed(tree & 1 == 1, [data, filter, index, properties]));
}

fn filter(bytes: &[u8]) {
    if let Ok(filters) = Filters::decode(bytes) {
        let prefix_bytes = filters.prefix_bytes();
        for key in [&b"a"[..], b"key 007", bytes] {
            let _ = (filters.may_contain(key_hash(key)), filters.first_word(key_hash(key)));
            let _ = prefix_hash(key, prefix_bytes).map(|hash| filters.may_contain_prefix(hash));
        }
    }
}

fn value_log(bytes: &[u8]) {
    let file = file(bytes);
    let _ = VlogReader::claimed_number(file.as_ref(), path());
    let _ = VlogReader::open(Arc::clone(&file), path(), 1).and_then(|reader| reader.verify());
    let reader = VlogReader::without_header(file, path(), 1);
    let _ = reader.survey(&mut |record| {
        if let SalvagedRecord::Whole(pointer) = record {
            let _ = reader.read(&pointer);
        }
        Ok(())
    });
}

/// The bytes as what is stored in a record with a checksum that matches: codec and raw length stand
/// in front.
#[expect(clippy::cast_possible_truncation, reason = "a fuzzer gives less than 4 GiB")]
fn value_record(bytes: &[u8]) {
    let Some((&[codec, a, b, c], stored)) = bytes.split_first_chunk() else { return };
    let codec = Compression::from_u8(codec % 5).unwrap_or_default();
    let raw_len = match codec {
        Compression::None => stored.len() as u32,
        _ => u32::from_le_bytes([a, b, c, 0]),
    };
    let (record, pointer) = vlog::sealed(1, codec, raw_len, stored);
    let reader = VlogReader::without_header(file(&record), path(), 1);
    let _ = reader.read(&pointer);
    let _ = reader.survey(&mut |_| Ok(()));
}

fn pointer(bytes: &[u8]) {
    if let Ok(pointer) = ValuePointer::decode(bytes) {
        let mut again = Vec::new();
        pointer.encode(&mut again);
        debug_assert_eq!(ValuePointer::decode(&again), Ok(pointer));
        let mut header = Vec::new();
        put_u32(&mut header, pointer.raw_len);
        let reader = VlogReader::without_header(file(&header), path(), pointer.file);
        let _ = reader.read(&pointer);
    }
}
