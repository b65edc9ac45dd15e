//! Two threads put new keys in random order into another engine while two others get keys that are
//! there.
//!
//! `cargo run --release -p bench-compare --example peer_readers_beside_writers -- ENGINE MILLIONS
//! SECONDS [LIBRARY]` runs it; `cargo bench -p tidesdb --bench readers_beside_writers`
//! does the same with ours. It ends with the keys or with the time, whichever comes first.
//! `LIBRARY` is that of an engine that is loaded at run time, such as RocksDB.

#[path = "../../tidesdb/benches/readers_beside_writers/records.rs"]
mod records;

use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench_compare::engine::{Engine, EngineOptions, Op, Session, SessionMode};

use self::records::{VALUE_BYTES, WRITERS, key, mixed, value};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const READERS: u64 = 2;
const BETWEEN_LINES: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Load {
    keys: u64,
    /// Keys that writer `n` has written: those that leave `n` when divided by their number.
    written: [AtomicU64; WRITERS as usize],
    gets: AtomicU64,
    is_over: AtomicBool,
}

impl Load {
    fn write(&self, session: &mut dyn Session, writer: u64) -> Result<()> {
        for step in 0..self.keys / WRITERS {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let number = step * WRITERS + writer;
            session.write_batch(&[Op::Put { key: &key(number), value: &value(number) }])?;
            self.written[writer as usize].store(step + 1, Ordering::Release);
        }
        Ok(())
    }

    fn read(&self, session: &mut dyn Session, reader: u64) -> Result<()> {
        let mut draw = reader << 48;
        while !self.is_over.load(Ordering::Relaxed) {
            draw += 1;
            let writer = draw % WRITERS;
            let written = self.written[writer as usize].load(Ordering::Acquire);
            if written == 0 {
                continue;
            }
            let number = mixed(draw) % written * WRITERS + writer;
            let mut is_right = false;
            session.get(&key(number), &mut |found| is_right = found == value(number))?;
            assert!(is_right, "key {number}");
            self.gets.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn puts(&self) -> u64 {
        self.written.iter().map(|written| written.load(Ordering::Relaxed)).sum()
    }
}

fn run(engine: &dyn Engine, load: &Load, seconds: u64) -> Result<()> {
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for thread in 0..WRITERS + READERS {
            threads.push(scope.spawn(move || -> Result<()> {
                let mut session = engine.session(SessionMode::ReadWrite)?;
                match thread.checked_sub(WRITERS) {
                    None => load.write(session.as_mut(), thread),
                    Some(reader) => load.read(session.as_mut(), reader),
                }
            }));
        }
        println!("   s  puts (M)    puts/s    gets/s");
        let begun = Instant::now();
        let (mut last, mut puts, mut gets) = (begun, 0, 0);
        while !threads.iter().any(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(BETWEEN_LINES);
            let took = last.elapsed().as_secs_f64();
            last = Instant::now();
            let now = (load.puts(), load.gets.load(Ordering::Relaxed));
            println!(
                "{:4} {:9.1} {:9.0} {:9.0}",
                begun.elapsed().as_secs(),
                now.0 as f64 / 1e6,
                (now.0 - puts) as f64 / took,
                (now.1 - gets) as f64 / took,
            );
            (puts, gets) = now;
            if puts == load.keys || begun.elapsed() > Duration::from_secs(seconds) {
                break;
            }
        }
        load.is_over.store(true, Ordering::Relaxed);
        let took = begun.elapsed().as_secs_f64();
        for thread in threads {
            thread.join().map_err(|_| "a thread ended in a panic")??;
        }
        let rate = |count: u64| count as f64 / took;
        println!("all: {:.0} puts/s and {:.0} gets/s in {took:.0} s", rate(puts), rate(gets));
        Ok(())
    })
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "rocksdb".to_owned());
    let millions: u64 = arguments.next().map_or(Ok(30), |text| text.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(600), |text| text.parse())?;
    let directory = tempfile::tempdir_in(".")?;
    let mut options = EngineOptions::parity(directory.path().to_path_buf());
    options.library = arguments.next().map(PathBuf::from);
    let keys = millions * 1_000_000;
    options.expected_bytes = keys * (16 + VALUE_BYTES as u64);
    options.threads = (WRITERS + READERS) as u32;
    let engine = bench_compare::open(&name, &options).map_err(|e| e.to_string())?;
    run(engine.as_ref(), &Load { keys, ..Load::default() }, seconds)
}
