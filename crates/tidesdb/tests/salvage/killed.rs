//! Databases that are killed, and whose files are changed by hand.
#![allow(unreachable_pub)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tidesdb::salvage::{SalvageReport, salvage};
use tidesdb::{Db, DbOptions, Family};
use tidesdb_base::entry::ValueKind;
use tidesdb_files::naming::{self, FileKind};
use tidesdb_files::wal::record::{RecordPlace, commit_header, record_bytes};
use tidesdb_files::wal::{BatchWriter, Operation, RECORDS_OFFSET, SegmentHeader, SegmentReader};
use tidesdb_sys::vfs::{OpenMode, RealVfs, Vfs};

use super::support::{Files, content_of};

pub type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A directory with a database that is made, and killed.
pub struct Place {
    pub dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn source(&self) -> PathBuf {
        self.dir.path().join("source")
    }

    pub fn copy(&self) -> PathBuf {
        self.dir.path().join("copy")
    }

    /// Does `work` to a new database and keeps the files as a kill would leave them.
    pub fn killed(&self, options: DbOptions, work: impl FnOnce(&Db)) -> PathBuf {
        let alive = self.dir.path().join("alive");
        let db = Db::open(&alive, options).unwrap();
        work(&db);
        db.wait_idle().unwrap();
        copy_files(&alive, &self.source());
        db.close().unwrap();
        self.source()
    }

    pub fn salvaged(&self) -> (SalvageReport, Contents) {
        let report = salvage(&self.source(), &self.copy(), &mut |_| Ok(())).unwrap();
        let db = Db::open(self.copy(), DbOptions::default().read_only(true)).unwrap();
        assert!(db.verify().unwrap().problems.is_empty());
        (report, content_of(&db))
    }
}

pub fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

pub fn named(dir: &Path, wanted: impl Fn(FileKind) -> bool) -> Vec<PathBuf> {
    let files = Files::of(dir);
    let names = files.names().filter(|name| naming::parse(name).is_some_and(&wanted));
    names.map(|name| dir.join(name)).collect()
}

pub fn segments(dir: &Path) -> Vec<PathBuf> {
    let all = named(dir, |kind| matches!(kind, FileKind::LogSegment(_)));
    all.into_iter().filter(|path| open_segment(path).is_some()).collect()
}

pub fn tables(dir: &Path) -> Vec<PathBuf> {
    named(dir, |kind| matches!(kind, FileKind::Table(_)))
}

pub fn open_segment(path: &Path) -> Option<SegmentReader> {
    SegmentReader::open(RealVfs::new().open(path, OpenMode::Read).unwrap(), path).unwrap()
}

/// Header of a segment, and where each of its records begins and ends.
pub fn records(path: &Path) -> (SegmentHeader, Vec<(u64, u64)>) {
    let mut reader = open_segment(path).unwrap();
    let mut places = Vec::new();
    loop {
        let start = reader.end().position;
        let Some((_, end)) = reader.next_record().unwrap() else { break };
        places.push((start, end));
    }
    (*reader.header(), places)
}

pub fn write_at(path: &Path, offset: u64, bytes: &[u8]) {
    let file = RealVfs::new().open(path, OpenMode::ReadWrite).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

/// As if the record that begins there had never been written.
pub fn make_hole(path: &Path, header: &SegmentHeader, (start, end): (u64, u64)) {
    let zeros = vec![0; (end - start) as usize];
    write_at(path, RECORDS_OFFSET + start - header.base, &zeros);
}

pub fn put_of(family: u32, key: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    let kind = ValueKind::Value;
    let operation = Operation { family, kind, expires_at: 0, key, value: b"of a record" };
    BatchWriter::new(&mut payload).push(operation);
    payload
}

pub fn sealed(payload: &[u8], segment: u64, position: u64) -> Vec<u8> {
    let mut record = commit_header(payload, RecordPlace { segment, position, synced: 0 }).to_vec();
    record.extend_from_slice(payload);
    record.resize(record_bytes(payload.len()), 0);
    record
}

/// A segment file of its own, with a record for each payload.
pub fn make_segment(dir: &Path, header: SegmentHeader, payloads: &[Vec<u8>]) {
    let mut bytes = header.encode();
    bytes.resize(RECORDS_OFFSET as usize, 0);
    let mut position = header.base;
    for payload in payloads {
        let record = sealed(payload, header.number, position);
        position += record.len() as u64;
        bytes.extend_from_slice(&record);
    }
    bytes.resize(bytes.len() + 4096, 0);
    std::fs::write(dir.join(FileKind::LogSegment(header.number).name()), bytes).unwrap();
}

pub fn key(number: u32) -> Vec<u8> {
    format!("key {number:04}").into_bytes()
}

pub fn put_all(family: &Family, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| family.put(&key(number), b"value").unwrap());
}

pub fn keys_of(contents: &Contents, family: &str) -> Vec<Vec<u8>> {
    contents[family].keys().cloned().collect()
}

pub fn keys(numbers: impl IntoIterator<Item = u32>) -> Vec<Vec<u8>> {
    numbers.into_iter().map(key).collect()
}
