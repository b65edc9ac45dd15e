//! What an opening makes of a repair that was killed between its two renames.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use tidesdb_base::error::Error;
use tidesdb_base::options::DbOptions;
use tidesdb_sim::Op;
use tidesdb_sys::vfs::{LockMode, RealVfs};

use super::super::*;
use super::Place;
use crate::Db;

/// A script that starts a program makes the directory, and an opening that was killed made a lock.
#[test]
fn an_empty_directory_is_no_database_where_a_repair_was_killed() {
    for locked in [false, true] {
        let place = Place::killed_between();
        fs::create_dir(place.path("db")).unwrap();
        if locked {
            let lock = RealVfs::new().lock(&place.path("db/LOCK"), LockMode::Exclusive).unwrap();
            let error = finish_on(&RealVfs::new(), &place.path("db")).unwrap_err();
            assert!(matches!(&error, Error::Locked(dir) if *dir == place.path("db")), "{error}");
            assert!(place.path("db/LOCK").exists() && place.is_marked("db.repaired"));
            drop(lock);
        }
        assert_eq!(place.opened(), Some(place.path("db.repaired")), "locked: {locked}");
        assert_eq!(place.content("db").as_deref(), Some("new"));
        assert!(!place.is_marked("db"));
    }
    for (name, content) in [("LOCK", "mine"), ("mine", ""), ("CURRENT", "")] {
        let place = Place::killed_between();
        fs::create_dir(place.path("db")).unwrap();
        fs::write(place.path("db").join(name), content).unwrap();
        assert_eq!(place.opened(), None, "{name}");
        assert_eq!(fs::read_to_string(place.path("db").join(name)).unwrap(), content);
        assert!(place.is_marked("db.repaired"));
    }
}

#[test]
fn no_empty_database_begins_where_a_repair_was_killed() {
    let place = Place::killed_between();
    let refused = |path: &Path| {
        let error = Db::open(path, DbOptions::default()).unwrap_err();
        assert!(matches!(error, Error::NotADatabase { .. }), "{error}");
        let (text, names) = (error.to_string(), ["db.repaired ", "`tidesdb repair --db "]);
        assert!(names.iter().all(|name| text.contains(name)), "{text}");
    };
    let (dir, link) = (place.path("db"), place.path("elsewhere"));
    refused(&dir);
    assert!(!dir.exists());
    fs::create_dir(&dir).unwrap();
    symlink("db", &link).unwrap();
    for path in [&dir, &link] {
        refused(path);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "something was made");
    }
    fs::write(dir.join("LOCK"), "").unwrap();
    refused(&dir);
    place.mark_as("db.other");
    Db::open(&dir, DbOptions::default()).unwrap().close().unwrap();
}

/// The name of the database is the link's, and where it leads to nothing is at the moment.
#[test]
fn a_killed_repair_is_ended_where_a_link_leads() {
    let links = tempfile::tempdir().unwrap();
    for relative in [false, true] {
        let place = Place::killed_between();
        let link = links.path().join(if relative { "relative/link" } else { "link" });
        if relative {
            let name = place.parent.path().file_name().unwrap();
            fs::create_dir(links.path().join("relative")).unwrap();
            symlink(Path::new("../..").join(name).join("db"), &link).unwrap();
        } else {
            symlink(place.path("db"), links.path().join("second")).unwrap();
            symlink("second", &link).unwrap();
        }
        let finished = finish_on(&RealVfs::new(), &link.join("")).unwrap().unwrap();
        assert!(finished.ends_with("db.repaired"), "{finished:?}");
        assert_eq!(place.content("db").as_deref(), Some("new"), "relative: {relative}");
        assert!(RealVfs::link_target(&link).is_ok() && !place.is_marked("db"));
    }
    let nowhere = links.path().join("nowhere");
    symlink("nowhere", &nowhere).unwrap();
    assert_eq!(finish_on(&RealVfs::new(), &nowhere).unwrap(), None);
}

#[test]
fn names_that_are_no_utf_8_are_told_apart_by_their_bytes() {
    let name = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let place = Place::new(false);
    let dir = place.path(name(b"db\xff"));
    let (repaired, kept) = (sibling(&dir, REPAIRED), sibling(&dir, KEPT));
    fs::rename(place.path("db.repaired"), &repaired).unwrap();
    fs::rename(place.path("db"), &kept).unwrap();
    mark(&RealVfs::new(), &repaired, &kept, &|_| Ok(())).unwrap();
    // The same to who replaces what is not UTF-8.
    let other = place.path(name(b"db\xfe"));
    assert_eq!(finish_on(&RealVfs::new(), &other).unwrap(), None);
    fs::rename(&kept, sibling(&other, KEPT)).unwrap();
    assert_eq!(finish_on(&RealVfs::new(), &dir).unwrap(), None, "what the mark names is not there");
    fs::rename(sibling(&other, KEPT), &kept).unwrap();
    assert_eq!(finish_on(&RealVfs::new(), &dir).unwrap(), Some(repaired));
    assert!(dir.join("LOCK").exists() && !dir.join(MARK).exists());
    fs::write(dir.join(MARK), b"db\xfe.damaged").unwrap();
    killed_repair::forget(&RealVfs::new(), &dir);
    assert!(dir.join(MARK).exists(), "it is of another directory");
}

/// A file of the mark's name that says anything else is the user's.
#[test]
fn an_opening_removes_the_mark_of_a_repair_of_its_own_directory_alone() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, link) = (parent.path().join("db"), parent.path().join("link"));
    symlink(&dir, &link).unwrap();
    let open = |path: &Path, read_only| {
        Db::open(path, DbOptions::default().read_only(read_only)).unwrap().close().unwrap();
    };
    open(&dir, false);
    let path = dir.join(MARK);
    for (content, stays) in [
        ("mine", true),
        ("", true),
        ("other.damaged", true),
        ("db.damaged-x", true),
        ("db.damaged\n", true),
        ("db.damaged", false),
        ("db.damaged-7", false),
    ] {
        fs::write(&path, content).unwrap();
        open(&dir, true);
        assert!(path.exists(), "{content:?}: an opening for reading changes nothing");
        // By another name that the directory has, too.
        open(&link, false);
        assert_eq!(path.exists(), stays, "{content:?}");
    }
    // What is no database is not ours.
    let other = parent.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join(MARK), "other.damaged").unwrap();
    fs::write(other.join("mine"), "").unwrap();
    assert_eq!(finish_on(&RealVfs::new(), &other).unwrap(), None);
    Db::open(&other, DbOptions::default()).unwrap_err();
    assert_eq!(fs::read_dir(&other).unwrap().count(), 2);
}

#[test]
fn an_ordinary_opening_pays_for_one_look() {
    let place = Place::new(true);
    fs::write(place.path("db/CURRENT"), "").unwrap();
    place.vfs.record(true);
    assert_eq!(finish_on(place.vfs.as_ref(), &place.path("db")).unwrap(), None);
    let records = place.vfs.records();
    let [record] = &records[..] else { panic!("{records:?}") };
    assert_eq!((record.op, &*record.path), (Op::Open, &*place.path("db/CURRENT")));
}

/// There may be very many beside it.
#[test]
fn an_opening_that_creates_a_database_lists_no_others() {
    let place = Place::new(true);
    place.vfs.record(true);
    assert_eq!(killed_repair::find(place.vfs.as_ref(), &place.path("another")).unwrap(), None);
    let records = place.vfs.records();
    assert!(!records.is_empty() && records.iter().all(|it| it.op == Op::Open), "{records:?}");
}

/// Its repair failed between the look and the lock, and removes what it wrote.
#[test]
fn a_repaired_database_whose_mark_went_before_the_lock_was_free_gets_no_name() {
    let place = Place::killed_between();
    place.vfs.clear_faults();
    let repaired = place.path("db.repaired");
    place.vfs.before_calls(Some(Arc::new(move |op, _: &Path| {
        if op == Op::Lock {
            unmark(&RealVfs::new(), &repaired).unwrap();
        }
    })));
    assert_eq!(finish_on(place.vfs.as_ref(), &place.path("db")).unwrap(), None);
    assert!(!place.path("db").exists());
    assert_eq!(place.content("db.repaired").as_deref(), Some("new"));
}

/// The names of repairs are longer, and asking for one of them was an error.
#[test]
fn a_database_may_have_the_longest_name() {
    let directory = tempfile::tempdir().unwrap();
    for bytes in [243, 244, 247, 255] {
        let path = directory.path().join("n".repeat(bytes));
        Db::open(&path, DbOptions::default()).unwrap().close().unwrap();
        Db::open(&path, DbOptions::default()).unwrap().close().unwrap();
        assert_eq!(finish_on(&RealVfs::new(), &path).unwrap(), None);
    }
}
