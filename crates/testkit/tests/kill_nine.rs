//! H6: a real process is killed with SIGKILL at a random instant, also while it opens, on a real
//! directory. Whatever it acknowledged over a pipe is there afterwards, in every sync mode and both
//! forms of the log (P1); what is there is one prefix of the commit order, the same in both
//! families (P2).
//!
//! The child commits from several threads, one batch over both families per transaction. What a
//! transaction writes is a function of its thread and number, so the parent knows the whole
//! content from one counter per thread. Each transaction also records how far its thread saw the
//! others: if it survived, so must have they. Snapshots are held over commits and looked at again,
//! and hooks look at what they are called with; both say what they find over the pipe.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers fail by panicking")]

#[path = "common_support/seeds.rs"]
mod seeds;
#[path = "common_support/small.rs"]
mod small;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use seeds::{scaled, seed};
use small::{small_db, small_family};
use tidesdb::{
    CommittedBatch, Db, DbOptions, ErrorKind, Family, ScanOptions, Snapshot, SyncMode, WriteBatch,
};
use tidesdb_sim::rng::{SplitMix64, mix64};

const DIRECTORY: &str = "TIDESDB_KILL_DIRECTORY";
const MODE: &str = "TIDESDB_KILL_MODE";
const THREADS: &str = "TIDESDB_KILL_THREADS";
/// Threads that ever write; each run uses some of them.
const MOST_THREADS: usize = 4;
/// Keys that one thread writes over and over.
const SLOTS: u64 = 61;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn counter_key(thread: usize) -> Vec<u8> {
    format!("counter-{thread}").into_bytes()
}

fn slot_key(thread: usize, slot: u64) -> Vec<u8> {
    format!("data-{thread}-{slot:03}").into_bytes()
}

/// What transaction `number` of a thread writes to its slot; `None` for a deletion. The families
/// get different bytes of the same transaction.
fn slot_value(family: u64, thread: usize, number: u64) -> Option<Vec<u8>> {
    let mut random = SplitMix64::new(mix64(number * 64 + thread as u64 * 8 + family));
    let length = match random.below(600) {
        // Straight to a value log.
        599 => 1 << 20,
        0..30 => return None,
        30..60 => 3_000,
        60..150 => 300,
        _ => 30,
    };
    let mut value = vec![0; length + random.index(20)];
    random.fill(&mut value);
    Some(value)
}

/// The slots that transaction `number` of a thread deletes as a range before it writes.
fn deleted_slots(number: u64) -> Option<std::ops::Range<u64>> {
    let first = number * 7 % SLOTS;
    number.is_multiple_of(17).then_some(first..first + 1 + number % 5)
}

/// A key that its thread puts and deletes in turn, so that single deletions may be used.
fn once_key(thread: usize) -> Vec<u8> {
    format!("data-{thread}-once").into_bytes()
}

/// What a transaction does to that key: a put, or a single deletion, or nothing.
fn once(number: u64) -> Option<bool> {
    match number % 14 {
        1 => Some(true),
        8 => Some(false),
        _ => None,
    }
}

/// Adds the changes of one transaction, but for its counter.
fn add_changes(batch: &mut WriteBatch, families: &[Family; 2], thread: usize, number: u64) {
    for (place, family) in families.iter().enumerate() {
        if let Some(slots) = deleted_slots(number) {
            let (start, end) = (slot_key(thread, slots.start), slot_key(thread, slots.end));
            batch.delete_range(family, start, end).unwrap();
        }
        match once(number) {
            Some(true) => batch.put(family, once_key(thread), number.to_le_bytes()).unwrap(),
            Some(false) => batch.single_delete(family, once_key(thread)).unwrap(),
            None => {}
        }
        let key = slot_key(thread, number % SLOTS);
        match slot_value(place as u64, thread, number) {
            Some(value) => batch.put(family, &key, &value).unwrap(),
            None => batch.delete(family, &key).unwrap(),
        }
    }
}

/// What the last transactions of a thread, as many as there are slots, leave of its keys.
fn add_to_model(model: &mut Model, place: u64, thread: usize, counter: u64) {
    let first = counter.saturating_sub(SLOTS - 1).max(1);
    for number in first..=counter {
        if let Some(slots) = deleted_slots(number) {
            let range = slot_key(thread, slots.start)..slot_key(thread, slots.end);
            model.retain(|key, _| !range.contains(key));
        }
        match once(number) {
            Some(true) => drop(model.insert(once_key(thread), number.to_le_bytes().to_vec())),
            Some(false) => drop(model.remove(&once_key(thread))),
            None => {}
        }
        let key = slot_key(thread, number % SLOTS);
        match slot_value(place, thread, number) {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
}

/// Ends the name of a mode in which the log is written with `pwrite`.
const UNMAPPED: &str = "-unmapped";

fn options(mode: &str) -> DbOptions {
    let sync_mode = match mode.trim_end_matches(UNMAPPED) {
        "none" => SyncMode::None,
        "interval" => SyncMode::Interval { interval_us: 2_000 },
        "full" => SyncMode::Full,
        other => panic!("no sync mode is called {other}"),
    };
    small_db().sync_mode(sync_mode).log_without_mapping(mode.ends_with(UNMAPPED))
}

fn open_families(db: &Db) -> [Family; 2] {
    ["left", "right"].map(|name| db.open_family(name, small_family()).unwrap())
}

fn read_number(family: &Family, key: &[u8]) -> u64 {
    let value = family.get(key).unwrap();
    value.map_or(0, |bytes| u64::from_le_bytes(*bytes.first_chunk().unwrap()))
}

fn say(text: &str) {
    // One write call for the whole line, so that a kill leaves no half of one.
    let mut output = std::io::stdout().lock();
    output.write_all(format!("{text}\n").as_bytes()).unwrap();
    output.flush().unwrap();
}

/// Not a test: what the processes to be killed run.
#[test]
#[ignore = "runs in a process of its own, started and killed by the test below"]
fn victim() {
    let Ok(path) = std::env::var(DIRECTORY) else { return };
    let mode = std::env::var(MODE).unwrap();
    let threads: usize = std::env::var(THREADS).unwrap().parse().unwrap();
    let db = match Db::open(path, options(&mode)) {
        // The parent tries the lock now and then and may be the first.
        Err(error) if error.kind() == ErrorKind::Locked => return,
        opened => opened.unwrap(),
    };
    let families = open_families(&db);
    for (at, family) in families.iter().enumerate() {
        let seen = family.clone();
        family.set_commit_hook(Some(Arc::new(move |batch| look_at_commit(at, &seen, batch))));
    }
    say("\n! opened");
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (db, families) = (&db, &families);
            scope.spawn(move || commit_until_killed(db, families, thread));
        }
    });
}

/// A commit is visible when its hook is called. Now and then the hook panics.
fn look_at_commit(at: usize, family: &Family, batch: &CommittedBatch<'_>) {
    let counter = batch.operations.iter().find(|operation| operation.key.starts_with(b"counter-"));
    let Some(counter) = counter else { return };
    if read_number(family, counter.key) < u64::from_le_bytes(*counter.value.first_chunk().unwrap())
    {
        say(&format!("! wrong: a hook of family {at} sees less than was committed"));
    }
    if batch.sequence.is_multiple_of(11) {
        resume_unwind(Box::new("a panic of the test"));
    }
}

/// A snapshot, and what it showed of a counter and a slot when it was taken.
struct Held {
    snapshot: Snapshot,
    seen: [Option<Vec<u8>>; 2],
}

impl Held {
    fn look(family: &Family, snapshot: &Snapshot, thread: usize) -> [Option<Vec<u8>>; 2] {
        [counter_key(thread), slot_key(thread, 0)].map(|key| family.get_at(snapshot, &key).unwrap())
    }

    fn take(db: &Db, family: &Family, thread: usize) -> Self {
        let snapshot = db.snapshot();
        Self { seen: Self::look(family, &snapshot, thread), snapshot }
    }

    fn check(&self, family: &Family, thread: usize) {
        if Self::look(family, &self.snapshot, thread) != self.seen {
            say(&format!("! wrong: a snapshot of thread {thread} has changed"));
        }
    }
}

fn commit_until_killed(db: &Db, families: &[Family; 2], thread: usize) {
    let mut number = read_number(&families[0], &counter_key(thread));
    let mut batch = WriteBatch::new();
    let mut held = None;
    loop {
        if number.is_multiple_of(40) {
            held = Some(Held::take(db, &families[0], thread));
        } else if number % 40 == 25 {
            held.take().iter().for_each(|held: &Held| held.check(&families[0], thread));
        }
        number += 1;
        let mut seen = Vec::new();
        seen.extend_from_slice(&number.to_le_bytes());
        for other in 0..MOST_THREADS {
            let counter = read_number(&families[(number % 2) as usize], &counter_key(other));
            seen.extend_from_slice(&counter.to_le_bytes());
        }
        batch.clear();
        for family in families {
            batch.put(family, &counter_key(thread), &seen).unwrap();
        }
        add_changes(&mut batch, families, thread, number);
        db.write(&batch).unwrap();
        say(&format!("! {thread} {number}"));
        if number.is_multiple_of(97) {
            families[thread % 2].flush().unwrap();
        }
        if number.is_multiple_of(411) {
            families[thread % 2].compact().unwrap();
        }
    }
}

/// What a killed process had said.
#[derive(Default)]
struct Said {
    opened: bool,
    /// Highest acknowledged number of each thread.
    acknowledged: [u64; MOST_THREADS],
    /// What its hooks and snapshots found.
    wrong: Vec<String>,
}

impl Said {
    /// Reads to the end; tells `opened` when the database is open.
    fn read(output: impl std::io::Read, opened: &Sender<()>) -> Self {
        let mut said = Self::default();
        for line in BufReader::new(output).lines() {
            let line = line.unwrap();
            let Some(rest) = line.strip_prefix("! ") else { continue };
            if rest == "opened" {
                said.opened = true;
                let _ = opened.send(());
            } else if rest.starts_with("wrong") {
                said.wrong.push(rest.to_owned());
            } else if let Some((thread, number)) = rest.split_once(' ') {
                let thread: usize = thread.parse().unwrap();
                said.acknowledged[thread] = number.parse().unwrap();
            }
        }
        said
    }
}

fn start_victim(path: &Path, mode: &str, threads: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, path)
        .env(MODE, mode)
        .env(THREADS, threads.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// How long a process lives.
enum Life {
    /// From its start.
    InAll(Duration),
    /// From when it has opened the database, however long that takes.
    Opened(Duration),
}

/// Lets a process live, kills it, and returns what it had said.
fn run_and_kill(mut child: Child, path: &Path, life: &Life, try_lock: bool) -> Said {
    let output = child.stdout.take().unwrap();
    let (opened, is_open) = channel();
    let reader = std::thread::spawn(move || Said::read(output, &opened));
    // The random instant is the point of this test, and only the machine's own time has it.
    match life {
        Life::InAll(life) => std::thread::park_timeout(*life),
        Life::Opened(life) => {
            let _ = is_open.recv_timeout(Duration::from_secs(60));
            std::thread::park_timeout(*life);
        }
    }
    if try_lock && path.join("LOCK").exists() {
        // It may not have come so far as to hold the lock; but never do both hold it.
        match Db::open(path, small_db()) {
            Ok(db) => drop(db),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Locked, "{error}"),
        }
    }
    let ended = child.try_wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let said = reader.join().unwrap();
    assert!(ended.is_none() || try_lock, "the process ended by itself: {ended:?}");
    said
}

/// Checks the whole content against the counters, the counters against what was acknowledged, and
/// returns them.
fn check(
    db: &Db,
    families: &[Family; 2],
    before: &[u64; MOST_THREADS],
    said: &Said,
) -> [u64; MOST_THREADS] {
    assert!(said.wrong.is_empty(), "{:?}", said.wrong);
    let mut counters = [0; MOST_THREADS];
    for thread in 0..MOST_THREADS {
        let key = counter_key(thread);
        let found = families.each_ref().map(|family| family.get(&key).unwrap());
        assert_eq!(found[0], found[1], "thread {thread}: half of a transaction is there");
        counters[thread] = read_number(&families[0], &key);
        let promised = said.acknowledged[thread].max(before[thread]);
        let range = promised..=promised + 1;
        assert!(range.contains(&counters[thread]), "thread {thread}: {counters:?} not {range:?}");
    }
    for thread in 0..MOST_THREADS {
        let Some(seen) = families[0].get(&counter_key(thread)).unwrap() else { continue };
        for (other, bytes) in seen[8..].chunks_exact(8).enumerate() {
            let had_seen = u64::from_le_bytes(*bytes.first_chunk().unwrap());
            assert!(
                had_seen <= counters[other],
                "a transaction of {thread} survived that saw {had_seen} of {other}: {counters:?}"
            );
        }
    }
    for (place, family) in families.iter().enumerate() {
        check_slots(family, place as u64, &counters);
    }
    let problems = db.verify().unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
    counters
}

fn check_slots(family: &Family, place: u64, counters: &[u64; MOST_THREADS]) {
    let mut model = Model::new();
    for (thread, &counter) in counters.iter().enumerate() {
        add_to_model(&mut model, place, thread, counter);
    }
    let scan = family.scan(ScanOptions::new().prefix(b"data-")).unwrap();
    let found: Model = scan.entries().map(|entry| entry.unwrap()).collect();
    let keys = model.keys().chain(found.keys());
    let wrong: Vec<_> = keys.filter(|key| model.get(*key) != found.get(*key)).collect();
    assert!(wrong.is_empty(), "wrong after {counters:?}: {wrong:?}");
    for (key, value) in &model {
        assert_eq!(family.get(key).unwrap().as_ref(), Some(value));
    }
}

/// What a reader shows before anything is repaired; none if the families were not made yet.
fn read_only(
    path: &Path,
    mode: &str,
    before: &[u64; MOST_THREADS],
    said: &Said,
) -> Option<[u64; MOST_THREADS]> {
    let reader = match Db::open(path, options(mode).read_only(true)) {
        Err(error) if !said.opened && *before == [0; MOST_THREADS] => {
            println!("nothing to read yet: {error}");
            return None;
        }
        opened => opened.unwrap(),
    };
    let families = ["left", "right"].map(|name| reader.family(name).ok());
    let [Some(left), Some(right)] = families else {
        assert!(!said.opened && *before == [0; MOST_THREADS], "families are lost");
        return None;
    };
    Some(check(&reader, &[left, right], before, said))
}

/// A batch of an earlier opening, which the next one refuses.
fn stale_batch(family: &Family) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(family, counter_key(0), b"by an earlier opening").unwrap();
    batch
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_what_survives_is_a_prefix() {
    let mut random = SplitMix64::new(seed("kill_nine"));
    let kills = scaled(200);
    let (mut killed_open, mut killed_running, mut transactions) = (0, 0, 0);
    let mut killed = 0;
    while killed < kills {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let form = ["", UNMAPPED][random.index(2)];
        let mode = &format!("{}{form}", ["none", "interval", "full"][random.index(3)]);
        let mut counters = [0; MOST_THREADS];
        let mut stale: Option<WriteBatch> = None;
        for _ in 0..4 + random.below(12) {
            let threads = 1 + random.index(MOST_THREADS);
            let child = start_victim(&path, mode, threads);
            // A third of the lives end while the process starts and opens.
            let life = match random.below(3) {
                0 => Life::InAll(Duration::from_micros(random.below(15_000))),
                _ => Life::Opened(Duration::from_micros(random.below(100_000))),
            };
            let try_lock = random.chance(1, 8);
            let said = run_and_kill(child, &path, &life, try_lock);
            killed += 1;
            killed_open += u64::from(!said.opened);
            killed_running += u64::from(said.opened);
            let shown = random.chance(1, 3).then(|| read_only(&path, mode, &counters, &said));
            let db = Db::open(&path, options(mode)).unwrap();
            let families = open_families(&db);
            let now = check(&db, &families, &counters, &said);
            shown.flatten().iter().for_each(|shown| assert_eq!(*shown, now, "a reader's"));
            if let Some(stale) = stale.replace(stale_batch(&families[0])) {
                assert_eq!(db.write(&stale).unwrap_err().kind(), ErrorKind::Invalid);
            }
            drop(families);
            transactions += now.iter().sum::<u64>() - counters.iter().sum::<u64>();
            counters = now;
            if random.chance(1, 4) {
                db.close().unwrap();
            }
        }
    }
    println!(
        "{killed} kills, {killed_open} before the database was open; {transactions} transactions"
    );
    // Guards against a test that kills too early or too late to mean anything.
    assert!(killed_running * 4 > killed && transactions > 20 * kills, "{transactions}");
    assert!(killed_open > 0 || kills < 50);
}
