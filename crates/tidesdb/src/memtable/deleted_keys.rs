//! Keys that a memtable deletes: about how many, and some of them.

use super::{Memtable, kind_of};

/// A memtable of no more keys than this is looked through as a whole. It takes some milliseconds.
const MOST_LOOKED_AT: u64 = 128 << 10;

/// Of a larger one, so many places are looked at, with as many keys each as make up that number.
const PLACES: u64 = 64;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DeletedKeys {
    /// Keys whose newest version is a deletion, about.
    pub count: u64,
    /// Some of them, from all over the memtable.
    pub sample: Vec<Vec<u8>>,
}

/// Keeps every so many of the deleted keys: twice as many as are wanted at most.
struct Sample {
    keys: Vec<Vec<u8>>,
    wanted: usize,
    every: u64,
    seen: u64,
}

impl Sample {
    fn offer(&mut self, key: &[u8]) {
        if self.seen.is_multiple_of(self.every) {
            self.keys.push(key.to_vec());
        }
        self.seen += 1;
        if self.keys.len() >= self.wanted * 2 {
            let mut at = 0;
            self.keys.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.every *= 2;
        }
    }
}

impl Memtable {
    /// The keys that it deletes one by one, with fewer than twice as many as `wanted` of them.
    /// Reads memory only.
    pub(crate) fn deleted_keys(&self, wanted: usize) -> DeletedKeys {
        self.deleted_keys_of(wanted, MOST_LOOKED_AT)
    }

    fn deleted_keys_of(&self, wanted: usize, most_looked_at: u64) -> DeletedKeys {
        let mut sample = Sample { keys: Vec::new(), wanted: wanted.max(1), every: 1, seen: 0 };
        let all = self.keys();
        if all <= most_looked_at {
            self.look_from(None, u64::MAX, &mut sample);
            return DeletedKeys { count: sample.seen, sample: sample.keys };
        }
        let mut looked_at = 0;
        for key in self.keys_between(PLACES) {
            looked_at += self.look_from(Some(&key), most_looked_at / PLACES, &mut sample);
        }
        let share = sample.seen as f64 / looked_at.max(1) as f64;
        DeletedKeys { count: (all as f64 * share) as u64, sample: sample.keys }
    }

    /// Looks at so many keys at most; returns at how many it did.
    fn look_from(&self, from: Option<&[u8]>, most: u64, sample: &mut Sample) -> u64 {
        let mut cursor = self.cursor();
        match from {
            Some(from) => cursor.seek(from),
            None => cursor.seek_to_first(),
        }
        let mut looked_at = 0;
        while cursor.valid() && looked_at < most {
            let newest = cursor.versions().next();
            if newest.is_some_and(|version| kind_of(&version).is_tombstone()) {
                sample.offer(cursor.key());
            }
            looked_at += 1;
            cursor.next();
        }
        looked_at
    }
}

#[cfg(test)]
mod tests {
    use tidesdb_base::entry::{NEVER_EXPIRES, ValueKind};
    use tidesdb_files::wal::Operation;
    use tidesdb_lockfree::arena::BlockPool;

    use super::*;

    /// A memtable of so many keys, of which each `nth` is deleted.
    fn memtable(keys: u64, nth: u64) -> Memtable {
        let memtable = Memtable::new(&BlockPool::new(0));
        for n in 0..keys {
            let key = n.to_be_bytes();
            let put = Operation {
                family: 0,
                kind: ValueKind::Value,
                expires_at: NEVER_EXPIRES,
                key: &key,
                value: b"value",
            };
            memtable.insert(&put, 2 * n + 1).unwrap();
            if n.is_multiple_of(nth) {
                let deletion = Operation { kind: ValueKind::Tombstone, value: &[], ..put };
                memtable.insert(&deletion, 2 * n + 2).unwrap();
            }
        }
        memtable
    }

    #[test]
    fn all_keys_of_a_small_memtable_are_counted_and_few_are_given() {
        let found = memtable(1000, 3).deleted_keys(16);
        assert_eq!(found.count, 334);
        assert!((16..32).contains(&found.sample.len()), "{}", found.sample.len());
        let numbers =
            found.sample.iter().map(|key| u64::from_be_bytes(key[..].try_into().unwrap()));
        let numbers: Vec<_> = numbers.collect();
        assert!(numbers.iter().all(|n| n.is_multiple_of(3)));
        assert!(numbers.first() < Some(&100) && numbers.last() > Some(&900), "{numbers:?}");
        assert_eq!(memtable(1000, u64::MAX).deleted_keys(16).count, 1);
        let few = memtable(30, 3).deleted_keys(16);
        assert_eq!((few.count, few.sample.len()), (10, 10));
    }

    /// The whole of it would be walked through with each look.
    #[test]
    fn a_large_memtable_is_looked_at_in_places() {
        let memtable = memtable(40_000, 4);
        let found = memtable.deleted_keys_of(16, 4000);
        assert!(found.count.abs_diff(10_000) < 500, "{}", found.count);
        assert!((16..32).contains(&found.sample.len()), "{}", found.sample.len());
    }
}
