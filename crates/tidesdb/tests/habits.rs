//! Programs as users of other engines write them from habit: what they reach for is there, under
//! the name that they try or one that reads alike.

use std::collections::BTreeMap;
use std::time::Duration;

use tidesdb::{
    CommittedKind, Db, DbOptions, ErrorKind, Family, FamilyOptions, FilterKind, IsolationLevel,
    KeyOrder, Result, ScanOptions, SyncMode, WriteBatch, WriteOptions,
};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Iterators with a lower and an upper bound, from an end and from a key, both ways.
fn bounded_iterators(metadata: &Family) -> Result<()> {
    let bounds = ScanOptions::new().lower("file/0010").upper("file/0020");
    let mut iterator = metadata.scan(bounds)?;
    iterator.seek_to_first()?;
    let mut seen = 0;
    while iterator.valid() {
        assert_eq!(iterator.value()?[3], iterator.key()[8] - b'0' + 10);
        seen += 1;
        iterator.next()?;
    }
    iterator.seek_for_prev("file/9999")?;
    assert_eq!((seen, text(iterator.key())), (10, "file/0019".to_owned()));
    Ok(())
}

/// Column families, batches, iterators with bounds, snapshots, checkpoints, properties, optimistic
/// transactions: a user of RocksDB.
#[test]
fn a_program_in_the_manner_of_rocksdb() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let options = DbOptions::default().create_if_missing(true).block_cache_bytes(8 << 20);
    let db = Db::open(&path, options)?;
    let metadata = FamilyOptions::default().bloom_fpr(0.01).filter_kind(FilterKind::Ribbon);
    let metadata = db.open_family("metadata", metadata.prefix_bytes(5))?;
    let data = db.open_family("data", FamilyOptions::default().write_buffer_size(64 << 10))?;

    let mut batch = WriteBatch::new();
    for file in 0..100_u32 {
        batch.put(&metadata, format!("file/{file:04}"), file.to_be_bytes())?;
        batch.put(&data, file.to_be_bytes(), vec![7; 1000])?;
    }
    batch.delete(&metadata, "file/0050")?;
    assert_eq!((batch.len(), batch.is_empty()), (201, false));
    db.write_with(&batch, WriteOptions::new().sync(true))?;
    batch.clear();

    bounded_iterators(&metadata)?;

    let snapshot = db.snapshot();
    metadata.delete_range("file/0000", "file/0090")?;
    assert_eq!(metadata.prefix("file/")?.into_iter().count(), 10);
    let then = metadata.scan(ScanOptions::new().prefix("file/").snapshot(&snapshot))?;
    assert_eq!(then.into_iter().count(), 99);
    assert!(metadata.get_pinned_at(&snapshot, "file/0001")?.is_some_and(|value| value.len() == 4));
    let found = metadata.multi_get(["file/0001", "file/0095"])?;
    assert_eq!(found, [None, Some(95_u32.to_be_bytes().to_vec())]);
    drop(snapshot);

    // A merge operator is a transaction here; one that conflicts is tried again.
    for _ in 0..3 {
        db.transaction(IsolationLevel::Snapshot, |transaction| {
            let count = transaction.get(&metadata, "opened")?.map_or(0, |value| number(&value));
            transaction.put(&metadata, "opened", (count + 1).to_le_bytes())
        })?;
    }
    assert_eq!(metadata.get("opened")?.map(|value| number(&value)), Some(3));
    let mut transaction = db.begin(IsolationLevel::Snapshot)?;
    transaction.put(&metadata, "mine", "1")?;
    transaction.savepoint("before")?;
    transaction.delete(&metadata, "mine")?;
    transaction.rollback_to_savepoint("before")?;
    metadata.put("mine", "another")?;
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);

    db.flush()?;
    data.compact_range(..)?;
    db.checkpoint(directory.path().join("checkpoint"))?;
    assert!(data.estimated_key_count() > 0 && data.approximate_count(..)? >= 90);
    assert!(db.stats().to_string().contains("memory") && !db.metrics_prometheus().is_empty());
    let mut faster = data.options();
    faster.bloom_fpr = 0.001;
    data.set_options(faster)?;
    db.drop_family("data")?;
    assert_eq!(db.family("data").unwrap_err().kind(), ErrorKind::NotFound);
    db.close()?;

    let reader =
        Db::open(directory.path().join("checkpoint"), DbOptions::default().read_only(true))?;
    assert_eq!(reader.family_names(), ["data", "metadata"]);
    assert_eq!(reader.family("data")?.iter()?.into_iter().count(), 100);
    Ok(())
}

/// Databases by name in one environment, one transaction for reads and writes, cursors, first and
/// last, integer keys, duplicates, clear: a user of LMDB, by way of heed.
#[test]
fn a_program_in_the_manner_of_lmdb() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default().sync_mode(SyncMode::Full))?;
    let posts = FamilyOptions::default().key_order(KeyOrder::Uint64);
    let posts = db.open_family("posts", posts)?;
    // `MDB_DUPSORT`: the value is the end of the key.
    let by_author = db.open_family("posts by author", FamilyOptions::default())?;

    let mut writer = db.begin(IsolationLevel::Serializable)?;
    for id in [1_u64, 200, 3, 70_000] {
        writer.put(&posts, id.to_ne_bytes(), format!("post {id}"))?;
        let author = if id % 2 == 0 { "ada" } else { "alan" };
        writer.put(&by_author, [author.as_bytes(), b"\0", &id.to_be_bytes()].concat(), "")?;
    }
    // `MDB_NOOVERWRITE`.
    assert!(writer.contains(&posts, 3_u64.to_ne_bytes())?);
    let of_alan = |key: &[u8]| u64::from_be_bytes(key[5..].try_into().unwrap());
    let mut cursor = writer.prefix(&by_author, "alan\0")?;
    cursor.seek_to_last()?;
    assert_eq!(of_alan(cursor.key()), 3, "its own writes are seen, in their order");
    writer.commit()?;

    // `first`, `last`, `rev_iter`, `get_greater_than_or_equal_to`, `get_lower_than`.
    assert_eq!(posts.first_key_value()?.map(|(_, value)| text(&value)).unwrap(), "post 1");
    assert_eq!(posts.last_key_value()?.map(|(_, value)| text(&value)).unwrap(), "post 70000");
    let newest = posts.iter()?.rev().map(|entry| Ok(text(&entry?.1)));
    assert_eq!(newest.collect::<Result<Vec<_>>>()?[..2], ["post 70000", "post 200"]);
    let next = posts.range(4_u64.to_ne_bytes()..)?.into_iter().next().transpose()?;
    assert_eq!(next.map(|(_, value)| text(&value)).unwrap(), "post 200");
    let before = posts.range(..200_u64.to_ne_bytes())?.rev().next().transpose()?;
    assert_eq!(before.map(|(_, value)| text(&value)).unwrap(), "post 3");

    // Deleting under the cursor.
    let mut writer = db.begin(IsolationLevel::Snapshot)?;
    for entry in writer.iter(&by_author)? {
        let (key, _) = entry?;
        if key.starts_with(b"ada\0") {
            writer.delete(&by_author, key)?;
        }
    }
    writer.commit()?;
    assert_eq!(by_author.iter()?.into_iter().count(), 2);

    // `clear`, whatever the order of keys, and in one commit with what comes instead.
    let mut batch = WriteBatch::new();
    batch.delete_all(&posts)?;
    batch.put(&posts, 5_u64.to_ne_bytes(), "post 5")?;
    batch.delete_all(&by_author)?;
    db.write(&batch)?;
    assert_eq!(posts.iter()?.into_iter().count(), 1);
    assert!(by_author.is_empty()? && !posts.is_empty()?);
    db.backup(directory.path().with_extension("copy"))?;
    std::fs::remove_dir_all(directory.path().with_extension("copy")).unwrap();
    Ok(())
}

/// Partitions, ranges and prefixes as iterators, `rev`, `is_empty`, batches over partitions, values
/// that expire, many threads: a user of fjall, and tables of redb.
#[test]
fn a_program_in_the_manner_of_fjall_and_redb() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let keyspace = Db::open(directory.path(), DbOptions::default())?;
    let items: Family = keyspace.open_family("items", FamilyOptions::default())?;
    assert!(items.is_empty()?);
    std::thread::scope(|scope| {
        for thread in 0..2_u8 {
            let items = items.clone();
            scope.spawn(move || {
                (0..100_u8).for_each(|n| items.put([thread, n], [n]).unwrap());
            });
        }
    });
    let mut sum = 0_u64;
    for entry in items.range([0_u8, 90]..=[1_u8, 9])? {
        sum += u64::from(entry?.1[0]);
    }
    assert_eq!(sum, (90..100).sum::<u64>() + (0..10).sum::<u64>());
    let last = items.prefix([0_u8])?.rev().take(2).collect::<Result<Vec<_>>>()?;
    assert_eq!(last, [(vec![0, 99], vec![99]), (vec![0, 98], vec![98])]);
    let pairs: BTreeMap<_, _> = items.iter()?.into_iter().collect::<Result<_>>()?;
    assert_eq!((pairs.len(), pairs.first_key_value().unwrap().0), (200, &vec![0, 0]));
    let size = items.get_with([1_u8, 1], <[u8]>::len)?;
    assert_eq!((size, items.contains([2_u8])?), (Some(1), false));
    items.put_with_ttl("session", "token", Duration::from_secs(3600))?;
    assert!(items.estimated_key_count() > 0);

    // `pop_first`, and `retain` in one commit.
    let mut popped = 0;
    while let Some((key, _)) = items.first_key_value()?.filter(|(key, _)| key < &vec![0, 10]) {
        items.delete(key)?;
        popped += 1;
    }
    let mut batch = WriteBatch::new();
    for entry in items.prefix([1_u8])? {
        let (key, value) = entry?;
        if value[0] % 2 == 1 {
            batch.delete(&items, key)?;
        }
    }
    keyspace.write(&batch)?;
    assert_eq!((popped, items.prefix([1_u8])?.into_iter().count()), (10, 50));

    let snapshot = keyspace.snapshot();
    items.delete_all_with(WriteOptions::new().sync(true))?;
    assert!(items.is_empty()?);
    let then = items.scan(ScanOptions::new().snapshot(&snapshot))?.rev();
    assert_eq!(text(&then.take(1).collect::<Result<Vec<_>>>()?[0].0), "session");
    keyspace.rename_family("items", "things")?;
    keyspace.clone_family("things", "copy")?;
    assert_eq!(keyspace.family_names(), ["copy", "things"]);
    keyspace.sync_log()?;
    keyspace.close()
}

#[test]
fn everything_is_deleted_in_each_order_and_hooks_are_told_so() -> Result<()> {
    let orders = ["bytewise", "reverse", "lexicographic", "uint64", "int64", "case_insensitive"];
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default())?;
    db.register_key_order("of mine", |one, other| other.cmp(one))?;
    for order in orders.into_iter().chain(["custom:of mine"]) {
        let options = FamilyOptions::default().key_order(KeyOrder::from_name(order).unwrap());
        let family = db.create_family(order, options)?;
        let keys = [&[0][..], &[0, 0], &[255; 40], b"A", b"eight by", &[0; 8], &[255; 8]];
        for round in 0..3 {
            keys.iter().try_for_each(|key| family.put(key, "value"))?;
            if round == 1 {
                family.flush()?;
            }
            let reported = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
            let log = std::sync::Arc::clone(&reported);
            family.on_commit(move |batch| {
                for reported in batch.operations {
                    let (key, value) = (reported.key.to_vec(), reported.value.to_vec());
                    log.lock().unwrap().push((reported.kind, key, value));
                }
            });
            family.delete_all()?;
            family.set_commit_hook(None);
            assert!(family.is_empty()?, "{order}");
            let all = (CommittedKind::DeleteRange, Vec::new(), Vec::new());
            assert_eq!(*reported.lock().unwrap(), [all], "{order}");
        }
        family.compact()?;
        assert!(family.is_empty()?, "{order}");
    }
    Ok(())
}
