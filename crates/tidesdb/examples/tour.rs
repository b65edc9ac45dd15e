//! A tour of the API: the example of README.md, complete.
//!
//! `cargo run --release -p tidesdb --example tour -- --in DIRECTORY`; without a directory it uses
//! one that vanishes at the end. `cargo test --examples` passes its own arguments on, so the
//! directory has a flag. The tidy test checks that README.md shows lines of this file only.

use std::time::Duration;

use tidesdb::{Db, DbOptions, FamilyOptions, ScanOptions, SyncMode, WriteBatch, WriteOptions};
use tidesdb::{ErrorKind, IsolationLevel};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let given = std::env::args_os().skip_while(|word| word != "--in").nth(1);
    let given = given.map(std::path::PathBuf::from);
    let path = given.unwrap_or_else(|| temporary.path().join("tour"));

    let db = Db::open(&path, DbOptions::default().sync_mode(SyncMode::None))?;
    let users = db.open_family("users", FamilyOptions::default())?;
    let log = db.open_family("log", FamilyOptions::default())?;

    users.put(b"ada", b"lovelace")?;
    users.put_with_ttl(b"session", b"4711", Duration::from_secs(60))?;
    assert_eq!(users.get(b"ada")?.as_deref(), Some(&b"lovelace"[..]));
    // Borrowed from the cache: no copy.
    assert_eq!(users.get_with(b"ada", |value| value.len())?, Some(8));

    // Over any number of families, all or nothing, on disk before the call returns.
    let mut batch = WriteBatch::new();
    batch.put(&users, b"alan", b"turing")?;
    batch.delete(&users, b"session")?;
    batch.put(&log, b"0001", b"alan joined")?;
    db.write_with(&batch, WriteOptions::new().sync(true))?;

    let snapshot = db.snapshot();
    users.delete(b"alan")?;
    assert!(users.get_at(&snapshot, b"alan")?.is_some());
    // All keys from the first on that come before the second, as one record.
    log.delete_range(b"0000", b"0100")?;

    for entry in users.scan(ScanOptions::new().prefix(b"a").snapshot(&snapshot))?.entries() {
        let (key, value) = entry?;
        println!("{} {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
    }
    let mut scan = users.scan(ScanOptions::new())?;
    scan.seek_to_last()?;
    while scan.valid() {
        println!("{:?} -> {} bytes", scan.key(), scan.value()?.len());
        scan.prev()?;
    }
    drop((scan, snapshot));

    // Reads of one moment, writes that take effect together; the first committer wins.
    let mut transaction = db.begin(IsolationLevel::Serializable)?;
    let visits = transaction.get(&users, b"ada")?.map_or(0, |value| value.len());
    transaction.put(&log, b"0002", format!("{visits} bytes").as_bytes())?;
    match transaction.commit() {
        Err(e) if e.kind() == ErrorKind::Conflict => transaction.rollback()?, // and try again
        other => assert!(other?.is_some()),
    }
    drop(transaction);

    println!("{} bytes of log", db.stats().work.log_bytes_written);
    db.close()?;
    Ok(())
}
