//! The generator of random operations.
//!
//! An operation is plain data, drawn from a seed alone: whether it makes sense in the present
//! state (a family may be gone) is decided by the code that applies it.

use tidesdb::{Error, Family, KeyOrder, WriteBatch};
use tidesdb_sim::rng::SplitMix64;

use crate::oracle::{FamilyId, RangeEnd, StoredValue, Write, entry_hash};
use crate::settings::{Mix, SLOTS, Settings};
use crate::values::Tag;

/// One write inside a transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlannedWrite {
    /// Which family.
    pub slot: usize,
    /// Which key; see [`key_bytes`].
    pub key: u64,
    /// Length of the value; no length means a deletion.
    pub length: Option<u32>,
    /// A deletion is a single one, where the key was put at most once since it was last deleted.
    pub single: bool,
    /// Seconds until it expires.
    pub lives: Option<u64>,
    /// Deletes every key between this one and the other, whichever comes first.
    pub until: Option<u64>,
}

impl PlannedWrite {
    /// What the write does to the oracle in a family of this order, and the bytes of its value.
    #[must_use]
    pub fn materialize(
        &self,
        (transaction, operation): (u64, u32),
        (family, order): (FamilyId, &KeyOrder),
        now: u64,
    ) -> (Write, Vec<u8>) {
        let place = |key: &[u8]| order.stored_key(key).into_owned();
        let key = key_bytes(self.key);
        let write = Write {
            family,
            place: place(&key),
            key: key.clone(),
            value: None,
            single: false,
            end: None,
        };
        let other = self.until.map(key_bytes).map(|key| RangeEnd { place: place(&key), key });
        if let Some(other) = other.filter(|other| other.place != write.place) {
            if write.place < other.place {
                return (Write { end: Some(other), ..write }, Vec::new());
            }
            let end = Some(RangeEnd { key, place: write.place });
            let write = Write { key: other.key, place: other.place, end, ..write };
            return (write, Vec::new());
        }
        let Some(length) = self.length else {
            return (Write { single: self.single, ..write }, Vec::new());
        };
        let tag = Tag { transaction, operation, length };
        let bytes = tag.bytes(&key);
        let hash = entry_hash(family, &key, &bytes);
        let expires_at = self.lives.map_or(0, |seconds| now + seconds);
        let value = Some(StoredValue { tag, expires_at, hash });
        (Write { value, ..write }, bytes)
    }
}

impl Write {
    /// Adds the write to a batch.
    ///
    /// # Errors
    /// What the engine says.
    pub fn add_to(
        &self,
        batch: &mut WriteBatch,
        family: &Family,
        bytes: &[u8],
    ) -> Result<(), Error> {
        match (&self.end, self.value) {
            (Some(end), _) => batch.delete_range(family, &self.key, &end.key),
            (None, None) if self.single => batch.single_delete(family, &self.key),
            (None, None) => batch.delete(family, &self.key),
            (None, Some(value)) if value.expires_at == 0 => batch.put(family, &self.key, bytes),
            (None, Some(value)) => {
                batch.put_expiring_at(family, &self.key, bytes, value.expires_at)
            }
        }
    }

    /// Applies the write without a batch.
    ///
    /// # Errors
    /// What the engine says.
    pub fn apply_to(&self, family: &Family, bytes: &[u8]) -> Result<(), Error> {
        match (&self.end, self.value) {
            (Some(end), _) => family.delete_range(&self.key, &end.key),
            (None, None) if self.single => family.single_delete(&self.key),
            (None, None) => family.delete(&self.key),
            (None, Some(value)) if value.expires_at == 0 => family.put(&self.key, bytes),
            (None, Some(value)) => family.put_expiring_at(&self.key, bytes, value.expires_at),
        }
    }
}

/// One step of a workload.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A put or a deletion without a batch.
    Single(PlannedWrite),
    /// A batch; `sync` as in the write options.
    Batch {
        /// The writes, in order.
        writes: Vec<PlannedWrite>,
        /// Durability of its own.
        sync: Option<bool>,
    },
    /// Take a snapshot.
    TakeSnapshot,
    /// Read everything at a snapshot.
    CheckSnapshot,
    /// Let the oldest snapshot go.
    DropSnapshot,
    /// Flush all families.
    Flush,
    /// Flush one.
    FlushFamily(usize),
    /// Merge all families.
    Compact,
    /// Merge one.
    CompactFamily(usize),
    /// Put the log on disk.
    SyncLog,
    /// Run so many background jobs.
    Step(usize),
    /// Let a timer fire.
    FireTimer,
    /// Let so many seconds pass.
    Advance(u64),
    /// Create the family if it is absent, drop it if it is there.
    CreateOrDrop(usize),
    /// Give the first slot's family the name of the second, if that is free.
    Rename(usize, usize),
    /// Copy the first slot's family, in place of the second's.
    CopyFamily(usize, usize),
    /// Give a family other options.
    ChangeOptions(usize),
    /// Copy the database into another directory.
    CopyDatabase {
        /// Every byte, instead of second names for its files.
        backup: bool,
    },
    /// Try to open the database for reading while it is open.
    OpenBeside,
    /// Close, or just drop, the database and open it again.
    Reopen {
        /// Close it properly.
        close: bool,
    },
    /// Read everything.
    Check,
}

/// The key under which every batch writes its number in each family that it touches.
pub const NUMBER_KEY: u64 = 0;

/// The bytes of a key. Lengths and prefixes differ, and some bytes are 0 or 255.
#[must_use]
pub fn key_bytes(key: u64) -> Vec<u8> {
    match key % 7 {
        _ if key == NUMBER_KEY => b"transaction".to_vec(),
        0 => format!("k{key:05}").into_bytes(),
        1 => format!("shared/prefix/of/some/length/{key}").into_bytes(),
        2 => vec![key as u8],
        3 => [b"\0\xff".as_slice(), &key.to_be_bytes()].concat(),
        4 => key.to_be_bytes().to_vec(),
        5 => [vec![b'x'; (key % 90) as usize + 1], key.to_le_bytes().to_vec()].concat(),
        _ => [b"\xff\xff".as_slice(), &key.to_le_bytes()].concat(),
    }
}

fn length(random: &mut SplitMix64, settings: &Settings) -> u32 {
    if settings.huge_values && random.chance(1, 400) {
        return huge_length(random);
    }
    let longest = match random.below(20) {
        0 => 1,
        1..=10 => 60,
        11..=15 => 300,
        16..=18 => 2_000,
        _ => 9_000,
    };
    random.below(longest) as u32
}

/// Long enough for a value to go straight to a value log.
fn huge_length(random: &mut SplitMix64) -> u32 {
    (1 << 20) + random.below(5_000) as u32
}

fn write(random: &mut SplitMix64, settings: &Settings) -> PlannedWrite {
    let lives = random.chance(1, 12).then(|| 1 + random.below(40));
    // A value that expires says who wrote it: from its bytes alone one can't tell when it expires.
    let least = if lives.is_some() { 8 } else { 0 };
    let key = 1 + random.below(settings.keys);
    PlannedWrite {
        slot: random.index(SLOTS),
        key,
        length: random.chance(4, 5).then(|| least + length(random, settings)),
        single: random.chance(1, 2),
        lives,
        until: random.chance(1, 40).then(|| until(random, settings, key)),
    }
}

/// The other end of a range deletion. Numbers that differ by a multiple of seven give keys of one
/// shape, which lie close together if the numbers do; others may have anything between them.
fn until(random: &mut SplitMix64, settings: &Settings, key: u64) -> u64 {
    if random.chance(1, 4) {
        return 1 + random.below(settings.keys);
    }
    key + 7 * (1 + random.below(6))
}

/// The put of a batch's number.
const fn number(slot: usize) -> PlannedWrite {
    let (length, single) = (Some(24), false);
    PlannedWrite { slot, key: NUMBER_KEY, length, single, lives: None, until: None }
}

fn batch(random: &mut SplitMix64, settings: &Settings) -> Operation {
    let count = 1 + random.index(5);
    let mut writes: Vec<_> = (0..count).map(|_| write(random, settings)).collect();
    if settings.huge_values && random.chance(1, 40) {
        writes[0].length = Some(huge_length(random));
    }
    let mut slots: Vec<usize> = writes.iter().map(|write| write.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    writes.extend(slots.into_iter().map(number));
    let sync = match random.below(16) {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    };
    Operation::Batch { writes, sync }
}

/// A batch of two to six MiB over all families, with deletions and repeated keys in it, and the
/// batch's number at both ends.
#[must_use]
pub fn large_batch(random: &mut SplitMix64, settings: &Settings) -> Operation {
    let mut writes: Vec<_> = (0..SLOTS).map(number).collect();
    for _ in 0..300 + random.index(300) {
        let key = 1 + random.below(settings.keys * 4);
        let length = random.chance(9, 10).then(|| 5_000 + random.below(6_000) as u32);
        let slot = random.index(SLOTS);
        let single = random.chance(1, 2);
        writes.push(PlannedWrite { slot, key, length, single, ..PlannedWrite::default() });
    }
    writes.extend((0..SLOTS).map(number));
    Operation::Batch { writes, sync: None }
}

/// Batches that put every key of the first family once, and some of the others.
pub fn load(random: &mut SplitMix64, settings: &Settings) -> Vec<Operation> {
    let keys: Vec<u64> = (1..=settings.keys).collect();
    let mut put = |slot, key| PlannedWrite {
        slot,
        key,
        length: Some(overwriting_length(random)),
        ..PlannedWrite::default()
    };
    let batches = keys.chunks(25).map(|keys| {
        let writes = keys.iter().flat_map(|&key| (0..SLOTS).map(move |slot| (slot, key)));
        let writes = writes.filter(|(slot, key)| *slot == 0 || key % 4 == 0);
        let mut writes: Vec<_> = writes.map(|(slot, key)| put(slot, key)).collect();
        writes.extend((0..SLOTS).map(number));
        Operation::Batch { writes, sync: None }
    });
    batches.collect()
}

/// Few are long enough for a value log.
fn overwriting_length(random: &mut SplitMix64) -> u32 {
    let (least, more) = if random.chance(1, 30) { (350, 200) } else { (40, 160) };
    least + random.below(more) as u32
}

/// Many overwrites at once, most of them in one family.
fn overwrites(random: &mut SplitMix64, settings: &Settings) -> Operation {
    let slot = if random.chance(4, 5) { 0 } else { random.index(SLOTS) };
    let count = 5 + random.index(10);
    let mut writes: Vec<_> = (0..count)
        .map(|_| {
            let write = write(random, settings);
            let length = write.length.filter(|_| random.chance(9, 10));
            let length = length.map(|_| overwriting_length(random));
            PlannedWrite { slot, length, until: write.until.filter(|_| count == 5), ..write }
        })
        .collect();
    writes.push(number(slot));
    Operation::Batch { writes, sync: None }
}

fn next_of_overwrites(random: &mut SplitMix64, settings: &Settings) -> Operation {
    match random.below(1_000) {
        0..=549 => overwrites(random, settings),
        550..=589 => Operation::Single(write(random, settings)),
        590..=593 => Operation::CopyFamily(random.index(SLOTS), random.index(SLOTS)),
        594..=596 => Operation::CopyDatabase { backup: random.chance(1, 3) },
        597..=599 => Operation::ChangeOptions(random.index(SLOTS)),
        600..=839 => Operation::Step(1 + random.index(4)),
        840..=849 => Operation::FireTimer,
        850..=859 => Operation::Advance(1 + random.below(10)),
        860..=879 => Operation::TakeSnapshot,
        880..=899 => Operation::CheckSnapshot,
        900..=929 => Operation::DropSnapshot,
        930..=969 => Operation::FlushFamily(random.index(SLOTS)),
        970..=972 => Operation::CompactFamily(random.index(SLOTS)),
        973..=979 => Operation::SyncLog,
        980..=982 => Operation::Reopen { close: false },
        983..=984 => Operation::Reopen { close: true },
        _ => Operation::Check,
    }
}

/// The next operation of a workload.
#[must_use]
pub fn next(random: &mut SplitMix64, settings: &Settings) -> Operation {
    if settings.mix == Mix::Overwrites {
        return next_of_overwrites(random, settings);
    }
    match random.below(1_000) {
        0..=299 => Operation::Single(write(random, settings)),
        300..=679 => batch(random, settings),
        680..=685 => Operation::Rename(random.index(SLOTS), random.index(SLOTS)),
        686..=690 => Operation::CopyFamily(random.index(SLOTS), random.index(SLOTS)),
        691..=693 => Operation::ChangeOptions(random.index(SLOTS)),
        694..=697 => Operation::CopyDatabase { backup: random.chance(1, 3) },
        698..=699 => Operation::OpenBeside,
        700..=849 => Operation::Step(1 + random.index(3)),
        850..=869 => Operation::FireTimer,
        870..=884 => Operation::Advance(1 + random.below(10)),
        885..=904 => Operation::TakeSnapshot,
        905..=924 => Operation::CheckSnapshot,
        925..=939 => Operation::DropSnapshot,
        940..=944 => Operation::Flush,
        945..=954 => Operation::FlushFamily(random.index(SLOTS)),
        955..=957 => Operation::Compact,
        958..=962 => Operation::CompactFamily(random.index(SLOTS)),
        963..=972 => Operation::SyncLog,
        973..=980 => Operation::CreateOrDrop(random.index(SLOTS)),
        981..=985 => Operation::Reopen { close: false },
        986..=988 => Operation::Reopen { close: true },
        _ => Operation::Check,
    }
}
