//! What renaming, copying and dropping families leaves in the manifest.

use tidesdb_lockfree::sync::lock;

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

/// The next edit found it far too long, and waited until it was restated.
#[test]
fn a_manifest_that_changes_of_families_make_long_is_restated_in_the_background() {
    type Change = fn(&Db) -> Result<()>;
    let changes: [Change; 3] = [
        |db| db.rename_family("other", "renamed"),
        |db| db.clone_family("other", "copy").map(drop),
        |db| db.drop_family("other"),
    ];
    for change in changes {
        let (sim, scheduler) = (SimVfs::new(1), Arc::new(ManualScheduler::new(1)));
        let db = open(&sim, &scheduler);
        let options = FamilyOptions::default();
        db.create_families(&[("name", options.clone()), ("other", options)]).unwrap();
        let restate_from = |bytes| lock(&db.core().storage.catalog).set_least_long_bytes(bytes);
        let bytes = || lock(&db.core().storage.catalog).bytes();
        let rename = || {
            db.rename_family("name", "another").unwrap();
            db.rename_family("another", "name").unwrap();
        };
        restate_from(0);
        rename();
        scheduler.run_until_idle();
        let restated = bytes();
        restate_from(u64::MAX);
        while bytes() <= 2 * restated {
            rename();
        }
        scheduler.run_until_idle();
        restate_from(0);
        change(&db).unwrap();
        assert!(bytes() > 2 * restated, "nothing was put to the test");
        scheduler.run_until_idle();
        assert!(bytes() < 2 * restated, "{} bytes, {restated} before", bytes());
    }
}
