//! What the way through C costs: the same work through both interfaces, in turn, in one process.

use std::path::Path;
use std::time::{Duration, Instant};

use tidesdb::{Db, DbOptions, FamilyOptions, IsolationLevel, ScanOptions};
use tidesdb_testkit::Verdict;

use crate::handles::{self, Database, Move, default_family};

const KEYS: u64 = 50_000;
const ROUNDS: usize = 7;
const READ_COMMITTED: i32 = 1;

fn key(n: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// The shortest of the rounds for each side; they take turns, so that both meet the same noise.
fn in_turn(mut one: impl FnMut() -> Verdict, mut other: impl FnMut() -> Verdict) -> Verdict<f64> {
    let (mut best, mut best_other) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        one()?;
        best = best.min(start.elapsed());
        let start = Instant::now();
        other()?;
        best_other = best_other.min(start.elapsed());
    }
    Ok(best.as_secs_f64() / best_other.as_secs_f64())
}

/// How much longer each kind of work takes through C: by name, 1 being as long.
pub fn ratios(directory: &Path) -> Verdict<Vec<(&'static str, f64)>> {
    let said = |error: tidesdb::Error| error.to_string();
    let c = Database::open(&directory.join("c"), false)?;
    let cf = c.create("default", &default_family())?;
    let rust = Db::open(directory.join("rust"), DbOptions::default()).map_err(said)?;
    let family = rust.create_family("default", FamilyOptions::default()).map_err(said)?;
    let value = [7; 100];

    let puts = in_turn(
        || {
            let mut transaction = c.begin(READ_COMMITTED)?;
            for n in 0..KEYS {
                transaction.put(cf, &key(n), &value, 0)?;
                handles::worked("commit", transaction.commit())?;
                transaction.reset(READ_COMMITTED)?;
            }
            Ok(())
        },
        || {
            let mut transaction = rust.begin(IsolationLevel::ReadCommitted).map_err(said)?;
            for n in 0..KEYS {
                transaction.put(&family, &key(n), &value).map_err(said)?;
                transaction.commit().map_err(said)?;
                transaction.reset(IsolationLevel::ReadCommitted).map_err(said)?;
            }
            Ok(())
        },
    )?;
    cf.compact()?;
    family.compact().map_err(said)?;
    let gets = in_turn(
        || {
            let transaction = c.begin(READ_COMMITTED)?;
            // Without the copy that the test's own handles make behind the library's.
            (0..KEYS).try_for_each(|n| transaction.length(cf, &key(n)).map(drop))
        },
        || {
            let transaction = rust.begin(IsolationLevel::ReadCommitted).map_err(said)?;
            (0..KEYS).try_for_each(|n| {
                let found = transaction.get(&family, &key(n)).map_err(said)?;
                std::hint::black_box(found).map(drop).ok_or_else(|| "a key is lost".to_owned())
            })
        },
    )?;
    let seeks = in_turn(
        || {
            let transaction = c.begin(READ_COMMITTED)?;
            let mut iterator = transaction.iterate(cf)?;
            (0..KEYS).try_for_each(|n| iterator.stand(Move::Seek(&key(n))))
        },
        || {
            let transaction = rust.begin(IsolationLevel::ReadCommitted).map_err(said)?;
            let mut scan = transaction.scan(&family, ScanOptions::new()).map_err(said)?;
            (0..KEYS).try_for_each(|n| scan.seek(&key(n)).map_err(said))
        },
    )?;
    Ok(vec![("single-put transactions", puts), ("gets", gets), ("seeks", seeks)])
}
