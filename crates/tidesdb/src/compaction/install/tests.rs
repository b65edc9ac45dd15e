//! What compactions make known while flushes end.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sys::sync_points::on_sync_points;

use crate::db::{Components, Db};

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
