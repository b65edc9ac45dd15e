//! Databases that are damaged on purpose, and where what lay in them.
#![allow(unreachable_pub)]

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb::{Compression, Db, DbOptions, FamilyOptions, KeyOrder, ScanOptions};
use tidesdb_base::entry::ValueKind;
use tidesdb_files::naming::{self, FileKind};
use tidesdb_files::sstable::{Part, SalvagedTable};
use tidesdb_files::vlog::{ValuePointer, VlogReader};
use tidesdb_files::wal::{BatchReader, RecordKind, SegmentReader};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sys::vfs::{File, OpenMode, RealVfs, Vfs};

/// The seeds of a test: from `TIDESDB_SEED` on, or fixed. `TIDESDB_TEST_SCALE` multiplies their
/// number.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("TIDESDB_SEED").unwrap_or(1);
    let count = count * number("TIDESDB_TEST_SCALE").unwrap_or(1);
    println!("TIDESDB_SEED={first}");
    first..first + count
}

/// The families of databases that are made, in the order of their numbers.
const FAMILIES: [&str; 4] = ["first", "second", "third", "fourth"];

/// An order of an application, which happens to be that of bytes.
const OWN_ORDER: &str = "own";

/// Opens a database, whose families may have an order of an application.
pub fn open_db(dir: &Path, options: DbOptions) -> Db {
    let db = Db::open(dir, options).unwrap();
    db.register_key_order(OWN_ORDER, <[u8]>::cmp).unwrap();
    db
}

/// Everything in a database.
pub fn content_of(db: &Db) -> BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut contents = BTreeMap::new();
    for name in db.family_names() {
        let family = db.family(&name).unwrap();
        let mut content = BTreeMap::new();
        let mut scan = family.scan(ScanOptions::new()).unwrap();
        scan.seek_to_first().unwrap();
        while scan.valid() {
            content.insert(scan.key().to_vec(), scan.value().unwrap().to_vec());
            scan.next().unwrap();
        }
        contents.insert(name, content);
    }
    contents
}

/// The files of a directory, but for the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    pub fn of(dir: &Path) -> Self {
        let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        let files = entries.filter(|entry| entry.path().is_file());
        let read = |entry: std::fs::DirEntry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        };
        Self(files.map(read).filter(|(name, _)| name != "LOCK").collect())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Some bytes of a file; none when it does not hold them all.
    pub fn part(&self, name: &str, offset: u64, bytes: u64) -> Option<&[u8]> {
        self.0.get(name)?.get(offset as usize..(offset + bytes) as usize)
    }

    /// Those whose names `wanted` takes.
    pub fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let files = self.0.iter().filter(|(name, _)| wanted(name));
        Self(files.map(|(name, bytes)| (name.clone(), bytes.clone())).collect())
    }
}

type History = Vec<Option<Vec<u8>>>;

/// A database that was made by random operations, and what was written to it.
pub struct Made {
    pub dir: PathBuf,
    pub options: BTreeMap<String, FamilyOptions>,
    pub deletes_ranges: bool,
    history: BTreeMap<String, BTreeMap<Vec<u8>, History>>,
}

fn random_options(random: &mut SplitMix64) -> FamilyOptions {
    let codecs = [
        Compression::None,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
        Compression::Lz4Fast,
    ];
    let orders = [
        KeyOrder::Bytewise,
        KeyOrder::Bytewise,
        KeyOrder::Reverse,
        KeyOrder::Lexicographic,
        KeyOrder::Uint64,
        KeyOrder::Int64,
        KeyOrder::CaseInsensitive,
        KeyOrder::Custom(OWN_ORDER.to_owned()),
    ];
    FamilyOptions::default()
        .key_order(orders[random.below(8) as usize].clone())
        .use_btree(random.below(2) == 0)
        .compression(codecs[random.below(5) as usize])
        .block_size([512, 1024, 4096][random.below(3) as usize])
        .klog_value_threshold([150, 400, 1 << 20][random.below(3) as usize])
        .enable_bloom_filter(random.below(4) > 0)
        .target_table_bytes(64 << 10)
}

impl Made {
    /// Left as a kill would leave it: what was not flushed is in the log.
    pub fn random(seed: u64, dir: &Path) -> Self {
        let mut random = SplitMix64::new(seed);
        let alive = dir.with_extension("alive");
        let db = open_db(&alive, DbOptions::default());
        let mut made = Self {
            dir: dir.to_path_buf(),
            options: BTreeMap::new(),
            deletes_ranges: false,
            history: BTreeMap::new(),
        };
        for name in FAMILIES {
            let options = random_options(&mut random);
            db.create_family(name, options.clone()).unwrap();
            made.options.insert(name.to_owned(), options);
            made.history.insert(name.to_owned(), BTreeMap::new());
        }
        let operations = 300 + random.below(2500);
        // In half of the runs the database is opened once more in between.
        let reopened_at = random.below(2 * operations);
        let mut db = db;
        for number in 0..operations {
            if number == reopened_at {
                db.close().unwrap();
                db = open_db(&alive, DbOptions::default());
            }
            made.operate(&db, number, &mut random);
        }
        db.wait_idle().unwrap();
        std::fs::create_dir(dir).unwrap();
        for entry in std::fs::read_dir(&alive).unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_file() {
                std::fs::copy(entry.path(), dir.join(entry.file_name())).unwrap();
            }
        }
        db.close().unwrap();
        std::fs::remove_dir_all(&alive).unwrap();
        made
    }

    fn operate(&mut self, db: &Db, number: u64, random: &mut SplitMix64) {
        let name = FAMILIES[random.below(FAMILIES.len() as u64) as usize];
        let family = db.family(name).unwrap();
        let order = self.options[name].key_order.clone();
        let key = |random: &mut SplitMix64| match order {
            KeyOrder::Uint64 | KeyOrder::Int64 => random.below(300).to_ne_bytes().to_vec(),
            _ => format!("key {:04}", random.below(300)).into_bytes(),
        };
        let history = self.history.get_mut(name).unwrap();
        let mut note = |key: &[u8], value: Option<Vec<u8>>| {
            history.entry(key.to_vec()).or_default().push(value);
        };
        match random.below(200) {
            0..3 => family.flush().unwrap(),
            3 => family.compact().unwrap(),
            4..20 => {
                let key = key(random);
                family.delete(&key).unwrap();
                note(&key, None);
            }
            20 => {
                let (one, other) = (key(random), key(random));
                let compare = |one: &[u8], other: &[u8]| order.compare(one, other);
                if compare(&one, &other) == Some(Ordering::Less) {
                    family.delete_range(&one, &other).unwrap();
                    self.deletes_ranges = true;
                    for (key, story) in history {
                        let behind = compare(&one, key) != Some(Ordering::Greater);
                        if behind && compare(key, &other) == Some(Ordering::Less) {
                            story.push(None);
                        }
                    }
                }
            }
            21 => db.sync_log().unwrap(),
            kind => {
                let (key, len) = (key(random), random.below(600) as usize);
                let mut value = format!("{number} of {name}: ").into_bytes();
                value.extend((0..len).map(|_| b'a' + random.below(20) as u8));
                let expires_at = if kind < 40 { 4_000_000_000 + number } else { 0 };
                family.put_expiring_at(&key, &value, expires_at).unwrap();
                note(&key, Some(value));
            }
        }
    }

    /// What the undamaged database shows.
    pub fn content(&self) -> BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>> {
        let of_family = |(name, keys): (&String, &BTreeMap<Vec<u8>, History>)| {
            let last = keys.iter().filter_map(|(key, story)| {
                story.last().and_then(|value| value.clone()).map(|value| (key.clone(), value))
            });
            (name.clone(), last.collect())
        };
        self.history.iter().map(of_family).collect()
    }

    pub fn keys(&self) -> BTreeSet<(String, Vec<u8>)> {
        let of_family = |(name, keys): (&String, &BTreeMap<Vec<u8>, History>)| {
            keys.keys().map(|key| (name.clone(), key.clone())).collect::<Vec<_>>()
        };
        self.history.iter().flat_map(of_family).collect()
    }

    /// Everything that was written to a key, in order; no value is a deletion.
    pub fn story(&self, family: &str, key: &[u8]) -> &[Option<Vec<u8>>] {
        self.history.get(family).and_then(|keys| keys.get(key)).map_or(&[], Vec::as_slice)
    }
}

/// A version of a key, and where it lies.
#[derive(Clone, Debug)]
pub struct Kept {
    pub sequence: u64,
    pub deletes: bool,
    pub file: String,
    /// Of the block or the record.
    pub offset: u64,
    pub bytes: u64,
    /// A part of the file without which it may be impossible to know what it is: offset and length.
    pub needs: (u64, u64),
    /// Value log, offset and length of the value's record.
    pub pointer: Option<(String, u64, u64)>,
    pub value: Option<Vec<u8>>,
}

/// Where everything lies in an undamaged database.
pub struct Places(BTreeMap<(String, Vec<u8>), Vec<Kept>>);

fn open(dir: &Path, name: &str) -> Arc<dyn File> {
    RealVfs::new().open(&dir.join(name), OpenMode::Read).unwrap()
}

impl Places {
    pub fn find(made: &Made) -> Self {
        let (dir, orders) = (made.dir.as_path(), &made.options);
        let mut places = Self(BTreeMap::new());
        let files = Files::of(dir);
        for name in files.names() {
            if let Some(FileKind::Table(number)) = naming::parse(name) {
                places.add_table(dir, name, number);
            }
        }
        for name in files.names() {
            if matches!(naming::parse(name), Some(FileKind::LogSegment(_))) {
                places.add_segment(dir, name);
            }
        }
        for versions in places.0.values_mut() {
            versions.sort_by_key(|kept| std::cmp::Reverse(kept.sequence));
        }
        // From what is stored to what was given.
        let given = places.0.into_iter().map(|((family, stored), mut versions)| {
            let order = &orders[&family].key_order;
            for kept in &mut versions {
                kept.value = kept.value.as_ref().map(|value| order.value(value).to_vec());
            }
            let key = order.key(&stored);
            ((family, key), versions)
        });
        Self(given.collect())
    }

    fn add_table(&mut self, dir: &Path, name: &str, number: u64) {
        let remains = SalvagedTable::survey(open(dir, name), Path::new(name), number).unwrap();
        assert!(remains.problems().is_empty(), "{:?}", remains.problems());
        let origin = remains.summary().unwrap().origin.clone();
        let properties = remains.sections().into_iter().find(|(what, ..)| *what == "properties");
        let (_, offset, bytes) = properties.unwrap();
        for part in remains.parts() {
            let Part::Data(handle) = part else { continue };
            for entry in remains.entries(*handle).unwrap() {
                let mut kept = Kept {
                    sequence: entry.meta.seq,
                    deletes: entry.meta.kind.is_tombstone(),
                    file: name.to_owned(),
                    offset: handle.offset,
                    bytes: u64::from(handle.len),
                    needs: (offset, bytes),
                    pointer: None,
                    value: None,
                };
                kept.fill(dir, entry.meta.kind, &entry.value);
                self.0.entry((origin.name.clone(), entry.key)).or_default().push(kept);
            }
        }
    }

    fn add_segment(&mut self, dir: &Path, name: &str) {
        let opened = SegmentReader::open(open(dir, name), Path::new(name)).unwrap();
        let Some(mut reader) = opened else { return };
        loop {
            let start = reader.end().position;
            let offset = reader.offset_of(start);
            let Some((record, end)) = reader.next_record().unwrap() else { break };
            if record.kind != RecordKind::Commit {
                continue;
            }
            for operation in BatchReader::new(record.payload).map(Result::unwrap) {
                if operation.kind == ValueKind::RangeTombstone {
                    continue;
                }
                let mut kept = Kept {
                    sequence: end,
                    deletes: operation.kind.is_tombstone(),
                    file: name.to_owned(),
                    offset,
                    // The padding does not matter.
                    bytes: 16 + record.payload.len() as u64,
                    needs: (0, 56),
                    pointer: None,
                    value: None,
                };
                kept.fill(dir, operation.kind, operation.value);
                let family = FAMILIES[operation.family as usize].to_owned();
                self.0.entry((family, operation.key.to_vec())).or_default().push(kept);
            }
        }
    }

    /// The operations of records of a log segment that lie behind an offset.
    pub fn records_behind<'a>(
        &'a self,
        file: &'a str,
        offset: u64,
    ) -> impl Iterator<Item = &'a Kept> {
        let all = self.0.values().flatten();
        all.filter(move |kept| kept.file == file && kept.offset > offset)
    }

    /// The versions of a key, newest first.
    pub fn of(&self, family: &str, key: &[u8]) -> &[Kept] {
        self.0.get(&(family.to_owned(), key.to_vec())).map_or(&[], Vec::as_slice)
    }
}

impl Kept {
    fn fill(&mut self, dir: &Path, kind: ValueKind, value: &[u8]) {
        if kind == ValueKind::ValuePointer {
            let pointer = ValuePointer::decode(value).unwrap();
            let name = FileKind::ValueLog(pointer.file).name();
            let reader =
                VlogReader::open(open(dir, &name), Path::new(&name), pointer.file).unwrap();
            self.value = Some(reader.read(&pointer).unwrap());
            self.pointer = Some((name, pointer.offset, pointer.record_bytes()));
        } else if kind == ValueKind::Value {
            self.value = Some(value.to_vec());
        }
    }
}

/// A way to damage a database.
#[derive(Clone, Copy, Debug)]
pub enum Damage {
    /// A few bits.
    Flip,
    /// A stretch becomes zeros.
    Zero,
    /// A page becomes zeros.
    Page,
    /// A file loses its end.
    Cut,
    /// A file goes.
    Remove,
    /// Bits of the last part of a table.
    TableEnd,
}

impl Damage {
    /// Damages a random file.
    pub fn apply(self, dir: &Path, random: &mut SplitMix64) {
        let files = Files::of(dir);
        let wanted = |name: &&str| !matches!(self, Self::TableEnd) || name.ends_with(".klog");
        let names: Vec<&str> = files.names().filter(wanted).collect();
        if names.is_empty() {
            return;
        }
        let name = names[random.below(names.len() as u64) as usize];
        let path = dir.join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        if bytes.is_empty() {
            return;
        }
        // Of a segment only the front is in use.
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(1, |last| last + 1) as u64;
        match self {
            Self::Flip => {
                for _ in 0..1 + random.below(3) {
                    bytes[random.below(used) as usize] ^= 1 << random.below(8);
                }
            }
            Self::Zero => {
                let (from, len) = (random.below(used) as usize, 1 + random.below(3000) as usize);
                let end = (from + len).min(bytes.len());
                bytes[from..end].fill(0);
            }
            Self::Page => {
                let from = (random.below(used) as usize) & !4095;
                let end = (from + 4096).min(bytes.len());
                bytes[from..end].fill(0);
            }
            Self::Cut => bytes.truncate(random.below(used) as usize),
            Self::TableEnd => {
                let tail = used.min(400);
                bytes[(used - 1 - random.below(tail)) as usize] ^= 1 << random.below(8);
            }
            Self::Remove => return std::fs::remove_file(&path).unwrap(),
        }
        std::fs::write(&path, bytes).unwrap();
    }

    /// Flips one byte.
    pub fn flip_at(dir: &Path, name: &str, offset: u64) {
        let mut bytes = std::fs::read(dir.join(name)).unwrap();
        bytes[offset as usize] ^= 0xff;
        std::fs::write(dir.join(name), bytes).unwrap();
    }
}
