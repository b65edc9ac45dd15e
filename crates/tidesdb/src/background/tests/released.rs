//! Which families are looked at when a snapshot ends.

use std::cell::Cell;
use std::rc::Rc;

use tidesdb_sim::{FaultError, FaultKind, FaultVfs, Op, OpSet};
use tidesdb_sys::sync_points::on_sync_points;

use super::*;

/// All families were looked at, however many there were.
#[test]
fn the_end_of_a_snapshot_has_those_families_looked_at_of_which_it_kept_something() {
    let (db, scheduler) = open_stepped();
    let options = || FamilyOptions::default().min_disk_space(0);
    let families: Vec<_> =
        (0..20).map(|n| db.create_family(&format!("f{n}"), options()).unwrap()).collect();
    for family in &families {
        family.put(b"key", b"value").unwrap();
        family.flush().unwrap();
    }
    let looks = Rc::new(Cell::new(0));
    let counted = Rc::clone(&looks);
    for kept in [&families[3], &families[7]] {
        let snapshot = db.snapshot();
        kept.delete_range(b"a", b"z").unwrap();
        kept.flush().unwrap();
        scheduler.run_until_idle();
        assert_eq!(kept.state().current_version().tables().count(), 1);
        let counted = Rc::clone(&counted);
        on_sync_points(Some(Rc::new(move |place| {
            counted.set(counted.get() + usize::from(place == "compaction chosen"));
        })));
        looks.set(0);
        drop(snapshot);
        scheduler.run_until_idle();
        on_sync_points(None);
        assert_eq!(kept.state().current_version().tables().count(), 0);
        assert!((1..10).contains(&looks.get()), "{} looks", looks.get());
    }
}

/// What a snapshot keeps of a table of which a part is deleted is garbage that no sketch tells of.
#[test]
fn the_end_of_a_snapshot_frees_the_deleted_half_of_a_table() {
    let (db, scheduler) = open_stepped();
    let options = || FamilyOptions::default().min_disk_space(0).write_buffer_size(64 << 10);
    let family = db.create_family("family", options()).unwrap();
    let mut rng = tidesdb_sim::rng::SplitMix64::new(1);
    for n in 0..2000_u64 {
        let mut value = [0; 1000];
        rng.fill(&mut value);
        family.put(n.to_be_bytes(), value).unwrap();
        if n % 100 == 99 {
            family.flush().unwrap();
        }
    }
    family.compact().unwrap();
    scheduler.run_until_idle();
    let bytes = || family.state().current_version().tables().map(|t| t.record.bytes).sum::<u64>();
    let before = bytes();
    let snapshot = db.snapshot();
    // No table lies wholly in one of these.
    for n in (0..2000_u64).step_by(100) {
        family.delete_range((n + 1).to_be_bytes(), (n + 99).to_be_bytes()).unwrap();
    }
    family.flush().unwrap();
    scheduler.run_until_idle();
    assert_eq!(bytes(), before);
    drop(snapshot);
    scheduler.run_until_idle();
    assert!(bytes() < before / 4, "{} of {before} bytes", bytes());
}

/// The look that the end of another snapshot brings queues a compaction, which fails.
#[test]
fn a_family_whose_compaction_has_failed_still_waits_for_its_snapshot() {
    let faults = FaultVfs::new(SimVfs::new(1) as _);
    let scheduler = Arc::new(ManualScheduler::new(1));
    let components = Components {
        vfs: Arc::clone(&faults) as _,
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1000)),
    };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let options = || FamilyOptions::default().min_disk_space(0).write_buffer_size(64 << 10);
    let [held, other] = ["held", "other"].map(|name| db.create_family(name, options()).unwrap());
    let overwrite = |family: &Family| {
        (0..1000_u64).for_each(|n| family.put(n.to_be_bytes(), [n as u8; 100]).unwrap());
        family.flush().unwrap();
    };
    // What a snapshot keeps in each of them.
    let keep = |family: &Family| {
        overwrite(family);
        family.compact().unwrap();
        scheduler.run_until_idle();
        let snapshot = db.snapshot();
        overwrite(family);
        scheduler.run_until_idle();
        snapshot
    };
    let (kept_in_other, kept_in_held) = (keep(&other), keep(&held));
    // No look comes with these.
    for n in 0..8_u8 {
        held.put([n], b"value").unwrap();
        db.core().freeze(held.state(), 0);
        assert!(db.core().flush_oldest(held.state()).unwrap());
    }
    let runs = || held.state().current_version().runs.len();
    let before = runs();
    assert!(before > 8, "{before} runs");
    faults.reset();
    faults.count_only(OpSet::of(&[Op::Create]));
    faults.fail_call(0, FaultKind::Forever, FaultError::Kind(std::io::ErrorKind::Other));
    drop(kept_in_other);
    scheduler.run_until_idle();
    assert!(faults.fired() > 0, "no compaction has failed");
    assert_eq!(runs(), before);
    faults.clear_faults();
    drop(kept_in_held);
    scheduler.run_until_idle();
    assert!(runs() < before, "{} runs of {before}", runs());
}
