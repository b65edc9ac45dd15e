//! Files whose checksums are right and whose bytes were made up: damage, not assertions that fail.

use tidesdb_base::checksum;
use tidesdb_base::compress::Compression;
use tidesdb_base::entry::MAX_SEQUENCE;
use tidesdb_base::error::Error;
use tidesdb_files::manifest::TableRecord;
use tidesdb_files::naming::FileKind;

use super::*;
use crate::opening::inventory::take_inventory;
use crate::version::{FamilyRecord, NO_LOG, PersistedState};

const DIR: &str = "/db";

/// Keys without a common beginning, so that they lie in blocks as they are.
const KEYS_OF_TABLE: [&[u8]; 4] = [b"bb", b"dd", b"ff", b"hh"];

fn options() -> FamilyOptions {
    FamilyOptions::default().min_disk_space(0).compression(Compression::None)
}

/// A database of two runs of a table each, which was closed.
fn golden() -> Arc<SimVfs> {
    let sim = SimVfs::new(1);
    let db = try_open(&sim, &scheduler(), SyncMode::None).unwrap();
    let family = db.create_family("family", options()).unwrap();
    for value in [b"older", b"newer"] {
        KEYS_OF_TABLE.iter().for_each(|key| family.put(key, value).unwrap());
        family.flush().unwrap();
    }
    drop(family);
    db.close().unwrap();
    sim
}

/// The database with another manifest, in which the record of its family is as `change` makes it.
fn with_record(golden: &Arc<SimVfs>, change: impl FnOnce(&mut FamilyRecord)) -> Arc<SimVfs> {
    with_state(golden, |state| change(state.families.values_mut().next().unwrap()))
}

/// The database with a manifest that says what `change` makes of it.
fn with_state(golden: &Arc<SimVfs>, change: impl FnOnce(&mut PersistedState)) -> Arc<SimVfs> {
    let sim = golden.fork();
    let found = take_inventory(&(Arc::clone(&sim) as _), Path::new(DIR)).unwrap().unwrap();
    assert_eq!(found.state.log_start, NO_LOG);
    let (mut state, number) = (found.state.clone(), found.next_number());
    change(&mut state);
    state.next_file = number + 1;
    ManifestWriter::create(sim.as_ref(), Path::new(DIR), number, &state.restate()).unwrap();
    current::set_current(sim.as_ref(), Path::new(DIR), number).unwrap();
    sim
}

fn newest(record: &FamilyRecord) -> TableRecord {
    record.tables.values().next_back().unwrap().as_ref().clone()
}

fn replace(record: &mut FamilyRecord, change: impl FnOnce(&mut TableRecord)) {
    let mut table = newest(record);
    change(&mut table);
    record.tables.insert(table.number, Arc::new(table));
}

#[track_caller]
fn assert_damage<T: std::fmt::Debug>(result: Result<T>, file: &str, text: &str) {
    match result {
        Err(Error::Corruption { file: found, detail, .. }) => {
            assert!(found.to_string_lossy().contains(file), "{found:?}: {detail}");
            assert!(detail.contains(text), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

/// A change of what the manifest says of a family.
type Forgery = fn(&mut FamilyRecord);

/// A compaction of such tables panicked, or wrote tables that no reader finds keys in.
#[test]
fn a_manifest_with_tables_that_can_not_be_is_damaged() {
    let golden = golden();
    try_open(&with_record(&golden, |_| ()), &scheduler(), SyncMode::None).unwrap();
    let forgeries: [Forgery; 7] = [
        |record| replace(record, |table| table.level = 0),
        |record| replace(record, |table| table.largest_key = b"a".to_vec()),
        |record| replace(record, |table| table.lowest_sequence = table.highest_sequence + 1),
        |record| replace(record, |table| table.highest_sequence = MAX_SEQUENCE + 1),
        |record| replace(record, |table| table.run = u64::MAX),
        |record| record.flushed_through = MAX_SEQUENCE + 1,
        |record| {
            // Both tables are of one run.
            let oldest = record.tables.values().next().unwrap().run;
            replace(record, |table| table.run = oldest);
        },
    ];
    for (at, forgery) in forgeries.into_iter().enumerate() {
        let sim = with_record(&golden, forgery);
        let opened = try_open(&sim, &scheduler(), SyncMode::None).map(drop);
        let text = if at == 6 { "share no key" } else { "expected" };
        assert_damage(opened, "MANIFEST", text);
    }
}

#[test]
fn a_table_with_keys_that_its_record_does_not_have_is_damaged() {
    let golden = golden();
    let forgeries: [Forgery; 2] = [
        |record| replace(record, |table| table.smallest_key = b"cc".to_vec()),
        |record| replace(record, |table| table.largest_key = b"gg".to_vec()),
    ];
    for forgery in forgeries {
        let sim = with_record(&golden, forgery);
        let db = try_open(&sim, &scheduler(), SyncMode::None).unwrap();
        let family = db.family("family").unwrap();
        assert_damage(family.get(b"dd"), "klog", "expected keys");
        assert_damage(family.compact(), "klog", "expected keys");
    }
}

/// The newest table, whose second key became `key`, with a checksum that matches.
fn with_second_key(golden: &Arc<SimVfs>, key: &[u8]) -> Arc<SimVfs> {
    let sim = golden.fork();
    let found = take_inventory(&(Arc::clone(&sim) as _), Path::new(DIR)).unwrap().unwrap();
    let number = newest(found.state.families.values().next().unwrap()).number;
    let path = Path::new(DIR).join(FileKind::Table(number).name());
    let file = sim.open(&path, OpenMode::ReadWrite).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let sum = |bytes: &[u8], end: usize| checksum::placed(number, 0, &bytes[..end]).to_le_bytes();
    let end = (1..bytes.len() - 8).find(|&end| bytes[end..end + 8] == sum(&bytes, end)).unwrap();
    let at = bytes[..end].windows(2).position(|window| window == KEYS_OF_TABLE[1]).unwrap();
    bytes[at..at + 2].copy_from_slice(key);
    let sealed = sum(&bytes, end);
    bytes[end..end + 8].copy_from_slice(&sealed);
    file.write_all_at(&bytes, 0).unwrap();
    file.sync_data().unwrap();
    sim
}

#[test]
fn a_table_whose_keys_are_out_of_order_is_damaged_for_scans_and_compactions() {
    let golden = golden();
    for key in [b"zz", b"aa"] {
        let sim = with_second_key(&golden, key);
        let db = try_open(&sim, &scheduler(), SyncMode::None).unwrap();
        let family = db.family("family").unwrap();
        let walk = |scan: crate::iterator::Scan| -> Result<Vec<_>> { scan.entries().collect() };
        // A release returns what lies there.
        if cfg!(debug_assertions) {
            assert_damage(walk(family.scan(ScanOptions::new()).unwrap()), "klog", "in order");
        }
        assert_damage(family.compact(), "klog", "expected a key behind");
    }
}

/// What is committed would have no sequence number, and be gone with the next opening.
#[test]
fn positions_that_no_database_has_reached_are_damage() {
    let golden = golden();
    let far = (MAX_SEQUENCE / 2) + 1;
    for position in [far, MAX_SEQUENCE - 7, MAX_SEQUENCE, MAX_SEQUENCE + 1, u64::MAX - 7, u64::MAX]
    {
        let sim = with_state(&golden, |state| state.last_sequence = position);
        let opened = try_open(&sim, &scheduler(), SyncMode::None).map(drop);
        assert_damage(opened, "MANIFEST", "expected a log that ends before");
        if position <= MAX_SEQUENCE {
            let sim = with_record(&golden, |record| record.flushed_through = position);
            let opened = try_open(&sim, &scheduler(), SyncMode::None).map(drop);
            assert_damage(opened, "MANIFEST", "expected a log that ends before");
        }
    }
    let sim = with_state(&golden, |state| state.last_sequence = far - 1);
    try_open(&sim, &scheduler(), SyncMode::None).unwrap();
}

/// The segments that follow would have lower numbers than the first.
#[test]
fn a_manifest_that_names_no_possible_segment_is_damaged() {
    let golden = golden();
    for (segment, opens) in [(1 << 55, true), (1 << 56, false), (NO_LOG, true)] {
        let sim = golden.fork();
        // One that a crash has left, which may be any.
        let left = Path::new(DIR).join(FileKind::LogSegment(1).name());
        drop(sim.open(&left, OpenMode::CreateNew).unwrap());
        let found = take_inventory(&(Arc::clone(&sim) as _), Path::new(DIR)).unwrap().unwrap();
        let (mut state, number) = (found.state.clone(), found.next_number());
        (state.log_start, state.next_file) = (segment, number + 1);
        ManifestWriter::create(sim.as_ref(), Path::new(DIR), number, &state.restate()).unwrap();
        current::set_current(sim.as_ref(), Path::new(DIR), number).unwrap();
        let opened = try_open(&sim, &scheduler(), SyncMode::None);
        match opens {
            true => drop(opened.unwrap()),
            false => assert_damage(opened.map(drop), "MANIFEST", "below 2^56"),
        }
    }
}

/// What is flushed by the word of the manifest lies behind all that is in the log: a commit with a
/// lower number would be taken for flushed, and be gone with the next opening.
#[test]
fn the_log_goes_on_behind_what_the_manifest_says_is_flushed() {
    let far = 1 << 40;
    let sim = with_record(&golden(), |record| record.flushed_through = far);
    for flushes in [false, true] {
        let image = sim.fork();
        let db = try_open(&image, &scheduler(), SyncMode::Full).unwrap();
        let family = db.family("family").unwrap();
        family.put(b"key", b"value").unwrap();
        if flushes {
            family.flush().unwrap();
        }
        let image = image.crash_image(CrashProfile::Nothing, 1);
        let db = try_open(&image, &scheduler(), SyncMode::Full).unwrap();
        assert_eq!(db.family("family").unwrap().get(b"key").unwrap(), Some(b"value".to_vec()));
    }
}
