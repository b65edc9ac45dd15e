//! Range deletions that leave nothing in the tables, and transactions that are older.

use tidesdb::IsolationLevel::{Serializable, Snapshot};
use tidesdb::{ScanOptions, WriteBatch};

use super::common::{Place, is_conflict, place, small};

/// How a key that was put goes again: by its own deletion, or with its range; and what else is
/// done before, in between and afterwards.
const WAYS: [[&str; 4]; 6] = [
    ["", "", "point", ""],
    ["", "", "point", "flush"],
    ["", "", "range", ""],
    ["", "", "range", "flush"],
    ["", "flush", "range", "compact"],
    ["flush", "flush", "range", "compact"],
];

impl Place {
    fn act(&self, what: &str) {
        match what {
            "flush" => self.family.flush().unwrap(),
            "compact" => self.family.compact().unwrap(),
            "point" => self.family.delete("k").unwrap(),
            "range" => self.family.delete_range("j", "l").unwrap(),
            _ => {}
        }
    }
}

/// The key was not there before and is not there now. No serial order explains a commit: by its
/// read of `x` the transaction precedes the batch, and its value of `k`, which would be there at
/// the end, must follow the deletion.
#[test]
fn a_written_key_has_changed_although_flushes_and_compactions_leave_nothing_of_it() {
    for level in [Snapshot, Serializable] {
        for way in WAYS {
            let place = place();
            place.family.put("x", "old").unwrap();
            place.act(way[0]);
            let mut transaction = place.db.begin(level).unwrap();
            assert_eq!(transaction.get(&place.family, "x").unwrap(), Some(b"old".to_vec()));
            transaction.put(&place.family, "k", "mine").unwrap();
            let mut beside = place.db.begin(level).unwrap();
            beside.put(&place.family, "l", "mine").unwrap();
            let mut batch = WriteBatch::new();
            batch.put(&place.family, "x", "new").unwrap();
            batch.put(&place.family, "k", "theirs").unwrap();
            place.db.write(&batch).unwrap();
            place.act(way[1]);
            place.act(way[2]);
            place.act(way[3]);
            assert!(is_conflict(transaction.commit()), "{level:?} {way:?}");
            beside.commit().unwrap();
        }
    }
}

/// The reader does not find the key that the pivot puts, whether it gets or scans. That the reader
/// precedes the deletion shows only in `other`, a family that is never flushed.
#[test]
fn a_key_that_came_and_went_completes_a_dangerous_structure() {
    for by_scan in [false, true] {
        for way in WAYS {
            let place = place();
            let other = place.db.create_family("other", small()).unwrap();
            place.family.put("x", "0").unwrap();
            other.put("y", "0").unwrap();
            place.act(way[0]);
            let mut pivot = place.db.begin(Serializable).unwrap();
            assert_eq!(pivot.get(&place.family, "x").unwrap(), Some(b"0".to_vec()));
            place.family.put("x", "1").unwrap();
            let mut reader = place.db.begin(Serializable).unwrap();
            assert_eq!(reader.get(&place.family, "x").unwrap(), Some(b"1".to_vec()));
            assert_eq!(reader.get(&other, "y").unwrap(), Some(b"0".to_vec()));
            if by_scan {
                let options = ScanOptions::new().range("k"..="k");
                assert_eq!(reader.scan(&place.family, options).unwrap().entries().count(), 0);
            } else {
                assert_eq!(reader.get(&place.family, "k").unwrap(), None);
            }
            pivot.put(&place.family, "k", "1").unwrap();
            pivot.commit().unwrap();
            place.act(way[1]);
            // The reader comes before this and behind the pivot, so that the key was there.
            let mut batch = WriteBatch::new();
            batch.put(&other, "y", "1").unwrap();
            match way[2] {
                "point" => batch.delete(&place.family, "k").unwrap(),
                _ => batch.delete_range(&place.family, "j", "l").unwrap(),
            }
            place.db.write(&batch).unwrap();
            place.act(way[3]);
            assert!(is_conflict(reader.commit()), "by scan: {by_scan}, {way:?}");
        }
    }
}
