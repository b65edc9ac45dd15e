//! Listeners that panic, and that use the database.

use super::*;

/// A listener that panics ended the call that it was called from, and a writer that had waited,
/// whose wait is reported as it ends, took the process.
#[test]
fn a_listener_may_panic() {
    let calls = Arc::new(AtomicU64::new(0));
    let called = Arc::clone(&calls);
    let fixture = Fixture::new();
    let listen = move |_: &Event| {
        called.fetch_add(1, Ordering::SeqCst);
        panic!("this panic is part of the test");
    };
    let db =
        fixture.open_with(DbOptions::default().stall_timeout_ms(5_000), EventListener::new(listen));
    let family = db.create_family("family", small()).unwrap();
    fixture.disk.stuck.store(true, Ordering::SeqCst);
    assert_eq!(write_until_refused(&family).kind(), ErrorKind::Stalled);
    // Also where the wait ends because the thread panics: two panics at once end the process.
    fixture.disk.panics.store(true, Ordering::SeqCst);
    fixture.clock.advance(Duration::from_secs(60));
    let died = catch_unwind(AssertUnwindSafe(|| family.put(b"key", b"value")));
    assert!(died.is_err(), "nothing was put to the test");
    fixture.disk.panics.store(false, Ordering::SeqCst);
    fixture.disk.stuck.store(false, Ordering::SeqCst);
    family.put(b"key", b"value").unwrap();
    assert!(calls.load(Ordering::SeqCst) > 1);
    db.close().unwrap();
}

/// It reads, scans and writes, asks for statistics, and is not called within itself.
#[test]
fn a_listener_may_use_the_database() {
    let place: Arc<Mutex<Option<(Db, Family)>>> = Arc::default();
    let (used, depth) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (mine, count, deep) = (Arc::clone(&place), Arc::clone(&used), Arc::clone(&depth));
    let listen = move |_: &Event| {
        assert_eq!(deep.fetch_add(1, Ordering::SeqCst), 0, "called within itself");
        let (db, family) = mine.lock().unwrap().clone().unwrap();
        assert_eq!(family.get(&0_u64.to_be_bytes()).unwrap(), Some(vec![7; 200]));
        assert!(family.scan(ScanOptions::new()).unwrap().entries().next().is_some());
        let log = db.open_family("log", small()).unwrap();
        log.put(&db.stats().stall_nanos.to_be_bytes(), b"seen").unwrap();
        count.fetch_add(1, Ordering::SeqCst);
        deep.fetch_sub(1, Ordering::SeqCst);
    };
    let fixture = Fixture::new();
    let db =
        fixture.open_with(DbOptions::default().stall_timeout_ms(5_000), EventListener::new(listen));
    let family = db.create_family("family", small()).unwrap();
    *place.lock().unwrap() = Some((db.clone(), family.clone()));
    fixture.disk.stuck.store(true, Ordering::SeqCst);
    assert_eq!(write_until_refused(&family).kind(), ErrorKind::Stalled);
    fixture.disk.stuck.store(false, Ordering::SeqCst);
    family.put(b"key", b"value").unwrap();
    assert!(used.load(Ordering::SeqCst) > 0 && depth.load(Ordering::SeqCst) == 0);
    assert!(db.family("log").unwrap().scan(ScanOptions::new()).unwrap().entries().count() > 0);
    place.lock().unwrap().take();
    db.close().unwrap();
}
