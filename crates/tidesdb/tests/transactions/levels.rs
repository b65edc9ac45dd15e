//! What each isolation level forbids and what it allows.

use super::common::{LEVELS, Place, is_conflict, place};
use tidesdb::IsolationLevel::{
    ReadCommitted, ReadUncommitted, RepeatableRead, Serializable, Snapshot,
};
use tidesdb::{ScanOptions, Transaction, WriteBatch};

fn text(transaction: &Transaction, place: &Place, key: &str) -> Option<String> {
    let value = transaction.get(&place.family, key.as_bytes()).unwrap();
    value.map(|value| String::from_utf8(value).unwrap())
}

fn keys(transaction: &Transaction, place: &Place) -> Vec<String> {
    let scan = transaction.scan(&place.family, ScanOptions::new()).unwrap();
    scan.entries().map(|entry| String::from_utf8(entry.unwrap().0).unwrap()).collect()
}

#[test]
fn uncommitted_writes_are_seen_by_no_other_transaction_at_any_level() {
    let place = place();
    for level in LEVELS {
        let mut writer = place.db.begin(level).unwrap();
        writer.put(&place.family, b"k", b"dirty").unwrap();
        for other in LEVELS {
            let mut reader = place.db.begin(other).unwrap();
            assert_eq!(text(&reader, &place, "k"), None);
            assert!(keys(&reader, &place).is_empty());
            reader.commit().unwrap();
        }
        assert_eq!(place.family.get(b"k").unwrap(), None);
        writer.rollback().unwrap();
        assert_eq!(place.family.get(b"k").unwrap(), None);
    }
}

#[test]
fn each_level_reads_the_moment_that_it_says() {
    for level in LEVELS {
        let place = place();
        place.family.put(b"k", b"old").unwrap();
        let transaction = place.db.begin(level).unwrap();
        let mut scan = transaction.scan(&place.family, ScanOptions::new()).unwrap();
        place.family.put(b"k", b"new").unwrap();
        place.family.put(b"l", b"new").unwrap();
        let fixed = level >= RepeatableRead;
        let wanted = if fixed { "old" } else { "new" };
        assert_eq!(text(&transaction, &place, "k").as_deref(), Some(wanted), "{level:?}");
        assert_eq!(keys(&transaction, &place).len(), if fixed { 1 } else { 2 }, "{level:?}");
        // An older iterator moves at the lowest level only.
        scan.seek_to_first().unwrap();
        let wanted: &[u8] = if level == ReadUncommitted { b"new" } else { b"old" };
        assert_eq!(scan.value().unwrap(), wanted, "{level:?}");
    }
}

#[test]
fn snapshots_survive_flush_and_compaction() {
    for level in [RepeatableRead, Snapshot, Serializable] {
        let place = place();
        for n in 0..500u32 {
            place.family.put(format!("{n:04}").as_bytes(), b"old").unwrap();
        }
        let transaction = place.db.begin(level).unwrap();
        for n in 0..500u32 {
            let key = format!("{n:04}");
            if n.is_multiple_of(3) {
                place.family.delete(key.as_bytes()).unwrap();
            } else {
                place.family.put(key.as_bytes(), b"new").unwrap();
            }
        }
        place.family.compact().unwrap();
        let scan = transaction.scan(&place.family, ScanOptions::new()).unwrap();
        assert!(scan.entries().all(|entry| entry.unwrap().1 == b"old"));
        assert_eq!(keys(&transaction, &place).len(), 500);
    }
}

/// Both read the counter, both add one.
fn lost_update(place: &Place, level: tidesdb::IsolationLevel) -> bool {
    place.family.put(b"counter", b"0").unwrap();
    let mut first = place.db.begin(level).unwrap();
    let mut second = place.db.begin(level).unwrap();
    assert_eq!(text(&first, place, "counter"), text(&second, place, "counter"));
    first.put(&place.family, b"counter", b"first").unwrap();
    second.put(&place.family, b"counter", b"second").unwrap();
    first.commit().unwrap();
    !is_conflict(second.commit())
}

#[test]
fn lost_updates_happen_below_repeatable_read_only() {
    let place = place();
    for level in LEVELS {
        assert_eq!(lost_update(&place, level), level < RepeatableRead, "{level:?}");
    }
}

#[test]
fn blind_writes_collide_from_snapshot_on() {
    for level in LEVELS {
        let place = place();
        let mut first = place.db.begin(level).unwrap();
        let mut second = place.db.begin(level).unwrap();
        first.put(&place.family, b"k", b"first").unwrap();
        second.put(&place.family, b"k", b"second").unwrap();
        first.commit().unwrap();
        assert_eq!(is_conflict(second.commit()), level >= Snapshot, "{level:?}");
    }
}

#[test]
fn two_who_found_a_key_absent_both_insert_it_up_to_repeatable_read() {
    for level in LEVELS {
        let place = place();
        let mut first = place.db.begin(level).unwrap();
        let mut second = place.db.begin(level).unwrap();
        assert_eq!(text(&first, &place, "k").or(text(&second, &place, "k")), None);
        first.put(&place.family, b"k", b"first").unwrap();
        second.put(&place.family, b"k", b"second").unwrap();
        second.commit().unwrap();
        assert_eq!(is_conflict(first.commit()), level >= Snapshot, "{level:?}");
    }
}

#[test]
fn repeatable_read_minds_changes_of_what_it_read_even_if_it_wrote_nothing() {
    for writes in [false, true] {
        for by_scan in [false, true] {
            let place = place();
            place.family.put(b"k", b"old").unwrap();
            let mut transaction = place.db.begin(RepeatableRead).unwrap();
            if by_scan {
                assert_eq!(keys(&transaction, &place), ["k"]);
            } else {
                assert!(text(&transaction, &place, "k").is_some());
            }
            if writes {
                transaction.put(&place.family, b"other", b"x").unwrap();
            }
            place.family.put(b"k", b"new").unwrap();
            assert!(is_conflict(transaction.commit()), "writes {writes}, scan {by_scan}");
            assert_eq!(place.family.get(b"other").unwrap(), None);
        }
    }
}

#[test]
fn repeatable_read_lets_phantoms_through() {
    let place = place();
    place.family.put(b"a", b"1").unwrap();
    let mut transaction = place.db.begin(RepeatableRead).unwrap();
    assert_eq!(keys(&transaction, &place), ["a"]);
    place.family.put(b"b", b"phantom").unwrap();
    transaction.put(&place.family, b"c", b"sum").unwrap();
    transaction.commit().unwrap();
}

#[test]
fn untracked_reads_leave_no_trace() {
    for level in [RepeatableRead, Serializable] {
        let place = place();
        place.family.put(b"x", b"0").unwrap();
        place.family.put(b"y", b"0").unwrap();
        let mut first = place.db.begin(level).unwrap();
        let mut second = place.db.begin(level).unwrap();
        assert!(first.get_untracked(&place.family, b"x").unwrap().is_some());
        assert!(first.contains(&place.family, b"x").unwrap());
        assert!(second.get_untracked(&place.family, b"y").unwrap().is_some());
        first.put(&place.family, b"y", b"1").unwrap();
        second.put(&place.family, b"x", b"1").unwrap();
        first.commit().unwrap();
        second.commit().unwrap();
    }
}

/// Each reads what the other writes. True when both commit.
fn write_skew(place: &Place, level: tidesdb::IsolationLevel) -> bool {
    place.family.put(b"x", b"0").unwrap();
    place.family.put(b"y", b"0").unwrap();
    let mut first = place.db.begin(level).unwrap();
    let mut second = place.db.begin(level).unwrap();
    for key in ["x", "y"] {
        assert_eq!(text(&first, place, key), text(&second, place, key));
    }
    first.put(&place.family, b"x", b"1").unwrap();
    second.put(&place.family, b"y", b"1").unwrap();
    first.commit().unwrap();
    !is_conflict(second.commit())
}

#[test]
fn write_skew_happens_at_snapshot_and_not_where_reads_count() {
    let place = place();
    for level in LEVELS {
        let allowed = level != RepeatableRead && level != Serializable;
        assert_eq!(write_skew(&place, level), allowed, "{level:?}");
    }
}

#[test]
fn serializable_transactions_see_no_phantoms() {
    for backwards in [false, true] {
        for through_tables in [false, true] {
            let place = place();
            for key in [b"b", b"d", b"f"] {
                place.family.put(key, b"1").unwrap();
            }
            // Each counts the keys below `e` and adds one of them that the other did not see.
            let mut first = place.db.begin(Serializable).unwrap();
            let mut second = place.db.begin(Serializable).unwrap();
            for transaction in [&first, &second] {
                let options = ScanOptions::new().upper(b"e");
                let mut scan = transaction.scan(&place.family, options).unwrap();
                let mut count = 0;
                if backwards {
                    scan.seek_to_last().unwrap();
                } else {
                    scan.seek(b"a").unwrap();
                }
                while scan.valid() {
                    count += 1;
                    if backwards { scan.prev().unwrap() } else { scan.next().unwrap() }
                }
                assert_eq!(count, 2);
            }
            first.put(&place.family, b"c", b"1").unwrap();
            second.put(&place.family, b"a", b"1").unwrap();
            first.commit().unwrap();
            if through_tables {
                place.family.compact().unwrap();
            }
            assert!(is_conflict(second.commit()), "backwards {backwards}");
        }
    }
}

#[test]
fn keys_beside_a_scanned_range_do_not_collide() {
    let place = place();
    place.family.put(b"b", b"1").unwrap();
    place.family.put(b"m", b"1").unwrap();
    let mut first = place.db.begin(Serializable).unwrap();
    let mut second = place.db.begin(Serializable).unwrap();
    let mut scan = first.scan(&place.family, ScanOptions::new().upper(b"c")).unwrap();
    scan.seek_to_first().unwrap();
    scan.next().unwrap();
    assert!(!scan.valid());
    drop(scan);
    let mut scan = second.scan(&place.family, ScanOptions::new().lower(b"k")).unwrap();
    scan.seek(b"l").unwrap();
    assert_eq!(scan.key(), b"m");
    drop(scan);
    first.put(&place.family, b"n", b"1").unwrap();
    second.put(&place.family, b"c", b"1").unwrap();
    first.commit().unwrap();
    second.commit().unwrap();
}

/// Fekete, O'Neil and O'Neil's report: the batch is closed, a receipt still goes into it, and a
/// reader sees the one without the other.
#[test]
fn the_read_only_anomaly_is_prevented() {
    let place = place();
    place.family.put(b"batch", b"1").unwrap();
    place.family.put(b"receipts-1", b"none").unwrap();
    let mut receipt = place.db.begin(Serializable).unwrap();
    assert_eq!(text(&receipt, &place, "batch").as_deref(), Some("1"));
    let mut close = place.db.begin(Serializable).unwrap();
    assert_eq!(text(&close, &place, "batch").as_deref(), Some("1"));
    close.put(&place.family, b"batch", b"2").unwrap();
    close.commit().unwrap();
    let mut report = place.db.begin(Serializable).unwrap();
    assert_eq!(text(&report, &place, "batch").as_deref(), Some("2"));
    assert_eq!(text(&report, &place, "receipts-1").as_deref(), Some("none"));
    report.commit().unwrap();
    receipt.put(&place.family, b"receipts-1", b"late").unwrap();
    assert!(is_conflict(receipt.commit()), "the report has seen the batch closed without it");
}

#[test]
fn a_reader_that_would_tell_of_the_anomaly_is_refused_when_it_commits_last() {
    let place = place();
    place.family.put(b"batch", b"1").unwrap();
    place.family.put(b"receipts-1", b"none").unwrap();
    let mut receipt = place.db.begin(Serializable).unwrap();
    assert_eq!(text(&receipt, &place, "batch").as_deref(), Some("1"));
    let mut close = place.db.begin(Serializable).unwrap();
    assert_eq!(text(&close, &place, "batch").as_deref(), Some("1"));
    close.put(&place.family, b"batch", b"2").unwrap();
    close.commit().unwrap();
    let mut report = place.db.begin(Serializable).unwrap();
    assert_eq!(text(&report, &place, "batch").as_deref(), Some("2"));
    receipt.put(&place.family, b"receipts-1", b"late").unwrap();
    receipt.commit().unwrap();
    assert_eq!(text(&report, &place, "receipts-1").as_deref(), Some("none"));
    assert!(is_conflict(report.commit()));
}

#[test]
fn a_chain_without_a_cycle_commits() {
    // The first reads what the second overwrites, and that is all: first before second.
    let place = place();
    place.family.put(b"x", b"0").unwrap();
    let mut first = place.db.begin(Serializable).unwrap();
    let mut second = place.db.begin(Serializable).unwrap();
    assert!(text(&first, &place, "x").is_some());
    second.put(&place.family, b"x", b"1").unwrap();
    second.commit().unwrap();
    first.put(&place.family, b"y", b"1").unwrap();
    first.commit().unwrap();
    assert_eq!(place.db.transaction_stats().serialization_conflicts, 0);
}

#[test]
fn plain_puts_and_batches_count_at_every_level_that_checks() {
    for by_batch in [false, true] {
        for level in [Snapshot, Serializable] {
            for through in ["memtable", "flush", "compact"] {
                let place = place();
                place.family.put(b"k", b"0").unwrap();
                let mut transaction = place.db.begin(level).unwrap();
                transaction.put(&place.family, b"k", b"mine").unwrap();
                if by_batch {
                    let mut batch = WriteBatch::new();
                    batch.delete(&place.family, b"k").unwrap();
                    place.db.write(&batch).unwrap();
                } else {
                    place.family.put(b"k", b"theirs").unwrap();
                }
                match through {
                    "flush" => place.family.flush().unwrap(),
                    "compact" => place.family.compact().unwrap(),
                    _ => {}
                }
                assert!(is_conflict(transaction.commit()), "{level:?} {through}");
                // The same again: it has not become a commit of its own meanwhile.
                assert!(is_conflict(transaction.commit()), "{level:?} {through}");
                transaction.rollback().unwrap();
                transaction.reset(level).unwrap();
                transaction.put(&place.family, b"k", b"mine").unwrap();
                transaction.commit().unwrap();
                assert_eq!(place.family.get(b"k").unwrap().as_deref(), Some(&b"mine"[..]));
            }
        }
    }
}

#[test]
fn what_was_committed_before_never_conflicts() {
    for level in LEVELS {
        let place = place();
        place.family.put(b"k", b"0").unwrap();
        place.family.flush().unwrap();
        place.family.put(b"k", b"1").unwrap();
        let mut transaction = place.db.begin(level).unwrap();
        assert!(text(&transaction, &place, "k").is_some());
        transaction.put(&place.family, b"k", b"2").unwrap();
        transaction.commit().unwrap();
        transaction.reset(level).unwrap();
        assert_eq!(text(&transaction, &place, "k").as_deref(), Some("2"));
        transaction.put(&place.family, b"k", b"3").unwrap();
        transaction.commit().unwrap();
    }
}

#[test]
fn lower_levels_overwrite_whatever_has_happened() {
    for level in [ReadUncommitted, ReadCommitted] {
        let place = place();
        let mut transaction = place.db.begin(level).unwrap();
        transaction.put(&place.family, b"k", b"mine").unwrap();
        place.family.put(b"k", b"theirs").unwrap();
        assert!(transaction.commit().unwrap().is_some());
        assert_eq!(place.family.get(b"k").unwrap().as_deref(), Some(&b"mine"[..]));
    }
}

#[test]
fn a_range_deletion_is_a_change_of_all_keys_in_it() {
    for level in [RepeatableRead, Snapshot, Serializable] {
        for through in ["memtable", "flush", "compact"] {
            for by_scan in [false, true] {
                let place = place();
                for key in [b"a", b"k", b"z"] {
                    place.family.put(key, b"0").unwrap();
                }
                place.family.flush().unwrap();
                let mut inside = place.db.begin(level).unwrap();
                let mut beside = place.db.begin(level).unwrap();
                assert!(text(&beside, &place, "z").is_some());
                if by_scan {
                    assert_eq!(keys(&inside, &place).len(), 3);
                } else {
                    assert!(text(&inside, &place, "k").is_some());
                }
                inside.put(&place.family, b"k", b"mine").unwrap();
                beside.put(&place.family, b"z", b"mine").unwrap();
                place.family.delete_range(b"j", b"l").unwrap();
                match through {
                    "flush" => place.family.flush().unwrap(),
                    "compact" => place.family.compact().unwrap(),
                    _ => {}
                }
                assert!(is_conflict(inside.commit()), "{level:?} {through} {by_scan}");
                beside.commit().unwrap();
            }
        }
    }
}

#[test]
fn a_range_deletion_can_be_the_last_of_a_dangerous_row() {
    for by_scan in [false, true] {
        let place = place();
        place.family.put(b"k", b"0").unwrap();
        place.family.put(b"x", b"0").unwrap();
        let mut pivot = place.db.begin(Serializable).unwrap();
        let mut reader = place.db.begin(Serializable).unwrap();
        if by_scan {
            let scan = pivot.scan(&place.family, ScanOptions::new().prefix(b"k")).unwrap();
            assert_eq!(scan.entries().count(), 1);
        } else {
            assert!(text(&pivot, &place, "k").is_some());
        }
        assert!(text(&reader, &place, "x").is_some());
        place.family.delete_range(b"j", b"l").unwrap();
        reader.put(&place.family, b"y", b"1").unwrap();
        reader.commit().unwrap();
        pivot.put(&place.family, b"x", b"1").unwrap();
        assert!(is_conflict(pivot.commit()), "scan {by_scan}");
    }
}

/// Two doctors are on call, each looks whether the other one is and leaves. A key that was only
/// asked for did not count as read.
#[test]
fn a_key_that_was_asked_for_counts_as_read() {
    type Ask = fn(&Transaction, &tidesdb::Family, &[u8]) -> tidesdb::Result<bool>;
    const ASK: Ask = |transaction, family, key| transaction.contains(family, key);
    const ASK_UNTRACKED: Ask =
        |transaction, family, key| transaction.contains_untracked(family, key);
    let both_leave = |ask: Ask, present: bool| {
        let place = place();
        if present {
            place.family.put(b"ada", b"").unwrap();
            place.family.put(b"bob", b"").unwrap();
        }
        let mut first = place.db.begin(Serializable).unwrap();
        let mut second = place.db.begin(Serializable).unwrap();
        let change = |transaction: &mut Transaction, key: &[u8], other: &[u8]| {
            assert_eq!(ask(transaction, &place.family, other).unwrap(), present);
            if present {
                transaction.delete(&place.family, key).unwrap();
            } else {
                transaction.put(&place.family, key, b"").unwrap();
            }
        };
        change(&mut first, b"ada", b"bob");
        change(&mut second, b"bob", b"ada");
        first.commit().unwrap();
        !is_conflict(second.commit())
    };
    for present in [true, false] {
        assert!(!both_leave(ASK, present), "present: {present}");
        assert!(both_leave(ASK_UNTRACKED, present), "present: {present}");
    }
    let place = place();
    place.family.put(b"k", b"1").unwrap();
    for (ask, conflicts) in [(ASK, true), (ASK_UNTRACKED, false)] {
        let mut reader = place.db.begin(RepeatableRead).unwrap();
        assert!(ask(&reader, &place.family, b"k").unwrap());
        place.family.put(b"k", b"2").unwrap();
        assert_eq!(is_conflict(reader.commit()), conflicts);
    }
}
