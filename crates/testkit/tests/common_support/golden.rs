//! A small database with a known content on the simulated disk, to be damaged.
//!
//! It is made by numbered commits, so that a state can be recognised as a prefix of them: commit
//! `n` sets the counter key to `n` and makes a few other changes, among them one of each kind that
//! there is: see [`changes`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb::{
    Components, Db, DbOptions, Error, ErrorKind, Family, FamilyOptions, FilterKind, Result,
    ScanOptions, SyncMode, WriteBatch,
};
use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};
use tidesdb_sys::vfs::Vfs;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// How the database was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Closed, everything in tables of two levels and value logs.
    Closed,
    /// As `Closed`, with what options there are for tables, and a copy of the first family as it
    /// was after [`COPIED`] commits, which shares tables with it.
    Trees,
    /// Abandoned with tables and a log, of which every record is on disk.
    Synced,
    /// Abandoned with a log of which nothing was synced.
    Unsynced,
    /// As `Synced`, with values that were written to a value log at once: one is in a table, one
    /// in the log.
    Large,
}

const FAMILIES: [&str; 2] = ["first", "second"];
const COPY: &str = "copy";
/// Commits before everything is merged, and the first family is copied.
const COPIED: u64 = 40;
const COUNTER: &[u8] = b"counter";
const DIRECTORY: &str = "/db";

impl Shape {
    /// Closed, with nothing in the log.
    const fn is_closed(self) -> bool {
        matches!(self, Self::Closed | Self::Trees)
    }
}

/// The database.
pub(crate) struct Golden {
    pub(crate) disk: Arc<SimVfs>,
    shape: Shape,
    commits: u64,
    models: [Model; 2],
    /// What is in the copy of a family, if there is one.
    copy: Option<Model>,
}

/// How a damaged database compares with the sound one.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What did not equal the sound content.
    pub(crate) wrong: Vec<String>,
    /// Answers that were errors.
    pub(crate) errors: Vec<Error>,
    /// Gets that were answered and right.
    pub(crate) served: u64,
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{:03}", number * 37 % 60).into_bytes()
}

fn value(family: usize, number: u64) -> Vec<u8> {
    let length = if number.is_multiple_of(5) { 150 } else { 12 };
    let text = format!("{family}:{number}:");
    text.bytes().cycle().take(length).collect()
}

/// A change that a commit makes.
enum Change {
    Put(Vec<u8>, Vec<u8>),
    /// With the time at which it expires, which is to come or over.
    PutExpiring(Vec<u8>, Vec<u8>, u64),
    Delete(Vec<u8>),
    SingleDelete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// The time of the clock, in seconds.
const NOW: u64 = 1_000;

/// A key that is put once and deleted once.
fn once(number: u64) -> Vec<u8> {
    format!("once-{number:03}").into_bytes()
}

/// What commit `number` does to the family at `place`, in this order.
fn changes(shape: Shape, place: usize, number: u64) -> Vec<Change> {
    let mut changes = vec![Change::Put(COUNTER.to_vec(), number.to_string().into_bytes())];
    if number.is_multiple_of(13) {
        let first = number * 7 % 54;
        let [start, end] = [first, first + 6].map(|n| format!("key-{n:03}").into_bytes());
        changes.push(Change::DeleteRange(start, end));
    }
    match number % 11 {
        3 => changes.push(Change::Put(once(number), value(place, number))),
        8 if number > 5 => changes.push(Change::SingleDelete(once(number - 5))),
        _ => {}
    }
    let (key, value) = (key(number), value(place, number));
    changes.push(match number % 9 {
        8 => Change::Delete(key),
        2 => Change::PutExpiring(key, value, NOW + 1_000),
        5 => Change::PutExpiring(key, value, NOW - 1),
        _ => Change::Put(key, value),
    });
    if shape == Shape::Large && place == 0 && [30, 80].contains(&number) {
        let length = (1 << 20) + number as usize;
        changes.push(Change::Put(format!("large-{number}").into_bytes(), vec![7; length]));
    }
    changes
}

fn models_after(shape: Shape, commits: u64) -> [Model; 2] {
    let mut models = [Model::new(), Model::new()];
    for number in 1..=commits {
        for (place, model) in models.iter_mut().enumerate() {
            for change in changes(shape, place, number) {
                match change {
                    Change::PutExpiring(key, _, until) if until <= NOW => drop(model.remove(&key)),
                    Change::Put(key, value) | Change::PutExpiring(key, value, _) => {
                        model.insert(key, value);
                    }
                    Change::Delete(key) | Change::SingleDelete(key) => drop(model.remove(&key)),
                    Change::DeleteRange(start, end) => {
                        model.retain(|key, _| *key < start || *key >= end);
                    }
                }
            }
        }
    }
    models
}

impl Golden {
    /// Makes the database.
    pub(crate) fn make(shape: Shape) -> Self {
        let disk = SimVfs::new(1);
        let commits = 90;
        let mut golden =
            Self { disk, shape, commits, models: models_after(shape, commits), copy: None };
        let db = golden.open(&golden.disk).unwrap();
        let options = golden.family_options();
        let families = FAMILIES.map(|name| db.create_family(name, options.clone()).unwrap());
        for number in 1..=commits {
            golden.commit(&db, &families, number);
            if shape != Shape::Unsynced && number == COPIED {
                db.compact().unwrap();
            }
            if shape == Shape::Trees && number == COPIED {
                db.clone_family(FAMILIES[0], COPY).unwrap();
                let [first, _] = models_after(shape, COPIED);
                golden.copy = Some(first);
            }
            if shape.is_closed() && number == 70 {
                db.flush().unwrap();
            }
        }
        let sound = golden.compare(&db);
        assert!(sound.wrong.is_empty() && sound.errors.is_empty(), "{sound:?}");
        drop(families);
        match shape {
            Shape::Closed | Shape::Trees => db.close().unwrap(),
            Shape::Synced | Shape::Unsynced | Shape::Large => drop(db),
        }
        let copy = golden.disk.fork();
        let sound = golden.compare(&golden.open(&copy).unwrap());
        assert!(sound.wrong.is_empty() && sound.errors.is_empty(), "{sound:?}");
        golden
    }

    fn family_options(&self) -> FamilyOptions {
        let options = FamilyOptions::default()
            .write_buffer_size(1 << 20)
            .block_size(256)
            .target_table_bytes(4 << 10)
            .klog_value_threshold(100)
            .l1_file_count_trigger(4)
            .min_disk_space(0);
        match self.shape {
            Shape::Trees => options.use_btree(true).filter_kind(FilterKind::Ribbon).prefix_bytes(5),
            _ => options,
        }
    }

    fn commit(&self, db: &Db, families: &[Family; 2], number: u64) {
        let mut batch = WriteBatch::new();
        for (place, family) in families.iter().enumerate() {
            for change in changes(self.shape, place, number) {
                let added = match change {
                    Change::Put(key, value) => batch.put(family, key, value),
                    Change::PutExpiring(key, value, until) => {
                        batch.put_expiring_at(family, key, value, until)
                    }
                    Change::Delete(key) => batch.delete(family, key),
                    Change::SingleDelete(key) => batch.single_delete(family, key),
                    Change::DeleteRange(start, end) => batch.delete_range(family, start, end),
                };
                added.unwrap();
            }
        }
        db.write(&batch).unwrap();
    }

    /// Opens the database on a copy of its disk.
    pub(crate) fn open(&self, disk: &Arc<SimVfs>) -> Result<Db> {
        let sync_mode = match self.shape {
            Shape::Synced | Shape::Large => SyncMode::Full,
            Shape::Closed | Shape::Trees | Shape::Unsynced => SyncMode::None,
        };
        let options = DbOptions::default()
            .sync_mode(sync_mode)
            .log_segment_bytes(64 << 10)
            .block_cache_bytes(16 << 10);
        let components = Components {
            vfs: Arc::clone(disk) as _,
            scheduler: Arc::new(ManualScheduler::new(1)),
            clock: Arc::new(ManualClock::new(NOW)),
        };
        Db::open_with(DIRECTORY, options, components)
    }

    /// The files whose names start and end like this.
    pub(crate) fn files(&self, start: &str, end: &str) -> Vec<PathBuf> {
        let entries = self.disk.list(Path::new(DIRECTORY)).unwrap();
        let names = entries.into_iter().map(|entry| entry.name);
        let paths = names
            .filter(|name| name.starts_with(start) && name.ends_with(end))
            .map(|name| Path::new(DIRECTORY).join(name))
            .filter(|path| self.used_length(path) > 0);
        paths.collect()
    }

    /// Length of a file without the zeros that a preallocated one ends with.
    pub(crate) fn used_length(&self, path: &Path) -> u64 {
        let bytes = self.disk.content(path).unwrap();
        bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1)
    }

    /// Asks for everything in every way, in all families.
    pub(crate) fn compare(&self, db: &Db) -> Outcome {
        let mut outcome = Outcome::default();
        let families = FAMILIES.iter().zip(&self.models);
        for (name, model) in families.chain(self.copy.iter().map(|model| (&COPY, model))) {
            match db.family(name) {
                Ok(family) => compare_family(&family, model, &mut outcome),
                Err(error) => outcome.wrong.push(format!("family {name}: {error}")),
            }
        }
        outcome
    }

    /// True when the content is that after some number of commits, the same in both families.
    pub(crate) fn is_prefix(&self, db: &Db) -> bool {
        let read = |name: &str| -> Option<Model> {
            let family = db.family(name).ok()?;
            family.scan(ScanOptions::new()).ok()?.entries().collect::<Result<_>>().ok()
        };
        let found = FAMILIES.map(read);
        let counter = found[0].as_ref().and_then(|model| model.get(COUNTER));
        let commits = counter.map_or("0".into(), |text| String::from_utf8_lossy(text));
        let commits = commits.parse().unwrap_or(u64::MAX);
        commits <= self.commits && found == models_after(self.shape, commits).map(Some)
    }
}

fn compare_family(family: &Family, model: &Model, outcome: &mut Outcome) {
    let absent = (0..64).map(|number| format!("key-{number:03}").into_bytes());
    let keys: BTreeSet<_> = absent.chain((3..90).step_by(11).map(once)).collect();
    for key in keys.iter().chain(model.keys().filter(|key| !keys.contains(*key))) {
        match family.get(key) {
            Ok(found) if found.as_ref() == model.get(key) => {
                outcome.served += u64::from(found.is_some());
            }
            Ok(found) => {
                let name = String::from_utf8_lossy(key);
                outcome.wrong.push(format!("get of {name}: {:?}", found.map(|v| v.len())));
            }
            Err(error) => outcome.errors.push(error),
        }
    }
    compare_other_gets(family, model, &keys, outcome);
    for prefix in ["", "key-02", "once-", "p"] {
        let prefix = prefix.as_bytes();
        let inside = model.iter().filter(|(key, _)| key.starts_with(prefix));
        let expected: Vec<_> = inside.collect();
        for forward in [true, false] {
            let scanned = compare_scan(family, prefix, &expected, forward, &mut outcome.wrong);
            outcome.errors.extend(scanned.err());
        }
    }
}

/// Asks for keys in the other ways of getting them, several at once and without values.
fn compare_other_gets(
    family: &Family,
    model: &Model,
    keys: &BTreeSet<Vec<u8>>,
    outcome: &mut Outcome,
) {
    let keys: Vec<_> = keys.iter().collect();
    for several in keys.chunks(10) {
        let wanted = several.iter().map(|key| model.get(*key));
        match family.multi_get(several) {
            Ok(found) if found.iter().map(Option::as_ref).eq(wanted) => {}
            Ok(found) => outcome.wrong.push(format!("multi_get of {several:?}: {found:?}")),
            Err(error) => outcome.errors.push(error),
        }
        match family.contains(several[0]) {
            Ok(found) if found == model.contains_key(several[0]) => {}
            Ok(found) => outcome.wrong.push(format!("contains {:?}: {found}", several[0])),
            Err(error) => outcome.errors.push(error),
        }
    }
}

/// Compares a scan of the keys under a prefix with what it should show, up to the first error.
fn compare_scan(
    family: &Family,
    prefix: &[u8],
    expected: &[(&Vec<u8>, &Vec<u8>)],
    forward: bool,
    wrong: &mut Vec<String>,
) -> Result<()> {
    let mut scan = family.scan(ScanOptions::new().prefix(prefix))?;
    if forward {
        scan.seek_to_first()?
    } else {
        scan.seek_to_last()?
    }
    for step in 0..expected.len() {
        let at = if forward { step } else { expected.len() - 1 - step };
        let (key, value) = expected[at];
        if !scan.valid() || scan.key() != key.as_slice() {
            let about = format!("under {prefix:?}, forward: {forward}");
            wrong.push(format!("scan ({about}), entry {at}: {:?}", scan.key()));
            return Ok(());
        }
        match scan.value() {
            Ok(found) if found == value.as_slice() => {}
            Ok(found) => wrong.push(format!("scan, value of {key:?}: {found:?}")),
            // The value alone is damaged; the scan goes on behind it.
            Err(error) if [ErrorKind::Corruption, ErrorKind::Io].contains(&error.kind()) => {}
            Err(error) => return Err(error),
        }
        if forward { scan.next()? } else { scan.prev()? }
    }
    if scan.valid() {
        wrong.push(format!("scan (under {prefix:?}, forward: {forward}): more than there is"));
    }
    Ok(())
}
