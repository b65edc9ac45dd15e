//! A queue of jobs in another engine: one worker takes the first key and deletes it.
//!
//! `cargo run --release -p bench-compare --example peer_queue -- ENGINE JOBS [LIBRARY]`, beside
//! `cargo bench -p tidesdb --bench queue -- JOBS 1 plain` for ours: the same keys, values
//! and order of calls. `LIBRARY` is that of an engine that is loaded at run time, such as RocksDB.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use bench_compare::engine::{Direction, EngineOptions, Op, ScanRequest, Session, SessionMode};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Takes one job; none when the queue is empty.
fn take(session: &mut dyn Session) -> Result<bool> {
    let mut job = None;
    let request = ScanRequest { start: Some(b"job/"), direction: Direction::Forward };
    session.scan(request, &mut |key, _| {
        job = Some(key.to_vec());
        false
    })?;
    let Some(job) = job else { return Ok(false) };
    session.write_batch(&[Op::Delete { key: &job }])?;
    Ok(true)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "rocksdb".to_owned());
    let jobs: u64 = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let directory = tempfile::tempdir()?;
    let mut options = EngineOptions::parity(directory.path().to_path_buf());
    options.library = arguments.next().map(PathBuf::from);
    let engine = bench_compare::open(&name, &options)?;
    let mut session = engine.session(SessionMode::ReadWrite)?;
    for job in 0..jobs {
        let key = format!("job/{job:012}").into_bytes();
        session.write_batch(&[Op::Put { key: &key, value: b"work" }])?;
    }
    let begun = Instant::now();
    let mut taken = 0;
    while take(session.as_mut())? {
        taken += 1;
    }
    println!("{name}: {taken} jobs taken in {:.2} s", begun.elapsed().as_secs_f64());
    if taken == jobs { Ok(()) } else { Err("a job was lost, or taken twice".into()) }
}
