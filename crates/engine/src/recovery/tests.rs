//! What recovery makes of bytes in log segments that are not what was written last there: records
//! of an earlier life of a file, and a segment whose beginning is gone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{ErrorKind, Result};
use tidesdb_base::options::{DbOptions, FamilyOptions, SyncMode};
use tidesdb_files::wal::{SegmentReader, record};
use tidesdb_sys::clock::ManualClock;
use tidesdb_sys::sched::ManualScheduler;
use tidesdb_sys::vfs::{CrashProfile, OpenHow, SimVfs, Vfs};

use crate::db::{Components, Db};

const KEYS: u64 = 50;

fn try_open(
    sim: &Arc<SimVfs>,
    scheduler: &Arc<ManualScheduler>,
    sync_mode: SyncMode,
) -> Result<Db> {
    let options = DbOptions { log_segment_bytes: 64 << 10, sync_mode, ..DbOptions::default() };
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
    FamilyOptions { write_buffer_size: 16 << 10, min_disk_space: 0, ..FamilyOptions::default() }
}

/// The log segments that have a header, oldest first, each read to its end.
fn segments(sim: &SimVfs) -> Vec<SegmentReader> {
    let entries = sim.list(Path::new("/db")).unwrap();
    let logs = entries.iter().filter(|entry| entry.name.ends_with(".log"));
    let open = |path: PathBuf| {
        let file = sim.open(&path, OpenHow::Read).unwrap();
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
    let file = sim.open(last.path(), OpenHow::Read).unwrap();
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

/// The sector that holds a segment's header and sync mark is lost. What the records behind it knew to
/// be on disk tells that they were promised.
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
        let file = image.open(reader.path(), OpenHow::ReadWrite).unwrap();
        file.write_all_at(&[0; 512], 0).unwrap();
        file.sync_data().unwrap();
        let error = try_open(&image, &scheduler(), SyncMode::Full).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{:?}: {error}", reader.header());
    }
    assert!(try_open(&whole, &scheduler(), SyncMode::Full).is_ok());
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
    let file = image.open(readers.last().unwrap().path(), OpenHow::ReadWrite).unwrap();
    assert!(readers.last().unwrap().end().position > 100 * 200);
    file.write_all_at(&[0; 512], 0).unwrap();
    let db = try_open(&image, &scheduler(), SyncMode::None).unwrap();
    assert_eq!(db.family("family").unwrap().get(&7_u64.to_be_bytes()).unwrap(), None);
}
