//! Edits that contradict the state change neither the manifest nor the state.

use std::path::Path;
use std::sync::Arc;

use tidesdb_base::error::ErrorKind;
use tidesdb_base::range_tombstone::RangeTombstone;
use tidesdb_files::file_numbers::FileNumbers;
use tidesdb_files::manifest::{TableRecord, ValueLogRecord};
use tidesdb_sim::SimVfs;
use tidesdb_sys::vfs::Vfs;

use super::*;
use crate::version::catalog::{Catalog, Outcome, sync_in_turn};

fn create(family: u32) -> Change {
    Change::CreateFamily { family, name: format!("family {family}"), options: "".into() }
}

fn copy(family: u32, source: u32) -> Change {
    Change::CopyFamily { family, source, name: format!("family {family}") }
}

fn table(family: u32, number: u64) -> Change {
    Change::AddTable { family, table: Arc::new(TableRecord { number, ..TableRecord::default() }) }
}

fn value_log(family: u32, number: u64) -> Change {
    Change::AddValueLog { family, file: ValueLogRecord { number, bytes: 1000 } }
}

fn tombstone(family: u32, sequence: u64) -> (u32, Arc<RangeTombstone>) {
    let (start, end) = (Box::from(*b"a"), Box::from(*b"b"));
    (family, Arc::new(RangeTombstone { start, end, sequence }))
}

/// Each contradicts a state with family 1, its table 10, value log 20 and a range tombstone of
/// sequence 5, or itself.
fn contradictions() -> Vec<Vec<Change>> {
    let remove_table = |family, number| Change::RemoveTable { family, number };
    let remove_log = |family, number| Change::RemoveValueLog { family, number };
    let rename = |family| Change::RenameFamily { family, name: "new".to_owned() };
    let add_range = |(family, tombstone)| Change::AddRangeTombstone { family, tombstone };
    let remove_range = |(family, tombstone)| Change::RemoveRangeTombstone { family, tombstone };
    vec![
        vec![create(1)],
        vec![create(2), create(2)],
        vec![copy(1, 1)],
        vec![copy(3, 2)],
        vec![Change::DropFamily { family: 2 }],
        vec![Change::DropFamily { family: 1 }, table(1, 11)],
        vec![table(2, 11)],
        vec![table(1, 10)],
        vec![table(1, 11), table(1, 11)],
        vec![remove_table(1, 11)],
        vec![remove_table(1, 10), remove_table(1, 10)],
        vec![value_log(2, 21)],
        vec![remove_log(1, 21)],
        vec![remove_log(1, 20), remove_log(1, 20)],
        vec![rename(2)],
        vec![Change::SetOptions { family: 2, options: "".into() }],
        vec![Change::FlushedThrough { family: 2, sequence: 9 }],
        vec![add_range(tombstone(2, 6))],
        vec![remove_range(tombstone(1, 6))],
        vec![remove_range(tombstone(2, 5))],
        // What is sound in front of a contradiction is not written either.
        vec![create(2), table(2, 11), rename(3)],
    ]
}

/// I-78.
#[test]
fn an_edit_that_contradicts_the_state_is_refused_before_a_byte_is_written() {
    let sim = SimVfs::new(1);
    let dir = Path::new("/db");
    sim.create_dir(dir).unwrap();
    let numbers = Arc::new(FileNumbers::starting_at(100));
    let vfs = Arc::clone(&sim) as Arc<dyn Vfs>;
    let sync = |files| sync_in_turn(sim.as_ref(), dir, files);
    let mut catalog = Catalog::create(vfs, dir, numbers, PersistedState::default(), sync).unwrap();
    let (family, kept) = tombstone(1, 5);
    let kept = Change::AddRangeTombstone { family, tombstone: kept };
    catalog.commit(vec![create(1), table(1, 10), value_log(1, 20), kept]).unwrap();
    for changes in contradictions() {
        let before = (sim.mutations(), sim.state_hash(), format!("{:?}", catalog.state));
        let text = format!("{changes:?}");
        let outcome = catalog.propose(changes);
        let Outcome::Refused(error) = outcome else { panic!("{text}: {outcome:?}") };
        assert_eq!(error.kind(), ErrorKind::Internal, "{text}: {error}");
        let after = (sim.mutations(), sim.state_hash(), format!("{:?}", catalog.state));
        assert_eq!(after, before, "{text}");
    }
    // And the next one applies.
    catalog.commit(vec![create(2), table(2, 11)]).unwrap();
    assert!(catalog.state.families.contains_key(&2));
}

#[test]
fn an_edit_goes_forward_unless_log_or_flushes_go_back() {
    let mut state = PersistedState::default();
    let flushed = |sequence| Change::FlushedThrough { family: 1, sequence };
    let log = |segment| Change::LogStart { segment };
    assert!(state.apply(&Edit::new(vec![create(1), flushed(50), log(7)])));
    let goes = |change| goes_forward(&state, &Edit::new(vec![create(2), change]));
    for (forward, back) in [(flushed(50), flushed(49)), (log(7), log(6))] {
        assert!(goes(forward) && !goes(back));
    }
    assert!(goes(log(8)) && goes(log(NO_LOG)));
    let closed = PersistedState { log_start: NO_LOG, ..PersistedState::default() };
    assert!(goes_forward(&closed, &Edit::new(vec![log(8)])), "the first commit of a later life");
}
