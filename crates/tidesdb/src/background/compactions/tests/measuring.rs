//! What it costs to find out how much range deletions hide in a family at rest.

use std::cell::Cell;
use std::rc::Rc;

use tidesdb_sys::sched::Lane;
use tidesdb_sys::sync_points::on_sync_points;

use super::*;
use crate::version::MEASURED_LOOKS;

const KEYS: u64 = 32_000;

/// Each sixteen tables took a look at all that were measured before them, and a plan.
#[test]
fn each_table_is_looked_at_a_few_times_until_all_are_measured() {
    let (db, scheduler) = open(&SimVfs::new(1), 1, 1);
    let options = FamilyOptions::default()
        .target_table_bytes(4 << 10)
        .block_size(512)
        .compression(Compression::None)
        .min_disk_space(0);
    let family = db.create_family("family", options).unwrap();
    for key in 0..KEYS {
        family.put(key.to_be_bytes(), [7; 80]).unwrap();
    }
    family.compact().unwrap();
    scheduler.run_until_idle();
    let version = || family.state().current_version();
    let first_keys: Vec<_> =
        version().tables().map(|table| table.record.smallest_key.clone()).collect();
    assert!(first_keys.len() > 500, "{} tables", first_keys.len());
    // Too few to be worth a compaction.
    for first in &first_keys {
        let end = [first.as_slice(), &[0]].concat();
        family.delete_range(first, &end).unwrap();
    }
    let plans = Rc::new(Cell::new(0));
    let counted = Rc::clone(&plans);
    on_sync_points(Some(Rc::new(move |place| {
        counted.set(counted.get() + usize::from(place == "compaction chosen"));
    })));
    let before = MEASURED_LOOKS.get();
    family.flush().unwrap();
    scheduler.run_until_idle();
    while scheduler.fire_timer() {
        scheduler.run_until_idle();
    }
    on_sync_points(None);
    let (looks, tables) = (MEASURED_LOOKS.get() - before, first_keys.len());
    assert!(!version().measure_range_deleted(&[], 0), "some are not measured");
    assert_eq!(version().tables().count(), tables, "nothing is worth a compaction");
    assert!(looks >= tables && looks <= 6 * tables, "{looks} looks at {tables} tables");
    assert!(plans.get() <= 10, "{} plans", plans.get());
}

/// Each flush looked for compactions twice on its own thread, and measured tables for that.
#[test]
fn a_flush_leaves_the_look_for_compactions_to_their_lane() {
    let scheduler = Arc::new(ManualScheduler::new(1));
    let components =
        Components { scheduler: Arc::clone(&scheduler) as _, ..Components::simulated() };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let family = db.create_family("family", FamilyOptions::default().min_disk_space(0)).unwrap();
    let plans = Rc::new(Cell::new(0));
    let counted = Rc::clone(&plans);
    on_sync_points(Some(Rc::new(move |place| {
        counted.set(counted.get() + usize::from(place == "compaction chosen"));
    })));
    let runs = || family.state().current_version().runs.len();
    for flushes in 1..20 {
        family.put(b"key", b"value").unwrap();
        db.core().freeze_and_flush(family.state(), 0);
        while scheduler.step_lane(Lane::Flush) {}
        assert_eq!(plans.get(), 0, "flush {flushes} looked");
        assert_eq!(runs(), flushes);
        assert!(!db.core().work.jobs.are_done() && family.is_compacting(), "a look is work");
    }
    scheduler.run_until_idle();
    on_sync_points(None);
    assert!(plans.get() > 0 && plans.get() < 10, "{} plans", plans.get());
    assert!(db.core().work.jobs.are_done() && !family.is_compacting());
    assert!(runs() < 19);
}
