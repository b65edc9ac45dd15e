use std::io::ErrorKind;

use super::*;
use crate::{CrashProfile, SimVfs};

fn root(name: &str) -> std::path::PathBuf {
    Path::new("/").join(name)
}

/// A scenario that makes at least one call of every operation.
fn scenario(vfs: &dyn Vfs) -> io::Result<()> {
    let root_dir = Path::new("/");
    vfs.create_dir(&root("d"))?;
    let _lock = vfs.lock(&root("LOCK"), LockMode::Exclusive)?;
    let file = vfs.open(&root("a"), OpenMode::CreateNew)?;
    file.allocate(100)?;
    file.write_all_at(&[7; 100], 0)?;
    file.sync_data()?;
    file.set_len(50)?;
    file.len()?;
    vfs.rename(&root("a"), &root("b"))?;
    vfs.link(&root("b"), &root("d/c"))?;
    vfs.open(&root("b"), OpenMode::Read)?.read_exact_at(&mut [0; 50], 0)?;
    let log = vfs.log_segment(&root("log"), 64, SegmentMode::Create)?;
    log.write(0, &[1; 64])?;
    log.sync(64)?;
    log.zero_fill()?;
    vfs.log_segment(&root("log"), 64, SegmentMode::Reuse)?;
    vfs.remove(&root("b"))?;
    vfs.remove(&root("d/c"))?;
    vfs.remove_dir(&root("d"))?;
    vfs.sync_dir(root_dir)?;
    vfs.list(root_dir)?;
    vfs.free_bytes(root_dir)?;
    Ok(())
}

#[test]
fn every_operation_is_counted_recorded_and_can_be_made_to_fail() {
    let calls = {
        let fault = FaultVfs::new(SimVfs::new(1));
        fault.record(true);
        scenario(&*fault).unwrap();
        let ops: std::collections::BTreeSet<Op> =
            fault.records().iter().map(|record| record.op).collect();
        assert_eq!(ops.len(), Op::SegmentZero as usize + 1, "one call of every operation");
        assert_eq!(fault.records().len() as u64, fault.calls());
        assert_eq!(fault.records()[2].path.as_ref(), root("a"));
        fault.calls()
    };
    for call in 0..calls {
        for kind in [FaultKind::Once, FaultKind::Forever] {
            let fault = FaultVfs::new(SimVfs::new(1));
            fault.fail_call(call, kind, FaultError::IO);
            let error = scenario(&*fault).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
            assert_eq!((fault.calls(), fault.fired()), (call + 1, 1), "stopped at the failure");
            let next = fault.list(Path::new("/"));
            assert_eq!(next.is_ok(), kind == FaultKind::Once);
            fault.clear_faults();
            fault.list(Path::new("/")).unwrap();
        }
    }
}

#[test]
fn only_chosen_operations_count() {
    let fault = FaultVfs::new(SimVfs::new(1));
    fault.count_only(OpSet::SPACE);
    fault.fail_call(0, FaultKind::Forever, FaultError::NO_SPACE);
    fault.lock(&root("LOCK"), LockMode::Exclusive).unwrap();
    let error = fault.open(&root("a"), OpenMode::CreateNew).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(fault.list(Path::new("/")).is_ok());
    assert_eq!(fault.calls(), 1);
    fault.reset();
    assert_eq!((fault.calls(), fault.fired()), (0, 0));
    fault.open(&root("a"), OpenMode::CreateNew).unwrap();
}

#[test]
fn sets_contain_what_they_name() {
    assert!(OpSet::ALL.contains(Op::SegmentZero) && OpSet::ALL.contains(Op::Open));
    assert!(!OpSet::ALL.without(Op::SegmentWrite).contains(Op::SegmentWrite));
    assert!(OpSet::SYNCS.contains(Op::SegmentSync) && !OpSet::SYNCS.contains(Op::Write));
    assert!(OpSet::LOOKS.with(Op::Write).contains(Op::Write));
    assert!(!OpSet::CHANGES.contains(Op::Read));
}

#[test]
fn short_writes_are_completed_by_the_full_write_loop_and_empty_ones_reported() {
    let fault = FaultVfs::new(SimVfs::new(1));
    let file = fault.open(&root("a"), OpenMode::CreateNew).unwrap();
    fault.short_write(0, 3);
    fault.short_write(1, 1);
    file.write_all_at(b"hello", 0).unwrap();
    let mut buffer = [0; 5];
    file.read_exact_at(&mut buffer, 0).unwrap();
    assert_eq!((&buffer, fault.fired()), (b"hello", 2));
    fault.short_write(3, 0);
    assert_eq!(file.write_all_at(b"x", 0).unwrap_err().kind(), ErrorKind::WriteZero);
    fault.limit_writes(Some(2));
    assert_eq!(file.write_at(b"long", 0).unwrap(), 2);
}

#[test]
fn interrupted_calls_are_repeated() {
    let fault = FaultVfs::new(SimVfs::new(1));
    let file = fault.open(&root("a"), OpenMode::CreateNew).unwrap();
    let interrupted = FaultError::Kind(ErrorKind::Interrupted);
    fault.fail_call(fault.calls(), FaultKind::Once, interrupted);
    file.write_all_at(b"data", 0).unwrap();
    fault.fail_call(fault.calls(), FaultKind::Once, interrupted);
    file.read_exact_at(&mut [0; 4], 0).unwrap();
    assert_eq!(fault.fired(), 2);
}

#[test]
fn a_read_flip_changes_one_bit_of_one_read() {
    let fault = FaultVfs::new(SimVfs::new(1));
    let file = fault.open(&root("a"), OpenMode::CreateNew).unwrap();
    file.write_all_at(&[0; 4], 0).unwrap();
    fault.flip_read(1, 32 + 9);
    let read = || {
        let mut buffer = [0; 4];
        file.read_exact_at(&mut buffer, 0).unwrap();
        buffer
    };
    assert_eq!((read(), read(), read()), ([0; 4], [0, 2, 0, 0], [0; 4]));
    assert_eq!(fault.fired(), 1);
}

#[test]
fn a_failed_sync_loses_the_bytes_it_should_have_saved() {
    let sim = SimVfs::new(1);
    let fault = FaultVfs::new(Arc::clone(&sim) as Arc<dyn Vfs>);
    fault.count_only(OpSet::SYNCS);
    let file = fault.open(&root("a"), OpenMode::CreateNew).unwrap();
    let log = fault.log_segment(&root("log"), 64, SegmentMode::Create).unwrap();
    file.write_all_at(b"data", 0).unwrap();
    log.write(0, &[1; 64]).unwrap();
    fault.sync_dir(Path::new("/")).unwrap();
    fault.fail_call(1, FaultKind::Once, FaultError::IO);
    file.sync_data().unwrap_err();
    file.sync_data().unwrap();
    fault.fail_call(3, FaultKind::Once, FaultError::IO);
    log.sync(64).unwrap_err();
    log.sync(64).unwrap();
    let image = sim.crash_image(CrashProfile::Nothing, 0);
    assert_eq!(image.content(&root("a")).unwrap(), [0; 4], "the length came, the bytes did not");
    assert_eq!(image.content(&root("log")).unwrap(), [0; 64]);
}

#[test]
fn a_failed_write_takes_some_bytes_from_its_start() {
    let mut seen = std::collections::BTreeSet::new();
    let sim = SimVfs::new(1);
    let fault = FaultVfs::new(Arc::clone(&sim) as Arc<dyn Vfs>);
    fault.count_only(OpSet::of(&[Op::Write]));
    fault.fail_call(0, FaultKind::Forever, FaultError::NO_SPACE);
    for n in 0..200 {
        let path = root(&format!("file{n}"));
        let file = fault.open(&path, OpenMode::CreateNew).unwrap();
        assert_eq!(file.write_at(&[1; 8], 0).unwrap_err().kind(), ErrorKind::StorageFull);
        let content = sim.content(&path).unwrap();
        assert!(content.iter().all(|byte| *byte == 1));
        seen.insert(content.len());
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), (0..=8).collect::<Vec<_>>());
}

#[test]
fn a_failed_write_of_a_segment_takes_whole_pages_from_its_start() {
    let at = 4096 - 100;
    let mut seen = std::collections::BTreeSet::new();
    let sim = SimVfs::new(1);
    let fault = FaultVfs::new(Arc::clone(&sim) as Arc<dyn Vfs>);
    fault.count_only(OpSet::of(&[Op::SegmentWrite]));
    fault.fail_call(0, FaultKind::Forever, FaultError::NO_SPACE);
    for n in 0..40 {
        let path = root(&format!("log{n}"));
        let log = fault.log_segment(&path, 16 << 10, SegmentMode::Create).unwrap();
        let error = log.write(at, &[1; 9000]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        let content = sim.content(&path).unwrap();
        let taken = content.iter().filter(|byte| **byte == 1).count();
        assert!(content[at as usize..][..taken].iter().all(|byte| *byte == 1));
        seen.insert(taken);
        log.write(0, &[2; 4096]).unwrap_err();
        assert!(!sim.content(&path).unwrap().contains(&2), "one page is taken whole or not at all");
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 100, 4196, 8292]);
}
