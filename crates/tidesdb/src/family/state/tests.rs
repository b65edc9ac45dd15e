//! When value logs are settled, and which runs a family had before it was read.

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

/// The bounds on runs fall when a family begins to be read. Only what is flushed from then on comes
/// on top of what writers may add.
#[test]
fn runs_before_the_reads_are_those_that_no_compaction_has_merged_since() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let options = FamilyOptions::default().l1_file_count_trigger(1000);
    let family = db.create_family("family", options).unwrap();
    let flush = || {
        family.put(b"key", b"value").unwrap();
        family.flush().unwrap();
    };
    let read = || assert!(family.get(b"key").unwrap().is_some());
    let counted = || {
        let state = family.state();
        let runs = state.current_version().mergeable_runs().count() as u64;
        (runs, state.signals(0, Vec::new).runs_before_reads)
    };
    (0..5).for_each(|_| flush());
    assert_eq!(counted(), (5, 5));
    for runs in 6..9 {
        read();
        flush();
        assert_eq!(counted(), (runs, 5));
    }
    family.compact().unwrap();
    assert_eq!(counted(), (1, 1));
    // Not read any more.
    (0..4).for_each(|_| flush());
    assert_eq!(counted(), (5, 5));
}
