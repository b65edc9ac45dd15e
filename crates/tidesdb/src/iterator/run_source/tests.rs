//! Scans with filters of prefixes against scans without.

use std::collections::BTreeSet;

use tidesdb_base::options::{DbOptions, FamilyOptions, FilterKind};
use tidesdb_sim::rng::SplitMix64;

use crate::db::{Components, Db};
use crate::handles::Family;
use crate::iterator::{Scan, ScanOptions};

fn open() -> Db {
    Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap()
}

fn options() -> FamilyOptions {
    // Nothing is merged by itself.
    FamilyOptions::default()
        .write_buffer_size(1 << 20)
        .l1_file_count_trigger(100)
        .max_space_amplification(100.0)
        .target_table_bytes(4 << 10)
        .block_size(256)
}

/// Keys of few different bytes and lengths, so that some are prefixes of others.
fn key(random: &mut SplitMix64) -> Vec<u8> {
    let bytes = [0, b'a', b'b', 0xFE, 0xFF];
    (0..=random.index(6)).map(|_| bytes[random.index(bytes.len())]).collect()
}

fn bounds(random: &mut SplitMix64) -> ScanOptions {
    let options = ScanOptions::new();
    match random.below(5) {
        0 => options.prefix(&key(random)),
        1 => options.prefix(&key(random)).lower(&key(random)),
        2 => options.lower(&key(random)).upper(&key(random)),
        3 => {
            let lower = key(random);
            let mut upper = lower.clone();
            upper.extend(key(random));
            options.lower(&lower).upper(&upper)
        }
        _ => options.lower(&key(random)),
    }
}

/// Where two scans of the same keys are, which must be the same place.
fn compare(scans: &[Scan; 2], what: &str) -> bool {
    let place =
        |scan: &Scan| scan.valid().then(|| (scan.key().to_vec(), scan.value().unwrap().to_vec()));
    assert_eq!(place(&scans[0]), place(&scans[1]), "{what}");
    scans[0].valid()
}

fn walk(families: &[Family; 2], random: &mut SplitMix64) {
    let options = bounds(random);
    let what = format!("{options:?}");
    let mut scans = families.each_ref().map(|family| family.scan(options.clone()).unwrap());
    for _ in 0..6 {
        let (start, to) = (random.below(4), key(random));
        for scan in &mut scans {
            match start {
                0 => scan.seek(&to),
                1 => scan.seek_for_prev(&to),
                2 => scan.seek_to_first(),
                _ => scan.seek_to_last(),
            }
            .unwrap();
        }
        let mut forward = random.chance(1, 2);
        for _ in 0..40 {
            if !compare(&scans, &what) {
                break;
            }
            forward ^= random.chance(1, 8);
            let step = |scan: &mut Scan| if forward { scan.next() } else { scan.prev() };
            scans.iter_mut().for_each(|scan| step(scan).unwrap());
        }
    }
    let all = families.each_ref().map(|family| {
        let entries = family.scan(options.clone()).unwrap().into_iter();
        entries.collect::<Result<Vec<_>, _>>().unwrap()
    });
    assert_eq!(all[0], all[1], "{what}");
}

#[test]
fn filters_of_prefixes_never_change_what_scans_find() {
    for seed in 0..25 {
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let db = open();
        let families = [("without", 0), ("with", 1)].map(|(name, prefix_bytes)| {
            db.create_family(name, options().prefix_bytes(prefix_bytes)).unwrap()
        });
        for n in 0..1200_u64 {
            let key = key(&mut random);
            match random.below(100) {
                0..15 => families.iter().for_each(|family| family.delete(&key).unwrap()),
                15 => {
                    let end = [&key[..], b"b"].concat();
                    families.iter().for_each(|family| family.delete_range(&key, &end).unwrap());
                }
                16..20 => families.iter().for_each(|family| family.flush().unwrap()),
                20 if random.chance(1, 8) => {
                    families.iter().for_each(|family| family.compact().unwrap());
                }
                21 => {
                    let kind = [FilterKind::Bloom, FilterKind::Ribbon][random.index(2)];
                    let options = options().prefix_bytes(random.index(5)).filter_kind(kind);
                    families[1].set_options(options).unwrap();
                }
                _ => {
                    let value = n.to_string().repeat(4);
                    families.iter().for_each(|family| family.put(&key, value.as_bytes()).unwrap());
                }
            }
            if n % 12 == 11 {
                walk(&families, &mut random);
            }
        }
    }
}

/// A scan of a prefix that no table holds reads none, though all tables span it.
#[test]
fn tables_without_the_prefix_are_not_read() {
    for (prefix_bytes, kind) in
        [(0, FilterKind::Bloom), (4, FilterKind::Bloom), (4, FilterKind::Ribbon)]
    {
        let db = open();
        let options = options().prefix_bytes(prefix_bytes).filter_kind(kind).bloom_fpr(0.001);
        let family = db.create_family("family", options).unwrap();
        for run in 0..5_u32 {
            for group in 0..50_u32 {
                for n in 0..20_u32 {
                    family.put(format!("{:04}/{n}", group * 5 + run).as_bytes(), b"value").unwrap();
                }
            }
            family.flush().unwrap();
        }
        let lookups = || db.core().storage.files.blocks.statistics()[2..].iter().sum::<u64>();
        let count = |scan: ScanOptions| family.scan(scan).unwrap().into_iter().count();
        let before = lookups();
        for group in 0..100_u32 {
            let between = format!("{group:04}0");
            assert_eq!(count(ScanOptions::new().prefix(between.as_bytes())), 0);
        }
        let several_groups = lookups();
        for group in 0..100_u32 {
            assert_eq!(count(ScanOptions::new().prefix(format!("{group:04}").as_bytes())), 20);
        }
        let (absent, present) = (several_groups - before, lookups() - several_groups);
        if prefix_bytes == 0 {
            assert!(absent >= 300 && present >= 300, "{absent} {present}");
        } else {
            // One run of five has the group, in one or two blocks.
            assert!(absent <= 220 && present <= 320, "{absent} {present}");
        }
        assert_eq!(count(ScanOptions::new().prefix(b"00")), 2000);
        assert_eq!(count(ScanOptions::new().lower(b"0001").upper(b"0003")), 40);
    }
}

/// Goes about the keys that a scan has to show, which are given in order, at random.
fn walk_among(keys: &[Vec<u8>], scan: &mut Scan, random: &mut SplitMix64, what: &str) {
    for _ in 0..4 {
        let to = key(random);
        let mut at = match random.below(4) {
            0 => {
                scan.seek(&to).unwrap();
                keys.iter().position(|key| *key >= to)
            }
            1 => {
                scan.seek_for_prev(&to).unwrap();
                keys.iter().rposition(|key| *key <= to)
            }
            2 => {
                scan.seek_to_first().unwrap();
                (!keys.is_empty()).then_some(0)
            }
            _ => {
                scan.seek_to_last().unwrap();
                keys.len().checked_sub(1)
            }
        };
        let mut forward = random.chance(1, 2);
        for _ in 0..20 {
            let expected = at.and_then(|at| keys.get(at));
            assert_eq!(scan.valid().then(|| scan.key()), expected.map(Vec::as_slice), "{what}");
            let Some(present) = at.filter(|_| expected.is_some()) else { break };
            forward ^= random.chance(1, 4);
            at = if forward {
                scan.next().unwrap();
                Some(present + 1)
            } else {
                scan.prev().unwrap();
                present.checked_sub(1)
            };
        }
    }
}

/// Most of what lies in memtables and tables is newer than the snapshot, also behind the bounds.
#[test]
fn bounds_never_change_what_old_snapshots_show() {
    for seed in 0..25 {
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let db = open();
        let family = db.create_family("family", options()).unwrap();
        let (mut snapshots, mut model) = (Vec::new(), BTreeSet::new());
        for n in 0..600_u64 {
            let at = key(&mut random);
            match random.below(60) {
                0..10 => {
                    family.delete(&at).unwrap();
                    model.remove(&at);
                }
                10 => {
                    let end = [&at[..], b"b"].concat();
                    family.delete_range(&at, &end).unwrap();
                    model.retain(|key| *key < at || *key >= end);
                }
                11..14 => family.flush().unwrap(),
                14 if random.chance(1, 4) => family.compact().unwrap(),
                15..18 => snapshots.push((db.snapshot(), model.clone())),
                _ => {
                    family.put(&at, &n.to_be_bytes()).unwrap();
                    model.insert(at);
                }
            }
            if n % 12 == 11 && !snapshots.is_empty() {
                let (snapshot, shown) = &snapshots[random.index(snapshots.len())];
                let (lower, upper) = (key(&mut random), key(&mut random));
                let within = shown.iter().filter(|key| **key >= lower && **key < upper);
                let within: Vec<_> = within.cloned().collect();
                let options = ScanOptions::new().snapshot(snapshot).lower(&lower).upper(&upper);
                let mut scan = family.scan(options).unwrap();
                let what = format!("seed {seed}, {n}: {lower:?} to {upper:?}");
                walk_among(&within, &mut scan, &mut random, &what);
            }
        }
    }
}

/// A table of which all is newer is passed over unread, and what is newer behind the bounds is not
/// walked.
#[test]
fn scans_of_an_old_snapshot_read_little_of_what_is_newer() {
    let db = open();
    let options = options().target_table_bytes(1 << 20);
    let family = db.create_family("family", options).unwrap();
    let put = |prefix: &str| {
        for n in 0..2_000 {
            family.put(format!("{prefix}{n:05}").as_bytes(), b"value").unwrap();
        }
    };
    family.put(b"b", b"old").unwrap();
    let snapshot = db.snapshot();
    put("a");
    put("c");
    // The old key lies in this table, between newer ones.
    family.flush().unwrap();
    for _ in 0..4 {
        put("b");
        family.flush().unwrap();
    }
    let lookups = || db.core().storage.files.blocks.statistics()[2..].iter().sum::<u64>();
    let before = lookups();
    let options = ScanOptions::new().snapshot(&snapshot).lower(b"b").upper(b"bb");
    let mut scan = family.scan(options).unwrap();
    for forward in [true, false] {
        if forward { scan.seek_to_first() } else { scan.seek_to_last() }.unwrap();
        assert_eq!(scan.key(), b"b");
        if forward { scan.next() } else { scan.prev() }.unwrap();
        assert!(!scan.valid());
    }
    let read = lookups() - before;
    assert!(read <= 8, "{read} blocks");
}
