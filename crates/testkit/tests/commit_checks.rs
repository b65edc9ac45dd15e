//! The second look of a commit: a plain put that comes in between the two looks of a transaction,
//! on one thread and at the same place every time.
//!
//! A large value is written to a value log and synced after the first look and before the commit
//! takes its place in the log. The simulated disk calls back at that sync, and there another thread
//! changes what the transaction has written or read.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb::{
    Components, Db, DbOptions, ErrorKind, Family, FamilyOptions, IsolationLevel, Transaction,
};
use tidesdb_sim::{ManualClock, ManualScheduler, MutationKind, Phase, SimVfs};

/// Values of this size go to a value log before their commit.
const LARGE: usize = 1 << 20;

struct Fixture {
    sim: Arc<SimVfs>,
    db: Db,
    family: Family,
    meddled: Arc<AtomicU64>,
}

impl Fixture {
    fn new() -> Self {
        let sim = SimVfs::new(1);
        let components = Components {
            vfs: Arc::clone(&sim) as _,
            scheduler: Arc::new(ManualScheduler::new(1)),
            clock: Arc::new(ManualClock::new(1_000_000)),
        };
        let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
        let options = FamilyOptions::default().min_disk_space(0);
        let family = db.create_family("family", options).unwrap();
        for key in ["read", "written", "other"] {
            family.put(key.as_bytes(), b"old").unwrap();
        }
        // The value log is there from now on.
        family.put(b"large", &vec![1; LARGE]).unwrap();
        Self { sim, db, family, meddled: Arc::default() }
    }

    /// From now on, whenever a value log is synced, `key` gets another value.
    fn meddle_with(&self, key: &'static str) {
        let (family, meddled) = (self.family.clone(), Arc::clone(&self.meddled));
        self.sim.on_mutation(Some(Arc::new(move |_, mutation| {
            let values = mutation.path.extension().is_some_and(|extension| extension == "vlog");
            if values && mutation.kind == MutationKind::Sync && mutation.phase == Phase::After {
                family.put(key.as_bytes(), b"meddled").unwrap();
                meddled.fetch_add(1, Ordering::Relaxed);
            }
        })));
    }

    /// A transaction that has read one key, and writes another and a large value.
    fn transaction(&self, level: IsolationLevel) -> Transaction {
        let mut transaction = self.db.begin(level).unwrap();
        assert!(transaction.get(&self.family, b"read").unwrap().is_some());
        transaction.put(&self.family, b"written", b"new").unwrap();
        transaction.put(&self.family, b"large", &vec![2; LARGE]).unwrap();
        transaction
    }
}

/// I-40.
#[test]
fn what_comes_between_the_two_looks_of_a_commit_is_met() {
    // level, what is changed meanwhile -> whether that is a conflict
    let table = [
        (IsolationLevel::ReadCommitted, "written", false),
        (IsolationLevel::RepeatableRead, "written", false),
        (IsolationLevel::RepeatableRead, "read", true),
        (IsolationLevel::RepeatableRead, "other", false),
        (IsolationLevel::Snapshot, "written", true),
        (IsolationLevel::Snapshot, "read", false),
        (IsolationLevel::Snapshot, "other", false),
        (IsolationLevel::Serializable, "written", true),
        // A plain put has read nothing, so there is an order that explains both.
        (IsolationLevel::Serializable, "read", false),
        (IsolationLevel::Serializable, "other", false),
    ];
    for (level, changed, refused) in table {
        let context = format!("{level:?}, '{changed}' is changed");
        let fixture = Fixture::new();
        let mut transaction = fixture.transaction(level);
        fixture.meddle_with(changed);
        let committed = transaction.commit();
        fixture.sim.on_mutation(None);
        assert_eq!(fixture.meddled.load(Ordering::Relaxed), 1, "{context}");
        let kind = committed.err().map(|error| error.kind());
        assert_eq!(kind, refused.then_some(ErrorKind::Conflict), "{context}");
        let written = match (refused, changed) {
            (false, _) => b"new".to_vec(),
            (true, "written") => b"meddled".to_vec(),
            (true, _) => b"old".to_vec(),
        };
        assert_eq!(fixture.family.get(b"written").unwrap(), Some(written), "{context}");
        let large = if refused { 1 } else { 2 };
        assert_eq!(fixture.family.get(b"large").unwrap(), Some(vec![large; LARGE]), "{context}");
    }
}

/// Where reads have to stand, a plain put between the two looks is a conflict by itself, and the
/// transaction may be the only one of its level.
#[test]
fn a_read_that_must_stand_is_looked_at_twice() {
    for (changed, kind) in [("read", Some(ErrorKind::Conflict)), ("other", None)] {
        let fixture = Fixture::new();
        let mut transaction = fixture.transaction(IsolationLevel::Serializable);
        transaction.refuse_overwritten_reads(true);
        fixture.meddle_with(changed);
        let committed = transaction.commit();
        fixture.sim.on_mutation(None);
        assert_eq!(fixture.meddled.load(Ordering::Relaxed), 1, "'{changed}'");
        assert_eq!(committed.err().map(|error| error.kind()), kind, "'{changed}' is changed");
    }
}
