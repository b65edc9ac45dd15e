//! Databases that were stored when format version 1 was frozen: each is opened, read in full and
//! verified, as it was stored and after it was written to (`docs/formats/README.md`).
//!
//! They are written by `cargo test -p tidesdb-testkit --test engine format_fixtures -- --ignored`.
//! That is done once for each thing that version 1 gains, never to make a failing test pass: an
//! archive that exists is left as it is.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and helpers count as production code to the lint"
)]

mod archives;
mod mixed;
mod orders;
mod pages;
mod reader;

use std::collections::BTreeMap;
use std::path::Path;

use archives::{copy_alive, files_of, fixtures, pack, unpack};
use tidesdb::{Db, DbOptions, Family, FamilyOptions, FilterKind, ScanOptions};
use tidesdb_base::compress::Compression;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;
type Contents = BTreeMap<&'static str, Content>;

const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
    Compression::Lz4Fast,
];
/// A fixture: form of tables, codec, whether it has what a family has by its options alone (ribbon
/// filters, filters of prefixes) and single deletions, and whether it was closed or killed.
struct Fixture {
    tree: bool,
    codec: Compression,
    ribbon: bool,
    closed: bool,
}

impl Fixture {
    fn all() -> Vec<Self> {
        let of = |tree, codec| Self { tree, codec, ribbon: false, closed: false };
        let forms = [false, true];
        let killed = forms.into_iter().flat_map(|tree| CODECS.map(|codec| of(tree, codec)));
        let closed = Self { closed: true, ..of(true, Compression::Zstd) };
        let ribbon = forms.map(|tree| Self { ribbon: true, ..of(tree, Compression::Lz4) });
        killed.chain([closed]).chain(ribbon).collect()
    }

    fn name(&self) -> String {
        let form = if self.tree { "tree" } else { "flat" };
        let end = if self.closed { "closed" } else { "killed" };
        let filters = if self.ribbon { "-ribbon" } else { "" };
        format!("{form}-{}{filters}-{end}.archive", self.codec.name())
    }

    fn options(&self) -> FamilyOptions {
        let options = FamilyOptions::default();
        let options = match self.ribbon {
            true => options.filter_kind(FilterKind::Ribbon).prefix_bytes(PREFIX.len()),
            false => options,
        };
        options
            .use_btree(self.tree)
            .compression(self.codec)
            .block_size(1024)
            .klog_value_threshold(300)
            .min_disk_space(100 << 20)
    }

    /// Makes the database in `dir`.
    fn make(&self, dir: &Path) {
        let alive = dir.with_extension("alive");
        let db = Db::open(&alive, DbOptions::default()).unwrap();
        let main = db.create_family("first name", self.options()).unwrap();
        let other = db.create_family("other", self.options().bloom_fpr(0.001)).unwrap();
        for number in 0..400_u32 {
            main.put(&key(number), &value(number, 1)).unwrap();
        }
        if self.ribbon {
            main.put(b"once", b"deleted in a table").unwrap();
            main.put(b"only", b"deleted in the log").unwrap();
        }
        db.flush().unwrap();
        if self.ribbon {
            main.single_delete(b"once").unwrap();
        }
        for number in 100..200_u32 {
            main.put(&key(number), &value(number, 2)).unwrap();
        }
        for number in (0..100_u32).step_by(3) {
            main.delete(&key(number)).unwrap();
        }
        // In the manifest once it is flushed.
        main.delete_range(&key(300), &key(320)).unwrap();
        main.put(&key(310), &value(310, 3)).unwrap();
        other.put_expiring_at(b"later", b"still there", 4_000_000_000).unwrap();
        other.put_expiring_at(b"gone", b"expired long ago", 1000).unwrap();
        other.put(b"large", &value(7, 9).repeat(30)).unwrap();
        // Straight to a value log of its own.
        other.put(b"very large", &vec![b'v'; 1 << 20]).unwrap();
        db.flush().unwrap();
        db.clone_family("first name", "copy").unwrap();
        db.rename_family("first name", "main").unwrap();
        // From here on in the log alone, unless the database is closed.
        if self.ribbon {
            main.single_delete(b"only").unwrap();
            db.family("copy").unwrap().delete(b"only").unwrap();
        }
        main.put(&key(150), &value(150, 4)).unwrap();
        main.delete(&key(151)).unwrap();
        main.delete_range(&key(380), &key(390)).unwrap();
        main.put(&key(1000), &value(1000, 1)).unwrap();
        db.wait_idle().unwrap();
        if self.closed {
            db.close().unwrap();
            std::fs::rename(&alive, dir).unwrap();
            return;
        }
        copy_alive(&alive, dir);
        drop((main, other));
        db.close().unwrap();
        std::fs::remove_dir_all(&alive).unwrap();
    }
}

/// The prefix of fixtures that have filters of prefixes: of as many bytes.
const PREFIX: &[u8] = b"key 001";

fn key(number: u32) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

/// Every fifth is long enough for a value log.
fn value(number: u32, version: u32) -> Vec<u8> {
    let times = if number.is_multiple_of(5) { 40 } else { 2 };
    format!("value {number} of version {version}, ").repeat(times).into_bytes()
}

/// What all fixtures hold, whatever their options.
fn expected() -> Contents {
    let mut main: Content = (0..400).map(|number| (key(number), value(number, 1))).collect();
    for number in 100..200 {
        main.insert(key(number), value(number, 2));
    }
    for number in (0..100).step_by(3).chain(300..320) {
        main.remove(&key(number));
    }
    main.insert(key(310), value(310, 3));
    let copy = main.clone();
    main.insert(key(150), value(150, 4));
    for number in [151].into_iter().chain(380..390) {
        main.remove(&key(number));
    }
    main.insert(key(1000), value(1000, 1));
    let other = Content::from([
        (b"later".to_vec(), b"still there".to_vec()),
        (b"large".to_vec(), value(7, 9).repeat(30)),
        (b"very large".to_vec(), vec![b'v'; 1 << 20]),
    ]);
    Contents::from([("main", main), ("copy", copy), ("other", other)])
}

fn content_of(family: &Family) -> Content {
    let mut content = Content::new();
    let mut scan = family.scan(ScanOptions::new()).unwrap();
    scan.seek_to_first().unwrap();
    while scan.valid() {
        content.insert(scan.key().to_vec(), scan.value().unwrap().to_vec());
        scan.next().unwrap();
    }
    content
}

#[track_caller]
fn check(db: &Db, fixture: &Fixture) {
    let name = fixture.name();
    let expected = expected();
    let mut names = db.family_names();
    names.sort();
    assert_eq!(names, ["copy", "main", "other"], "{name}");
    for (family, content) in expected {
        let found = content_of(&db.family(family).unwrap());
        assert!(found == content, "{name}: family {family} reads otherwise");
        for (key, value) in content.iter().step_by(17) {
            let got = db.family(family).unwrap().get(key).unwrap();
            assert!(got.as_ref() == Some(value), "{name}: {family} {key:?}");
        }
        let within = content.keys().filter(|key| key.starts_with(PREFIX)).count();
        let scan = db.family(family).unwrap().scan(ScanOptions::new().prefix(PREFIX)).unwrap();
        assert_eq!(scan.entries().count(), within, "{name}: {family}");
    }
    assert_eq!(db.family("main").unwrap().options(), fixture.options(), "{name}");
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{name}: {:?}", report.problems);
}

#[test]
fn stored_databases_are_read_as_they_were_written() {
    let place = tempfile::tempdir().unwrap();
    for fixture in Fixture::all() {
        let path = fixtures().join(fixture.name());
        let archive = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let dir = place.path().join(fixture.name());
        unpack(&archive, &dir);
        let before = files_of(&dir);
        let db = Db::open(&dir, DbOptions::default().read_only(true)).unwrap();
        check(&db, &fixture);
        db.close().unwrap();
        assert!(files_of(&dir) == before, "reading changed {}", fixture.name());
        let has_log = before.iter().any(|(name, _)| name.starts_with("wal-"));
        assert_eq!(has_log, !fixture.closed, "{}", fixture.name());
        let db = Db::open(&dir, DbOptions::default()).unwrap();
        check(&db, &fixture);
        db.compact().unwrap();
        check(&db, &fixture);
        db.close().unwrap();
        let db = Db::open(&dir, DbOptions::default()).unwrap();
        check(&db, &fixture);
        db.close().unwrap();
    }
}

/// Writes the archives that are missing.
#[test]
#[ignore = "writes the fixtures that are missing"]
fn write_the_fixtures_that_are_missing() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(fixtures()).unwrap();
    let write = |name: &str, make: &dyn Fn(&Path)| {
        let path = fixtures().join(name);
        if !path.exists() {
            let dir = place.path().join(name);
            make(&dir);
            std::fs::write(&path, pack(&files_of(&dir))).unwrap();
            println!("{}: {} bytes", path.display(), std::fs::metadata(&path).unwrap().len());
        }
    };
    for fixture in Fixture::all() {
        write(&fixture.name(), &|dir| fixture.make(dir));
    }
    for tree in [false, true] {
        write(orders::name(tree), &|dir| orders::make(tree, dir));
    }
    for closed in [false, true] {
        write(mixed::name(closed), &|dir| mixed::make(closed, dir));
    }
}
