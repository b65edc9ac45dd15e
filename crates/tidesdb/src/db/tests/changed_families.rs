//! What renaming, copying and dropping families leaves in the manifest.

use super::*;

fn open(sim: &Arc<SimVfs>, scheduler: &Arc<ManualScheduler>) -> Db {
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::clone(scheduler) as _,
        clock: Arc::new(ManualClock::new(1000)),
    };
    Db::open_with("/db", DbOptions::default(), components).unwrap()
}

/// The manifest never said how long the file was that the source went on with. An opening took all
/// of it, and what the source had written later was garbage of the copy.
#[test]
fn values_that_a_source_writes_later_are_no_garbage_of_its_copy() {
    let (sim, scheduler) = (SimVfs::new(1), Arc::new(ManualScheduler::new(1)));
    let db = open(&sim, &scheduler);
    let source = db.create_family("source", FamilyOptions::default()).unwrap();
    let put = |key: u8| source.put([key], vec![key; 1 << 20]).unwrap();
    put(0);
    db.clone_family("source", "copy").unwrap();
    (1..5).for_each(put);
    source.flush().unwrap();
    drop(source);
    db.close().unwrap();
    let db = open(&sim, &scheduler);
    let (source, copy) = (db.family("source").unwrap(), db.family("copy").unwrap());
    let version = copy.state().current_version();
    assert_eq!(version.value_logs.len(), 1);
    assert_eq!(version.value_logs_with_garbage(), []);
    for key in 0..5 {
        assert_eq!(source.get([key]).unwrap(), Some(vec![key; 1 << 20]));
        assert_eq!(copy.get([key]).unwrap().is_some(), key == 0);
    }
    assert_eq!(db.verify().unwrap().problems.len(), 0);
}
