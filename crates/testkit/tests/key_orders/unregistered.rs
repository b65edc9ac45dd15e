//! Orders of the application: families that wait for theirs, and functions that are no order.

use std::cmp::Ordering;
use std::sync::Arc;

use tidesdb::{
    Components, Db, DbOptions, Error, ErrorKind, FamilyOptions, KeyOrder, KeyOrders, ScanOptions,
};
use tidesdb_sim::{CrashProfile, ManualClock, ManualScheduler, SimVfs};

fn by_length(one: &[u8], other: &[u8]) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

fn open(sim: &Arc<SimVfs>, key_orders: KeyOrders) -> Db {
    let components = Components {
        vfs: sim.clone(),
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1000)),
    };
    Db::open_with("/db", DbOptions::default().key_orders(key_orders), components).unwrap()
}

fn registered() -> KeyOrders {
    let mut orders = KeyOrders::default();
    orders.register("length", Arc::new(by_length)).unwrap();
    orders
}

fn options() -> FamilyOptions {
    FamilyOptions::default().key_order(KeyOrder::Custom("length".to_owned()))
}

fn keys(db: &Db) -> Vec<Vec<u8>> {
    let scan = db.family("x").unwrap().scan(ScanOptions::new()).unwrap();
    scan.entries().map(|entry| entry.unwrap().0).collect()
}

fn is_unregistered<T>(result: Result<T, Error>) -> bool {
    matches!(&result.err(), Some(Error::KeyOrderNotRegistered { family, order })
        if family == "x" && order == "length")
}

/// A database of a family in the application's order, with data in tables and in the log, and
/// another family.
fn filled(sim: &Arc<SimVfs>) {
    let db = open(sim, registered());
    let family = db.create_family("x", options()).unwrap();
    let other = db.create_family("other", FamilyOptions::default()).unwrap();
    family.put(b"ccc", b"1").unwrap();
    family.put(b"gone", b"2").unwrap();
    family.flush().unwrap();
    family.put(b"zz", b"3").unwrap();
    family.delete(b"gone").unwrap();
    other.put(b"k", b"v").unwrap();
}

#[test]
fn a_family_waits_for_its_order_and_loses_nothing() {
    let sim = SimVfs::new(1);
    filled(&sim);
    // Of the log some is not replayed into tables in any of these openings.
    let db = open(&sim, KeyOrders::default());
    assert_eq!(db.family_names(), ["other", "x"]);
    let other = db.family("other").unwrap();
    assert_eq!(other.get(b"k").unwrap(), Some(b"v".to_vec()));
    assert!(is_unregistered(db.family("x")));
    assert!(is_unregistered(db.open_family("x", FamilyOptions::default())));
    assert!(is_unregistered(db.ensure_family("x", FamilyOptions::default())));
    assert!(is_unregistered(db.clone_family("x", "copy")));
    assert!(matches!(db.create_family("x", options()), Err(Error::FamilyExists(_))));
    let wrong = db.create_family("new", options());
    assert!(matches!(wrong, Err(Error::KeyOrderNotRegistered { .. })));
    other.put(b"k2", b"v").unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let db = open(&sim, KeyOrders::default());
    assert!(is_unregistered(db.family("x")));
    db.register_key_order("length", by_length).unwrap();
    assert_eq!(keys(&db), [b"zz".to_vec(), b"ccc".to_vec()]);
    assert_eq!(db.register_key_order("length", by_length).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn what_a_crash_leaves_in_the_log_is_there_once_the_order_is_registered() {
    let sim = SimVfs::new(2);
    filled(&sim);
    let db = open(&sim, registered());
    db.family("x").unwrap().put(b"a", b"4").unwrap();
    db.sync_log().unwrap();
    for (seed, profile) in (0..).zip(CrashProfile::ALL) {
        let image = sim.crash_image(profile, seed);
        for crash_again in [false, true] {
            let first = open(&image, KeyOrders::default());
            assert!(is_unregistered(first.family("x")));
            if crash_again {
                first.family("other").unwrap().put(b"more", b"v").unwrap();
            }
            drop(first);
        }
        let image = image.crash_image(profile, seed);
        assert_eq!(keys(&open(&image, registered())), [b"a".to_vec(), b"zz".into(), b"ccc".into()]);
    }
}

#[test]
fn functions_that_are_no_order_are_errors_of_scans_and_of_nothing_else() {
    let db = open(&SimVfs::new(3), KeyOrders::default());
    db.register_key_order("panics", |_, _| panic!("by the application")).unwrap();
    db.register_key_order("rock paper scissors", |one, other| {
        (one.len() % 3).cmp(&((other.len() + 1) % 3)).then(Ordering::Less)
    })
    .unwrap();
    for name in ["panics", "rock paper scissors"] {
        let order = KeyOrder::Custom(name.to_owned());
        let family = db.create_family(name, FamilyOptions::default().key_order(order)).unwrap();
        for n in 0..200_usize {
            family.put("k".repeat(n + 1).as_bytes(), b"v").unwrap();
        }
        assert_eq!(family.get(b"kkk").unwrap(), Some(b"v".to_vec()));
        let mut scan = family.scan(ScanOptions::new()).unwrap();
        match scan.seek_to_first() {
            Ok(()) => assert!(family.scan(ScanOptions::new()).unwrap().entries().count() <= 200),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid),
        }
        let _ = (scan.seek(b"kk"), scan.next(), scan.seek_for_prev(b"k"), scan.prev());
        family.delete(b"kkk").unwrap();
        assert!(!family.contains(b"kkk").unwrap());
        family.flush().unwrap();
        family.compact().unwrap();
    }
}

#[test]
fn the_order_of_a_family_stays() {
    let db = open(&SimVfs::new(4), KeyOrders::default());
    let reverse = FamilyOptions::default().key_order(KeyOrder::Reverse);
    let family = db.create_family("x", reverse.clone()).unwrap();
    assert_eq!(
        family.set_options(FamilyOptions::default()).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    assert!(db.ensure_family("x", FamilyOptions::default()).is_err());
    db.ensure_family("x", reverse.block_size(512)).unwrap();
    assert_eq!(db.clone_family("x", "copy").unwrap().options().key_order, KeyOrder::Reverse);
}
