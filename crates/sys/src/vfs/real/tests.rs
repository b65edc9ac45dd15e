use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::mapping_rule::MappingRule;
use super::*;

const SIZE: u64 = 1 << 20;

fn both() -> [RealVfs; 2] {
    [RealVfs::new(), RealVfs::without_mapping()]
}

fn read_all(vfs: &RealVfs, path: &Path) -> Vec<u8> {
    let file = vfs.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn files_are_created_once_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let (vfs, path) = (RealVfs::new(), dir.path().join("a"));
    assert_eq!(vfs.open(&path, OpenMode::Read).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(vfs.open(&path, OpenMode::ReadWrite).unwrap_err().kind(), ErrorKind::NotFound);
    let file = vfs.open(&path, OpenMode::CreateNew).unwrap();
    file.write_all_at(b"hello", 3).unwrap();
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    assert_eq!(vfs.open(&path, OpenMode::CreateNew).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(read_all(&vfs, &path), b"\0\0\0hello");
    let read_only = vfs.open(&path, OpenMode::Read).unwrap();
    assert!(read_only.write_at(b"x", 0).is_err());
    let mut buffer = [0; 9];
    let error = read_only.read_exact_at(&mut buffer, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert!(error.to_string().contains("expected 9 bytes at offset 0, found 8"), "{error}");
}

#[test]
fn a_stamp_stays_until_the_file_is_changed_and_is_that_of_no_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (vfs, path) = (RealVfs::new(), dir.path().join("a"));
    let stamp = |path: &Path| vfs.open(path, OpenMode::ReadWrite).unwrap().stamp().unwrap();
    let file = vfs.open(&path, OpenMode::CreateNew).unwrap();
    file.write_all_at(b"hello", 0).unwrap();
    file.sync_data().unwrap();
    let before = file.stamp().unwrap();
    assert_eq!(read_all(&vfs, &path), b"hello");
    assert_eq!(stamp(&path), before);
    let copy = dir.path().join("b");
    let copied = Command::new("cp").arg("-a").args([&path, &copy]).status().unwrap();
    assert!(copied.success());
    assert_ne!(stamp(&copy), before);
    // Longer than the clock of any file system takes for a step.
    std::thread::sleep(std::time::Duration::from_millis(20));
    file.write_all_at(b"h", 0).unwrap();
    assert_ne!(stamp(&path), before);
}

#[test]
fn names_are_listed_sorted_with_lengths_and_kinds() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = RealVfs::new();
    vfs.create_dir(&dir.path().join("d")).unwrap();
    assert_eq!(vfs.create_dir(&dir.path().join("d")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    for name in ["z", "b"] {
        let file = vfs.open(&dir.path().join(name), OpenMode::CreateNew).unwrap();
        file.set_len(7).unwrap();
    }
    vfs.rename(&dir.path().join("z"), &dir.path().join("a")).unwrap();
    vfs.remove(&dir.path().join("b")).unwrap();
    vfs.sync_dir(dir.path()).unwrap();
    let expected = [
        DirEntry { name: "a".into(), is_dir: false, len: 7, damage: None },
        DirEntry { name: "d".into(), is_dir: true, len: 0, damage: None },
    ];
    assert_eq!(vfs.list(dir.path()).unwrap(), expected);
    vfs.remove_dir(&dir.path().join("d")).unwrap();
    assert_eq!(vfs.list(dir.path()).unwrap().len(), 1);
    assert!(vfs.free_bytes(dir.path()).unwrap() > 0);
}

#[test]
fn reserving_space_keeps_the_length() {
    let dir = tempfile::tempdir().unwrap();
    let file = RealVfs::new().open(&dir.path().join("a"), OpenMode::CreateNew).unwrap();
    file.allocate(100_000).unwrap();
    assert!(file.is_empty().unwrap());
}

#[test]
fn segments_keep_what_was_written_after_they_are_closed() {
    for vfs in both() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = vfs.log_segment(&path, SIZE, SegmentMode::Create).unwrap();
        assert_eq!(log.capacity(), SIZE);
        assert_eq!(read_all(&vfs, &path), vec![0; SIZE as usize], "starts as zeros");
        log.warm(0, 10_000);
        log.warm(SIZE - 1, SIZE + 5_000);
        log.write(4090, b"across a page").unwrap();
        log.write(SIZE - 3, b"end").unwrap();
        let mut seen = [0; 13];
        let reader = vfs.open(&path, OpenMode::Read).unwrap();
        reader.read_exact_at(&mut seen, 4090).unwrap();
        assert_eq!(&seen, b"across a page", "visible to readers at once");
        log.cool();
        log.write(20_000, b"after that").unwrap();
        log.sync(SIZE).unwrap();
        drop(log);
        let mut expected = vec![0; SIZE as usize];
        expected[4090..4103].copy_from_slice(b"across a page");
        expected[20_000..20_010].copy_from_slice(b"after that");
        expected[SIZE as usize - 3..].copy_from_slice(b"end");
        assert_eq!(read_all(&vfs, &path), expected);
    }
}

#[test]
fn reused_segments_keep_old_bytes_until_overwritten_or_zeroed() {
    for vfs in both() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("1"), dir.path().join("2"));
        let log = vfs.log_segment(&old, SIZE, SegmentMode::Create).unwrap();
        log.write(0, &[7; 100]).unwrap();
        drop(log);
        let again = vfs.log_segment(&old, SIZE, SegmentMode::Create).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        vfs.rename(&old, &new).unwrap();
        let log = vfs.log_segment(&new, SIZE, SegmentMode::Reuse).unwrap();
        log.write(0, b"new").unwrap();
        assert_eq!(read_all(&vfs, &new)[..5], *b"new\x07\x07");
        log.zero_fill().unwrap();
        assert_eq!(read_all(&vfs, &new), vec![0; SIZE as usize]);
        log.write(1, b"x").unwrap();
        assert_eq!(read_all(&vfs, &new)[..3], *b"\0x\0");
        let longer = vfs.log_segment(&new, SIZE + 1, SegmentMode::Reuse).unwrap_err();
        assert_eq!(longer.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn segments_refuse_ranges_outside_and_sizes_of_nothing() {
    for vfs in both() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let empty = vfs.log_segment(&path, 0, SegmentMode::Create).unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::InvalidInput);
        let log = vfs.log_segment(&path, 5000, SegmentMode::Create).unwrap();
        for (at, count) in [(5000, 1), (4999, 2), (u64::MAX, 1), (0, 5001)] {
            let error = log.write(at, &vec![1; count]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        log.write(5000, b"").unwrap();
        log.write(0, &[1; 5000]).unwrap();
        assert_eq!(read_all(&vfs, &path), [1; 5000]);
    }
}

#[test]
fn concurrent_writers_of_disjoint_ranges_do_not_disturb_each_other() {
    for vfs in both() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = vfs.log_segment(&path, SIZE, SegmentMode::Create).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4_u64 {
                let log = &log;
                scope.spawn(move || {
                    for turn in 0..1000 {
                        let at = (turn * 4 + writer) * 136;
                        log.write(at, &[writer as u8 + 1; 136]).unwrap();
                    }
                });
            }
        });
        let bytes = read_all(&vfs, &path);
        for (slot, record) in bytes.chunks(136).take(4000).enumerate() {
            assert!(record.iter().all(|byte| usize::from(*byte) == slot % 4 + 1), "slot {slot}");
        }
    }
}

#[test]
fn a_segment_larger_than_the_disk_is_an_error_and_leaves_nothing() {
    for vfs in both() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let error = vfs.log_segment(&path, 1 << 55, SegmentMode::Create).unwrap_err();
        let kinds = [ErrorKind::StorageFull, ErrorKind::FileTooLarge, ErrorKind::InvalidInput];
        assert!(kinds.contains(&error.kind()), "{error}");
        assert!(vfs.list(dir.path()).unwrap().is_empty());
    }
}

#[test]
fn a_second_holder_in_this_process_is_refused_also_by_another_path() {
    let dir = tempfile::tempdir().unwrap();
    let (vfs, path) = (RealVfs::new(), dir.path().join("LOCK"));
    let held = vfs.lock(&path, LockMode::Exclusive).unwrap();
    assert_eq!(vfs.lock(&path, LockMode::Exclusive).unwrap_err().kind(), ErrorKind::WouldBlock);
    let roundabout = dir.path().join(".").join("LOCK");
    assert_eq!(
        vfs.lock(&roundabout, LockMode::Exclusive).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    vfs.lock(&dir.path().join("OTHER"), LockMode::Exclusive).unwrap();
    drop(held);
    drop(vfs.lock(&path, LockMode::Exclusive).unwrap());
    assert!(path.exists());
}

const CHILD_LOCK: &str = "TIDESDB_TEST_LOCK_IN_CHILD";

/// Not a test of its own: what the other process of the next test runs.
#[test]
fn child_takes_the_lock_when_told_to() {
    let Some(path) = std::env::var_os(CHILD_LOCK) else { return };
    let outcome = RealVfs::new().lock(&PathBuf::from(path), LockMode::Exclusive);
    println!("\nlock outcome: {:?}", outcome.as_ref().err().map(std::io::Error::kind));
    std::io::stdout().flush().unwrap();
    // Holds on until the parent closes the pipe.
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

fn child_with_lock(path: &Path) -> (std::process::Child, String) {
    let test = "vfs::real::tests::child_takes_the_lock_when_told_to";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD_LOCK, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let outcome = output
        .lines()
        .map(|line| line.unwrap())
        .find(|line| line.starts_with("lock outcome"))
        .unwrap();
    (child, outcome)
}

#[test]
fn two_processes_exclude_each_other_and_death_releases() {
    let dir = tempfile::tempdir().unwrap();
    let (vfs, path) = (RealVfs::new(), dir.path().join("LOCK"));
    let held = vfs.lock(&path, LockMode::Exclusive).unwrap();
    let (mut refused, outcome) = child_with_lock(&path);
    assert_eq!(outcome, "lock outcome: Some(WouldBlock)");
    refused.kill().unwrap();
    refused.wait().unwrap();
    drop(held);
    let (mut holder, outcome) = child_with_lock(&path);
    assert_eq!(outcome, "lock outcome: None");
    assert_eq!(vfs.lock(&path, LockMode::Exclusive).unwrap_err().kind(), ErrorKind::WouldBlock);
    holder.kill().unwrap();
    holder.wait().unwrap();
    vfs.lock(&path, LockMode::Exclusive).unwrap();
}

#[test]
fn any_number_share_a_lock_or_one_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let (vfs, path) = (RealVfs::new(), dir.path().join("LOCK"));
    assert_eq!(vfs.lock(&path, LockMode::Shared).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!path.exists());
    let one = vfs.lock(&path, LockMode::Exclusive).unwrap();
    assert_eq!(vfs.lock(&path, LockMode::Shared).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(one);
    let shared = [0; 3].map(|_| vfs.lock(&path, LockMode::Shared).unwrap());
    // The registry apart: other processes meet the operating system's lock alone.
    let (mut refused, outcome) = child_with_lock(&path);
    assert_eq!(outcome, "lock outcome: Some(WouldBlock)");
    refused.kill().unwrap();
    refused.wait().unwrap();
    for guard in shared {
        assert_eq!(vfs.lock(&path, LockMode::Exclusive).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(guard);
    }
    vfs.lock(&path, LockMode::Exclusive).unwrap();
}

#[test]
fn a_lock_file_that_is_removed_never_has_two_owners() {
    let dir = tempfile::tempdir().unwrap();
    let (vfs, path) = (RealVfs::new(), dir.path().join("LOCK"));
    let inside = std::sync::atomic::AtomicU32::new(0);
    let order = std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut taken = 0;
                while taken < 1000 {
                    let Ok(guard) = vfs.lock(&path, LockMode::Exclusive) else { continue };
                    assert!(guard.is_still_named());
                    assert_eq!(inside.fetch_add(1, order), 0, "two owners");
                    inside.fetch_sub(1, order);
                    // As an opening that fails does, with the lock held.
                    vfs.remove(&path).unwrap();
                    assert!(!guard.is_still_named());
                    taken += 1;
                }
            });
        }
    });
}

#[test]
fn names_in_a_held_directory_stay_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("d"), dir.path().join("moved"));
    let plain = Arc::new(RealVfs::new());
    plain.create_dir(&path).unwrap();
    let held = plain.clone().hold_dir(&path).unwrap();
    let write = |vfs: &dyn Vfs, name: &str| {
        vfs.open(&path.join(name), OpenMode::CreateNew).unwrap().write_all_at(b"x", 0).unwrap();
    };
    write(held.as_ref(), "a");
    plain.rename(&path, &moved).unwrap();
    plain.create_dir(&path).unwrap();
    write(plain.as_ref(), "other");
    write(held.as_ref(), "b");
    held.create_dir(&path.join("below")).unwrap();
    held.rename(&path.join("a"), &path.join("below/a")).unwrap();
    held.log_segment(&path.join("log"), 4096, SegmentMode::Create).unwrap();
    held.open(&path.join("b"), OpenMode::ReadWrite).unwrap();
    held.sync_dir(&path).unwrap();
    assert!(held.free_bytes(&path).unwrap() > 0);
    let names =
        |entries: Vec<DirEntry>| entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>();
    assert_eq!(names(held.list(&path).unwrap()), ["b", "below", "log"]);
    assert_eq!(names(held.list(&path.join("below")).unwrap()), ["a"]);
    held.remove(&path.join("below/a")).unwrap();
    held.remove_dir(&path.join("below")).unwrap();
    assert_eq!(names(plain.list(&moved).unwrap()), ["b", "log"]);
    assert_eq!(names(plain.list(&path).unwrap()), ["other"]);
    // Elsewhere paths are paths, and the directory's own name is not in it.
    assert_eq!(names(held.list(dir.path()).unwrap()), ["d", "moved"]);
    assert_eq!(held.remove_dir(&path).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    let absent = plain.hold_dir(&dir.path().join("absent")).unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::NotFound);
}

/// By the kernel's own list of this process's mappings.
#[test]
fn the_log_is_mapped_where_the_file_system_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mapped =
        || std::fs::read_to_string("/proc/self/maps").unwrap().contains(path.to_str().unwrap());
    for how in [SegmentMode::Create, SegmentMode::Reuse] {
        let log = RealVfs::new().log_segment(&path, SIZE, how).unwrap();
        let file = fs::File::open(&path).unwrap();
        let known = MappingRule::of(os_calls::file_system_magic(&file)) != MappingRule::Never;
        assert_eq!(mapped(), known, "{how:?}");
        drop(log);
        assert!(!mapped());
    }
    let written = RealVfs::without_mapping().log_segment(&path, SIZE, SegmentMode::Reuse).unwrap();
    assert!(!mapped());
    drop(written);
}

/// It looked like a full disk: no compaction found room.
#[cfg(target_os = "linux")]
#[test]
fn a_file_system_that_says_nothing_of_its_space_is_no_full_one() {
    let vfs = RealVfs::new();
    for said in [vfs.free_bytes(Path::new("/proc")), vfs.volume_bytes(Path::new("/proc"))] {
        assert_eq!(said.unwrap_err().kind(), ErrorKind::Unsupported);
    }
}

/// Of a link that an administrator has left for a file the copy had the link, which led nowhere.
#[test]
fn a_second_name_is_one_of_the_file_that_a_link_means() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    for name in ["elsewhere", "db", "copy"] {
        fs::create_dir(place(name)).unwrap();
    }
    fs::write(place("elsewhere/file"), "bytes").unwrap();
    std::os::unix::fs::symlink("../elsewhere/file", place("db/file")).unwrap();
    let plain = Arc::new(RealVfs::new());
    for vfs in [Arc::clone(&plain) as Arc<dyn Vfs>, plain.hold_dir(&place("db")).unwrap()] {
        let links = || vfs.open(&place("db/file"), OpenMode::Read).unwrap().links().unwrap();
        assert_eq!(links(), 1);
        vfs.link(&place("db/file"), &place("copy/file")).unwrap();
        assert!(fs::symlink_metadata(place("copy/file")).unwrap().is_file());
        assert_eq!(fs::read(place("copy/file")).unwrap(), b"bytes");
        assert_eq!(links(), 2);
        vfs.remove(&place("copy/file")).unwrap();
    }
}
