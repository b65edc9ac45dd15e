//! The stored databases of a family whose form of tables and codec changed while it had data, next
//! to one that was dropped: runs of either form and each codec, some of them compacted into cut
//! tables, and a manifest that was written anew in between. One is as a kill left it, with the mark
//! of an earlier clean close, one was closed.

use std::path::Path;

use tidesdb::{Db, DbOptions, ErrorKind, Family, FamilyOptions};

use super::archives::{copy_alive, files_of, fixtures, unpack};
use super::{CODECS, Content, content_of, key, value};

/// Name of the archive.
pub(crate) const fn name(closed: bool) -> &'static str {
    if closed { "mixed-closed.archive" } else { "mixed-killed.archive" }
}

/// Every table of the family in turn: even rounds are of blocks, odd ones trees.
fn options(round: usize) -> FamilyOptions {
    FamilyOptions::default()
        .use_btree(round % 2 == 1)
        .compression(CODECS[round % CODECS.len()])
        .block_size(512)
        .klog_value_threshold(300)
        .target_table_bytes(4 << 10)
        // No compaction but those that are asked for.
        .l1_file_count_trigger(500)
        .max_space_amplification(1000.0)
        .min_disk_space(100 << 20)
}

/// What round `round` puts and deletes, of 300 keys.
fn changes(round: usize) -> Vec<(u32, Option<Vec<u8>>)> {
    let round = round as u32;
    let put = |number| (number, Some(value(number, round)));
    let mut changes: Vec<_> = (round * 13..300).step_by(1 + round as usize).map(put).collect();
    changes.extend((round..300).step_by(29).map(|number| (number, None)));
    changes
}

/// Rounds that are in tables; the last one is in the log alone, unless the database was closed.
const FLUSHED: usize = 2 * CODECS.len();
/// Behind so many of them everything is compacted.
const COMPACTED: usize = 3;

fn expected() -> Content {
    let mut content = Content::new();
    for (number, value) in (0..=FLUSHED).flat_map(changes) {
        match value {
            Some(value) => content.insert(key(number), value),
            None => content.remove(&key(number)),
        };
    }
    content
}

fn write(family: &Family, round: usize) {
    for (number, value) in changes(round) {
        match value {
            Some(value) => family.put(&key(number), &value).unwrap(),
            None => family.delete(&key(number)).unwrap(),
        }
    }
}

/// Makes the database in `dir`.
pub(crate) fn make(closed: bool, dir: &Path) {
    let alive = dir.with_extension("alive");
    let db = Db::open(&alive, DbOptions::default()).unwrap();
    let gone = db.create_family("gone", options(1)).unwrap();
    write(&gone, 1);
    gone.flush().unwrap();
    let family = db.create_family("mixed", options(0)).unwrap();
    for round in 0..FLUSHED {
        family.set_options(options(round)).unwrap();
        write(&family, round);
        family.flush().unwrap();
        if round + 1 == COMPACTED {
            family.compact().unwrap();
            db.stop_compactions().unwrap();
        }
    }
    drop((gone, family));
    db.drop_family("gone").unwrap();
    db.close().unwrap();
    // The first edit after an opening begins another manifest.
    let db = Db::open(&alive, DbOptions::default()).unwrap();
    db.stop_compactions().unwrap();
    let family = db.family("mixed").unwrap();
    family.set_options(options(FLUSHED)).unwrap();
    write(&family, FLUSHED);
    db.wait_idle().unwrap();
    drop(family);
    if closed {
        db.close().unwrap();
        std::fs::rename(&alive, dir).unwrap();
        return;
    }
    copy_alive(&alive, dir);
    db.close().unwrap();
    std::fs::remove_dir_all(&alive).unwrap();
}

#[track_caller]
fn check(db: &Db, name: &str) {
    assert_eq!(db.family_names(), ["mixed"], "{name}");
    assert_eq!(db.family("gone").unwrap_err().kind(), ErrorKind::NotFound, "{name}");
    let (family, expected) = (db.family("mixed").unwrap(), expected());
    assert!(content_of(&family) == expected, "{name} reads otherwise");
    for number in 0..300 {
        let found = family.get(&key(number)).unwrap();
        assert!(found.as_ref() == expected.get(&key(number)), "{name}: key {number}");
    }
    assert_eq!(family.options(), options(FLUSHED), "{name}");
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{name}: {:?}", report.problems);
}

#[test]
fn stored_families_of_mixed_forms_and_codecs_are_read_as_they_were_written() {
    let place = tempfile::tempdir().unwrap();
    for closed in [false, true] {
        let name = name(closed);
        let dir = place.path().join(name);
        unpack(&std::fs::read(fixtures().join(name)).unwrap(), &dir);
        let before = files_of(&dir);
        let has = |file: &str| before.iter().any(|(name, _)| name.starts_with(file));
        // That of the close before was still there when the other one was killed, and no longer
        // counts.
        assert_eq!((has("CLOSED"), has("wal-")), (true, !closed), "{name}");
        let db = Db::open(&dir, DbOptions::default().read_only(true)).unwrap();
        check(&db, name);
        let family = db.family("mixed").unwrap();
        let (trees, levels) = (family.tree_stats().unwrap(), family.stats().levels);
        let rest = FLUSHED - COMPACTED;
        assert!(trees.flat_tables >= 4 && trees.tables() >= 4, "{name}: {trees:?}");
        let runs: Vec<_> = levels.iter().map(|level| (level.level, level.runs)).collect();
        assert_eq!(runs, [(1, rest as u64 + u64::from(closed)), (2, 1)], "{name}");
        assert!(levels[1].tables > 1, "{name}: {levels:?}");
        drop(family);
        db.close().unwrap();
        assert!(files_of(&dir) == before, "reading changed {name}");
        let db = Db::open(&dir, DbOptions::default()).unwrap();
        check(&db, name);
        db.compact().unwrap();
        check(&db, name);
        db.close().unwrap();
        let db = Db::open(&dir, DbOptions::default()).unwrap();
        check(&db, name);
        db.close().unwrap();
    }
}
