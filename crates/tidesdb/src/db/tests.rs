//! Dropping and closing when the disk fails or is full.

mod changed_families;
mod closing;

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use tidesdb_base::error::{Error, ErrorKind, Result};
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::{
    CrashProfile, FaultError, FaultKind, FaultVfs, ManualClock, ManualScheduler, Op, OpSet, SimVfs,
};
use tidesdb_sys::sync_points::on_sync_points;
use tidesdb_sys::vfs::Vfs;

use super::{Components, Db};
use crate::handles::Family;
use crate::iterator::ScanOptions;
use crate::write::WriteBatch;

/// The edit is written, its sync fails, and so does another manifest. Commits to the family are
/// refused as long as an opening would find the change; what is acknowledged later is there.
fn acknowledged_after_a_failed(change: impl Fn(&Db, &Family) -> Result<()>) {
    let sim = SimVfs::new(1);
    let faults = FaultVfs::new(Arc::clone(&sim) as _);
    let components = || Components {
        vfs: Arc::clone(&faults) as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1000)),
    };
    let db = Db::open_with("/db", DbOptions::default(), components()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    family.put(b"before", b"value").unwrap();
    let mut acknowledged = Vec::new();
    faults.reset();
    faults.count_only(OpSet::of(&[Op::Sync, Op::Create]));
    faults.fail_call(0, FaultKind::Forever, FaultError::Kind(std::io::ErrorKind::Other));
    let error = change(&db, &family).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChangeUncertain, "{error}");
    for n in 0..10_u8 {
        if n == 5 {
            faults.clear_faults();
        }
        if family.put(&[n], b"value").is_ok() {
            acknowledged.push(n);
        }
    }
    assert_eq!(acknowledged, [5, 6, 7, 8, 9]);
    let image = sim.crash_image(CrashProfile::Everything, 1);
    let components = Components { vfs: image as _, ..components() };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let family = db.family("family").unwrap();
    assert_eq!(family.options().write_buffer_size, FamilyOptions::default().write_buffer_size);
    assert_eq!(family.get(b"before").unwrap(), Some(b"value".to_vec()));
    for n in acknowledged {
        assert_eq!(family.get(&[n]).unwrap(), Some(b"value".to_vec()), "{n}");
    }
}

#[test]
fn what_is_acknowledged_after_a_failed_drop_outlives_a_kill() {
    acknowledged_after_a_failed(|db, _| db.drop_family("family"));
}

#[test]
fn what_is_acknowledged_after_a_failed_renaming_has_the_old_name_after_a_kill() {
    acknowledged_after_a_failed(|db, _| db.rename_family("family", "other"));
}

#[test]
fn what_is_acknowledged_after_failed_options_has_the_old_ones_after_a_kill() {
    let others = || FamilyOptions::default().write_buffer_size(1 << 20);
    acknowledged_after_a_failed(|_, family| family.set_options(others()));
}

/// The edit that makes a family `new` is written, its sync fails, and so does another manifest. The
/// caller is told that an opening may find it; the next edit that works makes certain that none
/// does.
fn settled_after_a_failed(make: impl Fn(&Db) -> Result<Family>) {
    let sim = SimVfs::new(1);
    let faults = FaultVfs::new(Arc::clone(&sim) as _);
    let components = |vfs: Arc<dyn Vfs>| Components {
        vfs,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1000)),
    };
    let open = |vfs| Db::open_with("/db", DbOptions::default(), components(vfs)).unwrap();
    let names_after_a_kill =
        || open(sim.crash_image(CrashProfile::Everything, 1) as _).family_names();
    let db = open(Arc::clone(&faults) as _);
    db.create_family("family", FamilyOptions::default()).unwrap().put(b"key", b"value").unwrap();
    db.flush().unwrap();
    faults.reset();
    faults.count_only(OpSet::of(&[Op::Sync, Op::Create]));
    faults.fail_call(0, FaultKind::Forever, FaultError::Kind(std::io::ErrorKind::Other));
    let error = make(&db).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChangeUncertain, "{error}");
    assert_eq!(db.family_names(), ["family"]);
    assert_eq!(names_after_a_kill(), ["family", "new"], "nothing was in doubt");
    // Tried again before anything works: what the first try left is in the manifest in force still.
    let error = make(&db).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChangeUncertain, "{error}");
    assert_eq!(names_after_a_kill(), ["family", "new"]);
    faults.clear_faults();
    db.create_family("later", FamilyOptions::default()).unwrap();
    assert_eq!(names_after_a_kill(), ["family", "later"]);
    make(&db).unwrap();
    assert_eq!(names_after_a_kill(), ["family", "later", "new"]);
}

#[test]
fn a_failed_creation_that_an_opening_may_find_is_in_doubt_until_the_next_edit() {
    settled_after_a_failed(|db| db.create_family("new", FamilyOptions::default()));
}

#[test]
fn a_failed_copy_that_an_opening_may_find_is_in_doubt_until_the_next_edit() {
    settled_after_a_failed(|db| db.clone_family("family", "new"));
}

/// The drop fails as above while a commit is on its way.
#[test]
fn a_commit_on_its_way_when_a_drop_fails_is_refused() {
    let sim = SimVfs::new(1);
    let faults = FaultVfs::new(Arc::clone(&sim) as _);
    let components = || Components {
        vfs: Arc::clone(&faults) as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1000)),
    };
    let db = Db::open_with("/db", DbOptions::default(), components()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    faults.reset();
    faults.count_only(OpSet::of(&[Op::Sync, Op::Create]));
    faults.fail_call(0, FaultKind::Forever, FaultError::Kind(std::io::ErrorKind::Other));
    let mut batch = WriteBatch::new();
    batch.put(&family, b"key", b"value").unwrap();
    let prepared = db.core().prepare(&batch, <_>::default()).unwrap();
    // The last moment: the commit has been asked whether it may write, and has waited for room.
    db.drop_family("family").unwrap_err();
    assert!(prepared.take_place().is_err(), "it would be lost with the family");
    drop(prepared);
    assert_eq!(family.get(b"key").unwrap(), None);
    faults.clear_faults();
    family.put(b"later", b"value").unwrap();
    let image = sim.crash_image(CrashProfile::Everything, 1);
    let components = Components { vfs: image as _, ..components() };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let family = db.family("family").unwrap();
    assert_eq!(family.get(b"later").unwrap(), Some(b"value".to_vec()));
    assert_eq!(family.get(b"key").unwrap(), None);
}

/// A volume that is smaller than what must be free by default: flushes work, and when it is full
/// the database closes with what is in memory in the log.
#[test]
fn a_small_volume_can_be_filled_closed_and_opened_again() {
    let sim = SimVfs::new(1);
    sim.set_capacity(Some(16 << 20));
    let open = || {
        let components = Components {
            vfs: Arc::clone(&sim) as _,
            scheduler: Arc::new(ManualScheduler::new(1)),
            clock: Arc::new(ManualClock::new(1000)),
        };
        let options = DbOptions::default().log_segment_bytes(64 << 10);
        Db::open_with("/db", options, components).unwrap()
    };
    let db = open();
    let options = FamilyOptions::default().write_buffer_size(256 << 10);
    let family = db.create_family("family", options).unwrap();
    family.put(b"first", b"value").unwrap();
    family.flush().unwrap();
    let value = |n: u32| -> Vec<u8> {
        let mut random = tidesdb_sim::rng::SplitMix64::new(u64::from(n));
        let mut value = vec![0; 1000];
        random.fill(&mut value);
        value
    };
    let refused = (0_u32..100_000)
        .find_map(|n| family.put(&n.to_be_bytes(), &value(n)).err().map(|error| (n, error)));
    let (written, error) = refused.unwrap();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(sim.free_bytes(Path::new("/db")).unwrap() < 2 << 20);
    drop(family);
    db.close().unwrap();

    let db = open();
    let family = db.family("family").unwrap();
    for n in 0..written {
        assert_eq!(family.get(&n.to_be_bytes()).unwrap(), Some(value(n)), "{n}");
    }
}

/// The memory of what several dead processes left is written to tables before the open returns:
/// that was one edit of the manifest, with a sync, for each family.
#[test]
fn an_opening_with_several_segments_left_over_syncs_the_manifest_for_no_family_alone() {
    let components = |vfs: Arc<dyn Vfs>| Components {
        vfs,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1000)),
    };
    let options = || DbOptions::default().log_segment_bytes(64 << 10);
    let mut sim = SimVfs::new(1);
    for life in 0..6_u8 {
        let db = Db::open_with("/db", options(), components(Arc::clone(&sim) as _)).unwrap();
        for n in 0..20 {
            let family = db.open_family(&format!("family{n}"), FamilyOptions::default()).unwrap();
            family.put(&[life], b"value").unwrap();
        }
        let killed = sim.crash_image(CrashProfile::Everything, 1);
        drop(db);
        sim = killed;
        if life < 3 {
            continue;
        }
        let faults = FaultVfs::new(sim.fork());
        faults.record(true);
        let db = Db::open_with("/db", options(), components(Arc::clone(&faults) as _)).unwrap();
        let is_manifest = |path: &Path| path.to_string_lossy().contains("MANIFEST");
        let syncs = faults.records();
        let syncs = syncs.iter().filter(|call| call.op == Op::Sync && is_manifest(&call.path));
        assert!(syncs.count() < 10);
        for n in 0..20 {
            let family = db.family(&format!("family{n}")).unwrap();
            assert!((0..=life).all(|life| family.contains(&[life]).unwrap()));
        }
    }
}

/// A read that was let in, and then found the view of a family that is gone, found nothing.
#[test]
fn a_read_beside_a_drop_finds_the_family_or_says_that_it_is_gone() {
    type Read = fn(&Family) -> Result<bool>;
    let reads: [(&str, Read); 5] = [
        ("get", |family| Ok(family.get("key")?.is_some())),
        ("multi_get", |family| Ok(family.multi_get(["key"])?.iter().all(Option::is_some))),
        ("get_pinned", |family| Ok(family.get_pinned("key")?.is_some())),
        ("expiry", |family| Ok(family.expiry("key")?.is_some())),
        ("scan", |family| Ok(family.scan(ScanOptions::new())?.entries().count() > 0)),
    ];
    for (what, read) in reads {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        family.put("key", "value").unwrap();
        let (other, is_dropped) = (db.clone(), Cell::new(false));
        on_sync_points(Some(Rc::new(move |place| {
            if place == "before a look" && !is_dropped.replace(true) {
                other.drop_family("family").unwrap();
            }
        })));
        let found = read(&family).map(|found| format!("{found} was found"));
        on_sync_points(None);
        let error = found.expect_err(what);
        assert!(matches!(error, Error::FamilyDropped(_)), "{what}: {error}");
    }
}
