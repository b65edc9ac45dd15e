//! Two threads put new keys in random order while two others get keys that are there: how both
//! rates and the memory of the process behave as the database grows. The allocator is the system's.
//!
//! `cargo bench -p tidesdb --bench readers_beside_writers -- [name=number ...]`
//!
//! | name | meaning | default |
//! |---|---|---|
//! | `keys` | records to write, in millions | 30 |
//! | `seconds` | go on reading, and overwriting what is there, so long after that | 0 |
//! | `budget` | `max_memory_usage` in MiB, 0 for the default | 0 |
//! | `tables` | `max_open_files`, unless it is 1 for the default | 1 |
//! | `writers` | 0: no thread writes, of a database that is loaded | 2 |
//! | `readers` | threads that read | 2 |
//! | `loaded` | 1: all records are there already, in the directory of `at` | 0 |
//! | `trigger` | `l1_file_count_trigger`; with a large one nothing is compacted | that of the family |
//! | `at` | directory of the database, which is kept | one that is removed |
//!
//! To measure a database of 40 million records that is opened with little memory, write them with
//! `keys=40 readers=0 at=DIR`, and go on with `keys=40 loaded=1 seconds=60 budget=96 at=DIR`. The
//! last columns are what one get reads: blocks that the cache had, and blocks that it had not.

mod records;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidesdb::{Db, DbOptions, Family, FamilyOptions};

use self::records::{WRITERS, key, mixed, value};

struct Load {
    family: Family,
    keys: u64,
    /// Keys that writer `n` has written: those that leave `n` when divided by their number.
    written: [AtomicU64; WRITERS as usize],
    puts: AtomicU64,
    gets: AtomicU64,
    over: AtomicBool,
}

impl Load {
    fn write(&self, writer: u64) -> tidesdb::Result<()> {
        let own = self.keys / WRITERS;
        let mut step = self.written[writer as usize].load(Ordering::Acquire);
        while !self.over.load(Ordering::Relaxed) {
            let nth = if step < own { step } else { mixed(step) % own };
            let number = nth * WRITERS + writer;
            self.family.put(&key(number), &value(number))?;
            step += 1;
            self.puts.fetch_add(1, Ordering::Relaxed);
            self.written[writer as usize].store(step.min(own), Ordering::Release);
        }
        Ok(())
    }

    /// Whether each writer has written all of its keys: one may be ahead of the other.
    fn is_written(&self) -> bool {
        let own = self.keys / WRITERS;
        self.written.iter().all(|written| written.load(Ordering::Acquire) == own)
    }

    fn read(&self, reader: u64) -> tidesdb::Result<()> {
        let mut draw = reader << 48;
        while !self.over.load(Ordering::Relaxed) {
            draw += 1;
            let writer = draw % WRITERS;
            let written = self.written[writer as usize].load(Ordering::Acquire);
            if written == 0 {
                continue;
            }
            let number = mixed(draw) % written * WRITERS + writer;
            let found = self.family.get_with(&key(number), |found| found == value(number))?;
            assert_eq!(found, Some(true), "key {number}");
            self.gets.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Resident bytes of this process in MiB, and the most that there were.
fn resident_mib() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        number.unwrap_or(0) / 1024
    };
    (of("VmRSS:"), of("VmHWM:"))
}

fn text(name: &str) -> Option<String> {
    std::env::args()
        .find_map(|argument| Some(argument.strip_prefix(name)?.strip_prefix('=')?.into()))
}

fn argument(name: &str) -> Option<u64> {
    text(name)?.parse().ok()
}

fn options() -> DbOptions {
    let mut options = DbOptions::default();
    match argument("budget").unwrap_or(0) {
        0 => {}
        mib => options = options.max_memory_usage(mib << 20),
    }
    match argument("tables").unwrap_or(1) {
        1 => {}
        tables => options = options.max_open_files(tables as usize),
    }
    options
}

const HEADINGS: &str = "   s  puts (M)    puts/s    gets/s  runs  tables  open  table MiB   MiB \
     used  RSS  most  cached   read";

fn family_options() -> FamilyOptions {
    let options = FamilyOptions::default();
    match argument("trigger") {
        None => options,
        Some(trigger) => options.l1_file_count_trigger(trigger as usize),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let removed = tempfile::tempdir_in(".")?;
    let directory = text("at").map_or_else(|| removed.path().to_path_buf(), PathBuf::from);
    let db = Db::open(&directory, options())?;
    let keys = argument("keys").unwrap_or(30) * 1_000_000;
    let is_loaded = argument("loaded") == Some(1);
    let written = if is_loaded { keys / WRITERS } else { 0 };
    let load = Load {
        family: db.open_family("load", FamilyOptions::default())?,
        keys,
        written: std::array::from_fn(|_| AtomicU64::new(written)),
        puts: AtomicU64::default(),
        gets: AtomicU64::default(),
        over: AtomicBool::default(),
    };
    load.family.set_options(family_options())?;
    println!("{HEADINGS}");
    std::thread::scope(|scope| -> tidesdb::Result<()> {
        let writers = (0..argument("writers").unwrap_or(WRITERS).min(WRITERS)).map(|n| (n, true));
        let readers = (0..argument("readers").unwrap_or(2)).map(|n| (n, false));
        let load = &load;
        let threads: Vec<_> = writers
            .chain(readers)
            .map(|(n, writes)| {
                scope.spawn(move || if writes { load.write(n) } else { load.read(n) })
            })
            .collect();
        let begun = Instant::now();
        let (mut last, mut puts, mut gets, mut reads) = (begun, 0, 0, (0, 0));
        let mut until = None;
        while !threads.iter().any(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(Duration::from_secs(2));
            let seconds = last.elapsed().as_secs_f64();
            last = Instant::now();
            let now = (load.puts.load(Ordering::Relaxed), load.gets.load(Ordering::Relaxed));
            let (stats, of_db) = (load.family.stats(), db.stats());
            let rate = |now: u64, before: u64| (now - before) as f64 / seconds;
            let of_gets = (stats.reads.blocks_cached, stats.reads.blocks_read);
            let of_one = |blocks, before| rate(blocks, before) / rate(now.1, gets).max(1.0);
            println!(
                "{:4} {:9.1} {:9.0} {:9.0} {:5} {:7} {:5} {:10} {:5} {:5} {:4} {:5} {:7.2} {:6.2}",
                begun.elapsed().as_secs(),
                now.0 as f64 / 1e6,
                rate(now.0, puts),
                rate(now.1, gets),
                stats.levels.iter().map(|level| level.runs).sum::<u64>(),
                stats.levels.iter().map(|level| level.tables).sum::<u64>(),
                of_db.open_files,
                of_db.memory.table_bytes >> 20,
                stats.levels.iter().map(|level| level.bytes).sum::<u64>() >> 20,
                of_db.memory.used_bytes >> 20,
                resident_mib().0,
                resident_mib().1,
                of_one(of_gets.0, reads.0),
                of_one(of_gets.1, reads.1),
            );
            (puts, gets, reads) = (now.0, now.1, of_gets);
            if (is_loaded || load.is_written()) && until.is_none() {
                until =
                    Some(Instant::now() + Duration::from_secs(argument("seconds").unwrap_or(0)));
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                load.over.store(true, Ordering::Relaxed);
            }
        }
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    Ok(())
}
