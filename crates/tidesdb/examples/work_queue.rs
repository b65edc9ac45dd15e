//! A queue of jobs of which each is done once, by any number of workers.
//!
//! A worker takes the first key in a transaction. Two workers that take the same job conflict, and
//! the second tries again with the next one. Taking from the head stays fast, however many jobs
//! were taken before: scans remember where they passed over deleted keys.
//!
//! `cargo run --release -p tidesdb --example work_queue`

use std::thread;

use tidesdb::{Db, DbOptions, Family, FamilyOptions, IsolationLevel, Result, ScanOptions};

const JOBS: u64 = 500;
const WORKERS: usize = 3;

/// Takes one job; none when the queue is empty.
fn take(db: &Db, queue: &Family) -> Result<Option<Vec<u8>>> {
    db.transaction(IsolationLevel::Snapshot, |transaction| {
        let mut scan = transaction.scan(queue, ScanOptions::new())?;
        scan.seek_to_first()?;
        if !scan.valid() {
            return Ok(None);
        }
        let job = scan.key().to_vec();
        transaction.delete(queue, &job)?;
        Ok(Some(job))
    })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open(directory.path(), DbOptions::default())?;
    let queue = db.open_family("queue", FamilyOptions::default())?;
    for job in 0..JOBS {
        // Big-endian numbers sort as numbers do.
        queue.put(&job.to_be_bytes(), b"what is to be done")?;
    }
    let work = || -> Result<Vec<Vec<u8>>> {
        let mut done = Vec::new();
        while let Some(job) = take(&db, &queue)? {
            done.push(job);
        }
        Ok(done)
    };
    let mut done = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Ok(vec![])));
        done.collect::<Result<Vec<_>>>()
    })?
    .concat();
    done.sort();
    let all: Vec<Vec<u8>> = (0..JOBS).map(|job| job.to_be_bytes().to_vec()).collect();
    assert_eq!(done, all, "each job was taken once");
    println!("{WORKERS} workers took {} jobs, each once", done.len());
    Ok(())
}
