//! When value logs are settled.

use super::*;
use crate::db::{Components, Db};
use tidesdb_base::options::DbOptions;

/// The look finds the file open and nothing in memory. Then a commit points into it, and it is
/// closed: what was found before says nothing of that.
#[test]
fn a_value_log_that_is_closed_after_the_look_is_not_settled() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    let large = vec![7; 1 << 20];
    family.put(b"first", &large).unwrap();
    family.flush().unwrap();
    let state = family.state();
    let settled = || {
        let version = state.current_version();
        let lives: Vec<bool> =
            version.value_logs.values().map(|file| file.life().is_settled()).collect();
        lives
    };
    let closed = state.closed_value_logs();
    assert!(closed.is_empty() && settled() == [false], "nothing was put to the test");
    family.put(b"second", &large).unwrap();
    db.core().storage.close_direct_file(state).unwrap();
    state.settle(&closed);
    assert_eq!(settled(), [false]);
    state.settle_value_logs();
    assert_eq!(settled(), [false], "the second value is in no table");
    family.flush().unwrap();
    state.settle_value_logs();
    assert_eq!(settled(), [true]);
}
