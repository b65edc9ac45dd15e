//! What the statistics say, held against what was done.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counted;
mod table_options;

use tidesdb::WriteBatch;
use tidesdb::{Db, DbOptions, Family, FamilyOptions, IsolationLevel, KeyOrder, ScanOptions};
use tidesdb_sim::rng::SplitMix64;

fn key(n: u32) -> Vec<u8> {
    format!("{n:08}").into_bytes()
}

/// Bytes of the files of a directory with this ending.
fn file_bytes(directory: &std::path::Path, ending: &str) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_name().to_str().unwrap().ends_with(ending));
    files.map(|file| file.metadata().unwrap().len()).sum()
}

#[test]
fn what_users_wrote_is_counted_to_the_byte_for_each_family() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let one = db.create_family("one", FamilyOptions::default()).unwrap();
    let two = db.create_family("two", FamilyOptions::default()).unwrap();
    let position = db.stats().sequence;
    one.put(b"key", b"value").unwrap();
    one.delete(b"key").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&two, b"1", b"").unwrap();
    batch.put(&one, b"long key", &[7; 500]).unwrap();
    batch.put(&two, b"2", b"12345678").unwrap();
    // Goes to a value log, past the log.
    let large = vec![9; 3 << 20];
    batch.put(&two, b"large", &large).unwrap();
    db.write(&batch).unwrap();
    let mut transaction = db.begin(IsolationLevel::Snapshot).unwrap();
    transaction.put(&one, b"a", b"b").unwrap();
    transaction.savepoint("here").unwrap();
    transaction.put(&two, b"gone", b"gone").unwrap();
    transaction.rollback_to_savepoint("here").unwrap();
    transaction.commit().unwrap();
    let (first, second, all) = (one.stats(), two.stats(), db.stats());
    let large = large.len() as u64;
    assert_eq!(
        (first.work.user_bytes_written, first.work.operations_written),
        (8 + 3 + 508 + 2, 4)
    );
    assert_eq!(
        (second.work.user_bytes_written, second.work.operations_written),
        (1 + 9 + 5 + large, 3)
    );
    assert_eq!(
        all.work.user_bytes_written,
        first.work.user_bytes_written + second.work.user_bytes_written
    );
    // Records lie in the log one behind the other, and positions count bytes.
    assert_eq!(all.work.log_bytes_written, all.sequence - position + large);
    assert_eq!(
        all.work.log_bytes_written,
        first.work.log_bytes_written + second.work.log_bytes_written
    );
    assert!(first.work.log_bytes_written > 521, "{first:?}");
    let besides = second.work.log_bytes_written - large;
    assert!((16..200).contains(&besides), "{second:?}");
}

/// Keys and values of an order that stores others count as they were given, and the bounds of a
/// deleted range as they are stored: alone and in a commit to several families.
#[test]
fn what_an_order_of_keys_adds_is_not_counted_as_written_by_users() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let other = db.create_family("other", FamilyOptions::default()).unwrap();
    let large = vec![9; 1 << 20];
    for order in [KeyOrder::Reverse, KeyOrder::CaseInsensitive, KeyOrder::Lexicographic] {
        let options = FamilyOptions::default().key_order(order.clone());
        let family = db.create_family(&format!("{order:?}"), options).unwrap();
        let mut counted = [0; 2];
        for (beside_another, counted) in [false, true].into_iter().zip(&mut counted) {
            let commit = |add: &dyn Fn(&mut WriteBatch)| {
                let before = family.stats().work.user_bytes_written;
                let mut batch = WriteBatch::new();
                add(&mut batch);
                if beside_another {
                    batch.put(&other, b"key", b"value").unwrap();
                }
                db.write(&batch).unwrap();
                family.stats().work.user_bytes_written - before
            };
            assert_eq!(commit(&|batch| batch.put(&family, b"Key", b"value").unwrap()), 8);
            assert_eq!(commit(&|batch| batch.delete(&family, b"KEY").unwrap()), 3);
            let put_large = |batch: &mut WriteBatch| batch.put(&family, b"L", &large).unwrap();
            assert_eq!(commit(&put_large), 1 + large.len() as u64);
            // In the reverse order the larger key comes first.
            let bounds = [b"b", b"z"];
            let bounds = if order == KeyOrder::Reverse { [bounds[1], bounds[0]] } else { bounds };
            *counted = commit(&|batch| batch.delete_range(&family, bounds[0], bounds[1]).unwrap());
        }
        assert!(counted[0] >= 2 && counted[0] == counted[1], "{order:?}: {counted:?}");
    }
}

#[test]
fn sums_over_families_never_fall() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.create_family("short-lived", FamilyOptions::default()).unwrap();
    family.put(b"key", b"value").unwrap();
    family.flush().unwrap();
    family.get(b"key").unwrap();
    let before = db.stats();
    db.drop_family("short-lived").unwrap();
    let after = db.stats();
    assert_eq!(after.work.user_bytes_written, 8);
    assert_eq!(after.work.log_bytes_written, before.work.log_bytes_written);
    assert_eq!(
        (after.work.flushes, after.work.flush_bytes_written),
        (1, before.work.flush_bytes_written)
    );
    assert_eq!(after.reads, before.reads);
    assert_eq!((after.families, after.tables), (0, 0));
}

#[test]
fn background_work_is_counted_by_what_lies_in_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.create_family("default", FamilyOptions::default()).unwrap();
    for round in 0..2 {
        for n in 0..3000_u32 {
            family.put(&key(n), &(n * round).to_be_bytes().repeat(20)).unwrap();
        }
        family.flush().unwrap();
    }
    let flushed = file_bytes(directory.path(), ".klog");
    let stats = family.stats();
    assert_eq!(
        (stats.work.flushes, stats.work.flush_tables_written, stats.work.flush_failures),
        (2, 2, 0)
    );
    assert_eq!(stats.work.flush_bytes_written, flushed);
    assert_eq!(db.stats().table_bytes, flushed);
    assert!(stats.work.flush_nanos > 0);
    family.compact().unwrap();
    let stats = family.stats();
    assert_eq!((stats.work.compactions, stats.work.compaction_failures), (1, 0));
    assert_eq!(stats.work.compaction_bytes_read, flushed);
    let merged: u64 = stats.levels.iter().map(|level| level.bytes).sum();
    assert_eq!(stats.work.compaction_bytes_written, merged);
    assert_eq!(stats.work.compaction_tables_written, stats.levels.iter().map(|l| l.tables).sum());
    assert!(stats.work.compaction_nanos > 0);
    let written = stats.work.log_bytes_written + flushed + merged;
    assert_eq!(
        stats.work.write_amplification(),
        written as f64 / stats.work.user_bytes_written as f64
    );
}

#[test]
fn filters_and_blocks_are_counted_as_gets_meet_them() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    // No compaction for readers either, if the test takes long.
    db.stop_compactions().unwrap();
    let family = db.create_family("default", FamilyOptions::default()).unwrap();
    let other = db.create_family("other", FamilyOptions::default()).unwrap();
    // Even keys in one table, odd ones in the other, over the same range.
    for parity in [0, 1] {
        for n in (parity..4000).step_by(2) {
            family.put(&key(n), b"value").unwrap();
        }
        family.flush().unwrap();
    }
    family.put(b"in memory", b"value").unwrap();
    assert!(family.contains(b"in memory").unwrap());
    assert_eq!(family.stats().reads.table_gets, 0, "no table was asked");
    for n in 0..4000 {
        assert!(family.contains(&key(n)).unwrap());
    }
    let present = family.stats().reads;
    assert_eq!(present.table_gets, 4000);
    // The newer table is asked first; an even key lies in the older one.
    assert!((5998..=6000).contains(&present.filters_asked), "{present:?}");
    assert_eq!(present.filters_asked, present.filters_excluded + present.tables_searched);
    assert_eq!(present.tables_searched, 4000 + present.filters_wrong);
    assert_eq!(present.blocks_cached + present.blocks_read, present.tables_searched);
    for n in 0..4000 {
        assert!(!family.contains(&[key(n).as_slice(), b"x"].concat()).unwrap());
    }
    let reads = family.stats().reads;
    let rate = reads.filter_false_positive_rate();
    assert!(rate > 0.002 && rate < 0.03, "{rate} where 0.01 was asked for: {reads:?}");
    assert!(reads.filter_usefulness() > 0.5 && reads.filter_usefulness() < 1.0, "{reads:?}");
    assert!(reads.tables_per_get() < 1.1, "{reads:?}");
    // Of the cache every lookup is some family's.
    let scanned = family.scan(ScanOptions::new()).unwrap().entries().count();
    assert_eq!(scanned, 4001);
    let (reads, cache) = (family.stats().reads, db.cache_stats());
    assert_eq!(reads.seeks, 1);
    assert_eq!((reads.blocks_cached, reads.blocks_read), (cache.hits, cache.misses));
    assert_eq!(other.stats().reads, tidesdb::ReadStats::default());
    assert_eq!(db.stats().reads, reads);
    assert_eq!(db.stats().cache, cache);
}

#[test]
fn trees_are_counted_level_by_level() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    // Two tables stay two, if the test takes long.
    db.stop_compactions().unwrap();
    let options = FamilyOptions::default().use_btree(true);
    let family = db.create_family("default", options.clone()).unwrap();
    assert_eq!(family.tree_stats().unwrap(), tidesdb::TreeStats::default());
    for n in 0..20_000 {
        family.put(&key(n), &key(n).repeat(4)).unwrap();
    }
    family.flush().unwrap();
    let trees = family.tree_stats().unwrap();
    assert_eq!((trees.height(), trees.average_height(), trees.flat_tables), (3, 3.0, 0));
    let level = trees.levels[0];
    assert_eq!((trees.levels.len(), level.level), (1, 1));
    assert_eq!(level.bytes, file_bytes(directory.path(), ".klog"));
    assert!(level.leaves > 100 && level.index_nodes > 1, "{level:?}");
    assert!(level.index_nodes < level.leaves / 4, "{level:?}");
    assert_eq!(trees.nodes(), level.leaves + level.index_nodes + level.tables);
    // A table of the other kind beside it.
    family.set_options(options.use_btree(false)).unwrap();
    family.put(b"another", b"table").unwrap();
    family.flush().unwrap();
    let mixed = family.tree_stats().unwrap();
    assert_eq!((mixed.nodes(), mixed.flat_tables), (trees.nodes(), 1));
    assert!(mixed.average_height() < 3.0);
}

/// Nodes that are half empty, or keep whole keys, would show here. Their blocks are a quarter of
/// those of flat tables, so text costs more than bytes that do not compress.
#[test]
fn trees_take_at_most_fifteen_per_cent_more_than_blocks() {
    const WORDS: [&str; 8] = ["alpha", "beta", "gamma", "delta", "eta", "theta", "iota", "kappa"];
    for (value_bytes, is_text) in [(20, false), (20, true), (100, true), (400, false)] {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), DbOptions::default()).unwrap();
        let family = |name: &str, use_btree| {
            db.create_family(name, FamilyOptions::default().use_btree(use_btree)).unwrap()
        };
        let (flat, tree) = (family("flat", false), family("tree", true));
        let mut random = SplitMix64::new(value_bytes as u64);
        let mut value = Vec::new();
        for _ in 0..4_000_000 / value_bytes.max(100) {
            let key = format!("user:{:016x}", random.next_u64());
            value.clear();
            while is_text && value.len() < value_bytes {
                value.extend_from_slice(WORDS[random.index(WORDS.len())].as_bytes());
                value.push(b' ');
            }
            value.resize(value_bytes, 0);
            if !is_text {
                random.fill(&mut value);
            }
            flat.put(&key, &value).unwrap();
            tree.put(&key, &value).unwrap();
        }
        db.compact().unwrap();
        let bytes = |family: &Family| -> u64 {
            family.stats().levels.iter().map(|level| level.bytes).sum()
        };
        let (flat, tree) = (bytes(&flat), bytes(&tree));
        assert_eq!(flat + tree, file_bytes(directory.path(), ".klog"));
        assert!(flat > 500_000, "{flat} bytes");
        let ratio = tree as f64 / flat as f64;
        assert!(ratio <= 1.15, "{ratio} with {value_bytes} bytes: {tree} for {flat}");
    }
}

#[test]
fn statistics_read_as_lines_for_people() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let family = db.create_family("default", FamilyOptions::default()).unwrap();
    family.put(b"key", &[0; 2000]).unwrap();
    family.flush().unwrap();
    family.get(b"key").unwrap();
    let text = format!("{}{}{}", db.stats(), family.stats(), db.cache_stats());
    for wanted in ["families                   1\n", "flushes                    1 in ", "2.0 KiB"]
    {
        assert!(text.contains(wanted), "'{wanted}' is not in\n{text}");
    }
    assert!(text.lines().all(|line| line.len() < 110), "{text}");
    assert!(format!("{db:?}").len() < 100 + directory.path().as_os_str().len(), "{db:?}");
}
