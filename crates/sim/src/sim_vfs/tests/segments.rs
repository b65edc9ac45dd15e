//! Log segments and locks: rule 7.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::*;
use crate::CrashProfile::{Everything, Nothing, Random, Torn};
use crate::{MutationKind, Phase};
use tidesdb_sys::vfs::{LockMode, LogSegment, SegmentMode};

fn segment(sim: &SimVfs, size: u64) -> Arc<dyn LogSegment> {
    let segment = sim.log_segment(&path("log"), size, SegmentMode::Create).unwrap();
    segment.sync(size).unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
    segment
}

#[test]
fn a_kill_may_fall_between_two_pieces_of_a_copy() {
    let sim = SimVfs::new(3);
    let log = segment(&sim, 4096);
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let kept = Arc::clone(&seen);
    sim.on_mutation(Some(Arc::new(move |sim, mutation| {
        if mutation.kind == MutationKind::SegmentPiece && mutation.phase == Phase::After {
            let content = content_after(sim, "log", Everything, 0).unwrap();
            let copied = content.iter().filter(|byte| **byte == 1).count();
            kept.lock().unwrap().insert(copied);
        }
    })));
    log.write(100, &[1; 200]).unwrap();
    let expected = BTreeSet::from([28, 92, 156, 200]);
    assert_eq!(*seen.lock().unwrap(), expected, "pieces end at multiples of 64 bytes");
}

#[test]
fn a_slow_writer_leaves_a_hole_before_a_faster_one() {
    let sim = SimVfs::new(3);
    let log = segment(&sim, 4096);
    let fast = Arc::clone(&log);
    let image = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&image);
    sim.on_mutation(Some(Arc::new(move |sim, mutation| {
        let middle_of_slow = mutation.at == 64 && mutation.phase == Phase::Before;
        if mutation.kind == MutationKind::SegmentPiece && middle_of_slow {
            std::thread::scope(|scope| {
                scope.spawn(|| fast.write(256, &[2; 256]).unwrap());
            });
            *kept.lock().unwrap() = Some(content_after(sim, "log", Everything, 0).unwrap());
        }
    })));
    log.write(0, &[1; 256]).unwrap();
    let content = image.lock().unwrap().take().unwrap();
    assert_eq!(content[..64], [1; 64]);
    assert_eq!(content[64..256], [0; 192]);
    assert_eq!(content[256..512], [2; 256]);
}

#[test]
fn a_sync_covers_what_was_asked_for_and_no_later_sector() {
    let sim = SimVfs::new(3);
    let log = segment(&sim, 8192);
    log.write(0, &[1; 8192]).unwrap();
    log.sync(700).unwrap();
    let content = content_after(&sim, "log", Nothing, 0).unwrap();
    assert_eq!(content[..1024], [1; 1024]);
    assert_eq!(content[1024..], [0; 8192 - 1024]);
    log.sync(8192).unwrap();
    assert_eq!(content_after(&sim, "log", Nothing, 0).unwrap(), [1; 8192]);
}

#[test]
fn power_cuts_tear_a_record_and_keep_later_sectors_without_earlier_ones() {
    let sim = SimVfs::new(3);
    let log = segment(&sim, 8192);
    for at in 0..16 {
        log.write(at * 512, &[1; 512]).unwrap();
    }
    let holes = (0..50).any(|seed| {
        let content = content_after(&sim, "log", Random, seed).unwrap();
        let lost = content.iter().position(|byte| *byte == 0);
        lost.is_some_and(|lost| content[lost..].contains(&1))
    });
    assert!(holes);
    let torn: BTreeSet<usize> = (0..50)
        .map(|seed| {
            let content = content_after(&sim, "log", Torn, seed).unwrap();
            content.iter().filter(|byte| **byte == 1).count()
        })
        .collect();
    assert!(torn.len() > 10 && *torn.first().unwrap() >= 15 * 512);
    assert!(*torn.first().unwrap() < 15 * 512 + 256, "the whole write tears, not its last piece");
}

#[test]
fn a_reused_segment_starts_full_of_old_bytes_and_zero_fill_clears_it() {
    let sim = SimVfs::new(3);
    segment(&sim, 4096).write(0, &[8; 4096]).unwrap();
    sim.rename(&path("log"), &path("log2")).unwrap();
    let reused = sim.log_segment(&path("log2"), 4096, SegmentMode::Reuse).unwrap();
    assert_eq!(sim.content(&path("log2")).unwrap(), [8; 4096]);
    reused.write(0, &[9; 10]).unwrap();
    assert_eq!(sim.content(&path("log2")).unwrap()[9..12], [9, 8, 8]);
    reused.zero_fill().unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(content_after(&sim, "log2", Nothing, 0).unwrap(), [0; 4096]);
    let longer = sim.log_segment(&path("log2"), 4097, SegmentMode::Reuse);
    assert_eq!(longer.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn an_unsynced_new_segment_may_come_back_empty() {
    let sim = SimVfs::new(3);
    sim.log_segment(&path("log"), 4096, SegmentMode::Create).unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(content_after(&sim, "log", Nothing, 0).unwrap(), b"");
}

#[test]
fn writes_outside_a_segment_are_refused() {
    let log = segment(&SimVfs::new(3), 1000);
    for (at, count) in [(1000, 1), (990, 11), (u64::MAX, 1)] {
        let error = log.write(at, &vec![1; count]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
    log.write(990, &[1; 10]).unwrap();
}

#[test]
fn a_lock_excludes_until_dropped_and_does_not_survive_a_crash() {
    let sim = SimVfs::new(3);
    let held = sim.lock(&path("LOCK"), LockMode::Exclusive).unwrap();
    assert_eq!(
        sim.lock(&path("LOCK"), LockMode::Exclusive).unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );
    let image = sim.crash_image(Everything, 0);
    image.lock(&path("LOCK"), LockMode::Exclusive).unwrap();
    drop(held);
    sim.lock(&path("LOCK"), LockMode::Exclusive).unwrap();
    assert!(sim.content(&path("LOCK")).is_ok(), "the file stays");
}

#[test]
fn locks_are_shared_or_exclusive_and_know_their_file() {
    let sim = SimVfs::new(5);
    let lock = |how| sim.lock(&path("LOCK"), how);
    assert_eq!(lock(LockMode::Shared).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    drop(lock(LockMode::Exclusive).unwrap());
    let (first, second) = (lock(LockMode::Shared).unwrap(), lock(LockMode::Shared).unwrap());
    drop(first);
    assert_eq!(lock(LockMode::Exclusive).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert!(second.is_still_named());
    sim.remove(&path("LOCK")).unwrap();
    assert!(!second.is_still_named());
    lock(LockMode::Exclusive).unwrap();
}

#[test]
fn a_written_log_changes_by_pages_and_is_synced_as_a_whole() {
    let sim = SimVfs::new(3);
    sim.set_log_form(crate::LogForm::Written);
    let log = segment(&sim, 16 << 10);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    sim.on_mutation(Some(Arc::new(move |_, mutation| {
        if mutation.phase == Phase::After {
            kept.lock().unwrap().push((mutation.kind, mutation.at, mutation.len));
        }
    })));
    log.write(4000, &[1; 5000]).unwrap();
    log.sync(4100).unwrap();
    let piece = |at, len| (MutationKind::SegmentPiece, at, len);
    let sync = (MutationKind::SegmentSync, 0, 4100);
    assert_eq!(*seen.lock().unwrap(), [piece(4000, 96), piece(4096, 4096), piece(8192, 808), sync]);
    let content = content_after(&sim, "log", Nothing, 0).unwrap();
    assert_eq!(content[4000..9000], [1; 5000]);
}

#[test]
fn a_written_log_may_find_no_space_in_the_middle_of_a_write() {
    let sim = SimVfs::new(3);
    sim.set_log_form(crate::LogForm::Written);
    sim.set_capacity(Some(16 << 10));
    let log = segment(&sim, 16 << 10);
    // What was preallocated is taken by others.
    let other = sim.open(&path("other"), OpenMode::CreateNew).unwrap();
    other.write_all_at(&[7; 10 << 10], 0).unwrap();
    log.write(0, &[1; 100]).unwrap();
    let error = log.write(100, &[2; 9000]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    let content = content_after(&sim, "log", Everything, 0).unwrap();
    assert_eq!(content.iter().filter(|byte| **byte == 2).count(), (6 << 10) - 100);
    sim.remove(&path("other")).unwrap();
    drop(other);
    log.write(100, &[2; 9000]).unwrap();
}
