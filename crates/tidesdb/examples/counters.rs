//! Counters that many threads increment, without lost updates.
//!
//! A counter is read and written in a transaction. Two threads that increment it at once conflict,
//! and `Db::transaction` runs the refused one again after a short random wait.
//!
//! `cargo run --release -p tidesdb --example counters`

use std::thread;

use tidesdb::{Db, DbOptions, Family, FamilyOptions, IsolationLevel, Result};

const THREADS: u64 = 4;
const INCREMENTS: u64 = 250;

fn number(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_be_bytes)
}

fn increment(db: &Db, counters: &Family, name: &str, by: u64) -> Result<u64> {
    db.transaction(IsolationLevel::Snapshot, |transaction| {
        let before = transaction.get(counters, name.as_bytes())?.map_or(0, |v| number(&v));
        transaction.put(counters, name.as_bytes(), &(before + by).to_be_bytes())?;
        Ok(before + by)
    })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open(directory.path(), DbOptions::default())?;
    let counters = db.open_family("counters", FamilyOptions::default())?;
    thread::scope(|scope| {
        let work =
            || (0..INCREMENTS).try_for_each(|_| increment(&db, &counters, "visits", 1).map(drop));
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    let visits = counters.get_with(b"visits", number)?;
    assert_eq!(visits, Some(THREADS * INCREMENTS));
    println!("{THREADS} threads incremented one counter to {}", THREADS * INCREMENTS);
    Ok(())
}
