//! Directories that other engines have written: refused by name, and not touched.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::fs;
use std::path::Path;

use crate::common_support::directory::{assert_unchanged, picture};
use crate::common_support::small::small_db;
use tidesdb::{Db, ErrorKind};

#[test]
fn databases_of_other_engines_are_named_and_left_alone() {
    let cases: [(&[&str], &[&str]); 5] = [
        (&["LOCK", "LOG", "default/config.ini", "default/wal_1.log"], &["default/config.ini"]),
        (&["LOCK", "uwal_3.log", "UNIMAP"], &["TidesDB's C library"]),
        (&["CURRENT", "MANIFEST-000004", "OPTIONS-000007", "LOCK"], &["OPTIONS-000007", "RocksDB"]),
        (&["CURRENT", "MANIFEST-000002", "000005.ldb", "000003.log"], &["000005.ldb", "LevelDB"]),
        (&["data.mdb", "lock.mdb"], &["data.mdb", "LMDB"]),
    ];
    for (files, words) in cases {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"MANIFEST-000004\n").unwrap();
        }
        assert_refused(directory.path(), words);
    }
}

/// Every opening names what was found, and leaves the directory as it is.
fn assert_refused(directory: &Path, words: &[&str]) {
    let before = picture(directory);
    for options in [small_db(), small_db().read_only(true)] {
        let error = Db::open(directory, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "{word:?} is missing in: {error}");
        }
        assert_unchanged(directory, &before);
    }
}

/// `fixtures/tidesdb-10.2.1`: written by that version. Some of its files alone as well, as a
/// process that died early leaves them, and beside a name of ours.
#[test]
fn databases_of_tidesdb_10_are_named_and_left_alone() {
    let written = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tidesdb-10.2.1");
    let all: Vec<_> = fs::read_dir(&written).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(all.len(), 5);
    let of_ours = ["LOCK", "CURRENT"];
    for left_out in all.iter().map(Some).chain([None]) {
        for added in of_ours.iter().map(Some).chain([None]) {
            let directory = tempfile::tempdir().unwrap();
            for name in all.iter().filter(|name| Some(*name) != left_out) {
                fs::copy(written.join(name), directory.path().join(name)).unwrap();
            }
            if let Some(name) = added {
                fs::write(directory.path().join(name), "MANIFEST-000004\n").unwrap();
            }
            assert_refused(directory.path(), &["TidesDB's C library", "version 10"]);
        }
    }
}

/// A volume of its own is no foreign directory: what its file system has in the root is not looked
/// at, and stays. A file of that name does count.
#[test]
fn the_root_of_a_new_volume_takes_a_database() {
    let directory = tempfile::tempdir().unwrap();
    let made_by_system = directory.path().join("lost+found");
    fs::write(&made_by_system, "mine").unwrap();
    assert_refused(directory.path(), &["lost+found"]);
    fs::remove_file(&made_by_system).unwrap();
    fs::create_dir(&made_by_system).unwrap();
    for _ in 0..2 {
        let db = Db::open(directory.path(), small_db()).unwrap();
        assert!(made_by_system.is_dir());
        db.close().unwrap();
    }
    fs::write(directory.path().join("notes"), "mine").unwrap();
    fs::remove_file(directory.path().join("CURRENT")).unwrap();
    assert!(Db::open(directory.path(), small_db()).is_err());
}
