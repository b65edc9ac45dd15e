//! An ordered map in any order of keys, and random operations on it and on a family beside it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tidesdb::{
    CompareKeys, Components, Db, DbOptions, Family, FamilyOptions, IsolationLevel, KeyOrder,
    KeyOrders, Scan, ScanOptions, Transaction, WriteBatch,
};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};

pub(crate) const APPLICATION: &str = "by length, then backwards";

/// Shorter keys first, then from the last byte to the first.
fn application_order(one: &[u8], other: &[u8]) -> Ordering {
    let by_length = one.len().cmp(&other.len());
    by_length.then_with(|| one.iter().rev().cmp(other.iter().rev()))
}

pub(crate) fn orders() -> Vec<KeyOrder> {
    vec![
        KeyOrder::Bytewise,
        KeyOrder::Reverse,
        KeyOrder::Lexicographic,
        KeyOrder::Uint64,
        KeyOrder::Int64,
        KeyOrder::CaseInsensitive,
        KeyOrder::Custom(APPLICATION.to_owned()),
    ]
}

pub(crate) fn registered() -> KeyOrders {
    let mut orders = KeyOrders::default();
    orders.register(APPLICATION, Arc::new(application_order)).unwrap();
    orders
}

/// How keys of the order compare.
pub(crate) fn compare_of(order: &KeyOrder) -> CompareKeys {
    let built_in = order.clone();
    match order {
        KeyOrder::Custom(_) => Arc::new(application_order),
        _ => Arc::new(move |one, other| built_in.compare(one, other).unwrap()),
    }
}

/// A key that sorts as its family orders it.
#[derive(Clone)]
struct Ranked {
    compare: CompareKeys,
    key: Vec<u8>,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.compare)(&self.key, &other.key)
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// What a family must show: by key, in whatever spelling, the last spelling and the value.
#[derive(Clone)]
pub(crate) struct Model {
    order: KeyOrder,
    compare: CompareKeys,
    map: BTreeMap<Ranked, (Vec<u8>, Vec<u8>)>,
}

impl Model {
    fn new(order: &KeyOrder) -> Self {
        Self { order: order.clone(), compare: compare_of(order), map: BTreeMap::new() }
    }

    fn ranked(&self, key: &[u8]) -> Ranked {
        Ranked { compare: Arc::clone(&self.compare), key: key.to_vec() }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        let ranked = self.ranked(key);
        self.map.insert(ranked, (key.to_vec(), value.to_vec()));
    }

    fn delete(&mut self, key: &[u8]) {
        self.map.remove(&self.ranked(key));
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        let (start, end) = (self.ranked(start), self.ranked(end));
        self.map.retain(|key, _| *key < start || *key >= end);
    }

    fn delete_prefix(&mut self, prefix: &[u8]) {
        let order = self.order.clone();
        self.map.retain(|_, (key, _)| !has_prefix(&order, key, prefix));
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.map.get(&self.ranked(key)).map(|(_, value)| value.clone())
    }

    fn entries(&self, limits: &Limits) -> Entries {
        let inside = |(ranked, (key, _)): &(&Ranked, &(Vec<u8>, Vec<u8>))| {
            let after = match &limits.from {
                Bound::Included(from) => **ranked >= self.ranked(from),
                Bound::Excluded(from) => **ranked > self.ranked(from),
                Bound::Unbounded => true,
            };
            let before = match &limits.to {
                Bound::Included(to) => **ranked <= self.ranked(to),
                Bound::Excluded(to) => **ranked < self.ranked(to),
                Bound::Unbounded => true,
            };
            let prefix = limits.prefix.as_ref();
            after && before && prefix.is_none_or(|prefix| has_prefix(&self.order, key, prefix))
        };
        self.map.iter().filter(inside).map(|(_, entry)| entry.clone()).collect()
    }
}

fn has_prefix(order: &KeyOrder, key: &[u8], prefix: &[u8]) -> bool {
    match order {
        KeyOrder::CaseInsensitive => {
            key.to_ascii_lowercase().starts_with(&prefix.to_ascii_lowercase())
        }
        KeyOrder::Lexicographic => {
            let text = |key: &[u8]| key.split(|byte| *byte == 0).next().unwrap().to_vec();
            // Behind a NUL nothing counts: only that one key begins with it.
            let whole = prefix.contains(&0);
            if whole { text(key) == text(prefix) } else { text(key).starts_with(prefix) }
        }
        _ => key.starts_with(prefix),
    }
}

/// What a scan covers.
struct Limits {
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    prefix: Option<Vec<u8>>,
}

fn shown(scan: &Scan) -> Option<(Vec<u8>, Vec<u8>)> {
    scan.valid().then(|| (scan.key().to_vec(), scan.value().unwrap().to_vec()))
}

/// A family and its model.
pub(crate) struct Bench {
    sim: Arc<SimVfs>,
    seed: u64,
    db: Option<Db>,
    family: Option<Family>,
    pub(crate) model: Model,
    pub(crate) random: SplitMix64,
}

impl Bench {
    pub(crate) fn new(order: &KeyOrder, use_btree: bool, seed: u64) -> Self {
        let mut bench = Self {
            sim: SimVfs::new(seed),
            seed,
            db: None,
            family: None,
            model: Model::new(order),
            random: SplitMix64::new(seed),
        };
        bench.open();
        let options = FamilyOptions::default()
            .key_order(order.clone())
            .use_btree(use_btree)
            .write_buffer_size(8 << 10)
            .block_size(256)
            .target_table_bytes(4 << 10)
            .klog_value_threshold(100)
            .l1_file_count_trigger(2)
            .min_disk_space(0);
        bench.family = Some(bench.db().create_family("f", options).unwrap());
        bench
    }

    fn open(&mut self) {
        let options = DbOptions::default().key_orders(registered()).log_segment_bytes(64 << 10);
        let components = Components {
            vfs: self.sim.clone(),
            scheduler: Arc::new(ManualScheduler::new(self.seed)),
            clock: Arc::new(ManualClock::new(1000)),
        };
        let db = Db::open_with("/db", options, components).unwrap();
        self.family = db.family("f").ok();
        self.db = Some(db);
    }

    pub(crate) fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    pub(crate) fn family(&self) -> Family {
        self.family.clone().unwrap()
    }

    /// Closes the database in good order, or leaves it as it is, and opens it again.
    fn reopen(&mut self) {
        self.family = None;
        let db = self.db.take().unwrap();
        if self.random.chance(1, 2) {
            db.close().unwrap();
        } else {
            drop(db);
        }
        self.open();
    }

    /// One of not too many keys, alike, with bytes that orders treat in their own way.
    pub(crate) fn key(&mut self) -> Vec<u8> {
        const BYTES: &[u8] = b"\0\x01AaBb\x7f\x80\xfe\xff";
        let random = &mut self.random;
        let mut bytes = |count: usize| -> Vec<u8> {
            (0..count).map(|_| BYTES[random.index(BYTES.len())]).collect()
        };
        match bytes(1)[0] {
            0 | 1 => {
                let mut key = vec![0; 7];
                key.extend(bytes(1));
                key.rotate_left(usize::from(bytes(1)[0] % 8));
                key
            }
            b'A' | b'a' => bytes(8),
            b'B' => [b"Common/Prefix".as_slice(), &bytes(2)].concat(),
            b'b' => [b"common/prefix".as_slice(), &bytes(2)].concat(),
            0x7F => [bytes(1), b"\0\0tail".to_vec()].concat(),
            0x80 => bytes(1),
            _ => bytes(3),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let length = [0, 5, 60, 300][self.random.index(4)];
        (0..length).map(|_| self.random.below(256) as u8).collect()
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        let key = self.key();
        match self.random.below(3) {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        }
    }

    fn limits(&mut self) -> Limits {
        let prefixes = !matches!(self.model.order, KeyOrder::Uint64 | KeyOrder::Int64);
        let prefix = (prefixes && self.random.chance(1, 4)).then(|| {
            let key = self.key();
            key[..1 + self.random.index(key.len())].to_vec()
        });
        Limits { from: self.bound(), to: self.bound(), prefix }
    }

    /// Two different keys in order, where the order lets ranges of them be deleted.
    fn range(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let (one, other) = (self.key(), self.key());
        match self.model.order.compare(&one, &other)? {
            Ordering::Less => Some((one, other)),
            Ordering::Equal => None,
            Ordering::Greater => Some((other, one)),
        }
    }

    pub(crate) fn step(&mut self) {
        match self.random.below(100) {
            0..=44 => {
                let (key, value) = (self.key(), self.value());
                self.family().put(&key, &value).unwrap();
                self.model.put(&key, &value);
            }
            45..=54 => {
                let key = self.key();
                self.family().delete(&key).unwrap();
                self.model.delete(&key);
            }
            55..=56 => {
                let Some((start, end)) = self.range() else { return };
                self.family().delete_range(&start, &end).unwrap();
                self.model.delete_range(&start, &end);
            }
            57 => self.delete_prefix(),
            58..=64 => self.batch(),
            65..=74 => {
                let keys = [self.key(), self.key(), self.key()];
                let wanted: Vec<_> = keys.iter().map(|key| self.model.get(key)).collect();
                assert_eq!(self.family().multi_get(&keys).unwrap(), wanted);
                assert_eq!(self.family().contains(&keys[0]).unwrap(), wanted[0].is_some());
                let pinned = self.family().get_pinned(&keys[1]).unwrap();
                assert_eq!(pinned.as_deref(), wanted[1].as_deref());
            }
            75..=84 => self.scan(),
            85..=91 => self.transaction(),
            92..=94 => self.family().flush().unwrap(),
            95 => self.family().compact().unwrap(),
            96 => {
                let (start, end) = (self.key(), self.key());
                self.family().compact_range(&start..&end).unwrap();
            }
            97..=98 => self.db().wait_idle().unwrap(),
            _ => self.reopen(),
        }
    }

    fn delete_prefix(&mut self) {
        let key = self.key();
        let prefix = &key[..key.len().min(2)];
        if matches!(self.model.order, KeyOrder::Uint64 | KeyOrder::Int64) {
            assert!(self.family().delete_prefix(prefix).is_err());
            assert!(self.family().prefix(prefix).is_err());
            return;
        }
        self.family().delete_prefix(prefix).unwrap();
        self.model.delete_prefix(prefix);
    }

    /// Operations on the same keys in one batch, ranges among them.
    fn batch(&mut self) {
        let (family, mut batch) = (self.family(), WriteBatch::new());
        for _ in 0..self.random.below(6) {
            let (key, value) = (self.key(), self.value());
            if self.random.chance(3, 4) {
                batch.put(&family, &key, &value).unwrap();
                self.model.put(&key, &value);
            } else if let Some((start, end)) = self.range() {
                batch.delete_range(&family, &start, &end).unwrap();
                self.model.delete_range(&start, &end);
            } else {
                batch.delete(&family, &key).unwrap();
                self.model.delete(&key);
            }
        }
        self.db().write(&batch).unwrap();
    }

    fn options(limits: &Limits) -> ScanOptions {
        let range = (limits.from.clone(), limits.to.clone());
        let options = ScanOptions::new().range(range);
        match &limits.prefix {
            Some(prefix) => options.prefix(prefix),
            None => options,
        }
    }

    fn scan(&mut self) {
        let limits = self.limits();
        let wanted = self.model.entries(&limits);
        let scan = || self.family().scan(Self::options(&limits)).unwrap();
        let found: Entries = scan().entries().map(Result::unwrap).collect();
        assert_eq!(found, wanted);
        let mut backwards: Entries = scan().entries_rev().map(Result::unwrap).collect();
        backwards.reverse();
        assert_eq!(backwards, wanted);
        let mut scan = scan();
        self.walk(&mut scan, &wanted);
    }

    /// Random movements of a scan that shows `wanted` and no other entries.
    fn walk(&mut self, scan: &mut Scan, wanted: &Entries) {
        for _ in 0..4 {
            let target = self.key();
            let place = self.model.ranked(&target);
            let at_or_after = |entry: &(Vec<u8>, Vec<u8>)| self.model.ranked(&entry.0) >= place;
            let at_or_before = |entry: &(Vec<u8>, Vec<u8>)| self.model.ranked(&entry.0) <= place;
            let mut at = match self.random.below(4) {
                0 => {
                    scan.seek(&target).unwrap();
                    wanted.iter().position(at_or_after)
                }
                1 => {
                    scan.seek_for_prev(&target).unwrap();
                    wanted.iter().rposition(at_or_before)
                }
                2 => {
                    scan.seek_to_first().unwrap();
                    (!wanted.is_empty()).then_some(0)
                }
                _ => {
                    scan.seek_to_last().unwrap();
                    wanted.len().checked_sub(1)
                }
            };
            for _ in 0..6 {
                assert_eq!(shown(scan).as_ref(), at.map(|at| &wanted[at]), "at {target:?}");
                let forward = self.random.chance(1, 2);
                if forward {
                    scan.next().unwrap()
                } else {
                    scan.prev().unwrap()
                }
                at = at.and_then(|at| {
                    if forward {
                        Some(at + 1).filter(|&at| at < wanted.len())
                    } else {
                        at.checked_sub(1)
                    }
                });
            }
        }
    }

    fn transaction(&mut self) {
        const LEVELS: [IsolationLevel; 5] = [
            IsolationLevel::ReadUncommitted,
            IsolationLevel::ReadCommitted,
            IsolationLevel::RepeatableRead,
            IsolationLevel::Snapshot,
            IsolationLevel::Serializable,
        ];
        let family = self.family();
        let before = self.model.clone();
        let level = LEVELS[self.random.index(LEVELS.len())];
        let mut transaction = self.db().begin(level).unwrap();
        for _ in 0..self.random.below(14) {
            let (key, value) = (self.key(), self.value());
            if self.random.chance(2, 3) {
                transaction.put(&family, &key, &value).unwrap();
                self.model.put(&key, &value);
            } else {
                transaction.delete(&family, &key).unwrap();
                self.model.delete(&key);
            }
        }
        for _ in 0..3 {
            let key = self.key();
            assert_eq!(transaction.get(&family, &key).unwrap(), self.model.get(&key));
            let wanted = [self.model.get(&key)];
            assert_eq!(transaction.multi_get(&family, [&key]).unwrap(), wanted);
            assert_eq!(
                transaction.contains_untracked(&family, &key).unwrap(),
                self.model.get(&key).is_some()
            );
        }
        self.scan_in(&transaction, &family);
        if self.random.chance(2, 3) {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
            self.model = before;
        }
    }

    fn scan_in(&mut self, transaction: &Transaction, family: &Family) {
        let limits = self.limits();
        let wanted = self.model.entries(&limits);
        let scan = transaction.scan(family, Self::options(&limits)).unwrap();
        let found: Entries = scan.entries().map(Result::unwrap).collect();
        assert_eq!(found, wanted);
        let mut scan = transaction.scan(family, Self::options(&limits)).unwrap();
        self.walk(&mut scan, &wanted);
    }

    pub(crate) fn finish(&mut self) {
        self.reopen();
        let all = Limits { from: Bound::Unbounded, to: Bound::Unbounded, prefix: None };
        let scan = self.family().scan(ScanOptions::new()).unwrap();
        let found: Entries = scan.entries().map(Result::unwrap).collect();
        assert_eq!(found, self.model.entries(&all));
        assert!(self.db().verify().unwrap().problems.is_empty());
    }
}
