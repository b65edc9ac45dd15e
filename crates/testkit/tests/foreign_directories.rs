//! Directories that other engines have written: refused by name, and not touched.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

#[path = "common_support/directory.rs"]
#[allow(dead_code, reason = "a part is used here")]
mod directory;
#[path = "common_support/small.rs"]
#[allow(dead_code, reason = "a part is used here")]
mod small;

use std::fs;

use directory::{assert_unchanged, picture};
use small::small_db;
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
        let before = picture(directory.path());
        for options in [small_db(), small_db().read_only(true)] {
            let error = Db::open(directory.path(), options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            for word in words {
                assert!(error.to_string().contains(word), "{word:?} is missing in: {error}");
            }
            assert_unchanged(directory.path(), &before);
        }
    }
}
