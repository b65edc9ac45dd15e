//! Measures a queue of jobs: workers take the first key and delete it, while others put keys at the
//! end. How a queue is written for use is shown by `work_queue`.
//!
//! `cargo bench -p tidesdb --bench queue -- JOBS WORKERS MODE` with MODE one of `plain`
//! (look and delete), `flush` (all jobs in tables first), `tail` (one job is put for each that is
//! taken), `stack` (taken from the end), `snapshot` and `serializable` (a transaction for each).
//!
//! One worker of a plain queue takes 100,000 jobs in 1.5 s at most, on two quiet processors; when
//! it takes longer the program fails.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use tidesdb::{Db, DbOptions, Family, FamilyOptions, IsolationLevel, ScanOptions};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What one worker may take for a job of a plain queue.
const MOST_SECONDS_PER_JOB: f64 = 1.5 / 100_000.0;

fn key(job: u64) -> Vec<u8> {
    format!("job/{job:012}").into_bytes()
}

/// Takes one job; none when the queue is empty. Several workers may take the same one: each deletes
/// what it has seen, which is fine for a measurement and not for work that must be done once.
fn take(family: &Family, from_end: bool) -> Result<Option<Vec<u8>>> {
    let mut scan = family.scan(ScanOptions::new().prefix(b"job/"))?;
    if from_end {
        scan.seek_to_last()?;
    } else {
        scan.seek_to_first()?;
    }
    if !scan.valid() {
        return Ok(None);
    }
    let job = scan.key().to_vec();
    family.delete(&job)?;
    Ok(Some(job))
}

/// As [`take`], once and by one worker only. Loses against another worker now and then.
fn take_in_transaction(db: &Db, family: &Family, level: IsolationLevel) -> Result<Option<Vec<u8>>> {
    loop {
        let mut transaction = db.begin(level)?;
        let job = {
            let mut scan = transaction.scan(family, ScanOptions::new().prefix(b"job/"))?;
            scan.seek_to_first()?;
            if !scan.valid() {
                return Ok(None);
            }
            scan.key().to_vec()
        };
        transaction.delete(family, &job)?;
        match transaction.commit() {
            Ok(_) => return Ok(Some(job)),
            Err(tidesdb::Error::Conflict { .. }) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn work(db: &Db, family: &Family, mode: &str, next: &AtomicU64, last: u64) -> Result<u64> {
    let mut taken = 0;
    loop {
        let job = match mode {
            "snapshot" => take_in_transaction(db, family, IsolationLevel::Snapshot)?,
            "serializable" => take_in_transaction(db, family, IsolationLevel::Serializable)?,
            _ => take(family, mode == "stack")?,
        };
        if job.is_none() {
            return Ok(taken);
        }
        taken += 1;
        if mode == "tail" {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job < last {
                family.put(&key(job), b"work")?;
            }
        }
    }
}
/// The arguments, without the one that `cargo bench` adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}

fn main() -> Result<()> {
    let mut arguments = arguments();
    let jobs: u64 = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let workers: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let mode = arguments.next().unwrap_or_else(|| "plain".to_owned());
    let directory = tempfile::tempdir()?;
    let db = Db::open(directory.path(), DbOptions::default())?;
    let family = db.open_family("queue", FamilyOptions::default())?;
    for job in 0..jobs {
        family.put(&key(job), b"work")?;
    }
    if mode == "flush" {
        family.flush()?;
    }
    let next = AtomicU64::new(jobs);
    let begun = Instant::now();
    let taken = thread::scope(|scope| {
        let worker = || work(&db, &family, &mode, &next, 2 * jobs);
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(0))).sum::<Result<u64>>()
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{mode}, {workers} workers: {taken} jobs taken in {seconds:.2} s");
    if mode == "plain" && workers == 1 {
        let most = taken as f64 * MOST_SECONDS_PER_JOB;
        println!("bound: {most:.2} s");
        if seconds > most {
            return Err("the bound was missed".into());
        }
    }
    Ok(())
}
