//! Many writes, and what comes in between the looks of their commit.

use std::cell::Cell;
use std::rc::Rc;

use tidesdb_base::error::Result;
use tidesdb_sys::sync_points::on_sync_points;

use super::*;
use crate::transaction::conflicts::MOST_KEYS;

const KEYS: u64 = 5_000;

/// Ways to commit: with or without the lock of the dependencies.
const WAYS: [(IsolationLevel, bool); 3] = [
    (IsolationLevel::Snapshot, false),
    (IsolationLevel::Serializable, false),
    (IsolationLevel::Serializable, true),
];

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// A transaction that writes all keys of `a`, and has read something if asked to.
fn writes_much(
    db: &Db,
    [a, b, _]: [&Family; 3],
    (level, reads): (IsolationLevel, bool),
) -> Transaction {
    let mut many = db.begin(level).unwrap();
    if reads {
        many.get(b, b"read").unwrap();
    }
    // Every second key, not in their order.
    for n in 0..KEYS {
        many.put(a, key(n * 7919 % KEYS * 2), b"new").unwrap();
    }
    many
}

/// Commits, and calls `change` each time that the commit is about to take a place.
fn commit_beside(
    transaction: &mut Transaction,
    change: impl Fn() + 'static,
) -> Result<Option<u64>> {
    let (inside, looked) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    on_sync_points(Some(Rc::new(move |place| {
        looked.set(looked.get() || place == "looked");
        if place == "caught up" && looked.get() && !inside.replace(true) {
            change();
            inside.set(false);
        }
    })));
    steps::take_most_waited_for();
    let committed = transaction.commit();
    on_sync_points(None);
    committed
}

/// All of the keys were looked up once more while others waited.
#[test]
fn others_do_not_wait_for_a_look_at_many_written_keys() {
    type Change = fn(&Family);
    let changes: [(Change, bool); 6] = [
        (|a| a.put(key(0), b"").unwrap(), true),
        (|a| a.delete(key(2 * KEYS - 2)).unwrap(), true),
        (|a| a.delete_range(key(7), key(9)).unwrap(), true),
        (|a| a.delete_all().unwrap(), true),
        (|a| a.put(key(7), b"").unwrap(), false),
        (|a| a.delete_range(key(7), key(8)).unwrap(), false),
    ];
    for (way, (change, is_refused)) in
        WAYS.into_iter().flat_map(|way| changes.map(|change| (way, change)))
    {
        let (db, families) = open(&SimVfs::new(1), SyncMode::None);
        let [a, b, c] = &families[..] else { unreachable!() };
        let oldest = db.begin(IsolationLevel::Serializable).unwrap();
        let mut many = writes_much(&db, [a, b, c], way);
        c.put(b"unrelated", b"").unwrap();
        let changed = a.clone();
        let committed = commit_beside(&mut many, move || change(&changed));
        let waited_for = steps::take_most_waited_for();
        assert!(waited_for <= MOST_KEYS, "{way:?}: {waited_for} keys were looked at");
        assert_eq!(committed.is_err(), is_refused, "{way:?}: {committed:?}");
        if let Err(error) = committed {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert!(error.to_string().contains("has changed a key"), "{error}");
        }
        drop(oldest);
    }
}

/// With the lock of the dependencies others would wait for a look without a bound. Without it they
/// wait for the writes of the commit as well, which take no less.
#[test]
fn a_commit_of_many_keys_that_others_outrun_is_refused_only_with_the_lock() {
    for way in WAYS {
        // All that is committed here has room in one segment of the log.
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let families = FAMILIES.map(|name| db.open_family(name, FamilyOptions::default()).unwrap());
        let [a, b, c] = &families;
        let oldest = db.begin(IsolationLevel::Serializable).unwrap();
        let mut many = writes_much(&db, [a, b, c], way);
        c.put(b"unrelated", b"").unwrap();
        let filled = c.clone();
        let committed = commit_beside(&mut many, move || {
            (0..2).for_each(|_| filled.put(b"filler", &[7; 200 << 10]).unwrap());
        });
        let with_lock = way.1;
        assert!(!with_lock || steps::take_most_waited_for() <= MOST_KEYS);
        assert_eq!(committed.is_err(), with_lock, "{way:?}: {committed:?}");
        if let Err(error) = committed {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert!(error.to_string().contains("too much was committed"), "{error}");
            // Without others it comes to an end.
            many.commit().unwrap();
        }
        assert_eq!(a.get(key(4)).unwrap(), Some(b"new".to_vec()));
        drop(oldest);
    }
}
