//! Gets that meet a value log younger than their view, and many runs.

use tidesdb_base::limits::DIRECT_VALUE_BYTES;
use tidesdb_base::options::{DbOptions, FamilyOptions};

use super::{FILTERS_AT_ONCE, Get};
use crate::db::{Components, Db};

/// A reader was interrupted between loading the view and the published position. In between,
/// the family got its first value log.
#[test]
fn a_value_in_a_log_that_is_newer_than_the_view_is_found() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = db.create_family("values", FamilyOptions::default()).unwrap();
    let (core, state) = (db.core(), family.state());
    let view = state.view.load_full();
    let value = vec![7; DIRECT_VALUE_BYTES];
    family.put(b"key", &value).unwrap();
    assert!(view.version.value_logs.is_empty(), "nothing was put to the test");
    let get = Get::new(core, state, b"key", None);
    assert_eq!(get.look_in_view(&view, <[u8]>::to_vec).unwrap(), Some(value));
}

/// As before; and the value log was collected before the reader went on.
#[test]
fn a_value_is_found_whose_log_came_and_went_since_the_view_was_loaded() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let options = FamilyOptions::default().min_disk_space(0);
    let family = db.create_family("values", options).unwrap();
    let (core, state) = (db.core(), family.state());
    let (view, value) = (state.view.load_full(), vec![7; DIRECT_VALUE_BYTES]);
    family.put(b"key", &value).unwrap();
    family.put(b"other", &value.repeat(4)).unwrap();
    let log = *state.current_version().value_logs.keys().next().unwrap();
    // What is mostly garbage moves to another value log.
    family.delete(b"other").unwrap();
    for _ in 0..3 {
        family.put(b"filler", b"").unwrap();
        family.compact().unwrap();
    }
    assert!(!state.current_version().value_logs.contains_key(&log), "nothing was tested");
    let get = Get::new(core, state, b"key", None);
    assert!(get.look_in_view(&view, <[u8]>::to_vec).unwrap() == Some(value));
    let last = Get { is_last_try: true, ..get };
    let error = last.look_in_view(&view, <[u8]>::to_vec).unwrap_err().to_string();
    assert!(error.contains("/db"), "{error}");
}

/// Runs are asked a few at a time.
#[test]
fn each_of_many_runs_is_asked_newest_first() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    // None of them is merged.
    let options = FamilyOptions::default().l1_file_count_trigger(100);
    let family = db.create_family("values", options).unwrap();
    let runs = 3 * FILTERS_AT_ONCE as u8 + 1;
    for run in 0..runs {
        // All runs span the same keys.
        for key in [[0, 0], [1, run], [2, run / 2], [9, 9]] {
            family.put(&key, &[run]).unwrap();
        }
        family.flush().unwrap();
    }
    assert_eq!(family.state().current_version().runs.len(), usize::from(runs));
    for run in 0..runs {
        assert_eq!(family.get(&[1, run]).unwrap(), Some(vec![run]), "only in one of them");
        let newer = (run / 2 * 2 + 1).min(runs - 1);
        assert_eq!(family.get(&[2, run / 2]).unwrap(), Some(vec![newer]), "in two of them");
    }
    assert_eq!(family.get(&[0, 0]).unwrap(), Some(vec![runs - 1]));
    assert_eq!(family.get(&[1, runs]).unwrap(), None);
}
