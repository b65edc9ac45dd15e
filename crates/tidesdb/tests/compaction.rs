//! What merges do to files and space, seen through the public interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use tidesdb::{Compression, Db, DbOptions, ErrorKind, Family, FamilyOptions, ScanOptions};

fn options() -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(64 << 10)
        .target_table_bytes(16 << 10)
        .klog_value_threshold(512)
        .compression(Compression::None)
        .min_disk_space(0)
}

fn open(path: &Path, family: FamilyOptions) -> (Db, Family) {
    let db = Db::open(path, DbOptions::default().log_segment_bytes(64 << 10));
    let db = db.unwrap();
    let family = db.open_family("default", family).unwrap();
    (db, family)
}

fn key(n: u64) -> Vec<u8> {
    format!("key-{n:08}").into_bytes()
}

/// Differs from key to key and from round to round.
fn value(n: u64, round: u64, len: usize) -> Vec<u8> {
    format!("{n}.{round}.").into_bytes().into_iter().cycle().take(len).collect()
}

fn files(path: &Path, extension: &str) -> Vec<(std::path::PathBuf, u64)> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let named = entries.filter(|entry| entry.path().extension().is_some_and(|e| e == extension));
    named.map(|entry| (entry.path(), entry.metadata().unwrap().len())).collect()
}

fn bytes(path: &Path, extension: &str) -> u64 {
    files(path, extension).iter().map(|(_, len)| len).sum()
}

/// The same directory in another opening, which must not need what only the process knew.
fn reopen(path: &Path, old: (Db, Family)) -> (Db, Family) {
    drop(old);
    let (db, family) = open(path, options());
    db.wait_idle().unwrap();
    (db, family)
}

#[test]
fn an_ordered_load_is_never_rewritten() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path(), options());
    for n in 0..20_000 {
        family.put(&key(n), &value(n, 0, 100)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let stats = db.stats();
    assert!(stats.work.flush_bytes_written > 1 << 20);
    assert!(stats.work.compactions > 0, "the tables became one run");
    let rewritten = stats.work.compaction_bytes_written;
    // The last table of a flush may be too small to stay alone.
    assert!(rewritten * 5 < stats.work.flush_bytes_written, "{rewritten}");
    // What came last stays by itself when it is a small part of all.
    assert!(family.stats().levels.iter().map(|level| level.runs).sum::<u64>() <= 2);
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 20_000);
    drop((db, family));
    let (_db, family) = open(directory.path(), options());
    for n in (0..20_000).step_by(7) {
        assert_eq!(family.get(&key(n)).unwrap(), Some(value(n, 0, 100)));
    }
}

#[test]
fn overwritten_keys_take_little_space_at_any_time() {
    let directory = tempfile::tempdir().unwrap();
    let (mut db, mut family) = open(directory.path(), options());
    let (keys, len) = (10_000, 100);
    for round in 0..10 {
        for n in 0..keys {
            family.put(&key((n * 7919) % keys), &value(n, round, len)).unwrap();
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let live = keys * (12 + len as u64);
        for reopened in [false, true] {
            if reopened {
                (db, family) = reopen(directory.path(), (db, family));
            }
            let used = bytes(directory.path(), "klog");
            let when = format!("in round {round}, reopened: {reopened}");
            assert!(used * 10 < live * 15, "{used} bytes for {live} {when}");
        }
    }
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), keys as usize);
}

#[test]
fn garbage_in_value_logs_is_collected() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path(), options());
    let (keys, len) = (200, 4000);
    for round in 0..12 {
        // A tenth of the values stays, so no value log dies by itself.
        for n in (0..keys).filter(|n| round == 0 || n % 10 != 0) {
            family.put(&key(n), &value(n, round, len)).unwrap();
        }
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
    let live = keys * len as u64;
    let used = || bytes(directory.path(), "vlog");
    assert!(used() <= 2 * live + 10_000, "{} bytes for {live}", used());
    let (db, family) = reopen(directory.path(), (db, family));
    assert!(used() <= 2 * live + 10_000, "{} bytes for {live}, reopened", used());
    for n in 0..keys {
        let round = if n % 10 == 0 { 0 } else { 11 };
        assert_eq!(family.get(&key(n)).unwrap(), Some(value(n, round, len)), "{n}");
    }
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn a_snapshot_keeps_its_values_while_their_log_is_collected() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path(), options());
    for n in 0..50 {
        family.put(&key(n), &value(n, 0, 4000)).unwrap();
    }
    let snapshot = db.snapshot();
    for round in 1..6 {
        for n in 0..50 {
            family.put(&key(n), &value(n, round, 4000)).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact().unwrap();
    for n in 0..50 {
        assert_eq!(family.get_at(&snapshot, &key(n)).unwrap(), Some(value(n, 0, 4000)));
    }
    drop(snapshot);
    db.compact().unwrap();
    db.wait_idle().unwrap();
    assert!(bytes(directory.path(), "vlog") < 2 * 50 * 4000 + 10_000);
    assert_eq!(family.get(&key(7)).unwrap(), Some(value(7, 5, 4000)));
}

#[test]
fn an_asked_for_merge_drops_what_a_snapshot_held() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path(), options());
    (0..500).for_each(|n| family.put(&key(n), &value(n, 0, 100)).unwrap());
    let snapshot = db.snapshot();
    (0..500).for_each(|n| family.put(&key(n), &value(n, 1, 100)).unwrap());
    // The end of a flush's job may still look at files that are not needed any more.
    let compact = || db.compact().and_then(|()| db.wait_idle()).unwrap();
    compact();
    let both = bytes(directory.path(), "klog");
    assert_eq!(family.get_at(&snapshot, &key(7)).unwrap(), Some(value(7, 0, 100)));
    // One run, and yet half of it is garbage from here on.
    drop(snapshot);
    compact();
    let one = bytes(directory.path(), "klog");
    assert!(one < both * 6 / 10, "{one} of {both}");
    assert_eq!(family.get(&key(7)).unwrap(), Some(value(7, 1, 100)));
    // Nothing is left to do: the same files stay.
    let before = files(directory.path(), "klog");
    compact();
    assert_eq!(files(directory.path(), "klog"), before);
}

/// The file that they were appended to counted as in use until it was full, 256 MiB later.
#[test]
fn values_of_a_mebibyte_that_were_deleted_give_their_space_back() {
    let directory = tempfile::tempdir().unwrap();
    let (mut db, mut family) = open(directory.path(), options());
    for flushed in [false, true] {
        family.put(b"small", b"1").unwrap();
        for n in 0..3 {
            family.put(&key(n), &value(n, 0, 1 << 20)).unwrap();
        }
        if flushed {
            db.compact().unwrap();
            assert_eq!(family.get(&key(1)).unwrap(), Some(value(1, 0, 1 << 20)));
        }
        for n in [0, 2] {
            family.delete(&key(n)).unwrap();
        }
        db.compact().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(family.get(&key(1)).unwrap(), Some(value(1, 0, 1 << 20)));
        assert!(bytes(directory.path(), "vlog") < 3 << 19, "two of three values are gone");
        (db, family) = reopen(directory.path(), (db, family));
        assert!(bytes(directory.path(), "vlog") < 3 << 19, "reopened, two of three are gone");
        family.delete(&key(1)).unwrap();
        db.compact().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(bytes(directory.path(), "vlog"), 0, "all of them are gone");
        (db, family) = reopen(directory.path(), (db, family));
        assert_eq!(bytes(directory.path(), "vlog"), 0, "reopened, all of them are gone");
    }
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn a_damaged_table_is_set_aside_and_the_rest_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path(), options());
    for n in 0..2_000 {
        family.put(&key(n), &value(n, 0, 100)).unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    // A byte in the middle of the data of one table.
    let (path, len) = files(directory.path(), "klog").into_iter().max().unwrap();
    let mut content = std::fs::read(&path).unwrap();
    content[len as usize / 3] ^= 0x40;
    std::fs::write(&path, content).unwrap();

    let (db, family) = open(directory.path(), options());
    let mut reported = false;
    for round in 1..12 {
        for n in 0..2_000 {
            match family.put(&key(n), &value(n, round, 100)) {
                Ok(()) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let result = db.flush().and_then(|()| db.wait_idle());
        if let Err(error) = result {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            reported = true;
        }
    }
    assert!(reported, "no merge met the damage");
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for n in 0..2_000 {
        assert_eq!(family.get(&key(n)).unwrap(), Some(value(n, 11, 100)), "{n}");
    }
    let runs: u64 = family.stats().levels.iter().map(|level| level.runs).sum();
    assert!(runs <= 9, "{runs} runs: merges stopped");
    // A caller that asks for one run gets an error each time that it could not be had.
    for _ in 0..2 {
        for result in [family.compact(), db.compact(), family.compact_range(..)] {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Corruption);
        }
        assert_eq!(db.compact_and_wait().unwrap_err().kind(), ErrorKind::Corruption);
    }
    db.wait_idle().unwrap();
}

/// A merge that was asked for looked into all tables with a lock held that flushes and questions
/// need.
#[test]
fn a_slow_disk_under_a_merge_that_is_asked_for_blocks_no_other_caller() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family) = open(directory.path(), options());
    family.put(b"key", b"value").unwrap();
    family.compact().unwrap();
    db.close().unwrap();
    drop(family);
    let (_db, family) = open(directory.path(), options());
    let files = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let table =
        files.into_iter().find(|path| path.extension().is_some_and(|e| e == "klog")).unwrap();
    let aside = table.with_extension("aside");
    std::fs::rename(&table, &aside).unwrap();
    // An opening of a pipe waits until it is written to, as for a slow disk.
    assert!(std::process::Command::new("mkfifo").arg(&table).status().unwrap().success());
    let (compacting, asked) = (family.clone(), family.clone());
    let compact = std::thread::spawn(move || compacting.compact());
    std::thread::sleep(std::time::Duration::from_millis(300));
    let (answer, answered) = std::sync::mpsc::channel();
    std::thread::spawn(move || answer.send(asked.is_compacting()));
    let in_time = answered.recv_timeout(std::time::Duration::from_secs(20)).is_ok();
    let pipe = table.with_extension("pipe");
    std::fs::rename(&table, &pipe).unwrap();
    std::fs::rename(&aside, &table).unwrap();
    // For reading too: otherwise this would wait until another opens the pipe.
    drop(std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap());
    // Nothing can be read from a pipe: that is an error, and changes nothing.
    let _ = compact.join().unwrap();
    assert!(in_time);
}
