use tidesdb_base::error::ErrorKind;
use tidesdb_base::options::{DbOptions, FamilyOptions};

use crate::db::{Components, Db};
use crate::handles::Family;
use crate::write::{WriteBatch, WriteOptions};

/// A family whose writers are slowed down by compactions that are behind.
fn slowed(db: &Db, name: &str) -> Family {
    let options = FamilyOptions::default().write_buffer_size(64 << 10).l1_file_count_trigger(2);
    let family = db.create_family(name, options).unwrap();
    for n in 0_u64..12_000 {
        family.put(&n.to_be_bytes(), &[7; 100]).unwrap();
    }
    family.flush().unwrap();
    family
}

/// A batch that the second family refused kept what the first had let it take, each time.
#[test]
fn a_batch_that_one_family_refuses_takes_nothing_from_the_others() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    db.stop_compactions().unwrap();
    let (first, second) = (slowed(&db, "first"), slowed(&db, "second"));
    let no_wait = WriteOptions::new().no_wait(true);
    let put = |family: &Family, n: u64| family.put_with(n.to_be_bytes(), [8; 100], no_wait);
    // The second has no lump left, and the first has one.
    assert!((0..10_000).any(|n| put(&second, n).is_err()));
    let pacer = &first.state().writes.flow.pacer;
    while pacer.granted_bytes() < 1000 {
        pacer.refill(1 << 20, 1 << 20, 0);
    }
    let (before, all) = (pacer.granted_bytes(), db.core().flow.pacer.granted_bytes());
    let mut batch = WriteBatch::new();
    for family in [&first, &second] {
        batch.put(family, b"key", [9; 100]).unwrap();
    }
    for _ in 0..100 {
        assert_eq!(db.write_with(&batch, no_wait).unwrap_err().kind(), ErrorKind::Stalled);
    }
    assert_eq!((pacer.granted_bytes(), db.core().flow.pacer.granted_bytes()), (before, all));
}
