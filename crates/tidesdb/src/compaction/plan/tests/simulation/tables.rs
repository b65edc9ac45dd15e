//! Tables that are nothing but a range of keys and how many of them they hold.

use std::rc::Rc;

use crate::compaction::steps::StepTable;
use crate::output::key_partitions::KeySpan;

/// Keys are numbers below this, and spread evenly.
pub(super) const KEY_SPACE: u64 = 1 << 48;
/// Parts of the key space that the key counts of a run are given for.
pub(super) const CELLS: usize = 64;
/// Bytes of an entry on the disk.
pub(super) const ENTRY: f64 = 100.0;

/// Keys of each class.
pub(super) type Keys = Vec<f64>;

pub(super) fn bytes_of(keys: &[f64]) -> f64 {
    keys.iter().sum::<f64>() * ENTRY
}

/// A table with the keys from `from` up to and without `until`.
#[derive(Debug)]
pub(super) struct Table {
    number: u64,
    pub from: u64,
    pub until: u64,
    /// `from` and the last key before `until` as the engine has them.
    bounds: [[u8; 8]; 2],
    pub keys: Keys,
}

impl Table {
    pub(super) fn new(number: u64, from: u64, until: u64, keys: Keys) -> Rc<Self> {
        let bounds = [from.to_be_bytes(), (until - 1).to_be_bytes()];
        Rc::new(Self { number, from, until, bounds, keys })
    }

    /// The part of the table that lies in a range of keys.
    pub(super) fn part(&self, from: u64, until: u64) -> f64 {
        let within = self.until.min(until).saturating_sub(self.from.max(from));
        within as f64 / (self.until - self.from) as f64
    }
}

impl StepTable for Rc<Table> {
    fn number(&self) -> u64 {
        self.number
    }

    fn bytes(&self) -> u64 {
        bytes_of(&self.keys) as u64
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

/// A bound of a range as a number.
pub(super) fn place(key: Option<&Vec<u8>>, open: u64) -> u64 {
    let Some(key) = key else { return open };
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    // A longer key is the successor of one of eight bytes.
    u64::from_be_bytes(bytes) + u64::from(key.len() > 8)
}

pub(super) fn places(range: &KeySpan) -> (u64, u64) {
    (place(range.from.as_ref(), 0), place(range.until.as_ref(), KEY_SPACE))
}

/// A part of the key space that is cut into equal ones.
pub(super) fn slice_range(slice: usize, slices: usize) -> KeySpan {
    let bound = |at: usize| (KEY_SPACE / slices as u64 * at as u64).to_be_bytes().to_vec();
    KeySpan {
        from: (slice > 0).then(|| bound(slice)),
        until: (slice + 1 < slices).then(|| bound(slice + 1)),
    }
}

#[derive(Clone, Debug)]
pub(super) struct SimulatedRun {
    pub id: u64,
    pub level: u32,
    pub tables: Vec<Rc<Table>>,
    bytes: f64,
    /// Keys of each class in each cell.
    pub cells: Vec<Keys>,
}

impl SimulatedRun {
    pub(super) fn new(id: u64, level: u32, classes: usize, tables: Vec<Rc<Table>>) -> Self {
        let cells = vec![vec![0.0; classes]; CELLS];
        let mut run = Self { id, level, tables, bytes: 0.0, cells };
        run.count();
        run
    }

    /// Takes tables out, and others in.
    pub(super) fn exchange(&mut self, removed: &[u64], added: &[Rc<Table>]) {
        self.tables.retain(|table| !removed.contains(&table.number));
        self.tables.extend(added.iter().cloned());
        self.tables.sort_by_key(|table| table.from);
        let apart = self.tables.windows(2).all(|two| two[0].until <= two[1].from);
        assert!(apart, "tables of one run have keys in common");
        self.count();
    }

    fn count(&mut self) {
        self.bytes = self.tables.iter().map(|table| bytes_of(&table.keys)).sum();
        self.cells.iter_mut().flatten().for_each(|count| *count = 0.0);
        let cell_keys = KEY_SPACE / CELLS as u64;
        for table in &self.tables {
            let (first, last) = (table.from / cell_keys, (table.until - 1) / cell_keys);
            for cell in first..=last {
                let part = table.part(cell * cell_keys, (cell + 1) * cell_keys);
                let counts = self.cells.get_mut(cell as usize).into_iter().flatten();
                counts.zip(&table.keys).for_each(|(count, keys)| *count += keys * part);
            }
        }
    }

    pub(super) fn bytes(&self) -> f64 {
        self.bytes
    }

    pub(super) fn slice_bytes(&self, slice: usize, slices: usize) -> f64 {
        let each = CELLS / slices;
        self.cells.iter().skip(slice * each).take(each).map(|keys| bytes_of(keys)).sum()
    }
}

/// The keys that several together have of those in a part of the key space. `all` are the keys that
/// there are in it: none where each put key is new.
pub(super) fn union(counts: &[&Keys], all: &[f64], classes: usize) -> Keys {
    let of_class = |class: usize| {
        let counts = counts.iter().filter_map(|keys| keys.get(class));
        match all.get(class) {
            None => counts.sum(),
            Some(&all) => all * (1.0 - counts.map(|count| 1.0 - count / all).product::<f64>()),
        }
    };
    (0..classes).map(of_class).collect()
}
