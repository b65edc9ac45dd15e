//! What a transactional store must offer to be tried.
//!
//! The harness speaks to the model and to the engine through these two traits. Keys are small
//! numbers in a few families, so that programs stay readable; values are bytes that
//! [`encode`] makes from the numbers of versions.

use crate::Verdict;

/// Isolation levels, from the weakest up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Each step of an iterator may see a newer state.
    ReadUncommitted,
    /// Each read sees the newest committed state.
    ReadCommitted,
    /// One snapshot; keys that were read and present must not have changed at commit.
    RepeatableRead,
    /// One snapshot; of two writers of a key the first to commit wins.
    Snapshot,
    /// As if one after the other, in an order that agrees with real time.
    Serializable,
}

impl Level {
    /// All of them, from the weakest up.
    pub const ALL: [Self; 5] = [
        Self::ReadUncommitted,
        Self::ReadCommitted,
        Self::RepeatableRead,
        Self::Snapshot,
        Self::Serializable,
    ];

    /// Whether all reads of a transaction show one state.
    #[must_use]
    pub fn has_snapshot(self) -> bool {
        self >= Self::RepeatableRead
    }
}

/// A key: a number in a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Which family.
    pub family: u8,
    /// Which key of it; keys are ordered by number.
    pub number: u16,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.family {
            0 => write!(f, "k{}", self.number),
            family => write!(f, "f{family}/k{}", self.number),
        }
    }
}

/// The keys of a family from `from` up to, without, `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Which family.
    pub family: u8,
    /// The first key.
    pub from: u16,
    /// The first key that is not meant any more.
    pub to: u16,
}

impl KeyRange {
    /// Whether `key` is in it.
    #[must_use]
    pub fn contains(&self, key: Key) -> bool {
        key.family == self.family && (self.from..self.to).contains(&key.number)
    }
}

/// A scan of a range.
#[derive(Clone, Copy, Debug)]
pub struct ScanRequest {
    /// The bounds of the iterator.
    pub range: KeyRange,
    /// From the first key on, or from the last one backwards.
    pub forward: bool,
    /// Stop after so many entries.
    pub most: usize,
}

/// What a scan found, in the order in which it found it: numbers of keys, and values.
pub type Entries = Vec<(u16, Vec<u8>)>;

/// What a commit said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitAnswer {
    /// Done. The commit's place in the order of commits; none when nothing was written.
    Done(Option<u64>),
    /// Refused because of another transaction, without any effect.
    Conflict,
    /// Failed in a way that leaves open whether it happened.
    Unknown,
}

/// A store whose transactions are to be tried.
pub trait TransactionalStore: Sync {
    /// Its transactions.
    type Transaction: StoreTransaction;

    /// Begins a transaction.
    ///
    /// # Errors
    /// Whatever the store says; always a finding.
    fn begin(&self, level: Level) -> Verdict<Self::Transaction>;

    /// Writes without a transaction, all keys at once; none is named twice. The commit's place in
    /// the order of commits.
    ///
    /// # Errors
    /// Whatever the store says; always a finding.
    fn write_batch(&self, writes: &[(Key, Option<Vec<u8>>)]) -> Verdict<Option<u64>>;

    /// Lets background work happen: memory to tables, merges. `choice` picks what; 0 modulo 64
    /// merges everything, 4 modulo 64 moves all memory to tables.
    ///
    /// # Errors
    /// Whatever the store says; always a finding.
    fn disturb(&self, choice: u64) -> Verdict;
}

/// A transaction of such a store. Every error but the verdicts of `commit` is a finding.
pub trait StoreTransaction: Send {
    /// The value of a key; remembered for the checks at commit.
    ///
    /// # Errors
    /// Whatever the store says.
    fn get(&self, key: Key) -> Verdict<Option<Vec<u8>>>;

    /// The values of several keys of one family, each a read of its own.
    ///
    /// # Errors
    /// Whatever the store says.
    fn get_several(&self, keys: &[Key]) -> Verdict<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(*key)).collect()
    }

    /// As `get`, without being remembered.
    ///
    /// # Errors
    /// Whatever the store says.
    fn get_untracked(&self, key: Key) -> Verdict<Option<Vec<u8>>>;

    /// The entries of a range. After each step of the iterator `between` is called, in which
    /// others may do what they like.
    ///
    /// # Errors
    /// Whatever the store says.
    fn scan(&self, request: ScanRequest, between: &mut dyn FnMut()) -> Verdict<Entries>;

    /// Writes a value.
    ///
    /// # Errors
    /// Whatever the store says.
    fn put(&mut self, key: Key, value: &[u8]) -> Verdict;

    /// Removes a key.
    ///
    /// # Errors
    /// Whatever the store says.
    fn delete(&mut self, key: Key) -> Verdict;

    /// Marks the writes so far under a name.
    ///
    /// # Errors
    /// Whatever the store says.
    fn savepoint(&mut self, name: &str) -> Verdict;

    /// Undoes the writes since the mark and forgets it and all later ones.
    ///
    /// # Errors
    /// Whatever the store says.
    fn rollback_to(&mut self, name: &str) -> Verdict;

    /// Commits.
    ///
    /// # Errors
    /// Whatever the store says that is neither a conflict nor of unknown outcome.
    fn commit(&mut self) -> Verdict<CommitAnswer>;

    /// Gives up.
    ///
    /// # Errors
    /// Whatever the store says.
    fn rollback(&mut self) -> Verdict;

    /// Begins anew on a finished transaction.
    ///
    /// # Errors
    /// Whatever the store says.
    fn reset(&mut self, level: Level) -> Verdict;
}

/// The value that carries these version numbers, with `padding` bytes that belong to them.
///
/// A plain value carries one number; a list carries one per element. The last one is the number
/// of the version itself.
#[must_use]
pub fn encode(numbers: &[u64], padding: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + 8 * numbers.len() + padding);
    bytes.extend_from_slice(&(numbers.len() as u32).to_le_bytes());
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    bytes.resize(bytes.len() + padding, filler(numbers));
    bytes
}

fn filler(numbers: &[u64]) -> u8 {
    numbers.last().map_or(0, |last| (last % 251) as u8)
}

/// The numbers that a value carries; none when it is not one that [`encode`] made.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Vec<u64>> {
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    let length = (u32::from_le_bytes(*count) as usize).checked_mul(8)?;
    let (numbers, padding) = rest.split_at_checked(length)?;
    let numbers: Vec<u64> =
        numbers.as_chunks::<8>().0.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
    let whole = !numbers.is_empty() && padding.iter().all(|byte| *byte == filler(&numbers));
    whole.then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_mixed_ones_do_not() {
        assert_eq!(decode(&encode(&[7], 0)), Some(vec![7]));
        assert_eq!(decode(&encode(&[7, 900], 33)), Some(vec![7, 900]));
        let mut mixed = encode(&[7], 5);
        *mixed.last_mut().unwrap() ^= 1;
        assert_eq!(decode(&mixed), None);
        assert_eq!(decode(&[1, 0, 0]), None);
        assert_eq!(decode(&[255; 9]), None);
        assert_eq!(decode(&[0; 4]), None);
    }
}
