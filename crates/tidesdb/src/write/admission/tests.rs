use std::cell::Cell;
use std::rc::Rc;

use tidesdb_base::error::ErrorKind;
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::ManualScheduler;
use tidesdb_sys::sched::Lane;
use tidesdb_sys::sync_points::on_sync_points;

use super::*;
use crate::db::{Components, Db};
use crate::handles::Family;
use crate::write::{WriteBatch, WriteOptions};

/// A family whose writers are slowed down by compactions that are behind.
fn slowed(db: &Db, name: &str) -> Family {
    let options = FamilyOptions::default().write_buffer_size(64 << 10).l1_file_count_trigger(2);
    let family = db.create_family(name, options).unwrap();
    for n in 0_u64..12_000 {
        family.put(&n.to_be_bytes(), &[7; 100]).unwrap();
    }
    family.flush().unwrap();
    family
}

/// A batch that the second family refused kept what the first had let it take, each time.
#[test]
fn a_batch_that_one_family_refuses_takes_nothing_from_the_others() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    db.stop_compactions().unwrap();
    let (first, second) = (slowed(&db, "first"), slowed(&db, "second"));
    let no_wait = WriteOptions::new().no_wait(true);
    let put = |family: &Family, n: u64| family.put_with(n.to_be_bytes(), [8; 100], no_wait);
    // The second has no lump left, and the first has one.
    assert!((0..10_000).any(|n| put(&second, n).is_err()));
    let pacer = &first.state().writes.flow.pacer;
    while pacer.granted_bytes() < 1000 {
        pacer.refill(1 << 20, 1 << 20, 0);
    }
    let (before, all) = (pacer.granted_bytes(), db.core().flow.pacer.granted_bytes());
    let mut batch = WriteBatch::new();
    for family in [&first, &second] {
        batch.put(family, b"key", [9; 100]).unwrap();
    }
    for _ in 0..100 {
        assert_eq!(db.write_with(&batch, no_wait).unwrap_err().kind(), ErrorKind::Stalled);
    }
    assert_eq!((pacer.granted_bytes(), db.core().flow.pacer.granted_bytes()), (before, all));
}

/// Each writer who waited for memory looked at all families at each turn.
#[test]
fn waiting_writers_look_for_a_failed_flush_once_after_it() {
    let scheduler = Arc::new(ManualScheduler::new(1));
    let components =
        Components { scheduler: Arc::clone(&scheduler) as _, ..Components::simulated() };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let family =
        |name, kept| db.create_family(name, FamilyOptions::default().min_disk_space(kept)).unwrap();
    let (fails, waits) = (family("fails", u64::MAX / 2), family("waits", 0));
    let looks = Rc::new(Cell::new(0));
    let counted = Rc::clone(&looks);
    on_sync_points(Some(Rc::new(move |place| {
        counted.set(counted.get() + usize::from(place == "failures looked through"));
    })));
    let core = db.core();
    let mut wait = WriterStall::new(core, waits.state(), false);
    wait.reason = Some(StallReason::MemoryBudget);
    (0..10).for_each(|_| wait.take_failure().unwrap());
    assert_eq!(looks.get(), 0);
    fails.put(b"key", b"value").unwrap();
    core.freeze_and_flush(fails.state(), 0);
    for failures in 1..3 {
        while scheduler.step_lane(Lane::Flush) {}
        assert!(fails.state().flushes.failure.is_kept());
        // The first is tried again.
        assert_eq!(wait.take_failure().is_err(), failures == 2);
        assert_eq!((looks.get(), wait.failures), (failures, failures as u32));
    }
    on_sync_points(None);
    drop(wait);
    // It was kept for the next one who waits.
    let mut other = WriterStall::new(core, waits.state(), false);
    other.reason = Some(StallReason::MemoryBudget);
    other.take_failure().unwrap();
    assert_eq!(other.failures, 1);
}

/// Writers who came while another chose what to freeze found nothing frozen, and went on.
#[test]
fn a_writer_waits_for_the_one_that_chooses_what_to_freeze() {
    let options = DbOptions::default().max_memory_usage(16 << 20).log_segment_bytes(64 << 10);
    let db = Db::open_with("/db", options, Components::simulated()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    let core = db.core();
    let budget = &core.memory.budget;
    let _scans = budget.reserve(Holder::Scans, budget.bytes() - budget.held().total());
    let choosing = lock(&core.flow.choosing_memtables);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| core.wait_for_memory(family.state(), false));
        std::thread::sleep(Duration::from_millis(100));
        let went_on = waits.is_finished();
        drop(choosing);
        waits.join().unwrap().unwrap();
        assert!(!went_on);
    });
    let chosen = lock(&core.flow.choosing_memtables);
    // One that must not wait is refused, or goes on.
    let _ = core.wait_for_memory(family.state(), true);
    drop(chosen);
}
