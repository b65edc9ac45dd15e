//! Commits that are refused where they would have to wait.

use tidesdb::{IsolationLevel, WriteBatch, WriteOptions};

use super::*;

fn no_wait() -> WriteOptions {
    WriteOptions::new().no_wait(true)
}

#[test]
fn a_commit_that_is_not_to_wait_for_a_flush_is_refused_at_once() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default());
    let family = db.create_family("family", small()).unwrap();
    fixture.disk.stuck.store(true, Ordering::SeqCst);
    let before = fixture.clock.monotonic_nanos();
    let put = |n: u64| family.put_with(n.to_be_bytes(), [7; 200], no_wait()).err();
    let (refused, error) = (0..100_000).find_map(|n| put(n).map(|error| (n, error))).unwrap();
    assert!(matches!(error, Error::Stalled { milliseconds: 0, .. }), "{error}");
    assert_eq!(family.get(refused.to_be_bytes()).unwrap(), None);
    let mut batch = WriteBatch::new();
    batch.put(&family, b"in a batch", [7; 200]).unwrap();
    assert_eq!(db.write_with(&batch, no_wait()).unwrap_err().kind(), ErrorKind::Stalled);
    let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
    transaction.put(&family, b"in a transaction", [7; 200]).unwrap();
    assert_eq!(transaction.commit_with(no_wait()).unwrap_err().kind(), ErrorKind::Stalled);
    assert_eq!(family.get(b"in a batch").unwrap(), None);
    assert_eq!((fixture.clock.monotonic_nanos(), db.stats().stall_nanos), (before, 0));
    // None of them has any effect, and each is let in once the disk takes something.
    fixture.disk.stuck.store(false, Ordering::SeqCst);
    fixture.disk.inner.run_until_idle();
    db.write_with(&batch, no_wait()).unwrap();
    transaction.commit_with(no_wait()).unwrap();
    for key in [&b"in a batch"[..], b"in a transaction"] {
        assert_eq!(family.get(key).unwrap(), Some(vec![7; 200]));
    }
    db.close().unwrap();
}

#[test]
fn a_commit_that_is_not_to_be_slowed_is_let_in_when_its_turn_has_come() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default());
    let family = db.create_family("family", small().l1_file_count_trigger(2)).unwrap();
    db.stop_compactions().unwrap();
    for n in 0_u64..12_000 {
        family.put(n.to_be_bytes(), [7; 100]).unwrap();
    }
    family.flush().unwrap();
    let put = |n: u64| family.put_with(n.to_be_bytes(), [8; 100], no_wait()).err();
    let before = fixture.clock.monotonic_nanos();
    for _ in 0..5 {
        let error = (0..10_000).find_map(put).unwrap();
        let slowed = StallReason::CompactionDebt;
        assert!(matches!(error, Error::Stalled { reason, .. } if reason == slowed), "{error}");
    }
    assert_eq!(fixture.clock.monotonic_nanos(), before);
    fixture.clock.advance(Duration::from_millis(100));
    assert!(put(0).is_none());
    assert_eq!(family.get(0_u64.to_be_bytes()).unwrap(), Some(vec![8; 100]));
}
