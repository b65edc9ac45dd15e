//! Tables that are a sample of their entries, and runs of them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_files::sstable::ExpiryOctiles;

use crate::compaction::expiry::ExpiringTable;
use crate::compaction::step_bounds::StepTable;
use crate::output::key_partitions::KeySpan;

/// A version of a key. It stands for as many others that are like it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Place among all keys.
    pub key: u64,
    /// Number of the key: keys are numbered as they are put first.
    pub id: u32,
    pub sequence: u32,
    /// Second at which it expires; 0 for never.
    pub expires: u32,
    /// Value log that holds its value; 0 for none.
    pub log: u32,
    pub is_deletion: bool,
}

/// Bytes that an entry of the sample stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    /// Of a put in a table, without a value that lies in a value log.
    pub put: f64,
    pub deletion: f64,
    /// Of a value in a value log.
    pub value: f64,
}

impl Weights {
    pub(super) fn of(&self, entry: &Entry) -> f64 {
        if entry.is_deletion { self.deletion } else { self.put }
    }

    fn values<'e>(&self, entries: impl IntoIterator<Item = &'e Entry>) -> f64 {
        entries.into_iter().filter(|entry| entry.log != 0).count() as f64 * self.value
    }
}

/// A table with the keys from `from` to `last`.
#[derive(Debug)]
pub(super) struct Table {
    number: u64,
    pub from: u64,
    pub last: u64,
    /// The two as the engine has them.
    bounds: [[u8; 8]; 2],
    bytes: u64,
    value_bytes: u64,
    newest: u32,
    pub deletions: bool,
    expiry: ExpiryOctiles,
    pub entries: Vec<Entry>,
}

impl Table {
    pub(super) fn new(
        number: u64,
        (from, last): (u64, u64),
        entries: Vec<Entry>,
        weights: &Weights,
    ) -> Rc<Self> {
        Rc::new(Self {
            number,
            from,
            last,
            bounds: [from.to_be_bytes(), last.to_be_bytes()],
            bytes: entries.iter().map(|entry| weights.of(entry)).sum::<f64>() as u64,
            value_bytes: weights.values(&entries) as u64,
            newest: entries.iter().map(|entry| entry.sequence).max().unwrap_or(0),
            deletions: entries.iter().any(|entry| entry.is_deletion),
            expiry: octiles(&entries),
            entries,
        })
    }

    /// The entries with a key in a range.
    pub(super) fn within(&self, (from, until): (u64, Option<u64>)) -> &[Entry] {
        let before = |key: u64| self.entries.partition_point(|entry| entry.key < key);
        let until = until.map_or(self.entries.len(), before);
        self.entries.get(before(from)..until).unwrap_or_default()
    }

    /// When the first version of it expires.
    pub(super) fn first_expiry(&self) -> Option<u64> {
        self.expiry.times().first().copied()
    }
}

/// By when how many eighths of the entries have expired.
fn octiles(entries: &[Entry]) -> ExpiryOctiles {
    let mut times: Vec<u32> = entries.iter().map(|entry| entry.expires).collect();
    times.retain(|&time| time != 0);
    times.sort_unstable();
    let at = |eighth: usize| (entries.len() * eighth).div_ceil(8).saturating_sub(1);
    let octiles = (1..=8).map_while(|eighth| times.get(at(eighth)));
    ExpiryOctiles::new(octiles.map(|&time| u64::from(time)).collect())
}

impl StepTable for Rc<Table> {
    fn number(&self) -> u64 {
        self.number
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn smallest_key(&self) -> &[u8] {
        let [smallest, _] = &self.bounds;
        smallest
    }

    fn largest_key(&self) -> &[u8] {
        let [_, largest] = &self.bounds;
        largest
    }
}

impl ExpiringTable for Rc<Table> {
    fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    fn expiry(&self) -> &ExpiryOctiles {
        &self.expiry
    }

    fn highest_sequence(&self) -> SequenceNumber {
        u64::from(self.newest)
    }

    fn is_damaged(&self) -> bool {
        false
    }
}

/// A bound of a range as a number; `None` behind all keys.
fn place(key: &[u8]) -> Option<u64> {
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    // A longer key is the successor of one of eight bytes.
    u64::from_be_bytes(bytes).checked_add(u64::from(key.len() > 8))
}

/// The keys of a range: from the first up to and without the second.
pub(super) fn places(range: &KeySpan) -> (u64, Option<u64>) {
    let from = range.from.as_deref().and_then(place);
    (from.unwrap_or(0), range.until.as_deref().and_then(place))
}

/// A sorted run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub id: u64,
    pub level: u32,
    pub tables: Vec<Rc<Table>>,
    pub bytes: u64,
    pub value_bytes: u64,
    /// Of the entries those that garbage is estimated by: of each so-many-th key.
    pub watched: Vec<Entry>,
    every: u32,
    /// How many entries point into each value log.
    pub references: BTreeMap<u32, u32>,
}

impl Run {
    pub(super) fn new(id: u64, level: u32, tables: Vec<Rc<Table>>, every: u32) -> Self {
        let mut run = Self {
            id,
            level,
            tables: Vec::new(),
            bytes: 0,
            value_bytes: 0,
            watched: Vec::new(),
            every,
            references: BTreeMap::new(),
        };
        run.exchange(&[], &tables);
        run
    }

    /// Takes tables out, as far as they are its own, and others in.
    pub(super) fn exchange(&mut self, removed: &[Rc<Table>], added: &[Rc<Table>]) {
        let numbers: BTreeSet<u64> = removed.iter().map(|table| table.number).collect();
        let goes = |table: &&Rc<Table>| numbers.contains(&table.number);
        let all = || removed.iter().chain(added);
        let Some(least) = all().map(|table| table.from).min() else { return };
        let most = all().map(|table| table.last).max().unwrap_or(least);
        let begin = self.tables.partition_point(|table| table.last < least);
        let window = begin..self.tables.partition_point(|table| table.from <= most).max(begin);
        let before = self.tables.get(window.clone()).unwrap_or_default();
        let gone: Vec<_> = before.iter().filter(goes).cloned().collect();
        let mut after: Vec<_> = before.iter().filter(|table| !goes(table)).cloned().collect();
        after.extend(added.iter().cloned());
        after.sort_unstable_by_key(|table| table.from);
        let apart = after.windows(2).all(|two| two[0].last < two[1].from);
        assert!(apart, "tables of one run have keys in common");
        let sum = |tables: &[Rc<Table>]| {
            let bytes = tables.iter().map(|table| (table.bytes, table.value_bytes));
            bytes.fold((0, 0), |sum, bytes| (sum.0 + bytes.0, sum.1 + bytes.1))
        };
        let ((bytes, value_bytes), (less, fewer)) = (sum(&after), sum(before));
        self.bytes = self.bytes + bytes - less;
        self.value_bytes = self.value_bytes + value_bytes - fewer;
        let begin = before.first().into_iter().chain(after.first()).map(|table| table.from).min();
        let end = before.last().into_iter().chain(after.last()).map(|table| table.last).max();
        if let (Some(begin), Some(end)) = (begin, end) {
            let every = self.every;
            let entries = after.iter().flat_map(|table| &table.entries);
            let watched = entries.filter(|entry| entry.id % every == 0).copied();
            let from = self.watched.partition_point(|entry| entry.key < begin);
            let until = self.watched.partition_point(|entry| entry.key <= end);
            self.watched.splice(from..until, watched);
        }
        self.tables.splice(window, after);
        let of = |tables: &[Rc<Table>]| {
            let entries = tables.iter().flat_map(|table| table.entries.clone());
            entries.map(|entry| entry.log).filter(|log| *log != 0).collect::<Vec<_>>()
        };
        of(added).into_iter().for_each(|log| *self.references.entry(log).or_default() += 1);
        for log in of(&gone) {
            if let Some(references) = self.references.get_mut(&log) {
                *references -= 1;
                if *references == 0 {
                    self.references.remove(&log);
                }
            }
        }
    }

    /// The table that may hold a key.
    pub(super) fn table_for(&self, key: u64) -> Option<&Rc<Table>> {
        let at = self.tables.partition_point(|table| table.last < key);
        self.tables.get(at).filter(|table| table.from <= key)
    }
}
