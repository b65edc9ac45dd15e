//! A real file system that the database has filled is freed by deleting. The test mounts one in
//! memory, which only a privileged user may; elsewhere it says so and does nothing.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tidesdb::{Db, DbOptions, ErrorKind, Family, FamilyOptions};

/// A mounted file system of 200 MB, which goes when the value is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=200m", "tmpfs"]).arg(path);
        let done = mount.status().is_ok_and(|status| status.success());
        done.then(|| Self(path.to_path_buf()))
    }

    fn free_mib(&self) -> u64 {
        let output = Command::new("df").args(["-k", "--output=avail"]).arg(&self.0).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        text.lines().last().unwrap().trim().parse::<u64>().unwrap() >> 10
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn key(n: u32) -> Vec<u8> {
    let half = if n.is_multiple_of(2) { 'a' } else { 'b' };
    format!("{half}{:08x}", n.wrapping_mul(2_654_435_761)).into_bytes()
}

/// Bytes that do not compress.
fn value(n: u32) -> Vec<u8> {
    let mut state = u64::from(n) | 1 << 40;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..300).map(|_| next()).collect()
}

fn fill(family: &Family, first: u32) -> u32 {
    let mut n = first;
    loop {
        match family.put(&key(n), &value(n)) {
            Ok(()) => n += 1,
            Err(refused) => {
                assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
                return n;
            }
        }
    }
}

fn free_by_deleting(min_disk_space: Option<u64>, by_range: bool) {
    let directory = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::at(directory.path()) else {
        println!("skipped: mounting is not allowed");
        return;
    };
    let db = Db::open(directory.path().join("db"), DbOptions::default()).unwrap();
    let mut options = FamilyOptions::default();
    options.min_disk_space = min_disk_space;
    let family = db.open_family("family", options).unwrap();
    let written = fill(&family, 0);
    println!("{written} keys, {} MiB free", mounted.free_mib());
    if by_range {
        family.delete_range(b"a", b"b").unwrap();
    } else {
        (0..written).step_by(2).for_each(|n| family.delete(&key(n)).unwrap());
    }
    println!("half of them deleted, {} MiB free", mounted.free_mib());
    let again = fill(&family, written);
    println!("{} more keys, {} MiB free", again - written, mounted.free_mib());
    // Merges that begin meanwhile take some space until they end.
    assert!(again - written > written / 8, "{written} keys, then {again}");
    for n in 0..again {
        let wanted = (n >= written || !n.is_multiple_of(2)).then(|| value(n));
        assert!(family.get(&key(n)).unwrap() == wanted, "key {n}");
    }
}

#[test]
#[ignore = "mounts a file system"]
fn a_full_tmpfs_is_freed_by_deleting() {
    for min_disk_space in [None, Some(0)] {
        for by_range in [false, true] {
            free_by_deleting(min_disk_space, by_range);
        }
    }
}
