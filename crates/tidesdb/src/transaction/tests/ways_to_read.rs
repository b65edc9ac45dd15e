//! All ways in which a transaction reads, against each other and a map: random writes below and in
//! the transaction, in families of all orders and layouts.

use std::collections::BTreeMap;

use tidesdb_base::key_order::KeyOrder;

use super::*;

/// By stored key: the key as it was put last, and its value.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Vec<u8>)>;

const KEYS: u64 = 60;

const LEVELS: [IsolationLevel; 5] = [
    IsolationLevel::ReadUncommitted,
    IsolationLevel::ReadCommitted,
    IsolationLevel::RepeatableRead,
    IsolationLevel::Snapshot,
    IsolationLevel::Serializable,
];

fn key(n: u64) -> Vec<u8> {
    match n % 5 {
        0 => n.to_le_bytes().to_vec(),
        1 => format!("Key{:02}", n / 4).into_bytes(),
        2 => format!("kEy{:02}", n / 4).into_bytes(),
        3 => [b"k\0".as_slice(), &[n as u8]].concat(),
        _ => vec![u8::MAX; 1 + (n / 8) as usize],
    }
}

fn value(numbers: &mut SplitMix64) -> Vec<u8> {
    let longest = [1, 30, 400, 3000][numbers.below(4) as usize];
    vec![numbers.below(256) as u8; numbers.below(longest) as usize]
}

struct Subject<'a> {
    family: &'a Family,
    order: &'a KeyOrder,
}

impl Subject<'_> {
    fn stored(&self, key: &[u8]) -> Vec<u8> {
        self.order.stored_key(key).into_owned()
    }

    /// One write outside of the transaction.
    fn write(&self, model: &mut Model, numbers: &mut SplitMix64) {
        let (one, family) = (key(numbers.below(KEYS)), self.family);
        match numbers.below(16) {
            0..8 => {
                let value = value(numbers);
                family.put(&one, &value).unwrap();
                model.insert(self.stored(&one), (one, value));
            }
            8 | 9 => {
                family.delete(&one).unwrap();
                model.remove(&self.stored(&one));
            }
            10 => {
                family.put_expiring_at(&one, "gone", 1).unwrap();
                model.remove(&self.stored(&one));
            }
            11 => {
                let value = value(numbers);
                family.put_expiring_at(&one, &value, u64::MAX).unwrap();
                model.insert(self.stored(&one), (one, value));
            }
            12 => {
                let other = key(numbers.below(KEYS));
                let (mut from, mut to) = (one, other);
                if self.stored(&from) > self.stored(&to) {
                    std::mem::swap(&mut from, &mut to);
                }
                if self.stored(&from) < self.stored(&to) {
                    family.delete_range(&from, &to).unwrap();
                    let (from, to) = (self.stored(&from), self.stored(&to));
                    model.retain(|key, _| *key < from || *key >= to);
                }
            }
            13 | 14 => family.flush().unwrap(),
            _ => {
                if numbers.below(3) == 0 {
                    family.compact().unwrap();
                }
            }
        }
    }

    fn write_own(&self, own: &mut Transaction, model: &mut Model, numbers: &mut SplitMix64) {
        let (one, family) = (key(numbers.below(KEYS)), self.family);
        match numbers.below(8) {
            0..4 => {
                let value = value(numbers);
                own.put(family, &one, &value).unwrap();
                model.insert(self.stored(&one), (one, value));
            }
            4 => {
                own.put_expiring_at(family, &one, "gone", 1).unwrap();
                model.remove(&self.stored(&one));
            }
            _ => {
                own.delete(family, &one).unwrap();
                model.remove(&self.stored(&one));
            }
        }
    }

    fn check_keys(&self, own: &Transaction, model: &Model, numbers: &mut SplitMix64, what: &str) {
        let count = numbers.below(2 * KEYS);
        let keys: Vec<_> = (0..count).map(|_| key(numbers.below(KEYS + 5))).collect();
        let found = own.multi_get(self.family, &keys).unwrap();
        let pinned = own.multi_get_pinned(self.family, &keys).unwrap();
        for ((key, found), pinned) in keys.iter().zip(found).zip(pinned) {
            let expected = model.get(&self.stored(key)).map(|entry| entry.1.clone());
            assert_eq!(found, expected, "{what}: many, {key:?}");
            assert_eq!(pinned.map(|value| value.to_vec()), expected, "{what}: pinned, {key:?}");
            assert_eq!(own.get(self.family, key).unwrap(), expected, "{what}: {key:?}");
            let has = own.contains_untracked(self.family, key).unwrap();
            assert_eq!(has, expected.is_some(), "{what}: {key:?}");
        }
    }

    /// A walk to and fro within bounds.
    fn check_walk(&self, own: &Transaction, model: &Model, numbers: &mut SplitMix64, what: &str) {
        let (one, other) = (key(numbers.below(KEYS)), key(numbers.below(KEYS)));
        let (low, high) = (self.stored(&one), self.stored(&other));
        let (bounds, shown): (_, Vec<_>) = match numbers.below(3) {
            0 => (ScanOptions::new(), model.iter().collect()),
            1 => {
                let shown = model.iter().filter(|(key, _)| **key >= low && **key < high);
                (ScanOptions::new().lower(&one).upper(&other), shown.collect())
            }
            _ => {
                let shown = model.iter().filter(|(key, _)| **key > low && **key <= high);
                let range = (std::ops::Bound::Excluded(&one), std::ops::Bound::Included(&other));
                (ScanOptions::new().range(range), shown.collect())
            }
        };
        let mut scan = own.scan(self.family, bounds).unwrap();
        let mut at: Option<usize> = None;
        for step in 0..numbers.below(4 * KEYS) {
            let target = key(numbers.below(KEYS + 5));
            let place = self.stored(&target);
            let movement = numbers.below(20);
            at = match movement {
                0 => {
                    scan.seek(&target).unwrap();
                    Some(shown.partition_point(|(key, _)| **key < place))
                }
                1 => {
                    scan.seek_for_prev(&target).unwrap();
                    shown.partition_point(|(key, _)| **key <= place).checked_sub(1)
                }
                2 => {
                    scan.seek_to_first().unwrap();
                    Some(0)
                }
                3 => {
                    scan.seek_to_last().unwrap();
                    shown.len().checked_sub(1)
                }
                4..12 => {
                    scan.next().unwrap();
                    at.map(|at| at + 1)
                }
                _ => {
                    scan.prev().unwrap();
                    at.and_then(|at| at.checked_sub(1))
                }
            };
            at = at.filter(|at| *at < shown.len());
            let expected = at.map(|at| shown[at].1.clone());
            let found = scan.valid().then(|| {
                let (key, value) = scan.key_value().unwrap();
                (key.to_vec(), value.to_vec())
            });
            assert_eq!(found, expected, "{what}, step {step}: {movement} {target:?}");
        }
    }
}

#[test]
fn all_ways_to_read_agree_in_all_orders() {
    let orders = ["bytewise", "reverse", "lexicographic", "uint64", "int64", "case_insensitive"];
    let mut numbers = SplitMix64::new(1);
    let options = DbOptions::default().block_cache_bytes(64 << 10);
    let db = Db::open_with("/db", options, Components::simulated()).unwrap();
    for (round, name) in orders.into_iter().enumerate() {
        let order = KeyOrder::from_name(name).unwrap();
        let options = FamilyOptions::default()
            .write_buffer_size(16 << 10)
            .block_size(128 << numbers.below(3))
            .target_table_bytes(4 << 10)
            .klog_value_threshold(100 << numbers.below(5))
            .use_btree(numbers.below(2) == 0)
            .prefix_bytes(numbers.below(3) as usize)
            .l1_file_count_trigger(20)
            .key_order(order.clone())
            .min_disk_space(0);
        let family = db.create_family(&format!("family{round}"), options).unwrap();
        let subject = Subject { family: &family, order: &order };
        let mut committed = Model::new();
        for part in 0..8 {
            for _ in 0..numbers.below(80) {
                subject.write(&mut committed, &mut numbers);
            }
            let level = LEVELS[numbers.below(5) as usize];
            let what = format!("round {round}, {order}, part {part}, {level:?}");
            let mut own = db.begin(level).unwrap();
            let mut model = committed.clone();
            for turn in 0..6 {
                if own.snapshot_sequence().is_some() {
                    for _ in 0..numbers.below(40) {
                        subject.write(&mut committed, &mut numbers);
                    }
                }
                let before = model.clone();
                own.savepoint("turn").unwrap();
                for _ in 0..numbers.below(30) {
                    subject.write_own(&mut own, &mut model, &mut numbers);
                }
                if numbers.below(3) == 0 {
                    own.rollback_to_savepoint("turn").unwrap();
                    model = before;
                }
                let what = format!("{what}, turn {turn}");
                subject.check_keys(&own, &model, &mut numbers, &what);
                subject.check_walk(&own, &model, &mut numbers, &what);
            }
        }
    }
}
