//! Operations on families and on the whole database, and the reads of several keys at once.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use tidesdb::{Components, Db, ErrorKind, KeyOrder, ScanOptions, WriteBatch};
use tidesdb_sim::{ManualScheduler, SimVfs};
use tidesdb_sys::vfs::Vfs;
use tidesdb_testkit::inspect;

use super::{FAMILIES, Model, Models, Run, look_up};

/// Segments of the log after a new opening in which hardly anything was written: the last one of
/// the opening before, the new one, and a few more.
const MOST_SEGMENTS: usize = 4;

/// An entry as a scan shows it.
type Pair = (Vec<u8>, Vec<u8>);

fn visible(model: &Model, now: u64) -> Vec<Pair> {
    let alive = model.values().filter(|(_, _, at)| *at == 0 || *at > now);
    alive.map(|(key, value, _)| (key.clone(), value.clone())).collect()
}

impl Run {
    /// A name of a family that exists, and another that does not, if there are both.
    fn taken_and_free(&mut self) -> Option<(&'static str, &'static str)> {
        let at = self.random.index(FAMILIES.len());
        let names = (0..FAMILIES.len()).map(|n| FAMILIES[(at + n) % FAMILIES.len()]);
        let (taken, free): (Vec<_>, Vec<_>) =
            names.partition(|name| self.models.contains_key(*name));
        Some((*taken.first()?, *free.first()?))
    }

    pub(super) fn rename(&mut self) {
        let Some((old, new)) = self.taken_and_free() else { return };
        let family = self.db().family(old).unwrap();
        self.db().rename_family(old, new).unwrap();
        assert_eq!(&*family.name(), new);
        let rename = |models: &mut Models| {
            models.remove(old).map(|model| models.insert(new.to_owned(), model))
        };
        rename(&mut self.models);
        self.snapshots.iter_mut().for_each(|(_, models, _)| drop(rename(models)));
        let of_old = |(name, key): (String, Vec<u8>)| match name == old {
            true => (new.to_owned(), key),
            false => (name, key),
        };
        self.put_again = std::mem::take(&mut self.put_again).into_iter().map(of_old).collect();
    }

    pub(super) fn copy_family(&mut self) {
        let Some((source, copy)) = self.taken_and_free() else { return };
        self.db().clone_family(source, copy).unwrap();
        // A snapshot that is older sees in the copy what it sees in the source.
        let again = |models: &mut Models| {
            let model = models.get(source).map(Rc::clone);
            model.map(|model| models.insert(copy.to_owned(), model))
        };
        again(&mut self.models);
        self.snapshots.iter_mut().for_each(|(_, models, _)| drop(again(models)));
        let of_source = self.put_again.iter().filter(|(name, _)| name == source);
        let of_copy: Vec<_> = of_source.map(|(_, key)| (copy.to_owned(), key.clone())).collect();
        self.put_again.extend(of_copy);
        self.callbacks.watch(self.db.as_ref());
    }

    /// What is there keeps its form; what is written from now on has another.
    pub(super) fn change_options(&mut self) {
        let (_, family) = self.family();
        let options = family
            .options()
            .use_btree(self.pace.chance(1, 2))
            .enable_bloom_filter(self.pace.chance(3, 4))
            .block_size(128 << self.pace.below(6))
            .klog_value_threshold(16 << self.pace.below(7));
        family.set_options(options.clone()).unwrap();
        assert_eq!(family.options(), options);
    }

    fn open_at(&self, disk: &Arc<SimVfs>, path: &Path, read_only: bool) -> Db {
        let components = Components {
            vfs: Arc::clone(disk) as _,
            scheduler: Arc::new(ManualScheduler::new(1)),
            clock: Arc::clone(&self.clock) as _,
        };
        let options = self.db_options.clone().read_only(read_only);
        Db::open_with(path, options, components).unwrap()
    }

    fn compare_with(&self, db: &Db, what: &str) {
        assert!(db.family_names().iter().eq(self.models.keys()), "families of {what}");
        for (name, model) in &self.models {
            let scan = db.family(name).unwrap().scan(ScanOptions::new()).unwrap();
            let found: Vec<_> = scan.entries().map(Result::unwrap).collect();
            assert_eq!(found, visible(model, self.now()), "{name} of {what}");
        }
    }

    /// A checkpoint or a backup, which is opened, compared and removed.
    pub(super) fn copy_database(&mut self) {
        let path = PathBuf::from("/copy");
        let backup = self.random.chance(1, 3);
        match backup {
            true => self.db().backup(&path).unwrap(),
            false => self.db().checkpoint(&path).unwrap(),
        }
        let copy = self.open_at(&self.disk.fork(), &path, false);
        self.compare_with(&copy, if backup { "a backup" } else { "a checkpoint" });
        assert!(copy.verify().unwrap().problems.is_empty());
        for entry in self.disk.list(&path).unwrap() {
            self.disk.remove(&path.join(entry.name)).unwrap();
        }
        self.disk.remove_dir(&path).unwrap();
    }

    /// A reader, while no other handle has the database open, shows all of it and changes no byte.
    pub(super) fn read_only(&self) {
        let before = (self.disk.mutations(), self.disk.state_hash());
        let reader = self.open_at(&self.disk, Path::new("/db"), true);
        self.compare_with(&reader, "a reader");
        let family = reader.family(self.models.keys().next().unwrap()).unwrap();
        for answer in [reader.flush(), reader.compact(), family.put(b"key", b"value")] {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::ReadOnly);
        }
        drop((reader, family));
        assert!(before == (self.disk.mutations(), self.disk.state_hash()), "a reader wrote");
    }

    /// A batch that is kept over the end of its database.
    pub(super) fn stale_batch(&mut self) -> WriteBatch {
        let (_, family) = self.family();
        let mut batch = WriteBatch::new();
        batch.put(&family, &self.key(), b"by an earlier opening").unwrap();
        batch
    }

    pub(super) fn refuse_stale(&self, batch: &WriteBatch) {
        assert_eq!(self.db().write(batch).unwrap_err().kind(), ErrorKind::Invalid);
    }

    /// Several keys at once, a prefix both ways, and pages.
    pub(super) fn read_several(&mut self) {
        let (name, family) = self.family();
        let keys: Vec<_> = (0..self.random.index(6)).map(|_| self.key()).collect();
        let (mut model, mut now) = (Rc::clone(&self.models[&name]), self.now());
        let mut options = ScanOptions::new();
        let held = self.snapshots.first().filter(|_| keys.len() % 2 == 0);
        let held =
            held.and_then(|(snapshot, models, at)| Some((snapshot, models.get(&name)?, *at)));
        let found = match held {
            Some((snapshot, then, taken_at)) => {
                (model, now) = (Rc::clone(then), taken_at);
                options = options.snapshot(snapshot);
                family.multi_get_at(snapshot, &keys).unwrap()
            }
            None => family.multi_get(&keys).unwrap(),
        };
        let expected = keys.iter().map(|key| look_up(&model, &self.place(key), now));
        assert!(found.iter().map(Option::as_ref).eq(expected), "{keys:?} of {name}: {found:?}");
        let key = self.key();
        let prefix = &key[..self.random.index(key.len() + 1)];
        let mut expected = visible(&model, now);
        let order = self.order().clone();
        let Ok(stored) = order.stored_prefix(prefix) else { return };
        expected.retain(|(key, _)| order.stored_key(key).starts_with(&stored));
        let scan = || family.scan(options.clone().prefix(prefix)).unwrap();
        // Pages begin behind the last key of the one before; behind the last one is nothing.
        let length = 1 + self.random.index(30);
        let mut after: Option<Vec<u8>> = None;
        for page in expected.chunks(length).chain([&[][..]]) {
            let mut scan = scan();
            match &after {
                None => scan.seek_to_first().unwrap(),
                // The smallest key behind the last one.
                Some(last) if order == KeyOrder::Bytewise => {
                    scan.seek([last.as_slice(), &[0]].concat()).unwrap();
                }
                Some(last) => scan.seek(last).and_then(|()| scan.next()).unwrap(),
            }
            let found: Vec<_> = scan.entries().take(length).map(Result::unwrap).collect();
            assert_eq!(found, page, "the page of {name} under {prefix:?} behind {after:?}");
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
        }
        let backwards: Vec<_> = scan().entries_rev().map(Result::unwrap).collect();
        expected.reverse();
        assert_eq!(backwards, expected, "{name} under {prefix:?}, backwards");
    }

    /// Bytes of tables and value logs after everything was merged in a new opening, as the files
    /// say, are bounded by what can be read.
    pub(super) fn judge_space(&mut self) {
        self.reopen();
        self.db().compact().unwrap();
        self.scheduler.run_until_idle();
        self.db().compact().unwrap();
        self.scheduler.run_until_idle();
        inspect::check_log(self.disk.as_ref(), Path::new("/db"), MOST_SEGMENTS).unwrap();
        let now = self.now();
        let of_model = |model: &Rc<Model>| -> usize {
            visible(model, now).iter().map(|(key, value)| key.len() + value.len() + 40).sum()
        };
        let live: usize = self.models.values().map(of_model).sum();
        let files = self.disk.list(Path::new("/db")).unwrap().into_iter();
        let data =
            files.filter(|file| [".klog", ".vlog"].iter().any(|end| file.name.ends_with(end)));
        let lengths: Vec<_> = data
            .map(|file| {
                let path = Path::new("/db").join(&file.name);
                (self.disk.content(&path).unwrap().len(), file.name)
            })
            .collect();
        let bytes: usize = lengths.iter().map(|(bytes, _)| bytes).sum();
        // Tables are as small as 4 KiB here, and steps end them earlier: what each takes whatever
        // it holds counts, and how many there may be.
        let tables = lengths.iter().filter(|(_, name)| name.ends_with(".klog")).count();
        assert!(tables <= 64 + live / 256, "{tables} tables for {live}: {lengths:?}");
        let allowed = 2 * live + (64 << 10) + (tables << 10);
        assert!(bytes <= allowed, "{bytes} bytes of files for {live}: {lengths:?}");
    }
}
