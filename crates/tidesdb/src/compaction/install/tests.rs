//! What compactions make known while flushes end.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::{FaultError, FaultKind, FaultVfs, SimVfs};
use tidesdb_sys::sync_points::on_sync_points;

use super::TOMBSTONES_AT_ONCE;
use crate::db::{Components, Db};
use crate::family::View;
use crate::handles::Family;
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

/// The copy had tombstones that its manifest did not have, and could never let go of them.
#[test]
fn a_copy_that_is_made_while_deletions_go_has_those_of_the_manifest() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    for key in 0..200_u8 {
        family.put(&[key], b"value").unwrap();
    }
    family.flush().unwrap();
    family.delete_range(&[10], &[20]).unwrap();
    family.flush().unwrap();
    let copies = Rc::new(Cell::new(0));
    let (made, cloned) = (Rc::clone(&copies), db.clone());
    on_sync_points(Some(Rc::new(move |place| {
        if place == "between edits of tombstones" && made.replace(1) == 0 {
            cloned.clone_family("family", "copy").unwrap();
        }
    })));
    family.compact().unwrap();
    on_sync_points(None);
    assert_eq!(copies.get(), 1);
    let copy = db.family("copy").unwrap();
    for family in [&family, &copy] {
        family.put(&[30], b"later").unwrap();
        family.flush().unwrap();
        family.compact().unwrap();
        assert_eq!(family.state().current_version().range_tombstones.len(), 0);
        assert_eq!(
            (family.get(&[15]).unwrap(), family.iter().unwrap().entries().count()),
            (None, 190)
        );
    }
}

/// Each sixteen thousand that went took a look at all that were left.
#[test]
fn very_many_range_tombstones_are_looked_through_once() {
    const AT_ONCE: u64 = TOMBSTONES_AT_ONCE as u64;
    const RANGES: u64 = 20 * AT_ONCE;
    let faults = FaultVfs::new(SimVfs::new(1));
    let components = || Components { vfs: Arc::clone(&faults) as _, ..Components::simulated() };
    let open = || Db::open_with("/db", DbOptions::default(), components()).unwrap();
    let db = open();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    let counts = Rc::new(Cell::new((0, 0)));
    let (counted, broken) = (Rc::clone(&counts), Arc::clone(&faults));
    let fails_after = Rc::new(Cell::new(u64::MAX));
    let fails = Rc::clone(&fails_after);
    on_sync_points(Some(Rc::new(move |place| {
        let (looks, edits) = counted.get();
        match place {
            "tombstones looked through" => counted.set((looks + 1, edits)),
            "tombstones let go" => {
                counted.set((looks, edits + 1));
                if edits + 1 == fails.get() {
                    broken.reset();
                    broken.fail_call(0, FaultKind::Forever, FaultError::IO);
                }
            }
            _ => {}
        }
    })));
    let count = |family: &Family| family.state().current_version().range_tombstones.len() as u64;
    let fill = || {
        for key in 0..2 * RANGES {
            family.put(key.to_be_bytes(), b"value").unwrap();
        }
        family.flush().unwrap();
        for key in 0..RANGES {
            family.delete_range(&(2 * key).to_be_bytes(), &(2 * key + 1).to_be_bytes()).unwrap();
        }
        family.flush().unwrap();
        assert_eq!(count(&family), RANGES);
        counts.set((0, 0));
    };
    fill();
    family.compact().unwrap();
    assert_eq!((count(&family), counts.get()), (0, (1, 20)));
    // The fourth edit fails: what is left is what the manifest has.
    fails_after.set(3);
    fill();
    family.compact().unwrap_err();
    faults.clear_faults();
    let left = RANGES - 3 * AT_ONCE;
    assert_eq!((count(&family), counts.get()), (left, (1, 3)));
    on_sync_points(None);
    family.put(b"later", b"value").unwrap();
    family.flush().unwrap();
    drop((family, db));
    let db = open();
    let family = db.family("family").unwrap();
    assert_eq!(count(&family), left);
    family.compact().unwrap();
    assert_eq!(count(&family), 0);
    for key in 0..2 * RANGES {
        let value = (key % 2 == 1).then(|| b"value".to_vec());
        assert_eq!(family.get(&key.to_be_bytes()).unwrap(), value, "{key}");
    }
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
            "prepared for the catalog" if changes.get() => {
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
