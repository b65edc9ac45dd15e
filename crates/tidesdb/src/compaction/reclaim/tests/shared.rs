//! Files that a clone or a checkpoint has as well: what replaces them frees no space.

use std::path::Path;

use tidesdb_base::compress::Compression;
use tidesdb_sys::vfs::Vfs;

use super::*;

/// Makes others have the files of the family.
type Share = fn(&Db);

/// Has them let go.
type LetGo = fn(&Db, &SimVfs);

fn checkpoint(db: &Db) {
    db.checkpoint("/copy").unwrap();
}

fn remove_checkpoint(_: &Db, sim: &SimVfs) {
    let dir = Path::new("/copy");
    sim.list(dir).unwrap().iter().for_each(|file| sim.remove(&dir.join(&file.name)).unwrap());
}

fn clone(db: &Db) {
    drop(db.clone_family("family", "clone").unwrap());
}

fn drop_clone(db: &Db, _: &SimVfs) {
    db.drop_family("clone").unwrap();
}

const WAYS: [(Share, LetGo); 2] = [(clone, drop_clone), (checkpoint, remove_checkpoint)];

const KEYS: u32 = 300;

/// A database whose family has a value of 1000 bytes for each key.
fn open(klog_value_threshold: usize) -> (Arc<SimVfs>, Db, Family) {
    let sim = SimVfs::new(1);
    sim.set_capacity(Some(64 << 20));
    let components = Components { vfs: Arc::clone(&sim) as _, ..Components::simulated() };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let options = FamilyOptions::default()
        .compression(Compression::None)
        .l1_file_count_trigger(100)
        .klog_value_threshold(klog_value_threshold);
    let family = db.create_family("family", options).unwrap();
    for n in 0..KEYS {
        family.put(n.to_be_bytes(), [n as u8; 1000]).unwrap();
    }
    family.flush().unwrap();
    (sim, db, family)
}

/// Numbers of all tables and value logs, and what is free.
fn files_and_space(sim: &SimVfs, db: &Db, family: &Family) -> (Vec<u64>, u64) {
    db.core().storage.files.obsolete.sweep();
    let version = family.state().current_version();
    let tables = version.tables().map(|table| table.record.number);
    let numbers = tables.chain(version.value_logs.keys().copied()).collect();
    (numbers, sim.free_bytes(Path::new("/db")).unwrap())
}

/// A collection changes nothing while others have the files, and frees so much once they let go.
fn frees_once_let_go(sim: &SimVfs, (db, family): (&Db, &Family), let_go: LetGo, least: u64) {
    let before = files_and_space(sim, db, family);
    let reclaim = || db.core().reclaim_tables(family.state()).unwrap();
    assert_eq!(reclaim(), Left::Shared, "there is more to do later");
    assert_eq!(files_and_space(sim, db, family), before);
    let_go(db, sim);
    let (_, shared) = files_and_space(sim, db, family);
    assert_eq!(reclaim(), Left::Nothing);
    let (_, free) = files_and_space(sim, db, family);
    assert!(free > shared + least, "{free} bytes are free, {shared} were");
}

/// Each table was written anew beside the old one, which stayed.
#[test]
fn a_table_that_others_have_as_well_is_not_written_anew() {
    for (share, let_go) in WAYS {
        let (sim, db, family) = open(1 << 20);
        share(&db);
        for n in (0..KEYS).filter(|n| n % 3 > 0) {
            family.delete(n.to_be_bytes()).unwrap();
        }
        family.flush().unwrap();
        frees_once_let_go(&sim, (&db, &family), let_go, 150_000);
        assert_eq!(family.iter().unwrap().entries().count(), 100);
    }
}

/// Their values were written to another value log, and the old one stayed.
#[test]
fn a_value_log_that_others_have_as_well_is_not_emptied() {
    for (share, let_go) in WAYS {
        let (sim, db, family) = open(500);
        share(&db);
        for n in (0..KEYS).step_by(4) {
            family.delete(n.to_be_bytes()).unwrap();
        }
        // The family has another table now, and the value log still.
        family.compact().unwrap();
        assert_eq!(files_and_space(&sim, &db, &family).0.len(), 2);
        frees_once_let_go(&sim, (&db, &family), let_go, 60_000);
        assert_eq!(family.iter().unwrap().entries().count(), 225);
    }
}

/// That costs an edit alone.
#[test]
fn tables_that_others_have_as_well_are_dropped_whole() {
    for (share, _) in WAYS {
        let (sim, db, family) = open(1 << 20);
        let (before, _) = files_and_space(&sim, &db, &family);
        share(&db);
        family.delete_all().unwrap();
        family.flush().unwrap();
        assert_eq!(db.core().reclaim_tables(family.state()).unwrap(), Left::Nothing);
        let (after, _) = files_and_space(&sim, &db, &family);
        assert!(before.iter().all(|number| !after.contains(number)), "{before:?} {after:?}");
    }
}
