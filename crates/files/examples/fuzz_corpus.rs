//! Writes the first bytes of the fuzz targets:
//! `cargo run -p tidesdb-files --example fuzz_corpus -- DIR`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::compress::Compression;
use tidesdb_base::entry::ValueKind;
use tidesdb_base::key_order::KeyOrder;
use tidesdb_base::options::{DbOptions, FamilyOptions, SyncMode};
use tidesdb_base::range_tombstone::RangeTombstone;
use tidesdb_files::filter::{FilterKind, FilterOptions};
use tidesdb_files::manifest::{Change, Edit, ManifestWriter, TableRecord, ValueLogRecord, current};
use tidesdb_files::sstable::{EntryMeta, IndexForm, TableOptions, TableOrigin, TableWriter};
use tidesdb_files::vlog::{ValuePointer, VlogOptions, VlogWriter};
use tidesdb_files::wal::record::{RecordPlace, commit_header, record_bytes};
use tidesdb_files::wal::{BatchWriter, Operation, SegmentHeader};
use tidesdb_sim::SimVfs;
use tidesdb_sys::vfs::{OpenMode, Vfs};

type Failure = Box<dyn std::error::Error>;

fn read(vfs: &SimVfs, path: &Path) -> Result<Vec<u8>, Failure> {
    let file = vfs.open(path, OpenMode::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn table(index: IndexForm, compression: Compression, value: &[u8]) -> Result<Vec<u8>, Failure> {
    let (vfs, path) = (SimVfs::new(1), Path::new("/table"));
    let file = vfs.open(path, OpenMode::CreateNew)?;
    let options = TableOptions {
        index,
        block_size: 128,
        compression,
        filter: match index {
            IndexForm::Flat => FilterOptions::of_keys(0.01),
            IndexForm::Tree { .. } => FilterOptions {
                kind: FilterKind::Ribbon,
                rate: 0.01,
                of_keys: true,
                prefix_bytes: 4,
            },
        },
        identity: 1,
        expected_entries: 20,
        now_unix_seconds: 0,
        origin: TableOrigin { family: 1, name: "users".to_owned(), ..TableOrigin::default() },
    };
    let mut writer = TableWriter::new(file, path, options);
    for number in 0..20_u64 {
        let key = format!("key {number:03}");
        let expires_at = if number % 5 == 0 { 4_000_000_000 } else { 0 };
        let meta = EntryMeta { seq: 100 - number, kind: ValueKind::Value, expires_at };
        writer.add(key.as_bytes(), meta, value)?;
    }
    let meta = EntryMeta { seq: 7, kind: ValueKind::Tombstone, expires_at: 0 };
    writer.add(b"z", meta, b"")?;
    writer.finish()?;
    read(&vfs, path)
}

fn payload() -> Vec<u8> {
    let mut out = Vec::new();
    let mut add = |kind, expires_at, key, value| {
        let operation = Operation { family: 1, kind, expires_at, key, value };
        BatchWriter::new(&mut out).push(operation);
    };
    add(ValueKind::Value, 0, b"key".as_slice(), b"value".as_slice());
    add(ValueKind::Value, 99, b"expires", b"value");
    add(ValueKind::Tombstone, 0, b"gone", b"");
    add(ValueKind::RangeTombstone, 0, b"a", b"b");
    add(ValueKind::ValuePointer, 0, b"large", &[8, 32, 10, 10]);
    out
}

fn segment() -> Vec<u8> {
    let header = SegmentHeader { number: 1, base: 64, previous_end: 0, synced: 0 };
    let mut out = header.encode();
    out.resize(128, 0);
    for _ in 0..3 {
        let (payload, position) = (payload(), 64 + (out.len() as u64 - 128));
        out.extend_from_slice(&commit_header(
            &payload,
            RecordPlace { segment: 1, position, synced: 64 },
        ));
        out.extend_from_slice(&payload);
        let end = 128 + (position as usize - 64) + record_bytes(payload.len());
        out.resize(end, 0);
    }
    out.resize(out.len() + 256, 0);
    out
}

fn edit() -> Edit {
    let table = TableRecord {
        number: 9,
        level: 1,
        run: 4,
        bytes: 1000,
        entries: 10,
        smallest_key: b"a".to_vec(),
        largest_key: b"z".to_vec(),
        value_references: vec![(8, 77)],
        ..TableRecord::default()
    };
    let tombstone =
        RangeTombstone { start: b"b".as_slice().into(), end: b"c".as_slice().into(), sequence: 44 };
    Edit::new(vec![
        Change::CreateFamily {
            family: 1,
            name: "users".into(),
            options: "block_size = 4096".into(),
        },
        Change::AddTable { family: 1, table: Arc::new(table) },
        Change::AddValueLog { family: 1, file: ValueLogRecord { number: 8, bytes: 500 } },
        Change::AddRangeTombstone { family: 1, tombstone: Arc::new(tombstone) },
        Change::CopyFamily { family: 2, source: 1, name: "copy".into() },
        Change::RenameFamily { family: 2, name: "other".into() },
        Change::RemoveTable { family: 2, number: 9 },
        Change::FlushedThrough { family: 1, sequence: 50 },
        Change::LogStart { segment: 7 },
        Change::NextFile { number: 10 },
        Change::NextFamily { family: 3 },
        Change::LastSequence { sequence: 50 },
    ])
}

/// Target, name and bytes.
type FirstBytes = (&'static str, String, Vec<u8>);

/// What is written.
#[derive(Default)]
struct Corpus(Vec<FirstBytes>);

impl Corpus {
    fn write(&mut self, target: &'static str, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        self.0.push((target, name.to_owned(), bytes.to_vec()));
        Ok(())
    }

    fn tables(&mut self) -> Result<(), Failure> {
        let tree = IndexForm::Tree { node_bytes: 64, node_leaves: usize::MAX };
        for (name, index, codec) in [
            ("flat", IndexForm::Flat, Compression::None),
            ("tree", tree, Compression::None),
            ("lz4", IndexForm::Flat, Compression::Lz4),
            ("zstd", tree, Compression::Zstd),
            ("snappy", tree, Compression::Snappy),
        ] {
            self.write("table", name, &table(index, codec, &[b'v'; 40])?)?;
        }
        // Without compression the raw sections lie in the file, each with a trailer of 13 bytes.
        for (name, index) in [("flat", IndexForm::Flat), ("tree", tree)] {
            let bytes = table(index, Compression::None, b"v")?;
            let footer = bytes.len() - 96;
            let place = |at: usize| -> Result<usize, Failure> {
                let field = bytes.get(footer + at..footer + at + 8).ok_or("no footer")?;
                Ok(u64::from_le_bytes(field.try_into()?) as usize)
            };
            let section = |at: usize| -> Result<Vec<u8>, Failure> {
                let (offset, len) = (place(at)?, place(at + 8)?);
                Ok(bytes.get(offset..offset + len - 13).ok_or("no section")?.to_vec())
            };
            let (filter, index, properties) = (section(16)?, section(32)?, section(48)?);
            self.write("filter", name, &filter)?;
            self.write("table_sections", &format!("index-{name}"), &index)?;
            self.write("table_sections", &format!("properties-{name}"), &properties)?;
            self.write(
                "table_sections",
                &format!("footer-{name}"),
                bytes.get(footer..).ok_or("no footer")?,
            )?;
            let first = bytes.get(..place(16)?.min(200)).ok_or("no data")?;
            self.write("table_block", name, first)?;
            let (data, kind) = (first.len() as u16, u8::from(name == "tree"));
            let mut sealed = vec![kind, data as u8, (data >> 8) as u8];
            sealed.extend([filter.len() as u8, (filter.len() >> 8) as u8, (index.len() / 4) as u8]);
            for part in [first, &filter, &index, &properties] {
                sealed.extend_from_slice(part);
            }
            self.write("table_sealed", name, &sealed)?;
        }
        Ok(())
    }

    fn logs(&mut self) -> Result<(), Failure> {
        self.write("batch", "operations", &payload())?;
        self.write("log_segment", "records", &segment())?;
        let record =
            segment().get(128..128 + record_bytes(payload().len())).ok_or("no record")?.to_vec();
        self.write("log_record", "commit", &record)?;
        self.write("manifest_edit", "changes", &edit().encode())?;
        let vfs = SimVfs::new(1);
        vfs.create_dir(Path::new("/db"))?;
        let mut writer = ManifestWriter::create(vfs.as_ref(), Path::new("/db"), 3, &edit())?;
        writer.append(&Edit::new(vec![Change::NextFile { number: 11 }]))?;
        current::set_current(vfs.as_ref(), Path::new("/db"), 3)?;
        self.write("manifest", "edits", &read(&vfs, Path::new("/db/MANIFEST-000003"))?)?;
        self.write("manifest", "body", &edit().encode())?;
        self.write("current", "current", &read(&vfs, Path::new("/db/CURRENT"))?)?;
        Ok(())
    }

    fn values(&mut self) -> Result<(), Failure> {
        let vfs = SimVfs::new(1);
        let path = Path::new("/vlog");
        let file = vfs.open(path, OpenMode::CreateNew)?;
        let options = VlogOptions { number: 1, compression: Compression::Lz4 };
        let mut values = VlogWriter::new(file, path, options)?;
        values.append(&[b'v'; 200])?;
        values.append(b"short")?;
        values.finish()?;
        self.write("value_log", "records", &read(&vfs, path)?)?;
        let mut compressed = Vec::new();
        for (codec, name) in [(1, "snappy"), (2, "lz4"), (3, "zstd")] {
            let raw = b"a value that is repeated, ".repeat(20);
            if !Compression::from_u8(codec).ok_or("no codec")?.compress(&raw, &mut compressed) {
                return Err("a codec does not compress".into());
            }
            let mut bytes = vec![codec, raw.len() as u8, (raw.len() >> 8) as u8, 0];
            bytes.extend_from_slice(&compressed);
            self.write("value_record", name, &bytes)?;
        }
        let mut bytes = Vec::new();
        ValuePointer { file: 8, offset: 32, stored_len: 100, raw_len: 300 }.encode(&mut bytes);
        self.write("pointer", "pointer", &bytes)
    }

    fn options(&mut self) -> Result<(), Failure> {
        self.write("options", "default", FamilyOptions::default().to_text().as_bytes())?;
        let mut options = FamilyOptions::default()
            .compression(Compression::Zstd)
            .bloom_fpr(0.000_5)
            .max_space_amplification(1.25)
            .min_disk_space(1 << 20)
            .sync_mode(SyncMode::Interval { interval_us: 1000 })
            .key_order(KeyOrder::Custom("mine".to_owned()));
        options.properties.insert("note".to_owned(), "two\nlines, \"=\" and \\".to_owned());
        self.write("options", "others", options.text_beside_default().as_bytes())?;
        self.write("options", "database", DbOptions::default().to_text().as_bytes())
    }
}

/// All first bytes: target, name and bytes.
pub(crate) fn corpus() -> Result<Vec<FirstBytes>, Failure> {
    let mut corpus = Corpus::default();
    corpus.tables()?;
    corpus.logs()?;
    corpus.values()?;
    corpus.options()?;
    Ok(corpus.0)
}

pub(crate) fn main() -> Result<(), Failure> {
    let root = PathBuf::from(std::env::args().nth(1).ok_or("usage: fuzz_corpus DIR")?);
    for (target, name, bytes) in corpus()? {
        std::fs::create_dir_all(root.join(target))?;
        std::fs::write(root.join(target).join(name), bytes)?;
    }
    Ok(())
}
