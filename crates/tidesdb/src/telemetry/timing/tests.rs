use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidesdb_base::event::EventListener;
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::ManualClock;
use tidesdb_sys::clock::Clock;

use super::*;
use crate::db::{Components, Db};
use crate::iterator::ScanOptions;
use crate::write::{WriteBatch, WriteOptions};

/// A database on a clock that the test moves, and what it reported.
fn open(options: DbOptions) -> (Db, Arc<ManualClock>, Arc<Mutex<Vec<Event>>>) {
    let clock = Arc::new(ManualClock::new(1000));
    let reported = Arc::new(Mutex::new(Vec::new()));
    let events = Arc::clone(&reported);
    let listener = EventListener::new(move |event| events.lock().unwrap().push(event.clone()));
    let components =
        Components { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..Components::simulated() };
    let db = Db::open_with("/db", options.event_listener(listener), components).unwrap();
    (db, clock, reported)
}

#[test]
fn nothing_of_users_is_timed_by_default() {
    let (db, _, reported) = open(DbOptions::default());
    let family = db.create_family("f", FamilyOptions::default()).unwrap();
    family.put(b"key", b"value").unwrap();
    family.get(b"key").unwrap();
    family.flush().unwrap();
    let latencies = db.latencies();
    for operation in [TimedOperation::Get, TimedOperation::Commit, TimedOperation::Seek] {
        assert_eq!(latencies.of_operation(operation).count(), 0, "{operation}");
    }
    assert_eq!(latencies.of_operation(TimedOperation::Flush).count(), 1);
    assert_eq!(latencies.of_operation(TimedOperation::Open).count(), 1);
    assert!(reported.lock().unwrap().is_empty());
}

#[test]
fn every_operation_is_timed_when_one_in_one_is() {
    let (db, _, _) = open(DbOptions::default().latency_sampling(1));
    let family = db.create_family("f", FamilyOptions::default()).unwrap();
    for n in 0..10_u8 {
        family.put(&[n], b"value").unwrap();
    }
    let mut batch = WriteBatch::new();
    batch.put(&family, b"a", b"b").unwrap();
    db.write_with(&batch, WriteOptions::default()).unwrap();
    db.transaction(crate::IsolationLevel::Snapshot, |transaction| {
        transaction.put(&family, b"c", b"d")
    })
    .unwrap();
    assert!(family.contains(b"c").unwrap());
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 12);
    family.multi_get(["a", "b"]).unwrap();
    assert_eq!(db.latencies().of_operation(TimedOperation::MultiGet).count(), 1);
    let counts = |db: &Db| {
        let latencies = db.latencies();
        [TimedOperation::Get, TimedOperation::Commit, TimedOperation::Seek, TimedOperation::Step]
            .map(|operation| latencies.of_operation(operation).count())
    };
    // The transaction's commit looks for changes of its key, which is no get.
    assert_eq!(counts(&db), [1, 12, 1, 12]);
    db.reset_latencies();
    assert_eq!(counts(&db), [0; 4]);
    let text = db.latencies().to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn compactions_and_syncs_are_timed_and_forgotten() {
    let (db, clock, _) = open(DbOptions::default());
    let family = db.create_family("f", FamilyOptions::default()).unwrap();
    let times = |operation| db.latencies().of_operation(operation).clone();
    let (compaction, sync) = (TimedOperation::Compaction, TimedOperation::Sync);
    for n in 0..2_u8 {
        family.put(&[n], b"value").unwrap();
        family.flush().unwrap();
    }
    assert_eq!(times(compaction).count(), 0);
    family.compact().unwrap();
    assert_eq!((times(compaction).count(), times(TimedOperation::Flush).count()), (1, 2));
    db.reset_latencies();
    assert_eq!((times(compaction).count(), times(sync).count()), (0, 0));
    for n in 0..3_u8 {
        clock.advance(Duration::from_secs(1));
        family.put_with(&[n], b"value", WriteOptions::new().sync(true)).unwrap();
    }
    assert_eq!((times(sync).count(), times(TimedOperation::Commit).count()), (3, 0));
    db.reset_latencies();
    assert_eq!(times(sync).count(), 0);
}

/// Operations of two kinds that take turns are both met, and of each about one in so many.
#[test]
fn one_in_so_many_is_timed() {
    let (db, _, _) = open(DbOptions::default().latency_sampling(16));
    let family = db.create_family("f", FamilyOptions::default()).unwrap();
    for n in 0..16_000_u32 {
        family.put(&n.to_be_bytes(), b"").unwrap();
        family.get(&n.to_be_bytes()).unwrap();
    }
    let latencies = db.latencies();
    for operation in [TimedOperation::Get, TimedOperation::Commit] {
        let count = latencies.of_operation(operation).count();
        assert!((850..1150).contains(&count), "{operation}: {count} of 16000");
    }
}

#[test]
fn a_slow_operation_is_told_with_what_it_met() {
    let (db, clock, reported) = open(DbOptions::default().slow_operation_us(500));
    let family = db.create_family("orders", FamilyOptions::default()).unwrap();
    family.put(b"key", b"value").unwrap();
    family.flush().unwrap();
    let read = |micros: u64| {
        clock.advance(Duration::from_secs(1));
        family.get_with(b"key", |_| clock.advance(Duration::from_micros(micros))).unwrap();
    };
    read(499);
    assert_eq!(reported.lock().unwrap().len(), 0);
    read(500);
    let line = reported.lock().unwrap()[0].to_string();
    let wanted = "slow get of 'orders': 500 us, 3 bytes; 1 memtables, 1 tables, 1 blocks cached";
    assert_eq!(line, wanted);
    // Many at once are counted and not reported.
    for _ in 0..3 {
        family.get_with(b"key", |_| clock.advance(Duration::from_micros(600))).unwrap();
    }
    assert_eq!((reported.lock().unwrap().len(), db.stats().slow_operations), (1, 4));
    read(900);
    let line = reported.lock().unwrap()[1].to_string();
    assert!(line.ends_with("; 3 more since the last line"), "{line}");
    let times = db.latencies().of_operation(TimedOperation::Get).clone();
    assert_eq!((times.count(), times.max_nanos()), (6, 900_000));
}
