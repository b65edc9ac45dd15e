//! The specification of reads: the history of transactions.
//!
//! A database is right when it shows the effect of one prefix of the history, the same in every
//! family. Which prefix is found by a hash of the whole content that is kept up to date
//! transaction by transaction, so that finding it costs one pass.
//!
//! A family that is dropped and created again is another family: each life has its own
//! [`FamilyId`]. Entries that have expired count as absent, whatever the engine keeps of them.

use std::collections::BTreeMap;

use tidesdb_base::checksum;
use tidesdb_base::entry::is_expired;
use tidesdb_sim::rng::mix64;

use crate::values::{Tag, describe};

/// One life of a family, never given out twice.
pub type FamilyId = u32;

/// A value as the oracle keeps it.
#[derive(Clone, Copy, Debug)]
pub struct StoredValue {
    /// Expands to the bytes.
    pub tag: Tag,
    /// Unix second from which it is absent; 0 for never.
    pub expires_at: u64,
    /// [`entry_hash`] of key and value.
    pub hash: u64,
}

/// One operation of a transaction; no value means a deletion.
#[derive(Clone, Debug)]
pub struct Write {
    /// Which family.
    pub family: FamilyId,
    /// Which key.
    pub key: Vec<u8>,
    /// What the key is stored as. Places sort as keys do in the order of the family, and keys of
    /// one place are one key.
    pub place: Vec<u8>,
    /// What is written.
    pub value: Option<StoredValue>,
    /// The deletion promises that the key was put at most once since it was last deleted.
    pub single: bool,
    /// Every key from `key` up to this one, and without it, is deleted.
    pub end: Option<RangeEnd>,
}

/// Where a range deletion ends.
#[derive(Clone, Debug)]
pub struct RangeEnd {
    /// The key.
    pub key: Vec<u8>,
    /// What it is stored as.
    pub place: Vec<u8>,
}

impl Write {
    fn covers(&self, family: FamilyId, place: &[u8]) -> bool {
        let inside = match &self.end {
            Some(end) => self.place.as_slice() <= place && place < end.place.as_slice(),
            None => self.place == place,
        };
        self.family == family && inside
    }
}

/// Operations that take effect together.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Its number; later transactions have higher ones.
    pub number: u64,
    /// In order.
    pub writes: Vec<Write>,
}

/// By place: the key as it was put last, and its value.
type Placed<'h> = BTreeMap<&'h [u8], (&'h [u8], StoredValue)>;

/// A family's content.
pub type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// The contents of the families that exist.
pub type Contents = BTreeMap<FamilyId, Content>;

/// Hash of one entry; the hash of a database is the exclusive or of its entries'.
#[must_use]
pub fn entry_hash(family: FamilyId, key: &[u8], value: &[u8]) -> u64 {
    let place = mix64(u64::from(family) ^ checksum::plain(key).rotate_left(17));
    mix64(place ^ checksum::plain(value))
}

/// Hash of a database.
#[must_use]
pub fn contents_hash(contents: &Contents) -> u64 {
    let of_family = |(family, content): (&FamilyId, &Content)| {
        content.iter().fold(0, |hash, (key, value)| hash ^ entry_hash(*family, key, value))
    };
    contents.iter().map(of_family).fold(0, |hash, family| hash ^ family)
}

/// Which prefixes are acceptable.
#[derive(Clone, Copy, Debug)]
pub struct PrefixBounds {
    /// This transaction and all before it must be there.
    pub lower: u64,
    /// Nothing after this transaction may be there.
    pub upper: u64,
    /// Unix time at which the database was read.
    pub now: u64,
}

/// All transactions that have, or may have, taken effect, in commit order.
#[derive(Clone, Debug, Default)]
pub struct History {
    transactions: Vec<Transaction>,
}

impl History {
    /// Adds a transaction; its number must be the highest.
    pub fn push(&mut self, transaction: Transaction) {
        debug_assert!(self.transactions.last().is_none_or(|last| last.number < transaction.number));
        self.transactions.push(transaction);
    }

    /// Takes the last transaction back: it has not happened.
    pub fn pop(&mut self) {
        self.transactions.pop();
    }

    /// Forgets everything after transaction `number`: a crash has taken it.
    pub fn truncate_behind(&mut self, number: u64) {
        self.transactions.retain(|transaction| transaction.number <= number);
    }

    /// Whether the key of a place was put at most once since it was last deleted, by the
    /// transactions or by `writes`, which come after them.
    #[must_use]
    pub fn allows_single_deletion(&self, writes: &[Write], family: FamilyId, place: &[u8]) -> bool {
        let before = self.transactions.iter().flat_map(|transaction| &transaction.writes);
        let of_key = before.chain(writes).rev().filter(|write| write.covers(family, place));
        of_key.take_while(|write| write.value.is_some()).take(2).count() < 2
    }

    /// Has `copy` live through everything that `source` has lived through: of a database that lost
    /// the end of its log, both show the same prefix.
    pub fn copy_family(&mut self, source: FamilyId, copy: FamilyId) {
        for transaction in &mut self.transactions {
            let of_source = transaction.writes.iter().filter(|write| write.family == source);
            let mut again: Vec<Write> = of_source.cloned().collect();
            for write in &mut again {
                write.family = copy;
                if let Some(value) = &mut write.value {
                    value.hash = entry_hash(copy, &write.key, &value.tag.bytes(&write.key));
                }
            }
            transaction.writes.append(&mut again);
        }
    }

    /// Every family that was ever written to, with repetitions.
    pub fn families(&self) -> impl Iterator<Item = FamilyId> {
        self.transactions.iter().flat_map(|t| t.writes.iter().map(|write| write.family))
    }

    /// The latest prefix within `bounds` whose content has this hash, over the families `live`.
    #[must_use]
    pub fn find_prefix(&self, live: &[FamilyId], hash: u64, bounds: PrefixBounds) -> Option<u64> {
        let mut present: BTreeMap<(FamilyId, &[u8]), u64> = BTreeMap::new();
        let (mut running, mut found) = (0, None);
        let mut at = 0usize;
        loop {
            // This state lasts from the last applied transaction until just before the next.
            let first = at.checked_sub(1).map_or(0, |last| self.transactions[last].number);
            let next = self.transactions.get(at);
            let last = next.map_or(u64::MAX, |transaction| transaction.number - 1);
            if running == hash && first <= bounds.upper && last >= bounds.lower {
                found = Some(last.min(bounds.upper));
            }
            let Some(transaction) = next else { return found };
            for write in transaction.writes.iter().filter(|write| live.contains(&write.family)) {
                let place = (write.family, write.place.as_slice());
                if let Some(end) = &write.end {
                    let range = present.range(place..(write.family, end.place.as_slice()));
                    let gone: Vec<_> = range.map(|(place, _)| *place).collect();
                    for place in gone {
                        running ^= present.remove(&place).unwrap_or(0);
                    }
                    continue;
                }
                let alive = write.value.filter(|value| !is_expired(value.expires_at, bounds.now));
                let old = match alive {
                    Some(value) => present.insert(place, value.hash),
                    None => present.remove(&place),
                };
                running ^= old.unwrap_or(0) ^ alive.map_or(0, |value| value.hash);
            }
            at += 1;
        }
    }

    /// The contents of the families `live` after transaction `upto`, at Unix time `now`.
    #[must_use]
    pub fn contents(&self, live: &[FamilyId], upto: u64, now: u64) -> Contents {
        let mut last: BTreeMap<FamilyId, Placed<'_>> =
            live.iter().map(|family| (*family, BTreeMap::new())).collect();
        for transaction in self.transactions.iter().take_while(|t| t.number <= upto) {
            for write in &transaction.writes {
                let Some(family) = last.get_mut(&write.family) else { continue };
                if let Some(end) = &write.end {
                    let (from, to) = (write.place.as_slice(), end.place.as_slice());
                    family.retain(|place, _| *place < from || *place >= to);
                    continue;
                }
                match write.value.filter(|value| !is_expired(value.expires_at, now)) {
                    Some(value) => family.insert(&write.place, (&write.key, value)),
                    None => family.remove(write.place.as_slice()),
                };
            }
        }
        let expand = |(key, value): (&[u8], StoredValue)| (key.to_vec(), value.tag.bytes(key));
        last.into_iter()
            .map(|(id, family)| (id, family.into_values().map(expand).collect()))
            .collect()
    }

    /// What the history says about one key, newest first, for reports.
    #[must_use]
    pub fn story(&self, family: FamilyId, key: &[u8]) -> String {
        let mut writes = self.transactions.iter().flat_map(|transaction| &transaction.writes);
        let known = writes.find(|write| write.family == family && write.key == key);
        let place = known.map_or(key, |write| &write.place);
        let reported = self.transactions.iter().rev().flat_map(|transaction| {
            let of_key = |write: &&Write| write.covers(family, place);
            transaction.writes.iter().filter(of_key).map(|write| match write.value {
                _ if write.end.is_some() => {
                    format!("{}: delete a range from {:?}", transaction.number, write.key)
                }
                Some(value) => format!(
                    "{}: put {} bytes, expires {}",
                    transaction.number, value.tag.length, value.expires_at
                ),
                None if write.single => format!("{}: single delete", transaction.number),
                None => format!("{}: delete", transaction.number),
            })
        });
        reported.take(6).collect::<Vec<_>>().join("; ")
    }

    /// The first differences between what is expected and what was found.
    #[must_use]
    pub fn differences(&self, expected: &Contents, found: &Contents) -> String {
        let mut lines = Vec::new();
        for (family, content) in expected {
            let nothing = Content::new();
            let actual = found.get(family).unwrap_or(&nothing);
            let keys: std::collections::BTreeSet<_> = content.keys().chain(actual.keys()).collect();
            for key in keys {
                let (wanted, got) = (content.get(key), actual.get(key));
                if wanted != got {
                    let show = |value: Option<&Vec<u8>>| {
                        value.map_or_else(|| "absent".to_owned(), |value| describe(value))
                    };
                    lines.push(format!(
                        "family {family} key {:?}: expected {}, found {}; history: {}",
                        String::from_utf8_lossy(key),
                        show(wanted),
                        show(got),
                        self.story(*family, key)
                    ));
                }
            }
        }
        let count = lines.len();
        lines.truncate(8);
        format!("{count} differences\n{}", lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(number: u64, family: FamilyId, key: &[u8], expires_at: u64) -> Transaction {
        let tag = Tag { transaction: number, operation: 0, length: 40 };
        let hash = entry_hash(family, key, &tag.bytes(key));
        let value = Some(StoredValue { tag, expires_at, hash });
        let (key, place) = (key.to_vec(), key.to_vec());
        let write = Write { family, key, place, value, single: false, end: None };
        Transaction { number, writes: vec![write] }
    }

    #[test]
    fn a_prefix_is_found_by_its_content_and_only_within_bounds() {
        let mut history = History::default();
        history.push(put(1, 0, b"a", 0));
        history.push(put(3, 1, b"a", 0));
        let (key, place) = (b"a".to_vec(), b"a".to_vec());
        let gone = Write { family: 0, key, place, value: None, single: false, end: None };
        history.push(Transaction { number: 5, writes: vec![gone] });
        let hash = |upto| contents_hash(&history.contents(&[0, 1], upto, 100));
        let find = |hash, lower, upper| {
            history.find_prefix(&[0, 1], hash, PrefixBounds { lower, upper, now: 100 })
        };
        assert_eq!(find(hash(3), 0, 9), Some(4), "lasts until the next transaction");
        assert_eq!(find(hash(3), 5, 9), None, "a hole: transaction 5 is missing");
        assert_eq!(find(hash(5), 0, 4), None, "invented");
        assert_eq!(find(hash(0), 0, 0), Some(0));
        let torn = contents_hash(&history.contents(&[1], 3, 100));
        assert_eq!(find(torn ^ 1, 0, 9), None);
    }

    #[test]
    fn expired_entries_are_absent() {
        let mut history = History::default();
        history.push(put(1, 0, b"a", 50));
        let at = |now| history.contents(&[0], 1, now)[&0].len();
        assert_eq!((at(49), at(50)), (1, 0));
        let bounds = PrefixBounds { lower: 1, upper: 1, now: 50 };
        assert_eq!(history.find_prefix(&[0], 0, bounds), Some(1));
    }

    #[test]
    fn a_single_deletion_is_allowed_after_one_put() {
        let mut history = History::default();
        let allows = |history: &History| history.allows_single_deletion(&[], 0, b"a");
        assert!(allows(&history));
        history.push(put(1, 0, b"a", 0));
        history.push(put(2, 0, b"b", 0));
        history.push(put(3, 1, b"a", 0));
        assert!(allows(&history));
        history.push(put(4, 0, b"a", 50));
        assert!(!allows(&history));
        let deletion = |end: Option<&[u8]>| Write {
            family: 0,
            key: b"a".to_vec(),
            place: b"a".to_vec(),
            value: None,
            single: end.is_none(),
            end: end.map(|end| RangeEnd { key: end.to_vec(), place: end.to_vec() }),
        };
        assert!(history.allows_single_deletion(&[deletion(None)], 0, b"a"));
        let number = 5;
        history.push(Transaction { number, writes: vec![deletion(Some(b"b"))] });
        assert!(allows(&history));
    }

    #[test]
    fn a_copy_of_a_family_has_its_past_and_a_future_of_its_own() {
        let mut history = History::default();
        history.push(put(1, 0, b"a", 0));
        history.push(put(2, 0, b"b", 0));
        history.copy_family(0, 7);
        history.push(put(3, 7, b"c", 0));
        let sizes = |upto| {
            let contents = history.contents(&[0, 7], upto, 1);
            (contents[&0].len(), contents[&7].len())
        };
        assert_eq!((sizes(1), sizes(2), sizes(3)), ((1, 1), (2, 2), (2, 3)));
        let hash = contents_hash(&history.contents(&[0, 7], 1, 1));
        let bounds = PrefixBounds { lower: 0, upper: 9, now: 1 };
        assert_eq!(history.find_prefix(&[0, 7], hash, bounds), Some(1));
        assert!(history.allows_single_deletion(&[], 7, b"a"));
    }

    #[test]
    fn a_range_deletion_takes_its_keys_and_no_others() {
        let mut history = History::default();
        for (number, key) in [b"a", b"b", b"c"].iter().enumerate() {
            history.push(put(number as u64 + 1, 0, *key, 0));
        }
        history.push(put(4, 1, b"b", 0));
        let end = Some(RangeEnd { key: b"c".to_vec(), place: b"c".to_vec() });
        let (key, place) = (b"b".to_vec(), b"b".to_vec());
        let range = Write { family: 0, key, place, value: None, single: false, end };
        history.push(Transaction { number: 5, writes: vec![range] });
        let contents = history.contents(&[0, 1], 5, 1);
        let keys: Vec<_> = contents[&0].keys().cloned().collect();
        assert_eq!((keys, contents[&1].len()), (vec![b"a".to_vec(), b"c".to_vec()], 1));
        let bounds = PrefixBounds { lower: 0, upper: 9, now: 1 };
        assert_eq!(history.find_prefix(&[0, 1], contents_hash(&contents), bounds), Some(9));
    }
}
