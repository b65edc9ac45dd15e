//! A random history on one database and on ordered maps, compared after every operation.
//!
//! The script (which operations, keys, values, bounds) depends on its seed alone, never on
//! options or on what the engine returns, so that one script runs under many option sets. Only
//! when background work happens is drawn separately.
//!
//! The model of a family is a map from the stored form of a key, which sorts as the family orders
//! its keys, to the key as it was put last, its value and its expiry. A snapshot or a scan holds a
//! copy of the model as it was, and the time at which it was taken, by which its values have
//! expired.

#[path = "history_families.rs"]
mod families;
#[path = "history_hooks.rs"]
mod hooks;
#[path = "history_scans.rs"]
mod scans;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use self::hooks::Callbacks;
use self::scans::OpenScan;
use tidesdb::{
    Components, Db, DbOptions, ErrorKind, Family, FamilyOptions, KeyOrder, ScanOptions, Snapshot,
    WriteBatch, WriteOptions,
};
use tidesdb_sim::rng::{SplitMix64, mix64};
use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};
use tidesdb_sys::clock::Clock;

/// What a key is stored as.
type Place = Vec<u8>;
/// Key, value and expiry; zero means never.
type Entry = (Vec<u8>, Vec<u8>, u64);
type Model = BTreeMap<Place, Entry>;
/// The models of all families by name.
type Models = BTreeMap<String, Rc<Model>>;

const FAMILIES: [&str; 3] = ["alpha", "beta", "gamma"];

/// One history on one database.
pub(crate) struct Run {
    random: SplitMix64,
    pace: SplitMix64,
    disk: Arc<SimVfs>,
    clock: Arc<ManualClock>,
    scheduler: Arc<ManualScheduler>,
    db: Option<Db>,
    db_options: DbOptions,
    family_options: FamilyOptions,
    models: Models,
    /// Keys by family that were put more than once since they were last deleted.
    put_again: BTreeSet<(String, Place)>,
    /// With the time at which they were taken.
    snapshots: Vec<(Snapshot, Models, u64)>,
    scans: Vec<OpenScan>,
    callbacks: Callbacks,
    keys: u64,
    /// Steps of compactions in the openings before this one.
    steps_before: u64,
}

impl Run {
    /// Starts on an empty disk.
    pub(crate) fn start(script: u64, db_options: DbOptions, family_options: FamilyOptions) -> Self {
        let mut random = SplitMix64::new(script);
        let keys = [20, 300, 2_000][random.index(3)];
        let mut run = Self {
            random,
            pace: SplitMix64::new(mix64(script ^ db_options.block_cache_bytes as u64)),
            disk: SimVfs::new(script),
            clock: Arc::new(ManualClock::new(1_000_000)),
            scheduler: Arc::new(ManualScheduler::new(script)),
            db: None,
            db_options,
            family_options,
            models: Models::new(),
            put_again: BTreeSet::new(),
            snapshots: Vec::new(),
            scans: Vec::new(),
            callbacks: Callbacks::default(),
            keys,
            steps_before: 0,
        };
        run.open();
        for name in &FAMILIES[..2] {
            run.create(name);
        }
        run
    }

    fn open(&mut self) {
        self.scheduler = Arc::new(ManualScheduler::interleaving(self.pace.next_u64()));
        let components = Components {
            vfs: Arc::clone(&self.disk) as _,
            scheduler: Arc::clone(&self.scheduler) as _,
            clock: Arc::clone(&self.clock) as _,
        };
        let options = self.db_options.clone().event_listener(self.callbacks.listener());
        self.db = Some(Db::open_with("/db", options, components).unwrap());
        self.callbacks.watch(self.db.as_ref());
        let names: Vec<_> = self.models.keys().cloned().collect();
        assert_eq!(self.db().family_names(), names, "families after open");
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// Steps of compactions so far.
    fn compaction_steps(&self) -> u64 {
        self.steps_before + self.db().stats().work.compaction_steps
    }

    fn create(&mut self, name: &str) {
        self.db().create_family(name, self.family_options.clone()).unwrap();
        self.models.insert(name.to_owned(), Rc::default());
        self.callbacks.watch(self.db.as_ref());
    }

    fn now(&self) -> u64 {
        self.clock.unix_seconds()
    }

    /// A family that exists.
    fn family(&mut self) -> (String, Family) {
        let at = self.random.index(self.models.len());
        let name = self.models.keys().nth(at).unwrap().clone();
        let family = self.db().family(&name).unwrap();
        (name, family)
    }

    /// A key, of one of three shapes that share prefixes of different lengths.
    fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(self.keys);
        match number % 3 {
            0 => format!("k{number}").into_bytes(),
            1 => format!("a-prefix-longer-than-a-head/{number:06}").into_bytes(),
            _ => {
                let mut key = number.to_be_bytes()[5..].to_vec();
                key.resize(key.len() + (number % 7) as usize, (number % 2) as u8 * 255);
                key
            }
        }
    }

    fn value(&mut self) -> Vec<u8> {
        if self.random.chance(1, 8_000) {
            // Straight to a value log.
            return vec![self.random.below(256) as u8; (1 << 20) + self.random.index(9)];
        }
        let length = match self.random.below(40) {
            0 => 5_000,
            1..4 => 600,
            4..6 => 0,
            _ => self.random.index(60),
        };
        let mut value = vec![0; length];
        // Half of it is compressible.
        self.random.fill(&mut value[length / 2..]);
        value
    }

    fn expiry(&mut self) -> u64 {
        match self.random.below(3) {
            0 => self.now() + self.random.below(30),
            1 => self.random.below(self.now()).max(1),
            _ => self.now() + 1_000_000,
        }
    }

    fn order(&self) -> &KeyOrder {
        &self.family_options.key_order
    }

    fn place(&self, key: &[u8]) -> Place {
        self.order().stored_key(key).into_owned()
    }

    fn set(&mut self, name: &str, key: Vec<u8>, entry: Option<(Vec<u8>, u64)>) {
        let place = self.place(&key);
        let model = Rc::make_mut(self.models.get_mut(name).unwrap());
        let Some((value, expiry)) = entry else {
            model.remove(&place);
            self.put_again.remove(&(name.to_owned(), place));
            return;
        };
        if model.insert(place.clone(), (key, value, expiry)).is_some() {
            self.put_again.insert((name.to_owned(), place));
        }
    }

    /// Whether to delete a key by a single deletion, which it may be when it was put at most once.
    fn deletes_singly(&mut self, name: &str, key: &[u8]) -> bool {
        let wanted = self.random.chance(1, 2);
        wanted && !self.put_again.contains(&(name.to_owned(), self.place(key)))
    }

    /// One random operation, and a little background work.
    pub(crate) fn step(&mut self) {
        match self.random.below(1_000) {
            0..342 => self.put(),
            342..344 => self.rename(),
            344..346 => self.copy_family(),
            346..347 => self.copy_database(),
            347..350 => self.change_options(),
            350..420 => self.delete(),
            420..430 => self.delete_range(),
            430..530 => self.batch(),
            530..560 => self.put_expiring_at(),
            560..735 => self.get(),
            735..760 => self.read_several(),
            760..800 => self.get_at_snapshot(),
            800..830 => self.new_scan(),
            830..935 => self.move_scan(),
            935..955 => self.snapshots_change(),
            955..965 => self.clock.advance(Duration::from_secs(self.random.below(8))),
            965..980 => self.flush(),
            980..988 => self.compact(),
            988..992 => self.change_families(),
            992..997 => self.reopen(),
            997..998 => self.db().wait_idle().unwrap(),
            998..999 => self.db().sync_log().unwrap(),
            _ => self.compare_all(),
        }
        self.callbacks.check();
        match self.pace.below(8) {
            0 => drop(self.scheduler.run_until_idle()),
            1..3 => drop(self.scheduler.step()),
            3 => drop(self.scheduler.fire_timer()),
            _ => {}
        }
    }

    fn put(&mut self) {
        let (name, family) = self.family();
        let (key, value) = (self.key(), self.value());
        family.put(&key, &value).unwrap();
        self.set(&name, key, Some((value, 0)));
    }

    fn put_expiring_at(&mut self) {
        let (name, family) = self.family();
        let (key, value) = (self.key(), self.value());
        let at = self.expiry();
        if self.random.chance(1, 2) && at > self.now() {
            let ttl = Duration::from_secs(at - self.now() - 1) + Duration::from_nanos(1);
            family.put_with_ttl(&key, &value, ttl).unwrap();
        } else {
            family.put_expiring_at(&key, &value, at).unwrap();
        }
        self.set(&name, key, Some((value, at)));
    }

    fn delete(&mut self) {
        let (name, family) = self.family();
        let key = self.key();
        match self.deletes_singly(&name, &key) {
            true => family.single_delete(&key).unwrap(),
            false => family.delete(&key).unwrap(),
        }
        self.set(&name, key, None);
    }

    /// A range of keys: those with one head, those between two, or a prefix's.
    fn range(&mut self) -> (Vec<u8>, Vec<u8>) {
        let start = self.key();
        let end = match self.random.below(8) {
            0 => self.key(),
            1 => vec![255; 30],
            _ => {
                // Numbers that begin with the same digits, or with a neighbour's.
                let mut end = start.clone();
                end.truncate(start.len().saturating_sub(self.random.index(2)).max(1));
                end.push(255);
                end
            }
        };
        // In some orders the two are one key, and so may be anything that is made of them.
        let order = self.order();
        let numbers = [start, end, vec![0, 1], vec![255; 9]];
        let mut places: Vec<_> = numbers.iter().map(|key| (order.stored_key(key), key)).collect();
        let least = places.iter().take(2).min().cloned();
        places.sort_unstable();
        let (first, start) = least.unwrap();
        let behind = places.iter().find(|(place, _)| *place > first);
        match behind {
            Some((_, end)) => (start.clone(), (*end).clone()),
            None => ((*places[0].1).clone(), start.clone()),
        }
    }

    fn set_range(&mut self, name: &str, (start, end): &(Vec<u8>, Vec<u8>)) {
        let range = self.place(start)..self.place(end);
        let model = Rc::make_mut(self.models.get_mut(name).unwrap());
        model.retain(|place, _| !range.contains(place));
        self.put_again.retain(|(family, place)| family != name || !range.contains(place));
    }

    fn delete_range(&mut self) {
        let (name, family) = self.family();
        let range = self.range();
        family.delete_range(&range.0, &range.1).unwrap();
        self.set_range(&name, &range);
    }

    fn batch(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..self.random.below(25) {
            let (name, family) = self.family();
            let key = self.key();
            if self.random.chance(1, 40) {
                let range = self.range();
                batch.delete_range(&family, &range.0, &range.1).unwrap();
                self.set_range(&name, &range);
                continue;
            }
            match self.random.below(10) {
                0..2 => {
                    match self.deletes_singly(&name, &key) {
                        true => batch.single_delete(&family, &key).unwrap(),
                        false => batch.delete(&family, &key).unwrap(),
                    }
                    self.set(&name, key, None);
                }
                2 => {
                    let (value, at) = (self.value(), self.expiry());
                    batch.put_expiring_at(&family, &key, &value, at).unwrap();
                    self.set(&name, key, Some((value, at)));
                }
                _ => {
                    let value = self.value();
                    batch.put(&family, &key, &value).unwrap();
                    self.set(&name, key, Some((value, 0)));
                }
            }
        }
        let sync = [None, Some(true), Some(false)][self.random.index(3)];
        let mut options = WriteOptions::new();
        options.sync = sync;
        self.db().write_with(&batch, options).unwrap();
    }

    fn get(&mut self) {
        let (name, family) = self.family();
        let key = self.key();
        let expected = look_up(&self.models[&name], &self.place(&key), self.now());
        assert_eq!(family.get(&key).unwrap().as_ref(), expected, "get of {key:?} in {name}");
        assert_eq!(family.contains(&key).unwrap(), expected.is_some());
    }

    fn get_at_snapshot(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        let at = self.random.index(self.snapshots.len());
        let (name, family) = self.family();
        let key = self.key();
        let (snapshot, models, now) = &self.snapshots[at];
        let Some(model) = models.get(&name) else { return };
        let found = family.get_at(snapshot, &key).unwrap();
        let expected = look_up(model, &self.place(&key), *now);
        assert_eq!(found.as_ref(), expected, "get of {key:?} in {name} at snapshot {at}");
    }

    fn snapshots_change(&mut self) {
        if self.snapshots.len() >= 4 || (!self.snapshots.is_empty() && self.random.chance(1, 2)) {
            let at = self.random.index(self.snapshots.len());
            self.snapshots.swap_remove(at);
        } else {
            let snapshot = self.db().snapshot();
            self.snapshots.push((snapshot, self.models.clone(), self.now()));
        }
    }

    fn flush(&mut self) {
        if self.random.chance(1, 2) {
            self.db().flush().unwrap();
        } else {
            self.family().1.flush().unwrap();
        }
    }

    fn compact(&mut self) {
        if self.random.chance(1, 2) {
            self.db().compact().unwrap();
        } else {
            self.family().1.compact().unwrap();
        }
    }

    fn change_families(&mut self) {
        let name = FAMILIES[self.random.index(FAMILIES.len())];
        if self.models.contains_key(name) && self.models.len() > 1 {
            let old = self.db().family(name).unwrap();
            self.db().drop_family(name).unwrap();
            self.models.remove(name);
            self.put_again.retain(|(family, _)| family != name);
            // A snapshot does not reach into a family of the same name that comes later.
            for (_, models, _) in &mut self.snapshots {
                models.remove(name);
            }
            assert_eq!(old.get(b"k").unwrap_err().kind(), ErrorKind::Closed);
            self.callbacks.watch(self.db.as_ref());
        } else if !self.models.contains_key(name) {
            self.create(name);
        }
    }

    fn reopen(&mut self) {
        self.scans.clear();
        self.snapshots.clear();
        let stale = self.stale_batch();
        self.callbacks.watch(None);
        self.steps_before = self.compaction_steps();
        let db = self.db.take().unwrap();
        if self.random.chance(1, 2) {
            db.close().unwrap();
        } else {
            drop(db);
        }
        if self.random.chance(1, 2) {
            self.read_only();
        }
        self.open();
        self.refuse_stale(&stale);
        self.compare_all();
    }

    /// Everything, by scans both ways and by gets.
    fn compare_all(&mut self) {
        for (name, model) in &self.models {
            let family = self.db().family(name).unwrap();
            let now = self.now();
            let visible = |entry: &&Entry| entry.2 == 0 || entry.2 > now;
            let expected: Vec<_> = model.values().filter(visible).collect();
            let scan = family.scan(ScanOptions::new()).unwrap();
            let found: Vec<_> = scan.entries().map(|entry| entry.unwrap()).collect();
            let pairs = expected.iter().map(|(key, value, _)| (key, value));
            assert!(found.iter().map(|(k, v)| (k, v)).eq(pairs), "full scan of {name}");
            let mut scan = family.scan(ScanOptions::new()).unwrap();
            scan.seek_to_last().unwrap();
            for (key, value, _) in expected.iter().rev() {
                assert_eq!((scan.key(), scan.value().unwrap()), (key.as_slice(), value.as_slice()));
                scan.prev().unwrap();
            }
            assert!(!scan.valid(), "keys before the first of {name}");
            for (key, value, _) in &expected {
                assert_eq!(family.get(key).unwrap().as_ref(), Some(value), "{key:?} in {name}");
            }
        }
    }

    /// The last comparisons. Returns how many steps compactions took.
    pub(crate) fn finish(mut self) -> u64 {
        self.compare_all();
        let problems = self.db().verify().unwrap().problems;
        assert!(problems.is_empty(), "{problems:?}");
        self.db().compact().unwrap();
        self.compare_all();
        let problems = self.db().verify().unwrap().problems;
        assert!(problems.is_empty(), "{problems:?}");
        self.judge_space();
        self.compare_all();
        self.callbacks.check();
        self.callbacks.watch(None);
        self.compaction_steps()
    }
}

fn look_up<'a>(model: &'a Model, place: &[u8], now: u64) -> Option<&'a Vec<u8>> {
    model.get(place).filter(|(_, _, at)| *at == 0 || *at > now).map(|(_, value, _)| value)
}
