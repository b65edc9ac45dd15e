//! Real file systems that a database has filled are freed by deleting. The tests mount them, in
//! memory or in a file, which only a privileged user may; elsewhere they say so and do nothing.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tidesdb::{Db, DbOptions, ErrorKind, Family, FamilyOptions, ScanOptions};

#[path = "full_disk/mounted.rs"]
mod mounted;
#[path = "full_disk/shared_blocks.rs"]
mod shared_blocks;
#[path = "full_disk/threads.rs"]
mod threads;

use mounted::Mounted;

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
    let Some(mounted) = Mounted::new("tmpfs", 200) else { return };
    let db = Db::open(mounted.path().join("db"), DbOptions::default()).unwrap();
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
