//! How long others wait while a serializable transaction commits that has read very much.
//!
//! `cargo bench -p tidesdb --bench serializable_waits -- [keys] [rounds] [restless]`
//!
//! In each round one thread reads all keys (a million by default) within a serializable
//! transaction, by gets, by ranges of two keys, or by one scan, writes one key, and commits. There
//! are five rounds, and as many more as it takes until a thousand commits were met. All the while
//! another thread commits small batches, or small serializable transactions, and notes how long
//! each commit took. To compare with, the first thread reads as much outside of any transaction:
//! what others wait for then is the processor and the disk, and not a lock.
//!
//! With `restless` the small commits follow each other without a pause. They may outrun the large
//! one, which is refused then: how often is printed behind the times.
//!
//! Printed are times of the small commits in microseconds: those that ran during the commit of the
//! large one, and those during its reads. The program fails when the slowest of the first took
//! a millisecond longer than the slowest of the others.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidesdb::{
    Db, DbOptions, ErrorKind, Family, FamilyOptions, IsolationLevel, ScanOptions, Transaction,
    WriteBatch,
};

/// Keys from one range to the next, of which the last is not read: ranges that touch are one. Few,
/// so that there are very many ranges, and the commit that looks at them takes its time.
const KEYS_PER_RANGE: u64 = 3;

/// Small commits that should be met during the large one.
const SAMPLES: usize = 1000;

/// How much longer the slowest small commit may take during a large one than during reads.
const MOST_WAITED: Duration = Duration::from_millis(1);

/// So many times the rounds at most, where a large commit is over before others begin.
const MOST_ROUNDS: u64 = 20;

#[derive(Clone, Copy, Debug)]
enum Reads {
    /// Each key by a get.
    Points,
    /// Ranges of some keys each.
    Ranges,
    /// One scan over everything.
    Scan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Batches,
    Transactions,
}

struct Place {
    db: Db,
    read: Family,
    written: Family,
    keys: u64,
    /// The writer of small commits takes no rest.
    is_restless: bool,
    /// Large commits that were refused.
    refused: AtomicU64,
}

/// A small commit: when it began, and how long it took.
type Commit = (Instant, Duration);

impl Place {
    fn read_all(&self, transaction: &Transaction, reads: Reads) -> tidesdb::Result<()> {
        match reads {
            Reads::Points => {
                for n in 0..self.keys {
                    transaction.contains(&self.read, n.to_be_bytes())?;
                }
            }
            Reads::Ranges => {
                for start in (0..self.keys).step_by(KEYS_PER_RANGE as usize) {
                    let range = start.to_be_bytes()..(start + KEYS_PER_RANGE - 1).to_be_bytes();
                    let scan = transaction.scan(&self.read, ScanOptions::new().range(range))?;
                    for entry in scan.entries() {
                        entry?;
                    }
                }
            }
            Reads::Scan => {
                for entry in transaction.iter(&self.read)?.entries() {
                    entry?;
                }
            }
        }
        Ok(())
    }

    /// Commits small things until it is over.
    fn write(&self, writer: Writer, over: &AtomicBool) -> tidesdb::Result<Vec<Commit>> {
        let mut commits = Vec::new();
        let mut n = 0u64;
        // ORDERING: relaxed; one commit more does no harm.
        while !over.load(Ordering::Relaxed) {
            n += 1;
            let key = (n % 10_000).to_be_bytes();
            let begun = Instant::now();
            match writer {
                Writer::Batches => {
                    let mut batch = WriteBatch::new();
                    batch.put(&self.written, &key, b"small")?;
                    self.db.write(&batch)?;
                }
                Writer::Transactions => {
                    let mut transaction = self.db.begin(IsolationLevel::Serializable)?;
                    transaction.get(&self.written, key)?;
                    transaction.put(&self.written, &key, b"small")?;
                    transaction.commit()?;
                }
            }
            commits.push((begun, begun.elapsed()));
            if !self.is_restless {
                // Else the log is full of what the second look would read back.
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        Ok(commits)
    }

    /// Reads everything once and commits, while a writer runs. Returns the small commits that ran
    /// meanwhile: during the commit, or during the reads.
    fn round(&self, reads: Reads, writer: Writer) -> tidesdb::Result<[Vec<Duration>; 2]> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let small = scope.spawn(|| self.write(writer, &over));
            let committed = self.read_and_commit(reads);
            let (began, ended) = committed?;
            // As long again, reading outside of any transaction.
            while ended.elapsed() < (ended - began) * 2 {
                (0..self.keys.min(1000))
                    .try_for_each(|n| self.read.contains(n.to_be_bytes()).map(drop))?;
            }
            // ORDERING: relaxed; see `write`.
            over.store(true, Ordering::Relaxed);
            let panicked = |_| Err(tidesdb::Error::Internal("the writer panicked".to_owned()));
            let small = small.join().unwrap_or_else(panicked)?;
            let during = |commit: &&Commit| commit.0 + commit.1 >= began && commit.0 <= ended;
            let alone = |commit: &&Commit| commit.0 > ended;
            let times = |commit: &Commit| commit.1;
            Ok([
                small.iter().filter(during).map(times).collect(),
                small.iter().filter(alone).map(times).collect(),
            ])
        })
    }

    fn read_and_commit(&self, reads: Reads) -> tidesdb::Result<(Instant, Instant)> {
        let mut transaction = self.db.begin(IsolationLevel::Serializable)?;
        self.read_all(&transaction, reads)?;
        transaction.put(&self.written, b"large", b"")?;
        let began = Instant::now();
        match transaction.commit() {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                // ORDERING: relaxed; a count.
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
            other => drop(other?),
        }
        Ok((began, Instant::now()))
    }
}

fn show(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let micros = |per_mille: usize| {
        let at = (times.len() * per_mille / 1000).min(times.len().saturating_sub(1));
        times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    println!(
        "{what:<46} {:>7} {:>8.1} {:>8.1} {:>8.1} {:>9.1}",
        times.len(),
        micros(500),
        micros(990),
        micros(999),
        micros(1000)
    );
}
/// The arguments, without the one that `cargo bench` adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}

fn main() -> tidesdb::Result<()> {
    let is_restless = arguments().any(|argument| argument == "restless");
    let arguments = arguments().filter(|argument| argument != "restless");
    let mut numbers = arguments.map(|number| number.parse::<u64>());
    let mut next = |usual| numbers.next().and_then(Result::ok).unwrap_or(usual);
    let (keys, rounds) = (next(1_000_000), next(5));
    let directory = tempfile::tempdir().map_err(|e| tidesdb::Error::io("create", "", e))?;
    let db = Db::open(directory.path(), DbOptions::default())?;
    let read = db.create_family("read", FamilyOptions::default())?;
    let written = db.create_family("written", FamilyOptions::default())?;
    let mut batch = WriteBatch::new();
    for n in 0..keys {
        batch.put(&read, &n.to_be_bytes(), b"a value")?;
        if batch.len() == 1000 {
            db.write(&batch)?;
            batch.clear();
        }
    }
    db.write(&batch)?;
    read.compact()?;
    let place = Place { db, read, written, keys, is_restless, refused: AtomicU64::new(0) };
    println!(
        "{:<46} {:>7} {:>8} {:>8} {:>8} {:>9}",
        "", "commits", "half", "99 %", "99.9 %", "worst"
    );
    let mut missed = 0;
    for reads in [Reads::Points, Reads::Ranges, Reads::Scan] {
        for writer in [Writer::Batches, Writer::Transactions] {
            let mut all = [Vec::new(), Vec::new()];
            for round in 0..rounds * MOST_ROUNDS {
                if round >= rounds && all[0].len() >= SAMPLES {
                    break;
                }
                let [during, alone] = place.round(reads, writer)?;
                all[0].extend(during);
                all[1].extend(alone);
            }
            show(&format!("{reads:?}, {writer:?}: during the commit"), &mut all[0]);
            show(&format!("{reads:?}, {writer:?}: during reads"), &mut all[1]);
            let [during, alone] = all.map(|times| times.into_iter().max().unwrap_or_default());
            missed += u32::from(during > alone + MOST_WAITED);
            // ORDERING: relaxed; a count.
            let refused = place.refused.swap(0, Ordering::Relaxed);
            if refused > 0 {
                println!("{:<46} {refused:>7} large commits were refused", "");
            }
        }
    }
    println!("bound: {} us more in the worst case than during reads", MOST_WAITED.as_micros());
    if missed > 0 {
        return Err(tidesdb::Error::Internal(format!("the bound was missed {missed} times")));
    }
    Ok(())
}
