//! Large values of commits that are called off, and scans that have read them ahead.

use std::cell::RefCell;
use std::rc::Rc;

use tidesdb_base::compress::Compression;

use super::*;

/// Long enough to go to a value log at once, and short enough to be compressed there.
fn value(byte: u8) -> Vec<u8> {
    vec![byte; 1 << 20]
}

/// The scan kept the value of the commit that was called off, and showed it for the next commit,
/// which took its place in the value log.
#[test]
fn a_scan_shows_nothing_that_it_has_read_ahead_of_a_commit_that_was_called_off() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let options = FamilyOptions::default().compression(Compression::Zstd);
    let family = db.create_family("large", options).unwrap();
    for n in 0..3 {
        family.put([n], value(n)).unwrap();
    }
    let mut scan = family.scan(ScanOptions::new()).unwrap();
    scan.seek_to_first().unwrap();
    assert_eq!(scan.value().unwrap(), value(0));
    scan.next().unwrap();
    let scan = Rc::new(RefCell::new(scan));
    let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
    transaction.put(&family, [3], value(0xaa)).unwrap();
    family.put([9], "").unwrap();
    let (mut looks, other, reader) = (0, family.clone(), Rc::clone(&scan));
    steps::put(&steps::BEFORE_A_VIEW, move || {
        looks += 1;
        match looks {
            1 => other.put([3], "theirs").unwrap(),
            // The second look: the value lies in the log.
            _ => assert_eq!(reader.borrow().value().unwrap(), value(1)),
        }
    });
    let refused = transaction.commit();
    steps::remove(&steps::BEFORE_A_VIEW);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
    family.put([3], value(0xbb)).unwrap();
    let mut scan = Rc::into_inner(scan).unwrap().into_inner();
    scan.refresh().unwrap();
    scan.seek([3]).unwrap();
    assert!(scan.value().unwrap() == value(0xbb), "found {}", scan.value().unwrap()[0]);
}
