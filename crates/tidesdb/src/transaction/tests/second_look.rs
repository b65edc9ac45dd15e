//! Many reads, and what comes in while a serializable commit looks at them.

use super::*;

const KEYS: u64 = 5_000;

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// One transaction reads all keys of `a` and writes in `b`. While it commits, others change a key
/// of `a`, having read what it writes: no order of the two explains both.
fn commit_beside(
    read: impl Fn(&mut Transaction, &Family),
    changed: u64,
    filler_bytes: usize,
) -> Result<()> {
    let (db, families) = open(&SimVfs::new(1), SyncMode::None);
    let mut batch = WriteBatch::new();
    (0..KEYS).for_each(|n| batch.put(&families[0], &key(n), b"old").unwrap());
    batch.put(&families[1], b"written", b"old").unwrap();
    db.write(&batch).unwrap();
    // Not alone: else the first look is left out.
    let oldest = db.begin(IsolationLevel::Serializable).unwrap();
    families[2].put(b"unrelated", b"").unwrap();
    let mut long = db.begin(IsolationLevel::Serializable).unwrap();
    read(&mut long, &families[0]);
    long.put(&families[1], b"written", b"new").unwrap();
    families[2].put(b"unrelated", b"").unwrap();
    let (other, [a, b, c]) = (db.clone(), [0, 1, 2].map(|n| families[n].clone()));
    let mut first = true;
    steps::put(&steps::BEFORE_A_VIEW, move || {
        if !std::mem::take(&mut first) {
            return;
        }
        let mut transaction = other.begin(IsolationLevel::Serializable).unwrap();
        transaction.get(&b, b"written").unwrap();
        transaction.put(&a, &key(changed), b"new").unwrap();
        transaction.commit().unwrap();
        c.put(b"filler", &vec![7; filler_bytes]).unwrap();
    });
    let committed = long.commit();
    steps::remove(&steps::BEFORE_A_VIEW);
    drop(oldest);
    committed.map(|_| ())
}

fn by_points(transaction: &mut Transaction, family: &Family) {
    for n in 0..KEYS {
        assert!(transaction.contains(family, key(n)).unwrap());
    }
}

fn by_range(transaction: &mut Transaction, family: &Family) {
    let scan = transaction.scan(family, ScanOptions::new()).unwrap();
    assert_eq!(scan.entries().count() as u64, KEYS);
}

#[test]
fn a_change_during_the_first_look_at_many_reads_is_found_by_the_second() {
    // Little is logged meanwhile, or more than is read back, or other segments.
    for filler_bytes in [10, 20_000, 300_000] {
        for changed in [0, KEYS / 2, KEYS - 1] {
            let points = commit_beside(by_points, changed, filler_bytes);
            let range = commit_beside(by_range, changed, filler_bytes);
            for (what, committed) in [("points", points), ("range", range)] {
                let error = committed.expect_err("the change was missed");
                assert_eq!(error.kind(), ErrorKind::Conflict, "{what}: {error}");
            }
        }
    }
}

#[test]
fn a_change_of_what_was_not_read_is_no_conflict() {
    for filler_bytes in [10, 20_000, 300_000] {
        let changed = KEYS + 7;
        commit_beside(by_points, changed, filler_bytes).unwrap();
    }
}
