//! A second reader of stored databases, made from `docs/formats` and from nothing else: of the
//! engine it uses the published algorithms behind checksums and codecs alone. The pages say enough
//! if it finds in each fixture what was put there.

mod filter;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tidesdb_base::checksum::{placed, plain, seed};
use tidesdb_base::compress::Compression;

use super::archives::{fixtures, unpack};
use super::{Content, Fixture, expected};

/// The moment at which the databases are read, in Unix seconds.
const NOW: u64 = 1_800_000_000;

/// Bytes that are read from the front.
#[derive(Clone, Copy)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    /// A little-endian number of so many bytes.
    fn number(&mut self, bytes: usize) -> u64 {
        self.take(bytes).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn varint(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.number(1);
            number |= (byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    }

    fn size(&mut self) -> usize {
        self.varint() as usize
    }

    fn string(&mut self) -> &'a [u8] {
        let len = self.size();
        self.take(len)
    }

    fn text(&mut self) -> String {
        String::from_utf8(self.string().to_vec()).unwrap()
    }

    fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

fn decompress(codec: u8, stored: &[u8], raw_len: usize) -> Vec<u8> {
    let mut raw = vec![0; raw_len];
    Compression::from_u8(codec).unwrap().decompress(stored, &mut raw).unwrap();
    raw
}

/// A version of a key as a table or the log has it. Kinds are those of tables.
#[derive(Clone)]
struct Version {
    sequence: u64,
    kind: u8,
    expires: Option<u64>,
    value: Vec<u8>,
}

/// A deletion of a range: its sequence number, its first key, and the key that it ends before.
type Tombstone = (u64, Vec<u8>, Vec<u8>);

#[derive(Clone, Default)]
struct Family {
    name: String,
    /// Number and run of each table.
    tables: BTreeMap<u64, u64>,
    flushed_through: u64,
    tombstones: BTreeSet<Tombstone>,
}

/// What the manifest says in the end: the families, and the segment at which the log starts.
fn manifest(dir: &Path) -> (BTreeMap<u64, Family>, u64) {
    let current = std::fs::read_to_string(dir.join("CURRENT")).unwrap();
    let (name, digits) = current.strip_suffix('\n').unwrap().split_once(' ').unwrap();
    assert_eq!(digits, format!("{:016x}", plain(name.as_bytes())));
    let bytes = std::fs::read(dir.join(name)).unwrap();
    let mut file = Cursor(&bytes);
    assert_eq!((file.take(8), file.number(4)), (&b"TDBMANI\n"[..], 4));
    file.number(4);
    let number = file.number(8);
    let (mut families, mut log_start) = (BTreeMap::new(), 0);
    while !file.is_empty() {
        let offset = (bytes.len() - file.0.len()) as u64;
        let (len, checksum) = (file.number(4) as usize, file.number(8));
        let mut edit = Cursor(file.take(len));
        assert_eq!(checksum, placed(number, offset, edit.0));
        while !edit.is_empty() {
            change(&mut edit, &mut families, &mut log_start);
        }
    }
    (families, log_start)
}

fn change(edit: &mut Cursor<'_>, families: &mut BTreeMap<u64, Family>, log_start: &mut u64) {
    let tag = edit.varint();
    if (9..=12).contains(&tag) {
        let number = edit.varint();
        if tag == 9 {
            *log_start = number;
        }
        return;
    }
    let number = edit.varint();
    if tag == 17 {
        // Value logs are not followed here: a pointer names its file.
        let source = families[&edit.varint()].clone();
        families.insert(number, Family { name: edit.text(), ..source });
        return;
    }
    let family = families.entry(number).or_default();
    match tag {
        1 => (family.name, _) = (edit.text(), edit.text()),
        2 => _ = families.remove(&number),
        3 => _ = edit.text(),
        5 => _ = family.tables.remove(&edit.varint()).unwrap(),
        6 => (_, _) = (edit.varint(), edit.varint()),
        7 => _ = edit.varint(),
        8 => family.flushed_through = edit.varint(),
        13 => assert!(family.tombstones.insert(tombstone(edit))),
        14 => assert!(family.tombstones.remove(&tombstone(edit))),
        15 => {
            let (file, _level, run) = (edit.varint(), edit.varint(), edit.varint());
            (0..6).for_each(|_| _ = edit.varint());
            (0..2).for_each(|_| _ = edit.string());
            (0..2 * edit.varint()).for_each(|_| _ = edit.varint());
            edit.string();
            (0..edit.varint()).for_each(|_| _ = edit.varint());
            assert!(family.tables.insert(file, run).is_none());
        }
        16 => family.name = edit.text(),
        _ => panic!("no change {tag} in fixtures"),
    }
}

fn tombstone(edit: &mut Cursor<'_>) -> Tombstone {
    (edit.varint(), edit.string().to_vec(), edit.string().to_vec())
}

/// An operation of the log: family, its key or the first of a range, and the version that it makes.
/// Of the deletion of a range, of kind 4, the value is where it ends.
type Operation = (u64, Vec<u8>, Version);

/// The commits of the log, by their sequence numbers, from the segment with this number on.
fn log(dir: &Path, start: u64) -> Vec<(u64, Vec<Operation>)> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let files = names.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let mut segments = BTreeMap::new();
    for bytes in files.map(|path| std::fs::read(path).unwrap()) {
        let mut header = Cursor(&bytes);
        let is_one = header.take(8) == b"TDBWAL\r\n" && header.number(8) == 3;
        let (number, base, previous_end) = (header.number(8), header.number(8), header.number(8));
        let checksum = Cursor(&bytes[48..]).number(8);
        if is_one && checksum == placed(0x5445_4741_4c57, 0, &bytes[..48]) {
            segments.insert(number, (base, previous_end, bytes));
        }
    }
    let (mut commits, mut next) = (Vec::new(), segments.contains_key(&start).then_some(start));
    while let Some(number) = next {
        let (base, _, bytes) = &segments[&number];
        let mut position = *base;
        while let Some(record) = bytes.get(128 + (position - base) as usize..)
            && let Some((payload, taken)) = record_at(record, number, position)
        {
            position += taken;
            commits.extend(payload.map(|payload| (position, operations(payload))));
        }
        let follows = |(other, segment): (&u64, &(u64, u64, Vec<u8>))| {
            (*other > number && segment.1 == position).then_some(*other)
        };
        next = segments.iter().find_map(follows);
    }
    commits
}

/// The payload of a commit, nothing for a void record, and how much room the record takes.
fn record_at(bytes: &[u8], segment: u64, position: u64) -> Option<(Option<&[u8]>, u64)> {
    let mut header = Cursor(bytes.get(..16)?);
    let (checksum, len) = (header.number(4), header.number(4) as usize);
    header.number(7);
    let kind = header.number(1);
    let payload = bytes.get(16..16 + len).filter(|_| (1..=1 << 30).contains(&len))?;
    let sealed = if kind == 1 { payload } else { &[] };
    let matches = placed(placed(segment, position, &bytes[4..16]), 0, sealed) as u32;
    let taken = (16 + len as u64).next_multiple_of(8).max(32);
    let is_one = matches!(kind, 1 | 2) && u64::from(matches) == checksum;
    is_one.then(|| ((kind == 1).then_some(payload), taken))
}

fn operations(payload: &[u8]) -> Vec<Operation> {
    let (mut rest, mut found) = (Cursor(payload), Vec::new());
    while !rest.is_empty() {
        let (kind, family) = (rest.number(1) as u8, rest.varint());
        let (key_len, value_len) = (rest.size(), rest.size());
        let expires = (kind & 0x80 != 0).then(|| rest.number(8));
        let key = rest.take(key_len).to_vec();
        let value = rest.take(value_len).to_vec();
        found.push((family, key, Version { sequence: 0, kind: kind & 0x7f, expires, value }));
    }
    found
}

fn covers((_, from, until): &Tombstone, key: &[u8]) -> bool {
    from[..] <= *key && (until.is_empty() || *key < until[..])
}

/// The value behind a pointer.
fn pointed_at(dir: &Path, pointer: &[u8]) -> Vec<u8> {
    let mut pointer = Cursor(pointer);
    let (file, offset) = (pointer.varint(), pointer.size());
    let (stored_len, raw_len) = (pointer.size(), pointer.size());
    assert!(pointer.is_empty());
    let bytes = std::fs::read(dir.join(format!("{file:06}.vlog"))).unwrap();
    let mut header = Cursor(&bytes);
    assert_eq!((header.take(8), header.number(8)), (&b"TDBVALUE"[..], 1));
    assert_eq!((header.number(8), header.number(8)), (file, placed(file, 0, &bytes[..24])));
    let stored = &bytes[offset + 20..][..stored_len];
    let mut record = Cursor(&bytes[offset..]);
    let (kind, codec) = (record.number(1) as u8, record.number(1) as u8);
    assert_eq!((kind, record.number(2)), (b'V', 0));
    assert_eq!((record.number(4), record.number(4)), (raw_len as u64, stored_len as u64));
    let inner = placed(file, offset as u64 + 20, stored).to_le_bytes();
    let sealed = [&bytes[offset..][..12], &inner].concat();
    assert_eq!(record.number(8), placed(file, offset as u64, &sealed));
    decompress(codec, stored, raw_len)
}

/// Where a version stands among those of its key, of which the greatest counts: whether it is of
/// the log; its run, or sequence number there; and its place within that.
type Rank = (bool, u64, u64);

/// The content of one family, by stored keys.
fn content(dir: &Path, number: u64, family: &Family, log: &[(u64, Vec<Operation>)]) -> Content {
    let mut newest: BTreeMap<Vec<u8>, (Rank, Version)> = BTreeMap::new();
    let mut consider = |key: Vec<u8>, rank, version: Version| {
        if newest.get(&key).is_none_or(|(other, _)| rank > *other) {
            newest.insert(key, (rank, version));
        }
    };
    for (&file, &run) in &family.tables {
        let bytes = std::fs::read(dir.join(format!("{file:06}.klog"))).unwrap();
        for (key, version) in table::entries(&bytes, file) {
            consider(key, (false, run, version.sequence), version);
        }
    }
    let mut tombstones = family.tombstones.clone();
    for (sequence, operations) in log.iter().filter(|(at, _)| *at > family.flushed_through) {
        for (place, (of, key, version)) in operations.iter().enumerate() {
            let range = |(of, from, range): &Operation| {
                (*of == number && range.kind == 4)
                    .then(|| (*sequence, from.clone(), range.value.clone()))
            };
            let mut later = operations[place + 1..].iter().filter_map(range);
            if let Some(tombstone) = range(&operations[place]) {
                tombstones.insert(tombstone);
            } else if *of == number && !later.any(|range| covers(&range, key)) {
                let version = Version { sequence: *sequence, ..version.clone() };
                consider(key.clone(), (true, *sequence, place as u64), version);
            }
        }
    }
    let is_there = |key: &[u8], version: &Version| {
        let hides =
            |tombstone: &Tombstone| tombstone.0 > version.sequence && covers(tombstone, key);
        matches!(version.kind, 1 | 2)
            && version.expires.is_none_or(|at| at > NOW)
            && !tombstones.iter().any(hides)
    };
    let shown = newest.into_iter().filter(|(key, (_, version))| is_there(key, version));
    let value = |version: Version| match version.kind {
        2 => pointed_at(dir, &version.value),
        _ => version.value,
    };
    shown.map(|(key, (_, version))| (key, value(version))).collect()
}

#[test]
fn a_reader_made_from_the_pages_finds_what_was_stored() {
    let place = tempfile::tempdir().unwrap();
    for fixture in Fixture::all() {
        let name = fixture.name();
        let dir = place.path().join(&name);
        unpack(&std::fs::read(fixtures().join(&name)).unwrap(), &dir);
        let (families, log_start) = manifest(&dir);
        let log = log(&dir, log_start);
        assert_eq!(log.is_empty(), fixture.closed, "{name}");
        let mut expected = expected();
        for (number, family) in &families {
            let expected = expected.remove(&family.name[..]).unwrap();
            let found = content(&dir, *number, family, &log);
            assert!(found == expected, "{name}: family {} reads otherwise", family.name);
        }
        assert!(expected.is_empty(), "{name}: {:?}", expected.keys());
    }
}

#[test]
fn the_seed_of_checksums_is_mixed_as_the_page_says() {
    for (id, offset) in [(0, 0), (14, 0x287), (u64::MAX, 1 << 40), (0x5445_4741_4c57, 9)] {
        let z: u64 = id ^ u64::wrapping_mul(offset, 0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        assert_eq!(seed(id, offset), z ^ (z >> 31));
    }
}
