//! Ten thousand column families: what they cost in time, memory and threads.
//!
//! One test function: memory and threads are the whole process's.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::time::{Duration, Instant};

use tidesdb::{Db, DbOptions, FamilyOptions};

const FAMILIES: usize = 10_000;

fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The least time of some tries: the machine may be busy with something else.
fn best_of(tries: usize, mut work: impl FnMut()) -> Duration {
    let times = (0..tries).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed()
    });
    times.min().unwrap()
}

#[test]
fn ten_thousand_families_cost_little() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let names: Vec<String> = (0..FAMILIES).map(|n| format!("family-{n}")).collect();
    let wanted: Vec<_> =
        names.iter().map(|name| (name.as_str(), FamilyOptions::default())).collect();
    // Without the pages of log segments that are mapped, which another thread prepares.
    let (threads, before) = (status("Threads"), status("RssAnon"));
    let started = Instant::now();
    let families = db.create_families(&wanted).unwrap();
    println!("create: {:?}", started.elapsed());
    // The manifest is restated meanwhile, which takes a copy of what is known of all families.
    db.wait_idle().unwrap();
    let each = (status("RssAnon") - before) * 1024 / FAMILIES as u64;
    println!("{each} bytes each");
    assert!(each < 4096, "an idle family takes {each} bytes");
    assert_eq!(status("Threads"), threads, "families have threads of their own");

    families[77].put(b"key", b"value").unwrap();
    let put = best_of(20, || families[78].put(b"key", b"value").unwrap());
    println!("put: {put:?}");
    assert!(put < Duration::from_millis(1), "a commit looks at all families: {put:?}");
    let mut at = 100;
    let drop_one = best_of(20, || {
        at += 1;
        db.drop_family(&names[at]).unwrap();
    });
    println!("drop: {drop_one:?}");
    assert!(drop_one < Duration::from_millis(50), "{drop_one:?}");
    drop(families);
    drop(db);

    let open = best_of(3, || drop(Db::open(directory.path(), DbOptions::default()).unwrap()));
    println!("open: {open:?}");
    assert!(open < Duration::from_secs(2), "{open:?}");
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    assert_eq!(db.family_names().len(), FAMILIES - 20);
    assert_eq!(db.family("family-77").unwrap().get(b"key").unwrap(), Some(b"value".to_vec()));
    let each = status("RssAnon").saturating_sub(before) * 1024 / FAMILIES as u64;
    println!("{each} bytes each after opening");
    let started = Instant::now();
    db.close().unwrap();
    println!("close: {:?}", started.elapsed());
}
