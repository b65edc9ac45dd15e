//! Questions that the log is asked while it moves on.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidesdb_base::error::ErrorKind;
use tidesdb_files::wal::SegmentReader;
use tidesdb_lockfree::sync::lock;
use tidesdb_sim::{
    FaultError, FaultKind, FaultVfs, ManualClock, Mutation, MutationKind, Op, OpSet, Phase, SimVfs,
};
use tidesdb_sys::vfs::LogSegment;
use tidesdb_sys::vfs::OpenMode;

use super::*;

/// How long a thread is given to come to the lock that the test holds. If it takes longer the test
/// finds nothing, but fails no right engine.
const GRACE: Duration = Duration::from_millis(200);

fn log() -> Wal {
    log_on(SimVfs::new(1))
}

fn log_on(vfs: Arc<dyn Vfs>) -> Wal {
    Wal::start(config_on(vfs), 0, 0, Vec::new()).unwrap()
}

fn config_on(vfs: Arc<dyn Vfs>) -> LogConfig {
    LogConfig {
        vfs,
        dir: PathBuf::from("/"),
        segment_bytes: 64 << 10,
        most_segment_bytes: u64::MAX,
        numbers: Arc::new(FileNumbers::starting_at(1)),
        clock: Arc::new(ManualClock::new(1)),
    }
}

/// Commits a record with so many bytes of payload.
fn commit(log: &Wal, payload_bytes: usize) -> SequenceNumber {
    let mut place = log.reserve(payload_bytes, ANY_KEY).unwrap();
    place.write(&vec![7; payload_bytes]).unwrap();
    place.complete().unwrap()
}

/// The end of the log was read before the list of segments: after two changes of the segment and a
/// flush in between, the oldest segment began behind that end, and the difference was below zero.
#[test]
fn retained_bytes_are_right_when_the_log_moves_on_while_they_are_counted() {
    let log = log();
    let commit = || commit(&log, 100);
    commit();
    thread::scope(|scope| {
        let mut files = lock(&log.files);
        let (ask, asked) = channel();
        let log = &log;
        let counting = scope.spawn(move || {
            ask.send(()).unwrap();
            log.retained_bytes()
        });
        asked.recv().unwrap();
        thread::sleep(GRACE);
        let mut flushed = 0;
        for _ in 0..2 {
            flushed = commit();
            let closed = log.gate.close();
            let next = log.begin_segment(&mut files, log.published(), 0).unwrap();
            log.switch(&mut files, next);
            drop(closed);
        }
        let position = commit();
        files.retire_before(&log.config, flushed - 1);
        drop(files);
        let retained = counting.join().unwrap();
        assert!(retained > 0 && retained < position, "{retained} of {position}");
    });
}

/// Counts how often its memory is given back.
#[derive(Debug, Default)]
struct Cooled(AtomicUsize);

impl LogSegment for Cooled {
    fn capacity(&self) -> u64 {
        64 << 10
    }

    fn write(&self, _at: u64, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self, _upto: u64) -> io::Result<()> {
        Ok(())
    }

    fn warm(&self, _from: u64, _to: u64) {}

    fn cool(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn zero_fill(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A sync held a third segment in memory for as long as it took.
#[test]
fn the_memory_of_a_full_segment_goes_back_whatever_still_syncs_it() {
    let log = log();
    let fill = || {
        let segment = Arc::new(Cooled::default());
        let header = SegmentHeader { number: 7, base: 0, previous_end: 0, synced: 0 };
        let (limit, path) = (0, PathBuf::from("/wal"));
        log.active.store(Arc::new(ActiveSegment { header, limit, path, io: segment.clone() }));
        let mut files = lock(&log.files);
        let next = log.begin_segment(&mut files, log.published(), 0).unwrap();
        log.switch(&mut files, next);
        drop(files);
        segment
    };
    let cooled = |segment: &Cooled| segment.0.load(Ordering::Relaxed);
    let first = fill();
    assert_eq!(cooled(&first), 0, "left to whoever prepares the next one");
    log.prepare_next();
    assert_eq!(cooled(&first), 1);
    let (second, third) = (fill(), fill());
    assert_eq!((cooled(&second), cooled(&third)), (1, 0), "nobody prepared one in between");
    log.prepare_next();
    assert_eq!([&first, &second, &third].map(|segment| cooled(segment)), [1; 3]);
}

/// While a leader waited for the disk its segment was filled, retired and began another life under
/// another number. Then the leader wrote the mark of the first life over that of the second.
#[test]
fn a_sync_leaves_no_mark_in_another_life_of_its_segment() {
    let faults = FaultVfs::new(SimVfs::new(1));
    let log = Arc::new(log_on(Arc::clone(&faults) as _));
    let (again, syncs) = (Arc::downgrade(&log), AtomicUsize::new(0));
    faults.before_calls(Some(Arc::new(move |op, _| {
        let Some(log) = again.upgrade().filter(|_| op == Op::SegmentSync) else { return };
        if syncs.fetch_add(1, Ordering::Relaxed) > 0 {
            return;
        }
        let first = log.active_path();
        let fill = || {
            log.next_segment(log.active_segment(), 0).unwrap();
            let sequence = commit(&log, 100);
            log.retire_before(sequence - 1);
        };
        fill();
        // The file of the first segment is the next but one.
        lock(&log.files).free.clone().iter().for_each(|path| assert_eq!(path, &first));
        log.prepare_next();
        fill();
        assert_ne!(log.active_path(), first);
        log.sync_published().unwrap();
    })));
    commit(&log, 100);
    log.sync_published().unwrap();
    faults.before_calls(None);
    let path = log.active_path();
    let file = log.config.vfs.open(&path, OpenMode::Read).unwrap();
    let mut reader = SegmentReader::open(file, &path).unwrap().unwrap();
    while reader.next_record().unwrap().is_some() {}
    assert_eq!(reader.header().number, log.active_segment());
    assert_eq!(reader.end().synced, log.published());
}

/// The segment that was made for a large commit was just as large, and a small one that came first
/// took its place: one more such segment, and another one, as long as others write.
#[test]
fn a_small_commit_crowds_no_large_one_out_of_its_segment() {
    let log = log();
    let commit = |bytes: usize| {
        commit(&log, bytes);
    };
    commit(100);
    let first = log.active_segment();
    log.next_segment(first, 1 << 20).unwrap();
    let second = log.active_segment();
    (0..100).for_each(|_| commit(100));
    commit((1 << 20) - 100);
    assert_eq!(log.active_segment(), second);
    // Such a file is not kept for usual segments.
    assert!(log.active.load().io.capacity() > (1 << 20) + (64 << 10));
}

/// Records of more than half a segment had segments of half as much more, of which none was used
/// again, and those made ready in time were given up: a quarter of the rate.
#[test]
fn records_of_up_to_three_quarters_of_a_segment_have_usual_segments() {
    let log = log();
    let usual = 64 << 10;
    for bytes in [40 << 10, (48 << 10) - 1024].repeat(5) {
        commit(&log, bytes);
        assert_eq!(log.active.load().io.capacity(), usual);
    }
    commit(&log, (48 << 10) + 1024);
    assert!(log.active.load().io.capacity() > usual + (48 << 10));
}

/// The first commit of a process had the next segment made beside those that followed it: a file of
/// some megabytes, page by page, while the first puts into new families went on.
#[test]
fn the_next_segment_is_asked_for_once_an_eighth_of_the_active_one_is_used() {
    let log = log();
    let asks = || {
        let sequence = commit(&log, 1000);
        log.wants_preparation(sequence)
    };
    for _ in 0..2 {
        let segment = log.active_segment();
        let asked: Vec<bool> = (0..60).map(|_| asks()).collect();
        let times = asked.iter().filter(|&&asked| asked).count();
        let first = asked.iter().position(|&asked| asked);
        assert!(times == 1 && first.is_some_and(|at| (6..9).contains(&at)), "{asked:?}");
        assert_eq!(log.active_segment(), segment);
        log.next_segment(segment, 0).unwrap();
    }
}

/// On a disk that has no space for what others may write beside it.
#[test]
fn a_large_record_is_content_with_a_segment_of_its_own() {
    let sim = SimVfs::new(1);
    let log = log_on(Arc::clone(&sim) as _);
    sim.set_capacity(Some((64 << 10) + (1 << 20) + (32 << 10)));
    commit(&log, 1 << 20);
    assert!(log.active.load().io.capacity() < (1 << 20) + (32 << 10));
}

/// A record that found no room left the rest of its segment empty, which no bound knew of.
#[test]
fn space_that_a_large_record_left_empty_counts_as_retained() {
    let log = log();
    let commit = |bytes: usize| commit(&log, bytes);
    let mut large = Vec::new();
    for _ in 0..10 {
        commit(100);
        large.push(commit(100 << 10));
    }
    let least = 10 * (164 << 10);
    assert!(log.retained_bytes() < 10 * (102 << 10));
    assert!(log.retained_file_bytes() > least, "{}", log.retained_file_bytes());
    assert_eq!(log.newest_from(u64::MAX), 0);
    // The newest that half of the space holds, about.
    let from = log.newest_from(log.retained_file_bytes() / 2);
    assert!(large[3] < from && from < large[6], "{from} of {large:?}");
    assert!(log.newest_from(0) == log.published());
}

/// What unwinds through a commit has its record taken back.
#[test]
fn a_commit_that_panics_while_it_is_applied_leaves_no_record_and_stops_the_log() {
    let sim = SimVfs::new(1);
    let log = log_on(Arc::clone(&sim) as _);
    let first = commit(&log, 100);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut place = log.reserve(100, ANY_KEY).unwrap();
        place.write(&[7; 100]).unwrap();
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(log.reserve(100, ANY_KEY).err().unwrap().kind(), ErrorKind::LogFailed);
    assert_eq!(log.published(), first);
    let path = log.active_path();
    let file = sim.open(&path, OpenMode::Read).unwrap();
    let mut reader = SegmentReader::open(file, &path).unwrap().unwrap();
    while reader.next_record().unwrap().is_some() {}
    assert_eq!(reader.end().position, first);
}

/// It is no longer among those that are free, so no other code would ever remove it.
#[test]
fn a_free_segment_that_can_not_be_used_again_is_removed() {
    let sim = SimVfs::new(1);
    let faults = FaultVfs::new(Arc::clone(&sim) as _);
    let log = log_on(Arc::clone(&faults) as _);
    commit(&log, 100);
    log.next_segment(log.active_segment(), 0).unwrap();
    log.retire_before(log.published());
    assert_eq!(lock(&log.files).free.len(), 1);
    faults.reset();
    faults.count_only(OpSet::of(&[Op::SegmentReuse]));
    faults.fail_call(0, FaultKind::Once, FaultError::IO);
    assert!(SegmentFiles::prepare(&log.files, &log.config).is_err());
    assert_eq!((faults.fired(), lock(&log.files).free.len()), (1, 0));
    let entries = sim.list(Path::new("/")).unwrap();
    let left: Vec<_> = entries.iter().map(|entry| PathBuf::from("/").join(&entry.name)).collect();
    assert_eq!(left, [log.active_path()]);
}

/// Begins the next segment, whatever room is left in this one.
fn next_segment(log: &Wal) {
    let mut files = lock(&log.files);
    let next = log.begin_segment(&mut files, log.published(), 0).unwrap();
    log.switch(&mut files, next);
}

/// The file of a segment that was made for a large record is removed: as one of the usual files it
/// would take more of the disk than they are bounded by.
#[test]
fn the_segment_of_a_large_record_is_not_used_again() {
    let log = log();
    for bytes in [100, 200 << 10, 100, 300 << 10, 100] {
        commit(&log, bytes);
        next_segment(&log);
    }
    let mut files = lock(&log.files);
    let (usual, large): (Vec<_>, Vec<_>) =
        files.unsynced().into_iter().partition(|file| file.file_bytes == 64 << 10);
    let paths = |files: &[Retained]| files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
    assert_eq!(
        (usual.len(), large.len()),
        (5, 2),
        "a large record leaves the segment before it empty"
    );
    let removed = files.retire_before(&log.config, log.published());
    assert_eq!(removed, paths(&large));
    assert_eq!(files.free, paths(&usual));
}

/// Eight of them, and of large ones as many as have 128 MiB.
#[test]
fn segments_that_are_kept_to_be_used_again_are_few_and_their_bytes_bounded() {
    for (segment_bytes, kept) in [(64 << 10, 8), (50 << 20, 2), (1 << 30, 1)] {
        let mut log = log();
        log.config.segment_bytes = segment_bytes;
        next_segment(&log);
        for _ in 0..12 {
            commit(&log, 100);
            next_segment(&log);
        }
        let mut files = lock(&log.files);
        let removed = files.retire_before(&log.config, log.published());
        assert_eq!(files.free.len(), kept, "segments of {segment_bytes} bytes");
        assert!(removed.len() >= 12 - kept, "{} of them are removed", removed.len());
    }
}

/// A file that was retired before a failure, and was being prepared meanwhile, was used again.
#[test]
fn no_file_from_before_a_failure_is_prepared_behind_it() {
    let sim = SimVfs::new(1);
    let config = config_on(Arc::clone(&sim) as _);
    let files = Arc::new(Mutex::new(SegmentFiles::new(&config, Vec::new())));
    let count = || sim.list(Path::new("/")).unwrap().len();
    for fails in [false, true] {
        SegmentFiles::prepare(&files, &config).unwrap();
        let retired = lock(&files).take_all_paths();
        lock(&files).free = retired;
        let (failing, at) = (Arc::clone(&files), config_on(Arc::clone(&sim) as _));
        let hook = move |_: &SimVfs, mutation: &Mutation<'_>| {
            if mutation.kind == MutationKind::Rename && mutation.phase == Phase::Before {
                lock(&failing).discard_prepared(&at);
            }
        };
        sim.on_mutation(if fails { Some(Arc::new(hook)) } else { None });
        SegmentFiles::prepare(&files, &config).unwrap();
        sim.on_mutation(None);
        assert_eq!(lock(&files).wants_preparation(), fails);
        assert_eq!(count(), usize::from(!fails));
        lock(&files).discard_prepared(&config);
    }
}

/// After a failure the next segment begins behind what is published, which follows in a moment: in
/// between the difference was below zero.
#[test]
fn bytes_are_counted_between_the_next_segment_and_its_position() {
    let log = log();
    commit(&log, 100);
    let behind = log.published() + 800;
    let next = log.begin_segment(&mut lock(&log.files), behind, 0).unwrap();
    log.active.store(Arc::new(next));
    assert_eq!((log.retained_bytes(), log.retained_file_bytes()), (0, 0));
    assert_eq!(log.newest_from(0), 0);
}
