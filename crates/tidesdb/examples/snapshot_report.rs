//! A report over a moment, while writers go on.
//!
//! Transfers move money between accounts all the time. A snapshot shows all accounts as they were
//! at one point of the order of commits, so the sum is right without stopping a writer.
//!
//! `cargo run --release -p tidesdb --example snapshot_report`

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidesdb::{Db, DbOptions, Family, FamilyOptions, IsolationLevel, Result, ScanOptions};

const ACCOUNTS: u64 = 50;
const EACH: u64 = 100;

fn number(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_be_bytes)
}

fn transfer(db: &Db, accounts: &Family, from: u64, to: u64) -> Result<()> {
    db.transaction(IsolationLevel::Snapshot, |transaction| {
        let balance = |account: u64| -> Result<u64> {
            Ok(transaction.get(accounts, &account.to_be_bytes())?.map_or(0, |v| number(&v)))
        };
        let (giver, taker) = (balance(from)?, balance(to)?);
        if from != to && giver > 0 {
            transaction.put(accounts, &from.to_be_bytes(), &(giver - 1).to_be_bytes())?;
            transaction.put(accounts, &to.to_be_bytes(), &(taker + 1).to_be_bytes())?;
        }
        Ok(())
    })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open(directory.path(), DbOptions::default())?;
    let accounts = db.open_family("accounts", FamilyOptions::default())?;
    for account in 0..ACCOUNTS {
        accounts.put(&account.to_be_bytes(), &EACH.to_be_bytes())?;
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 1u64;
            while !stop.load(Ordering::Relaxed) {
                number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                transfer(&db, &accounts, (number >> 33) % ACCOUNTS, (number >> 43) % ACCOUNTS)?;
            }
            Ok::<(), tidesdb::Error>(())
        });
        for _ in 0..20 {
            let snapshot = db.snapshot();
            let mut sum = 0;
            for entry in accounts.scan(ScanOptions::new().snapshot(&snapshot))?.entries() {
                sum += number(&entry?.1);
            }
            assert_eq!(sum, ACCOUNTS * EACH, "no money is lost or made");
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap_or(Ok(()))
    })?;
    println!("20 reports over {ACCOUNTS} accounts, each of {}", ACCOUNTS * EACH);
    Ok(())
}
