//! Gets of many keys against gets of single ones.

use tidesdb_base::error::ErrorKind;
use tidesdb_base::options::{DbOptions, FamilyOptions, FilterKind};
use tidesdb_sim::rng::SplitMix64;

use crate::db::{Components, Db};
use crate::handles::{Family, Snapshot};
use crate::isolation::IsolationLevel;

const KEYS: u64 = 300;

fn key(random: &mut SplitMix64) -> Vec<u8> {
    format!("key {:04}", random.below(KEYS)).into_bytes()
}

fn options(random: &mut SplitMix64) -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(64 << 10)
        .klog_value_threshold(if random.chance(1, 2) { 60 } else { 500 })
        .block_size([128, 256, 1024][random.index(3)])
        .target_table_bytes(4 << 10)
        .use_btree(random.chance(1, 2))
        .index_sample_ratio(1 + random.index(3))
        .enable_bloom_filter(random.chance(3, 4))
        .filter_kind([FilterKind::Bloom, FilterKind::Ribbon][random.index(2)])
        // Keys are looked for in vain all the time.
        .bloom_fpr([0.7, 0.01][random.index(2)])
        // No run is merged by itself.
        .l1_file_count_trigger(100)
        .max_space_amplification(100.0)
        .min_disk_space(0)
}

/// Changes keys of a family, with flushes and compactions in between, and returns snapshots on the
/// way.
fn change(family: &Family, db: &Db, random: &mut SplitMix64) -> Vec<Snapshot> {
    let mut snapshots = Vec::new();
    for n in 0..1500_u64 {
        let (key, value) = (key(random), vec![n as u8; random.index(90)]);
        match random.below(200) {
            0..20 => family.delete(&key).unwrap(),
            20..30 => family.put_expiring_at(&key, &value, 900 + random.below(200)).unwrap(),
            30..32 => family.delete_range(&key, &[&key[..5], b"9"].concat()).unwrap(),
            32..37 => family.flush().unwrap(),
            37 => family.compact().unwrap(),
            38 => snapshots.push(db.snapshot()),
            39 => family.set_options(options(random)).unwrap(),
            _ => family.put(&key, &value).unwrap(),
        }
    }
    snapshots.push(db.snapshot());
    snapshots
}

fn some_keys(random: &mut SplitMix64) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for _ in 0..random.index(80) {
        let mut key = key(random);
        match random.below(8) {
            0 => key.push(random.next_u64() as u8),
            1 => key.truncate(1 + random.index(7)),
            _ => {}
        }
        keys.push(key);
    }
    if random.chance(1, 3) {
        keys.sort();
    }
    keys
}

#[test]
fn many_keys_have_the_values_of_single_gets() {
    for seed in 0..30 {
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let cache = [0, 32 << 10, 1 << 20][random.index(3)];
        let database = DbOptions::default().block_cache_bytes(cache);
        let db = Db::open_with("/db", database, Components::simulated()).unwrap();
        let family = db.create_family("family", options(&mut random)).unwrap();
        let snapshots = change(&family, &db, &mut random);
        for _ in 0..60 {
            let keys = some_keys(&mut random);
            let snapshot = &snapshots[random.index(snapshots.len())];
            let wanted: Vec<_> =
                keys.iter().map(|key| family.get_at(snapshot, key).unwrap()).collect();
            assert_eq!(family.multi_get_at(snapshot, &keys).unwrap(), wanted, "{keys:?}");
            let wanted: Vec<_> = keys.iter().map(|key| family.get(key).unwrap()).collect();
            assert_eq!(family.multi_get(&keys).unwrap(), wanted, "{keys:?}");
            let pinned = family.multi_get_pinned(&keys).unwrap();
            for (pinned, wanted) in pinned.iter().zip(&wanted) {
                assert_eq!(pinned.as_deref(), wanted.as_deref());
            }
            for (key, wanted) in keys.iter().zip(wanted) {
                assert_eq!(family.get_pinned(key).unwrap().as_deref(), wanted.as_deref());
            }
        }
    }
}

/// Own writes come first, and what is read counts as read.
#[test]
fn many_keys_of_a_transaction_are_those_of_its_single_gets() {
    let levels = [
        IsolationLevel::ReadCommitted,
        IsolationLevel::RepeatableRead,
        IsolationLevel::Snapshot,
        IsolationLevel::Serializable,
    ];
    for seed in 0..12 {
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let family = db.create_family("family", options(&mut random)).unwrap();
        drop(change(&family, &db, &mut random));
        for level in levels {
            let mut transaction = db.begin(level).unwrap();
            for _ in 0..random.index(40) {
                let key = key(&mut random);
                if random.chance(1, 3) {
                    transaction.delete(&family, &key).unwrap();
                } else {
                    transaction.put(&family, &key, b"own").unwrap();
                }
            }
            family.put(&key(&mut random), b"of somebody else").unwrap();
            for _ in 0..20 {
                let keys = some_keys(&mut random);
                let single = |key: &Vec<u8>| transaction.get_untracked(&family, key).unwrap();
                let wanted: Vec<_> = keys.iter().map(single).collect();
                assert_eq!(transaction.multi_get(&family, &keys).unwrap(), wanted, "{keys:?}");
                let pinned = transaction.multi_get_pinned(&family, &keys).unwrap();
                for (pinned, wanted) in pinned.iter().zip(&wanted) {
                    assert_eq!(pinned.as_deref(), wanted.as_deref());
                }
                for (key, wanted) in keys.iter().zip(&wanted).take(1) {
                    let one = transaction.get_pinned(&family, key).unwrap();
                    assert_eq!(one.as_deref(), wanted.as_deref());
                }
            }
        }
        let keys = [b"key 0001", b"key 0002", b"absent 1"];
        family.put(keys[0], b"").unwrap();
        let mut reader = db.begin(IsolationLevel::RepeatableRead).unwrap();
        reader.multi_get(&family, keys).unwrap();
        family.put(keys[0], b"new").unwrap();
        assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Conflict);
        // Each reads what the other writes, a key that is not there among it.
        let mut pair = [keys[0], keys[2]].map(|written| {
            let mut transaction = db.begin(IsolationLevel::Serializable).unwrap();
            transaction.multi_get(&family, keys).unwrap();
            transaction.put(&family, written, b"new").unwrap();
            transaction
        });
        pair[0].commit().unwrap();
        assert_eq!(pair[1].commit().unwrap_err().kind(), ErrorKind::Conflict);
    }
}

#[test]
fn a_block_that_many_keys_need_is_looked_up_once() {
    let database = DbOptions::default().block_cache_bytes(1 << 20);
    let db = Db::open_with("/db", database, Components::simulated()).unwrap();
    let options = FamilyOptions::default().block_size(4096);
    let family = db.create_family("family", options).unwrap();
    let keys: Vec<_> = (0..1000_u32).map(|n| n.to_be_bytes()).collect();
    keys.iter().for_each(|key| family.put(key, key).unwrap());
    family.flush().unwrap();
    let lookups = || db.core().storage.files.blocks.statistics()[2..].iter().sum::<u64>();
    for _ in 0..2 {
        let before = lookups();
        let values = family.multi_get(&keys).unwrap();
        assert!(values.iter().zip(&keys).all(|(value, key)| value.as_deref() == Some(key)));
        let taken = lookups() - before;
        assert!((1..20).contains(&taken), "{taken} lookups for {} keys", keys.len());
    }
}

/// What they keep counts once for each block, until the last of them is gone, and outlives the
/// database.
#[test]
fn pinned_values_of_one_block_keep_it_together() {
    let database = DbOptions::default().block_cache_bytes(64 << 10);
    let db = Db::open_with("/db", database, Components::simulated()).unwrap();
    let options = FamilyOptions::default().block_size(4096).klog_value_threshold(1000);
    let family = db.create_family("family", options).unwrap();
    let keys: Vec<_> = (0..1000_u32).map(u32::to_be_bytes).collect();
    let value = |n: usize| vec![n as u8; if n.is_multiple_of(100) { 2000 } else { 30 }];
    for (n, key) in keys.iter().enumerate() {
        family.put(key, value(n)).unwrap();
    }
    let in_memory = family.multi_get_pinned(&keys).unwrap();
    family.flush().unwrap();
    let scans = || db.core().memory.budget.held().scans;
    assert_eq!(scans(), 0, "a memtable counts by itself");
    let mut in_tables = family.multi_get_pinned(&keys).unwrap();
    let all = scans();
    // Keys, values, 10 fetched values, and what decoded blocks take beside.
    assert!((50_000..150_000).contains(&all), "{all}");
    in_tables.truncate(1);
    assert!((2000..10_000).contains(&scans()), "{} for one fetched value", scans());
    in_tables.clear();
    assert_eq!(scans(), 0);
    family.delete_range([0], [255]).unwrap();
    assert!(family.multi_get_pinned(&keys).unwrap().iter().all(Option::is_none));
    drop((family, db));
    for (n, pinned) in in_memory.iter().enumerate() {
        assert_eq!(pinned.as_deref(), Some(&*value(n)), "{n}");
    }
}

#[test]
fn what_single_gets_refuse_is_refused() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    assert_eq!(family.multi_get([b"a", &b""[..]]).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(family.get_pinned(b"").unwrap_err().kind(), ErrorKind::Invalid);
    assert!(family.multi_get(Vec::<Vec<u8>>::new()).unwrap().is_empty());
    db.close().unwrap();
    assert_eq!(family.multi_get([b"a"]).unwrap_err().kind(), ErrorKind::Closed);
}
