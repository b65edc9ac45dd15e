//! What compactions make known while flushes end.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sys::sync_points::on_sync_points;

use crate::db::{Components, Db};
use crate::family::View;
use crate::version::Version;

/// With a flush during each look, range tombstones that no table needed stayed as long as there
/// were flushes: the look was for another version by then.
#[test]
fn deletions_go_while_flushes_end() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = Arc::new(db.create_family("family", FamilyOptions::default()).unwrap());
    for key in 0..200_u8 {
        family.put(&[key], b"value").unwrap();
    }
    family.flush().unwrap();
    for start in (0..100).step_by(10) {
        family.delete_range(&[start], &[start + 5]).unwrap();
    }
    family.flush().unwrap();
    let tombstones = || family.state().current_version().range_tombstones.len();
    assert_eq!(tombstones(), 10);
    let looks = Rc::new(Cell::new(0));
    let hook = {
        let (looks, family) = (Rc::clone(&looks), Arc::clone(&family));
        move |place: &'static str| {
            if place == "tombstones looked through" {
                looks.set(looks.get() + 1);
                family.put(&[50], b"later").unwrap();
                family.delete_range(&[150], &[160]).unwrap();
                family.flush().unwrap();
            }
        }
    };
    on_sync_points(Some(Rc::new(hook)));
    family.compact().unwrap();
    on_sync_points(None);
    assert_eq!(looks.get(), 1, "a look is enough");
    assert_eq!(tombstones(), 1, "that of the flush is needed");
    for (key, value) in [(0, None), (5, Some(&b"value"[..])), (50, Some(b"later")), (155, None)] {
        assert_eq!(family.get(&[key]).unwrap().as_deref(), value, "{key}");
    }
    family.compact().unwrap();
    assert_eq!(tombstones(), 0);
    assert_eq!(family.get(&[155]).unwrap(), None);
}

/// Commits waited for the lock while tables were counted: a freeze needs it, with the gate closed.
#[test]
fn versions_are_made_without_the_lock_unless_they_change_all_the_time() {
    let db = Arc::new(Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap());
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    let made = Rc::new(Cell::new((0, 0)));
    let changes = Rc::new(Cell::new(false));
    let hook = {
        let (db, state) = (Arc::clone(&db), Arc::clone(family.state()));
        let (made, changes) = (Rc::clone(&made), Rc::clone(&changes));
        move |place: &'static str| match place {
            "version made" => {
                let (free, locked) = made.get();
                let is_free = db.core().storage.catalog.try_lock().is_ok();
                made.set(if is_free { (free + 1, locked) } else { (free, locked + 1) });
            }
            "flush prepared" | "compaction prepared" if changes.get() => {
                state.change_view(|view| {
                    let version = Arc::new(Version::clone(&view.version));
                    View { version, ..view.clone() }
                });
            }
            _ => {}
        }
    };
    on_sync_points(Some(Rc::new(hook)));
    for (round, changing) in [false, true].into_iter().enumerate() {
        changes.set(changing);
        let of_one = if changing { (3, 1) } else { (1, 0) };
        for flush in 0..2_u8 {
            family.put(&[flush], &[round as u8; 100]).unwrap();
            family.delete_range(&[10], &[20]).unwrap();
            made.set((0, 0));
            family.flush().unwrap();
            assert_eq!(made.get(), of_one, "flush {flush} of round {round}");
        }
        made.set((0, 0));
        family.compact().unwrap();
        assert_eq!(made.get(), of_one, "compaction of round {round}");
        assert_eq!(family.get(&[1]).unwrap(), Some(vec![round as u8; 100]));
    }
    on_sync_points(None);
    assert_eq!(family.state().current_version().tables().count(), 1);
    assert_eq!(db.verify().unwrap().problems.len(), 0);
}
