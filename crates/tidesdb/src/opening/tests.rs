//! What recovery makes of bytes in log segments that are not what was written last there: records
//! of an earlier life of a file, and a segment whose beginning is gone.

mod first_segment;
mod forged;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{ErrorKind, Result};
use tidesdb_base::options::{DbOptions, FamilyOptions, SyncMode};
use tidesdb_files::manifest::{Change, Edit, ManifestWriter, current};
use tidesdb_files::wal::{SegmentReader, record};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{CrashProfile, ManualClock, ManualScheduler, SimVfs};
use tidesdb_sys::sched::{LaneThreads, ThreadPool};
use tidesdb_sys::vfs::{OpenMode, Vfs};

use crate::WriteBatch;
use crate::db::{Components, Db};
use crate::iterator::ScanOptions;

const KEYS: u64 = 50;

fn try_open(
    sim: &Arc<SimVfs>,
    scheduler: &Arc<ManualScheduler>,
    sync_mode: SyncMode,
) -> Result<Db> {
    let options = DbOptions::default().log_segment_bytes(64 << 10).sync_mode(sync_mode);
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::clone(scheduler) as _,
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    Db::open_with("/db", options, components)
}

fn scheduler() -> Arc<ManualScheduler> {
    Arc::new(ManualScheduler::new(1))
}

fn small() -> FamilyOptions {
    FamilyOptions::default().write_buffer_size(16 << 10).min_disk_space(0)
}

/// The log segments that have a header, oldest first, each read to its end.
fn segments(sim: &SimVfs) -> Vec<SegmentReader> {
    let entries = sim.list(Path::new("/db")).unwrap();
    let logs = entries.iter().filter(|entry| entry.name.ends_with(".log"));
    let open = |path: PathBuf| {
        let file = sim.open(&path, OpenMode::Read).unwrap();
        SegmentReader::open(file, &path).unwrap()
    };
    let mut readers: Vec<_> =
        logs.filter_map(|entry| open(Path::new("/db").join(&entry.name))).collect();
    readers.sort_by_key(|reader| reader.header().number);
    for reader in &mut readers {
        while reader.next_record().unwrap().is_some() {}
    }
    readers
}

/// Whether a record of the file's earlier life begins where the last segment's records end.
fn ends_before_a_stale_record(sim: &SimVfs) -> bool {
    let readers = segments(sim);
    let last = readers.last().unwrap();
    let file = sim.open(last.path(), OpenMode::Read).unwrap();
    let (end, mut bytes) = (last.end().position, [0; 16]);
    file.read_exact_at(&mut bytes, last.offset_of(end)).is_ok()
        && record::claimed_length(&bytes, end).is_some()
}

/// All records are equally long, so those of an earlier life stand where the next ones would.
#[test]
fn records_of_a_segments_earlier_life_are_not_replayed() {
    let sim = SimVfs::new(1);
    let jobs = scheduler();
    let db = try_open(&sim, &jobs, SyncMode::None).unwrap();
    let family = db.create_family("family", small()).unwrap();
    let mut tested = 0;
    for n in 0..3_000_u64 {
        family.put(&(n % KEYS).to_be_bytes(), &[(n / KEYS) as u8; 200]).unwrap();
        jobs.run_until_idle();
        if n < 1_500 || n % 37 != 0 {
            continue;
        }
        let image = sim.crash_image(CrashProfile::Everything, n);
        tested += usize::from(ends_before_a_stale_record(&image));
        let reopened = try_open(&image, &scheduler(), SyncMode::None).unwrap();
        let found = reopened.family("family").unwrap();
        for key in 0..KEYS {
            let newest = if key <= n % KEYS { n / KEYS } else { n / KEYS - 1 };
            let value = found.get(&key.to_be_bytes()).unwrap();
            assert_eq!(value, Some(vec![newest as u8; 200]), "key {key} after {n}");
        }
    }
    assert!(tested > 20, "{tested}: nothing was put to the test");
}

/// The sector that holds a segment's header and sync mark is lost. What the records behind it knew
/// to be on disk shows that they were promised.
#[test]
fn a_segment_without_its_first_sector_is_damage_when_it_was_synced() {
    let sim = SimVfs::new(1);
    let db = try_open(&sim, &scheduler(), SyncMode::Full).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    let mut written = 0_u64;
    // Three segments, the last with a few records.
    while segments(&sim).len() < 3 || !written.is_multiple_of(50) {
        family.put(&written.to_be_bytes(), &[7; 200]).unwrap();
        written += 1;
    }
    (0..10_u64).for_each(|n| family.put(&n.to_be_bytes(), &[8; 200]).unwrap());
    let whole = sim.crash_image(CrashProfile::Nothing, 1);
    for reader in segments(&whole) {
        let image = whole.fork();
        let file = image.open(reader.path(), OpenMode::ReadWrite).unwrap();
        file.write_all_at(&[0; 512], 0).unwrap();
        file.sync_data().unwrap();
        let error = try_open(&image, &scheduler(), SyncMode::Full).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{:?}: {error}", reader.header());
    }
    assert!(try_open(&whole, &scheduler(), SyncMode::Full).is_ok());
}

/// The same when the table of another family has a later commit: what tables have was taken for the
/// end of the log, and no record knew of anything behind that.
#[test]
fn the_first_segment_without_its_first_sector_is_damage_when_another_family_was_flushed() {
    let sim = SimVfs::new(1);
    let db = try_open(&sim, &scheduler(), SyncMode::Full).unwrap();
    let [a, b] = ["a", "b"].map(|name| db.create_family(name, FamilyOptions::default()).unwrap());
    b.put(b"key", &[7; 600]).unwrap();
    a.put(b"key", &[7; 600]).unwrap();
    a.flush().unwrap();
    let image = sim.crash_image(CrashProfile::Nothing, 1);
    assert_eq!(segments(&image).len(), 1);
    let file = image.open(segments(&image)[0].path(), OpenMode::ReadWrite).unwrap();
    file.write_all_at(&[0; 512], 0).unwrap();
    file.sync_data().unwrap();
    let error = try_open(&image, &scheduler(), SyncMode::Full).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

/// The same where nothing was promised: a power cut may take any sector of an unsynced segment.
#[test]
fn a_segment_without_its_first_sector_is_a_lost_end_when_it_was_not_synced() {
    let sim = SimVfs::new(1);
    let db = try_open(&sim, &scheduler(), SyncMode::None).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    (0..100_u64).for_each(|n| family.put(&n.to_be_bytes(), &[7; 200]).unwrap());
    let image = sim.crash_image(CrashProfile::Everything, 1);
    let readers = segments(&image);
    let file = image.open(readers.last().unwrap().path(), OpenMode::ReadWrite).unwrap();
    assert!(readers.last().unwrap().end().position > 100 * 200);
    file.write_all_at(&[0; 512], 0).unwrap();
    let db = try_open(&image, &scheduler(), SyncMode::None).unwrap();
    assert_eq!(db.family("family").unwrap().get(&7_u64.to_be_bytes()).unwrap(), None);
}

/// Damages one byte of the first record that ends at or behind a position.
fn damage_record_ending_at(sim: &SimVfs, position: u64) {
    let mut reader = segments(sim)
        .into_iter()
        .find(|reader| reader.header().base < position && reader.end().position >= position)
        .unwrap();
    let file = sim.open(reader.path(), OpenMode::ReadWrite).unwrap();
    let path = reader.path().to_path_buf();
    reader = SegmentReader::open(Arc::clone(&file), &path).unwrap().unwrap();
    loop {
        let begins = reader.end().position;
        let ends = reader.next_record().unwrap().unwrap().1;
        if ends >= position {
            let offset = reader.offset_of(begins) + record::RECORD_HEADER_BYTES as u64;
            file.write_all_at(&[0xA5], offset).unwrap();
            return file.sync_data().unwrap();
        }
    }
}

/// One family's synced commit is damaged; a later one of another family is in a table, so that the
/// manifest names a newer commit than the log's last whole record.
#[test]
fn a_later_commit_in_a_table_does_not_hide_that_a_synced_one_is_lost() {
    let sim = SimVfs::new(1);
    let jobs = scheduler();
    let db = try_open(&sim, &jobs, SyncMode::Full).unwrap();
    let lost = db.create_family("lost", small()).unwrap();
    let flushed = db.create_family("flushed", small()).unwrap();
    lost.put(b"key", b"of the family whose record is damaged").unwrap();
    let sequence = db.stats().sequence;
    flushed.put(b"key", b"of the family that is flushed").unwrap();
    flushed.flush().unwrap();
    let image = sim.crash_image(CrashProfile::Nothing, 1);
    assert!(try_open(&image.fork(), &scheduler(), SyncMode::Full).is_ok());
    damage_record_ending_at(&image, sequence);
    let error = try_open(&image, &scheduler(), SyncMode::Full).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

/// The log of a later life begins behind all positions that the life before may have used, which is
/// not where its records end.
#[test]
fn a_later_lifes_segment_without_its_first_sector_is_damage_when_it_was_synced() {
    let sim = SimVfs::new(1);
    let db = try_open(&sim, &scheduler(), SyncMode::Full).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    family.put(b"first life", &[7; 200]).unwrap();
    let second = sim.crash_image(CrashProfile::Nothing, 1);
    let db = try_open(&second, &scheduler(), SyncMode::Full).unwrap();
    let family = db.family("family").unwrap();
    (0..10_u64).for_each(|n| family.put(&n.to_be_bytes(), &[8; 200]).unwrap());
    let image = second.crash_image(CrashProfile::Nothing, 1);
    let readers = segments(&image);
    let [before, last] = &readers[..] else { panic!("{} segments", readers.len()) };
    assert!(last.header().base > before.end().position + 1000);
    let file = image.open(last.path(), OpenMode::ReadWrite).unwrap();
    file.write_all_at(&[0; 512], 0).unwrap();
    file.sync_data().unwrap();
    let error = try_open(&image, &scheduler(), SyncMode::Full).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

/// Three unsynced segments, of which a power cut leaves all but one record. What lies behind that
/// record is not replayed, whole as it is.
#[test]
fn segments_behind_a_lost_record_are_not_replayed() {
    let sim = SimVfs::new(1);
    let db = try_open(&sim, &scheduler(), SyncMode::None).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    let mut written = 0_u64;
    while segments(&sim).len() < 3 || !written.is_multiple_of(50) {
        family.put(&written.to_be_bytes(), &[7; 200]).unwrap();
        written += 1;
    }
    let image = sim.crash_image(CrashProfile::Everything, 1);
    let readers = segments(&image);
    let [first, second, third] = &readers[..] else { panic!("{} segments", readers.len()) };
    assert!(third.end().position > third.header().base, "nothing lies behind the gap");
    damage_record_ending_at(&image, first.end().position.midpoint(second.end().position));
    let db = try_open(&image, &scheduler(), SyncMode::None).unwrap();
    let family = db.family("family").unwrap();
    let found = |n: &u64| family.get(&n.to_be_bytes()).unwrap().is_some();
    let prefix = (0..written).take_while(found).count() as u64;
    assert!(prefix > 0 && prefix < written, "{prefix} of {written}");
    assert_eq!((prefix..written).find(found), None, "the prefix ends at {prefix}");
}

/// Unsynced lives in a row: whatever a power cut leaves of the segments' first sectors, nothing was
/// promised, so the database opens.
#[test]
fn what_later_lives_did_not_sync_may_be_lost_in_any_pieces() {
    for seed in 0..200 {
        let mut sim = SimVfs::new(seed);
        for life in 0..4_u64 {
            let jobs = scheduler();
            let db = try_open(&sim, &jobs, SyncMode::None).unwrap();
            let options = small();
            let families = ["a", "b"].map(|name| db.open_family(name, options.clone()).unwrap());
            for n in 0..(seed * 7 + life * 131) % 900 {
                families[usize::from(n % 3 == 0)].put(&n.to_be_bytes(), &[7; 200]).unwrap();
                if n % 211 == 0 {
                    jobs.run_until_idle();
                }
            }
            if seed % 2 == 0 {
                families[0].flush().unwrap();
            }
            sim = sim.crash_image(CrashProfile::Random, seed * 10 + life);
        }
        let opened = try_open(&sim, &scheduler(), SyncMode::None);
        assert!(opened.is_ok(), "seed {seed}: {}", opened.unwrap_err());
    }
}

/// Keys that are written once, one that is written all the time, deletions of ranges and of what
/// the same batch put before, over two families: more than a chunk of the log, on several threads.
#[test]
fn threads_replay_a_log_of_many_chunks_as_one_would() {
    let sim = SimVfs::new(1);
    let family_options = || small().write_buffer_size(64 << 20).min_disk_space(0);
    let mut expected = [BTreeMap::new(), BTreeMap::new()];
    let image = {
        let db = try_open(&sim, &scheduler(), SyncMode::None).unwrap();
        let families = ["a", "b"].map(|name| db.create_family(name, family_options()).unwrap());
        let mut random = SplitMix64::new(7);
        for n in 0..15_000_u64 {
            let mut batch = WriteBatch::new();
            for (family, expected) in families.iter().zip(&mut expected) {
                let key = format!("a common prefix {:08x}", random.below(1 << 20)).into_bytes();
                let mut value = vec![0; 100];
                random.fill(&mut value);
                batch.put(family, &key, &value).unwrap();
                expected.insert(key, value);
                if n % 50 == 0 {
                    let from = format!("a common prefix {:08x}", random.below(1 << 20));
                    let to = format!("{from}~");
                    batch.delete_range(family, from.as_bytes(), to.as_bytes()).unwrap();
                    expected.retain(|key, _| {
                        !(from.as_bytes()..to.as_bytes()).contains(&key.as_slice())
                    });
                }
                batch.put(family, b"hot", &n.to_be_bytes()).unwrap();
                expected.insert(b"hot".to_vec(), n.to_be_bytes().to_vec());
            }
            db.write(&batch).unwrap();
        }
        sim.crash_image(CrashProfile::Everything, 1)
    };
    let threads = LaneThreads { flush: 1, compaction: 3, sync: 1, housekeeping: 1 };
    let pool = ThreadPool::new("replay", threads, Arc::new(|_, _: &str| {})).unwrap();
    let options = DbOptions::default()
        .log_segment_bytes(64 << 10)
        .compaction_threads(3)
        .max_memory_usage(64 << 20);
    let components = Components {
        vfs: image as _,
        scheduler: Arc::new(pool),
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    let db = Db::open_with("/db", options, components).unwrap();
    for (name, expected) in ["a", "b"].iter().zip(expected) {
        let family = db.family(name).unwrap();
        let found: BTreeMap<_, _> =
            family.scan(ScanOptions::new()).unwrap().entries().map(Result::unwrap).collect();
        assert_eq!(found.len(), expected.len());
        assert!(found == expected, "the content is another one");
    }
}

/// What all keys have in common shrinks while they are decoded, on each thread at another time, and
/// every key is written in several chunks of the log.
#[test]
fn keys_that_share_less_and_less_are_replayed_in_their_order() {
    let sim = SimVfs::new(1);
    let mut expected = BTreeMap::new();
    let image = {
        let db = try_open(&sim, &scheduler(), SyncMode::None).unwrap();
        let family = db.create_family("family", small().write_buffer_size(64 << 20)).unwrap();
        for n in 0..60_000_u64 {
            let key = match n / 15_000 {
                0 => format!("a/b/c/{:08}", n % 5000),
                1 => format!("a/b/{:08}", n * 7919 % 5000),
                2 => format!("a/b/c/{:08}", 4999 - n % 5000),
                _ => format!("{}/{:08}", ["a", "a/b/c"][n as usize % 2], n % 7000),
            };
            family.put(key.as_bytes(), &n.to_be_bytes()).unwrap();
            expected.insert(key.into_bytes(), n.to_be_bytes().to_vec());
        }
        sim.crash_image(CrashProfile::Everything, 1)
    };
    let threads = LaneThreads { flush: 1, compaction: 3, sync: 1, housekeeping: 1 };
    let pool = ThreadPool::new("replay", threads, Arc::new(|_, _: &str| {})).unwrap();
    // The least chunks: several of them, and memtables are made more than once.
    let options = DbOptions::default()
        .log_segment_bytes(64 << 10)
        .compaction_threads(3)
        .max_memory_usage(32 << 20);
    let components = Components {
        vfs: image as _,
        scheduler: Arc::new(pool),
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    let db = Db::open_with("/db", options, components).unwrap();
    let family = db.family("family").unwrap();
    let scan = family.scan(ScanOptions::new()).unwrap();
    let found: BTreeMap<_, _> = scan.entries().map(Result::unwrap).collect();
    assert!(found == expected, "{} keys of {}", found.len(), expected.len());
    for (key, value) in expected.iter().step_by(97) {
        assert_eq!(family.get(key).unwrap().as_ref(), Some(value));
    }
}

/// The next number given was 0 then, and its log segment was dead by the manifest: what was synced
/// to it was not there in the next life.
#[test]
fn a_file_number_that_can_not_be_one_is_damage() {
    for name in ["18446744073709551615.klog", "wal-18446744073709551614.log"] {
        let sim = SimVfs::new(1);
        let db = try_open(&sim, &scheduler(), SyncMode::Full).unwrap();
        db.create_family("family", small()).unwrap();
        db.close().unwrap();
        let path = Path::new("/db").join(name);
        drop(sim.open(&path, OpenMode::CreateNew).unwrap());
        let error = try_open(&sim, &scheduler(), SyncMode::Full).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains("below 2^56"), "{error}");
        sim.remove(&path).unwrap();
        try_open(&sim, &scheduler(), SyncMode::Full).unwrap().family("family").unwrap();
    }
}

#[test]
fn a_manifest_whose_next_file_number_can_not_be_one_is_damaged() {
    let sim = SimVfs::new(1);
    sim.create_dir(Path::new("/db")).unwrap();
    let edit = Edit::new(vec![Change::NextFile { number: u64::MAX }]);
    ManifestWriter::create(sim.as_ref(), Path::new("/db"), 1, &edit).unwrap();
    current::set_current(sim.as_ref(), Path::new("/db"), 1).unwrap();
    let error = try_open(&sim, &scheduler(), SyncMode::Full).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("below 2^56"), "{error}");
}

/// The manifest lacks an edit that was on disk before the first commit to the family. One that was
/// dropped has a number that was given.
#[test]
fn a_log_that_names_a_family_which_never_was_is_damage() {
    let sim = SimVfs::new(1);
    let db = try_open(&sim, &scheduler(), SyncMode::Full).unwrap();
    db.create_family("family", small()).unwrap().put(b"key", b"value").unwrap();
    let image = sim.crash_image(CrashProfile::Nothing, 1);
    let segment = segments(&image)[0].header().number;
    for (number, next_family) in [(998, 0), (999, 100)] {
        let edit = Edit::new(vec![
            Change::NextFile { number: 1000 },
            Change::NextFamily { family: next_family },
            Change::LogStart { segment },
        ]);
        ManifestWriter::create(image.as_ref(), Path::new("/db"), number, &edit).unwrap();
        current::set_current(image.as_ref(), Path::new("/db"), number).unwrap();
        let opened = try_open(&image, &scheduler(), SyncMode::Full);
        if next_family == 0 {
            let error = opened.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains("which the log names"), "{error}");
        } else {
            assert!(opened.unwrap().family_names().is_empty());
        }
    }
}

/// Two segments of 8 MiB are mapped by default: a sixth of a budget of 96 MiB.
#[test]
fn the_log_takes_a_small_part_of_the_budget() {
    for (mib, segment) in [(64, 2 << 20), (96, 3 << 20), (1024, 8 << 20)] {
        let options = DbOptions::default().max_memory_usage(mib << 20);
        let db = Db::open_with("/db", options, Components::simulated()).unwrap();
        assert_eq!(db.core().env.options.log_segment_bytes, segment, "{mib}");
        assert_eq!(db.stats().memory.log_bytes, 2 * segment, "{mib}");
    }
}
