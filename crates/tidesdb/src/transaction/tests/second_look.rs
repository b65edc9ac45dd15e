//! Many reads, and what comes in while a serializable commit looks at them.

use super::*;
use std::cell::RefCell;
use std::rc::Rc;

use tidesdb_base::error::Result;
use tidesdb_sys::sync_points::on_sync_points;

use crate::transaction::conflicts::MOST_KEYS;

const KEYS: u64 = 5_000;

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// One transaction reads all keys of `a` and writes in `b`. While it commits, `change` is called
/// with the families. A change of `a` by one who has read what the transaction writes makes a
/// conflict: no order of the two explains both.
fn commit_beside(
    read: impl Fn(&mut Transaction, &Family),
    change: impl Fn(&Db, &[Family; 3]) + Send + Sync + 'static,
    filler_bytes: usize,
) -> Result<()> {
    let (db, families) = open(&SimVfs::new(1), SyncMode::None);
    let mut batch = WriteBatch::new();
    (0..KEYS).for_each(|n| batch.put(&families[0], &key(n), b"old").unwrap());
    batch.put(&families[1], b"written", b"old").unwrap();
    db.write(&batch).unwrap();
    // Not alone: else the first look is left out.
    let oldest = db.begin(IsolationLevel::Serializable).unwrap();
    families[2].put(b"unrelated", b"").unwrap();
    let mut long = db.begin(IsolationLevel::Serializable).unwrap();
    read(&mut long, &families[0]);
    long.put(&families[1], b"written", b"new").unwrap();
    families[2].put(b"unrelated", b"").unwrap();
    let (other, others) = (db.clone(), [0, 1, 2].map(|n| families[n].clone()));
    let mut first = true;
    steps::put(&steps::BEFORE_A_VIEW, move || {
        if !std::mem::take(&mut first) {
            return;
        }
        change(&other, &others);
        others[2].put(b"filler", &vec![7; filler_bytes]).unwrap();
    });
    let committed = long.commit();
    steps::remove(&steps::BEFORE_A_VIEW);
    drop(oldest);
    committed.map(|_| ())
}

/// Puts a key of `a`, having read what the long transaction writes.
fn put(changed: u64) -> impl Fn(&Db, &[Family; 3]) + Send + Sync + 'static {
    move |db, [a, b, _]| {
        let mut transaction = db.begin(IsolationLevel::Serializable).unwrap();
        transaction.get(b, b"written").unwrap();
        transaction.put(a, &key(changed), b"new").unwrap();
        transaction.commit().unwrap();
    }
}

/// Deletes a range of `a`, or all of it; who then finds a key gone reads what the long transaction
/// writes.
fn delete(from: u64, until: Option<u64>) -> impl Fn(&Db, &[Family; 3]) + Send + Sync + 'static {
    move |db, [a, b, _]| {
        match until {
            Some(until) => a.delete_range(key(from), key(until)).unwrap(),
            None => a.delete_all().unwrap(),
        };
        let mut transaction = db.begin(IsolationLevel::Serializable).unwrap();
        assert_eq!(transaction.get(a, key(from)).unwrap(), None);
        transaction.get(b, b"written").unwrap();
        transaction.commit().unwrap();
    }
}

fn by_points(transaction: &mut Transaction, family: &Family) {
    for n in 0..KEYS {
        assert!(transaction.contains(family, key(n)).unwrap());
    }
}

fn by_range(transaction: &mut Transaction, family: &Family) {
    let scan = transaction.scan(family, ScanOptions::new()).unwrap();
    assert_eq!(scan.entries().count() as u64, KEYS);
}

#[test]
fn a_change_during_the_first_look_at_many_reads_is_found_by_the_second() {
    // Little is logged meanwhile, or more than is read back, or other segments.
    for filler_bytes in [10, 20_000, 300_000] {
        for changed in [0, KEYS / 2, KEYS - 1] {
            let points = commit_beside(by_points, put(changed), filler_bytes);
            let range = commit_beside(by_range, put(changed), filler_bytes);
            for (what, committed) in [("points", points), ("range", range)] {
                let error = committed.expect_err("the change was missed");
                assert_eq!(error.kind(), ErrorKind::Conflict, "{what}: {error}");
            }
        }
    }
}

#[test]
fn a_change_of_what_was_not_read_is_no_conflict() {
    for filler_bytes in [10, 20_000, 300_000] {
        let changed = KEYS + 7;
        commit_beside(by_points, put(changed), filler_bytes).unwrap();
    }
}

#[test]
fn a_deleted_range_is_found_by_the_second_look_whether_it_has_an_end_or_not() {
    for filler_bytes in [10, 20_000] {
        for (from, until) in [(7, Some(9)), (0, Some(KEYS)), (0, None)] {
            let points = commit_beside(by_points, delete(from, until), filler_bytes);
            let range = commit_beside(by_range, delete(from, until), filler_bytes);
            for (what, committed) in [("points", points), ("range", range)] {
                let error = committed.expect_err("the deletion was missed");
                assert_eq!(error.kind(), ErrorKind::Conflict, "{what} {from} {until:?}: {error}");
            }
        }
    }
}

/// T reads much, then a key of `b` that another commit has changed. Before its look comes to that
/// family the key is changed again and flushed, which leaves the second change alone. That one is
/// newer than a third commit, which read the first change and what T writes: by it there is no
/// danger, and no order of the three explains what was read.
#[test]
fn the_oldest_change_counts_although_a_flush_drops_it_during_the_look() {
    let (db, families) = open(&SimVfs::new(1), SyncMode::None);
    let [a, b, c] = &families[..] else { unreachable!() };
    let mut batch = WriteBatch::new();
    (0..KEYS).for_each(|n| batch.put(a, &key(n), b"old").unwrap());
    batch.put(b, b"k", b"old").unwrap();
    batch.put(c, b"y", b"old").unwrap();
    db.write(&batch).unwrap();
    let oldest = db.begin(IsolationLevel::Serializable).unwrap();
    c.put(b"unrelated", b"").unwrap();
    let mut long = db.begin(IsolationLevel::Serializable).unwrap();
    by_points(&mut long, a);
    long.get(b, b"k").unwrap();
    b.put(b"k", b"first").unwrap();
    let mut third = db.begin(IsolationLevel::Serializable).unwrap();
    assert_eq!(third.get(b, b"k").unwrap(), Some(b"first".to_vec()));
    third.get(c, b"y").unwrap();
    third.put(c, b"z", b"new").unwrap();
    third.commit().unwrap();
    long.put(c, b"y", b"new").unwrap();
    let (changed, mut looks) = (b.clone(), 0);
    steps::put(&steps::BEFORE_A_VIEW, move || {
        looks += 1;
        // What it writes, what it read in `a`, what it read in `b`.
        if looks == 3 {
            changed.put(b"k", b"second").unwrap();
            changed.flush().unwrap();
        }
    });
    let committed = long.commit();
    steps::remove(&steps::BEFORE_A_VIEW);
    drop(oldest);
    let error = committed.expect_err("the first change was missed");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

/// Others commit more, during every look, than is read back while they wait. The look in the
/// commit's place had no bound once it had begun again some times.
#[test]
fn a_commit_that_others_outrun_is_refused_and_keeps_none_waiting() {
    let by_ranges = |transaction: &mut Transaction, family: &Family| {
        for n in (0..KEYS).step_by(3) {
            let range = ScanOptions::new().range(key(n)..key(n + 2));
            let scan = transaction.scan(family, range).unwrap();
            assert_eq!(scan.entries().count() as u64, 2.min(KEYS - n));
        }
    };
    type Read = fn(&mut Transaction, &Family);
    let levels = [IsolationLevel::Serializable, IsolationLevel::RepeatableRead];
    let reads = [by_points as Read, by_range, by_ranges];
    for (level, read) in levels.into_iter().flat_map(|level| reads.map(|read| (level, read))) {
        let (db, _) = open(&SimVfs::new(1), SyncMode::None);
        // All keys stay in the memtable, which a look at a range goes through.
        let [a, b, c] = &["read", "written", "filled"]
            .map(|name| db.create_family(name, FamilyOptions::default()).unwrap());
        let mut batch = WriteBatch::new();
        (0..KEYS).for_each(|n| batch.put(a, &key(n), b"old").unwrap());
        db.write(&batch).unwrap();
        let oldest = db.begin(IsolationLevel::Serializable).unwrap();
        c.put(b"unrelated", b"").unwrap();
        let mut long = db.begin(level).unwrap();
        read(&mut long, a);
        long.put(b, b"written", b"new").unwrap();
        // Something to look for, or there would be no look.
        c.put(b"unrelated", b"").unwrap();
        let (other, filled) = (db.clone(), c.clone());
        steps::put(&steps::BEFORE_A_VIEW, move || {
            // Not in the place of the commit, which this thread would wait for.
            let log = &other.core().storage.log;
            if log.reserved() == log.published() {
                (0..4).for_each(|_| filled.put(b"filler", &[7; 256 << 10]).unwrap());
            }
        });
        steps::take_most_waited_for();
        let committed = long.commit();
        steps::remove(&steps::BEFORE_A_VIEW);
        let looked_at = steps::take_most_waited_for();
        assert!(looked_at <= MOST_KEYS, "{looked_at} keys were looked at while others waited");
        assert_eq!(looked_at, MOST_KEYS, "nothing was put to the test: {committed:?}");
        let error = committed.expect_err("the look was not outrun");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(error.to_string().contains("too much was committed"), "{error}");
        // Without others it comes to an end.
        long.rollback().unwrap();
        long.reset(level).unwrap();
        read(&mut long, a);
        long.put(b, b"written", b"new").unwrap();
        long.commit().unwrap();
        drop(oldest);
    }
}

/// The first look at many reads took so long that much came in, and with its place taken the commit
/// looked at all of them again while others waited. A change among what came in is still found.
#[test]
fn a_repeatable_reader_finds_in_the_log_what_has_changed_during_its_look() {
    let change = |family: &Family, n: u64| family.put(key(n), b"new").unwrap();
    let delete = |family: &Family, n: u64| family.delete_range(key(n), key(n + 1)).unwrap();
    let nothing = |_: &Family, _: u64| ();
    type Change = fn(&Family, u64);
    type Read = fn(&mut Transaction, &Family);
    for (change, is_refused) in [(change as Change, true), (delete, true), (nothing, false)] {
        for read in [by_points as Read, by_range] {
            let (db, families) = open(&SimVfs::new(1), SyncMode::None);
            let [a, b, c] = [0, 1, 2].map(|n| families[n].clone());
            let mut batch = WriteBatch::new();
            (0..KEYS).for_each(|n| batch.put(&a, &key(n), b"old").unwrap());
            db.write(&batch).unwrap();
            let mut long = db.begin(IsolationLevel::RepeatableRead).unwrap();
            read(&mut long, &a);
            long.put(&b, b"written", b"new").unwrap();
            c.put(b"unrelated", b"").unwrap();
            let mut first = true;
            let (changed, other) = (a.clone(), c.clone());
            steps::put(&steps::BEFORE_A_VIEW, move || {
                if std::mem::take(&mut first) {
                    change(&changed, KEYS / 2);
                    // In no range that was read, and of no key.
                    other.put(b"filler", b"").unwrap();
                }
            });
            steps::take_most_waited_for();
            let committed = long.commit();
            steps::remove(&steps::BEFORE_A_VIEW);
            assert!(steps::take_most_waited_for() <= MOST_KEYS);
            assert_eq!(committed.is_err(), is_refused, "{committed:?}");
        }
    }
}

/// Each was looked up among the pivots while others waited.
#[test]
fn the_commits_that_have_overwritten_what_was_read_are_sorted_before_others_wait() {
    let (db, families) = open(&SimVfs::new(1), SyncMode::None);
    let [a, b, _] = &families[..] else { unreachable!() };
    let mut batch = WriteBatch::new();
    (0..KEYS).for_each(|n| batch.put(a, &key(n), b"old").unwrap());
    db.write(&batch).unwrap();
    let oldest = db.begin(IsolationLevel::Serializable).unwrap();
    let mut long = db.begin(IsolationLevel::Serializable).unwrap();
    by_points(&mut long, a);
    (0..KEYS).for_each(|n| a.put(key(n), b"new").unwrap());
    long.put(b, b"written", b"new").unwrap();
    steps::take_most_waited_for();
    long.commit().unwrap();
    let waited_for = steps::take_most_waited_for();
    // The one key that it writes.
    assert!(waited_for <= 1, "{waited_for} were looked up one by one");
    drop(oldest);
}

/// Alone at its level it leaves the first look out. When another joined, each of its last looks was
/// one at everything, which takes too long.
#[test]
fn a_commit_that_others_join_looks_before_it_takes_another_place() {
    let (db, families) = open(&SimVfs::new(1), SyncMode::None);
    let [a, b, c] = &families[..] else { unreachable!() };
    let mut batch = WriteBatch::new();
    (0..KEYS).for_each(|n| batch.put(a, &key(n), b"old").unwrap());
    db.write(&batch).unwrap();
    let mut long = db.begin(IsolationLevel::Serializable).unwrap();
    by_points(&mut long, a);
    c.put(b"filler", vec![7; 300 << 10]).unwrap();
    long.put(b, b"written", b"new").unwrap();
    let (other, joined) = (db.clone(), Rc::new(RefCell::new(None)));
    let joins = Rc::clone(&joined);
    on_sync_points(Some(Rc::new(move |place| match place {
        "looked" => *joins.borrow_mut() = Some(other.begin(IsolationLevel::Serializable).unwrap()),
        "snapshot of a look" => drop(joins.take()),
        _ => {}
    })));
    let committed = long.commit();
    on_sync_points(None);
    drop(joined.take());
    committed.expect("it was refused although no other has changed what it read");
}
