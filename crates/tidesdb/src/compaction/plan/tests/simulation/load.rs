//! What writers put: loads as descriptions, and the keys that follow from them.

use tidesdb_sim::rng::{SplitMix64, mix64};

use super::tables::Entry;

/// Which keys are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// New ones at random places.
    New,
    /// Those that are there, each as often.
    Uniform,
    /// Those that are there: the n-th of them n^0.99 times more rarely than the first.
    Zipfian,
    /// The next moment of one of many series.
    Series,
    /// Deletes of those that are there, at random places.
    Deleted,
    /// New ones behind all others, and deletes of the first.
    Queue,
}

/// Of rank n, keys are put n to the power of this more rarely than the first.
const ZIPF_EXPONENT: f64 = 0.99;
/// Series, each a range of keys that grows at its end.
const SERIES: u64 = 1024;

/// A load of a database of some size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub name: &'static str,
    pub keys: Keys,
    /// Share of the size that is there at first.
    pub present: f64,
    /// Share of the size that is put, or deleted.
    pub put: f64,
    /// Bytes of a value that lies in a value log.
    pub value_bytes: f64,
    /// Entries expire after the time in which the whole size is put.
    pub expires: bool,
    /// Writers pause so many seconds after so many bytes.
    pub pause: Option<(f64, f64)>,
    /// A snapshot is held for so many seconds, from the beginning on.
    pub snapshot_seconds: f64,
    /// The process begins anew this often, in seconds.
    pub restart_seconds: Option<f64>,
    /// Bytes that one thread merges in a second.
    pub merge_rate: f64,
    /// Bytes that are flushed in a second.
    pub flush_rate: f64,
}

impl Load {
    const fn of(name: &'static str, keys: Keys, present: f64, put: f64) -> Self {
        Self {
            name,
            keys,
            present,
            put,
            value_bytes: 0.0,
            expires: false,
            pause: None,
            snapshot_seconds: 0.0,
            restart_seconds: None,
            merge_rate: 250e6,
            flush_rate: 200e6,
        }
    }

    /// All loads of the table.
    pub(super) fn all() -> Vec<Self> {
        vec![
            Self::UNIQUE,
            Self::OVERWRITE,
            Self::of("Zipfian", Keys::Zipfian, 1.0, 1.0),
            Self { expires: true, ..Self::of("series", Keys::Series, 1.0, 1.0) },
            Self::of("deletes", Keys::Deleted, 1.0, 0.9),
            Self::of("queue", Keys::Queue, 0.1, 1.0),
            Self::TRICKLE,
            Self { snapshot_seconds: 4.0 * 3600.0, name: "snapshot", ..Self::OVERWRITE },
            Self::VALUES,
            Self { restart_seconds: Some(600.0), name: "restarts", ..Self::UNIQUE },
        ]
    }

    /// Readers and writers have most of the processors.
    pub(super) const SHARED: Self =
        Self { name: "shared", merge_rate: 60e6, flush_rate: 100e6, ..Self::UNIQUE };
    pub(super) const UNIQUE: Self = Self::of("unique", Keys::New, 0.0, 1.0);
    pub(super) const OVERWRITE: Self = Self::of("overwrite", Keys::Uniform, 1.0, 1.0);
    pub(super) const VALUES: Self = Self { name: "values", value_bytes: 4000.0, ..Self::OVERWRITE };
    /// Rounds of 100,000 records.
    pub(super) const TRICKLE: Self =
        Self { pause: Some((11.6e6, 3.5)), ..Self::of("trickle", Keys::New, 1.0, 0.2) };
}

/// The entries of a load, one after the other. The keys that are alive have the numbers from `head`
/// up to `next`.
#[derive(Debug)]
pub(super) struct Source {
    keys: Keys,
    pub head: u32,
    pub next: u32,
    /// All keys that there will ever be.
    pub most: u32,
    /// Keys that each of the sample stands for.
    scale: f64,
    /// Entries expire so many seconds after they were put.
    lifetime: Option<f64>,
    /// Up to which key all have expired at which second, in the order of both.
    expiring: std::collections::VecDeque<(u32, u32)>,
    /// The next operation of a queue takes from its head.
    takes: bool,
    random: SplitMix64,
}

impl Source {
    /// For a load whose size is `size` keys of the sample, which stand for `scale` others each.
    pub(super) fn new(load: &Load, size: f64, scale: f64, lifetime: f64) -> Self {
        let next = (size * load.present) as u32;
        let adds = matches!(load.keys, Keys::New | Keys::Series | Keys::Queue);
        // Writers that expiry leaves behind put no more than the size.
        let most = next + if adds { (size * load.put * 1.01) as u32 + 1000 } else { 0 };
        let lifetime = load.expires.then_some(lifetime);
        let mut source = Self {
            keys: load.keys,
            head: 0,
            next,
            most,
            scale,
            lifetime,
            expiring: Default::default(),
            takes: false,
            random: SplitMix64::new(1),
        };
        if lifetime.is_some() {
            let ages = (1..=256).map(|part| source.next / 256 * part);
            let ages: Vec<_> = ages.map(|id| (source.expiry_of_present(id), id)).collect();
            source.expiring.extend(ages);
        }
        source
    }

    fn expiry_of_present(&self, id: u32) -> u32 {
        let age = f64::from(id) / f64::from(self.next.max(1));
        self.lifetime.map_or(0, |lifetime| (age * lifetime) as u32 + 1)
    }

    /// Entries of the keys that are there at first, in any order.
    pub(super) fn present(&self) -> Vec<Entry> {
        let ids = self.head..self.next;
        ids.map(|id| Entry { expires: self.expiry_of_present(id), ..self.entry(id) }).collect()
    }

    fn entry(&self, id: u32) -> Entry {
        let number = u64::from(id);
        let key = match self.keys {
            Keys::Queue => u64::MAX / u64::from(self.most) * number,
            Keys::Series => u64::MAX / SERIES * (number % SERIES) + ((number / SERIES) << 16),
            _ => mix64(number + 1),
        };
        Entry { key, id, sequence: 0, expires: 0, log: 0, is_deletion: false }
    }

    /// Whether new entries lie among all keys, rather than at some places.
    pub(super) fn is_scattered(&self) -> bool {
        self.keys != Keys::Queue
    }

    /// What is put next, at a second. `None` when nothing is left to delete.
    pub(super) fn put(&mut self, now: f64) -> Option<Entry> {
        let deletes = self.keys == Keys::Deleted || (self.keys == Keys::Queue && self.takes);
        self.takes = !self.takes;
        if deletes {
            let id = self.head;
            self.head += 1;
            return (id < self.next).then(|| Entry { is_deletion: true, ..self.entry(id) });
        }
        let id = match self.keys {
            Keys::Uniform => self.random.below(u64::from(self.next)) as u32,
            Keys::Zipfian => self.zipfian(),
            _ => {
                self.next += 1;
                self.next - 1
            }
        };
        let expires = self.lifetime.map_or(0, |lifetime| (now + lifetime) as u32 + 1);
        if expires != 0 {
            match self.expiring.back_mut() {
                Some(last) if last.0 == expires => last.1 = id + 1,
                _ => self.expiring.push_back((expires, id + 1)),
            }
        }
        Some(Entry { expires, ..self.entry(id) })
    }

    /// A rank by the inverse of the distribution's sum, taken as an integral.
    fn zipfian(&mut self) -> u32 {
        let (flat, keys) = (1.0 - ZIPF_EXPONENT, f64::from(self.next) * self.scale);
        let part = self.random.next_u64() as f64 / u64::MAX as f64;
        let rank = (1.0 + part * ((keys + 1.0).powf(flat) - 1.0)).powf(1.0 / flat) - 1.0;
        ((rank / self.scale) as u32).min(self.next - 1)
    }

    /// Lets go of what has expired.
    pub(super) fn expire(&mut self, now: f64) {
        while let Some(&(_, until)) = self.expiring.front().filter(|(at, _)| f64::from(*at) <= now)
        {
            self.head = self.head.max(until);
            self.expiring.pop_front();
        }
    }

    /// Keys that are alive.
    pub(super) fn alive(&self) -> f64 {
        f64::from(self.next.saturating_sub(self.head))
    }

    /// A key that is alive, or was put last.
    pub(super) fn any_alive(&mut self) -> Entry {
        let alive = u64::from(self.next.saturating_sub(self.head));
        let id = self.head + self.random.below(alive) as u32;
        self.entry(id.min(self.next.saturating_sub(1)))
    }
}
