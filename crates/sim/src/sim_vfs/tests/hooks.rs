//! Hooks: one call before and one after every change, at any depth of nesting.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::CrashProfile::{Everything, Nothing};
use crate::{MutationKind, Phase};
use tidesdb_sys::vfs::SegmentMode;

#[test]
fn every_change_is_announced_and_reported_once() {
    let sim = SimVfs::new(1);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    sim.on_mutation(Some(Arc::new(move |_, mutation| {
        kept.lock().unwrap().push((mutation.index, mutation.phase, mutation.kind));
    })));
    let file = create(&sim, "a", b"data");
    file.sync_data().unwrap();
    file.set_len(1).unwrap();
    file.allocate(10).unwrap();
    sim.rename(&path("a"), &path("b")).unwrap();
    sim.remove(&path("b")).unwrap();
    sim.create_dir(&path("d")).unwrap();
    sim.remove_dir(&path("d")).unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
    let log = sim.log_segment(&path("log"), 64, SegmentMode::Create).unwrap();
    log.write(0, &[1; 64]).unwrap();
    log.sync(64).unwrap();
    log.zero_fill().unwrap();
    assert!(sim.remove(&path("absent")).is_err());
    use MutationKind::*;
    let kinds = [
        Create,
        Write,
        Sync,
        SetLen,
        Allocate,
        Rename,
        Remove,
        CreateDir,
        RemoveDir,
        SyncDir,
        SegmentCreate,
        SegmentPiece,
        SegmentSync,
        SegmentZero,
        Remove,
    ];
    let expected: Vec<_> = (0_u64..)
        .zip(kinds)
        .flat_map(|(index, kind)| [(index, Phase::Before, kind), (index, Phase::After, kind)])
        .collect();
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(sim.mutations(), kinds.len() as u64);
}

#[test]
fn the_disk_shows_a_change_only_after_it() {
    let sim = SimVfs::new(1);
    let file = create_durable(&sim, "a", b"1");
    sim.on_mutation(Some(Arc::new(|sim, mutation| {
        let durable = content_after(sim, "a", Nothing, 0).unwrap();
        let visible = content_after(sim, "a", Everything, 0).unwrap();
        let expected: (&[u8], &[u8]) = match (mutation.kind, mutation.phase) {
            (MutationKind::Write, Phase::Before) => (b"1", b"1"),
            (MutationKind::Sync, Phase::After) => (b"2", b"2"),
            _ => (b"1", b"2"),
        };
        assert_eq!((&durable[..], &visible[..]), expected);
    })));
    file.write_all_at(b"2", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(sim.mutations(), 6);
}

#[test]
fn a_hook_may_change_its_disk_and_is_called_for_other_disks_inside() {
    let sim = SimVfs::new(1);
    let outer = Arc::new(AtomicU64::new(0));
    let inner = Arc::new(AtomicU64::new(0));
    let (outer_kept, inner_kept) = (Arc::clone(&outer), Arc::clone(&inner));
    sim.on_mutation(Some(Arc::new(move |sim, mutation| {
        outer_kept.fetch_add(1, Ordering::Relaxed);
        if mutation.phase == Phase::Before {
            create(sim, &format!("made-by-hook-{}", mutation.index), b"");
            let image = sim.crash_image(Everything, 0);
            let counter = Arc::clone(&inner_kept);
            image.on_mutation(Some(Arc::new(move |_, _| {
                counter.fetch_add(1, Ordering::Relaxed);
            })));
            create(&image, "recovered", b"data");
        }
    })));
    create(&sim, "a", b"");
    assert_eq!(outer.load(Ordering::Relaxed), 2);
    assert_eq!(inner.load(Ordering::Relaxed), 4);
    assert_eq!(sim.list(Path::new("/")).unwrap().len(), 2);
}
