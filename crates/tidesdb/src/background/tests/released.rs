//! Which families are looked at when a snapshot ends.

use std::cell::Cell;
use std::rc::Rc;

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
