//! Threads of which one runs at a time, and stops at every step that the engine names: within the
//! checks of a commit, between a look at a family's view and the use of what that names, between
//! an edit of the manifest and what follows it. A seed decides whose turn it is.
//!
//! Who meets whom in these places is up to chance on a machine; here each seed tries another order.
//! `TIDESDB_TEST_SCALE` multiplies the number of runs.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers fail by panicking")]

#[path = "common_support/small.rs"]
mod small;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use small::{small_db, small_family};
use tidesdb::{Components, Db, Error, Family, FamilyOptions, ScanOptions, WriteBatch};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs, Stepper};
use tidesdb_sys::sched::Scheduler;
use tidesdb_sys::sync_points::sync_point;
use tidesdb_testkit::Verdict;
use tidesdb_testkit::isolation::engine_store::{EngineStore, EngineTransaction};
use tidesdb_testkit::isolation::evidence::threads_in_turns;
use tidesdb_testkit::isolation::store::{Key, Level, TransactionalStore};
use tidesdb_testkit::isolation::threads::Workload;
use tidesdb_testkit::seeds::{run_all, scale};

/// A database on a simulated disk, whose jobs run when one of the parties runs them.
struct Fixture {
    sim: Arc<SimVfs>,
    scheduler: Arc<ManualScheduler>,
    db: Db,
}

impl Fixture {
    fn new(seed: u64) -> Self {
        let (sim, scheduler) = (SimVfs::new(seed), Arc::new(ManualScheduler::new(seed)));
        let db = open(&sim, &scheduler, "/db");
        Self { sim, scheduler, db }
    }
}

fn open(sim: &Arc<SimVfs>, scheduler: &Arc<ManualScheduler>, path: &str) -> Db {
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::clone(scheduler) as Arc<dyn Scheduler>,
        clock: Arc::new(ManualClock::new(1_700_000_000)),
    };
    Db::open_with(path, small_db(), components).unwrap()
}

fn tiny_family() -> FamilyOptions {
    small_family().write_buffer_size(4 << 10)
}

/// The engine as a store, whose jobs run on the thread that disturbs.
struct Stepped {
    store: EngineStore,
    scheduler: Arc<ManualScheduler>,
}

impl TransactionalStore for Stepped {
    type Transaction = EngineTransaction;

    fn begin(&self, level: Level) -> Verdict<EngineTransaction> {
        self.store.begin(level)
    }

    fn write_batch(&self, writes: &[(Key, Option<Vec<u8>>)]) -> Verdict<Option<u64>> {
        self.store.write_batch(writes)
    }

    fn disturb(&self, choice: u64) -> Verdict {
        self.scheduler.step();
        self.store.disturb(choice)
    }
}

/// Histories of sessions in turns, judged by their dependencies.
fn histories(name: &str, level: Option<Level>, lists: bool) {
    let mut runs = 20 * scale();
    run_all(name, |seed| {
        let fixture = Fixture::new(seed);
        let families = [tiny_family(), tiny_family()];
        let store = EngineStore::new(fixture.db, &families, None, seed)?;
        let store = Stepped { store, scheduler: fixture.scheduler };
        let keys = [2, 4, 12][seed as usize % 3];
        let workload = Workload { sessions: 3, transactions: 12, keys, level, lists, seed };
        threads_in_turns(&store, &workload)?;
        runs -= 1;
        Ok(runs == 0)
    })
    .unwrap_or_else(|finding| panic!("{finding}"));
}

#[test]
fn histories_in_turns_with_snapshots() {
    histories("histories_in_turns_with_snapshots", Some(Level::Snapshot), false);
}

#[test]
fn serializable_histories_in_turns() {
    histories("serializable_histories_in_turns", Some(Level::Serializable), false);
}

#[test]
fn histories_in_turns_of_all_levels() {
    histories("histories_in_turns_of_all_levels", None, false);
}

#[test]
fn lists_in_turns() {
    histories("lists_in_turns", Some(Level::Serializable), true);
}

/// Something that a party does, once each time, and whether there is more.
type Party<'a> = Box<dyn FnMut() -> Verdict + Send + 'a>;

/// Has `workers` each do their work so many times, in turns, while others do theirs.
fn in_turns(seed: u64, times: u32, workers: Vec<Party<'_>>, others: Vec<Party<'_>>) -> Verdict {
    let stepper = Stepper::new(workers.len() + others.len(), seed);
    let left = AtomicU32::new(workers.len() as u32);
    let of_workers = workers.into_iter().map(|work| (true, work));
    let parties = of_workers.chain(others.into_iter().map(|work| (false, work)));
    let verdict = thread::scope(|scope| {
        let threads: Vec<_> = parties
            .enumerate()
            .map(|(party, (is_worker, mut work))| {
                let (stepper, left) = (&stepper, &left);
                let mut all = move || -> Verdict {
                    let mut done = 0;
                    // ORDERING: relaxed; one party runs at a time.
                    while if is_worker { done < times } else { left.load(Ordering::Relaxed) > 0 } {
                        work()?;
                        sync_point("between calls");
                        done += 1;
                    }
                    Ok(())
                };
                let work = move || {
                    let done = all();
                    // ORDERING: as above.
                    left.fetch_sub(u32::from(is_worker), Ordering::Relaxed);
                    done
                };
                scope.spawn(move || stepper.take_part(party, work))
            })
            .collect();
        stepper.conduct();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    });
    verdict.map_err(|e| format!("{e}\nthe last turns: {:?}", stepper.turns()))
}

fn said<T>(result: tidesdb::Result<T>) -> Verdict<T> {
    result.map_err(|e| format!("the engine says: {e}"))
}

/// Flushes, compactions, and jobs of the background.
fn disturber(fixture: &Fixture, family: &Family, seed: u64) -> Party<'static> {
    let mut random = SplitMix64::new(seed);
    let (db, family, scheduler) =
        (fixture.db.clone(), family.clone(), Arc::clone(&fixture.scheduler));
    Box::new(move || match random.below(8) {
        0 => said(db.flush()),
        1 => said(family.compact()),
        2..5 => said(family.flush()),
        _ => {
            scheduler.step();
            Ok(())
        }
    })
}

fn number(value: Option<Vec<u8>>) -> Verdict<u64> {
    let value = value.ok_or("a key is not there that is never deleted")?;
    Ok(u64::from_le_bytes(value[..8].try_into().unwrap()))
}

/// The key's value, by one of the ways to read it.
fn read(db: &Db, family: &Family, way: u64) -> Verdict<u64> {
    number(match way {
        0 => said(family.get_pinned(b"key"))?.map(|value| value.to_vec()),
        1 => said(family.multi_get([b"key"]))?.pop().flatten(),
        2 => {
            let snapshot = db.snapshot();
            said(family.get_at(&snapshot, b"key"))?
        }
        3 => {
            let mut scan = said(family.scan(ScanOptions::new()))?;
            said(scan.seek(b"key"))?;
            if scan.valid() { Some(said(scan.value())?.to_vec()) } else { None }
        }
        _ => said(family.get(b"key"))?,
    })
}

/// A reader that looked at the view and then lost what that names, or the other way round, would
/// not find the key, or an older value than before.
#[test]
fn a_key_that_is_overwritten_is_always_there() {
    let mut runs = 110 * scale();
    run_all("a_key_that_is_overwritten_is_always_there", |seed| {
        let fixture = Fixture::new(seed);
        let family = said(fixture.db.create_family("family", tiny_family()))?;
        let mut random = SplitMix64::new(seed);
        let put = |number: u64, padding: usize| {
            let mut value = number.to_le_bytes().to_vec();
            value.resize(8 + padding, 0);
            said(family.put(b"key", &value))
        };
        put(0, 0)?;
        let (mut pads, mut newest) = (SplitMix64::new(seed), 0);
        let writer: Party<'_> = Box::new(move || {
            newest += 1;
            put(newest, pads.index(400))
        });
        let readers = (0..2).map(|_| {
            let (mut ways, mut last) = (SplitMix64::new(random.next_u64()), 0);
            let (db, family) = (&fixture.db, &family);
            Box::new(move || {
                let found = read(db, family, ways.below(8))?;
                if found < last {
                    return Err(format!("read {found} after {last}"));
                }
                last = found;
                Ok(())
            }) as Party<'_>
        });
        let workers = std::iter::once(writer).chain(readers).collect();
        let disturber = disturber(&fixture, &family, random.next_u64());
        in_turns(seed, 25, workers, vec![disturber])?;
        runs -= 1;
        Ok(runs == 0)
    })
    .unwrap_or_else(|finding| panic!("{finding}"));
}

/// What a copy of the family shows of two keys that are written one after the other.
fn check_copy(family: &Family, what: &str) -> Verdict {
    let of = |key: &[u8]| said(family.get(key)).and_then(number);
    let (first, second) = (of(b"first")?, of(b"second")?);
    if first == second || first == second + 1 {
        return Ok(());
    }
    Err(format!("{what} has {first} and {second}"))
}

/// Copies, checkpoints, names and ends of families, in the middle of commits to them.
#[test]
fn families_that_are_copied_renamed_and_dropped_in_the_middle_of_commits() {
    let mut runs = 25 * scale();
    run_all("families_that_are_copied", |seed| {
        let fixture = Fixture::new(seed);
        let family = said(fixture.db.create_family("family", tiny_family()))?;
        let passing = std::sync::Mutex::new(said(fixture.db.create_family("1", tiny_family()))?);
        let put = |key: &[u8], number: u64| said(family.put(key, &number.to_le_bytes()));
        put(b"first", 0)?;
        put(b"second", 0)?;
        let mut newest = 0;
        let writer: Party<'_> = Box::new(move || {
            newest += 1;
            put(b"first", newest)?;
            put(b"second", newest)
        });
        let mut written = 0_u64;
        // The handle is from before the family gets another name, or goes.
        let of_passing: Party<'_> = Box::new(|| {
            let target = passing.lock().unwrap().clone();
            written += 1;
            let mut batch = WriteBatch::new();
            said(batch.put(&target, b"key", &written.to_le_bytes()))?;
            match fixture.db.write(&batch).and_then(|()| target.get(b"key")) {
                Ok(Some(value)) if value == written.to_le_bytes() => Ok(()),
                Ok(found) => Err(format!("{found:?} was read and {written} written")),
                Err(Error::FamilyDropped(_)) => Ok(()),
                Err(e) => Err(format!("the engine says: {e}")),
            }
        });
        let (db, mut name) = (fixture.db.clone(), 1_u64);
        let copier: Party<'_> = Box::new(|| {
            let copy = said(db.clone_family("family", "copy"))?;
            check_copy(&copy, "a copy")?;
            said(db.rename_family("copy", "copy of it"))?;
            check_copy(&copy, "a renamed copy")?;
            said(db.drop_family("copy of it"))?;
            let (old, new) = (name.to_string(), (name + 1).to_string());
            said(db.rename_family(&old, "passing"))?;
            said(db.drop_family("passing"))?;
            *passing.lock().unwrap() = said(db.create_family(&new, tiny_family()))?;
            name += 1;
            said(db.checkpoint(format!("/checkpoint {name}")))
        });
        let disturber = disturber(&fixture, &family, seed);
        in_turns(seed, 4, vec![writer, of_passing, copier], vec![disturber])?;
        for at in 2..6 {
            let copy = open(&fixture.sim, &fixture.scheduler, &format!("/checkpoint {at}"));
            check_copy(&said(copy.family("family"))?, "a checkpoint")?;
        }
        runs -= 1;
        Ok(runs == 0)
    })
    .unwrap_or_else(|finding| panic!("{finding}"));
}
