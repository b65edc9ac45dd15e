//! Copies of the whole database, and openings for reading.

use std::path::PathBuf;
use std::sync::Arc;

use tidesdb::{CopyOptions, Db, ErrorKind, WriteBatch};
use tidesdb_sys::clock::Clock;
use tidesdb_sys::vfs::Vfs;

use super::{Machine, Promises, Runner, family_name, locked};
use crate::Verdict;
use crate::inspect;
use crate::oracle::Contents;
use crate::settings::SLOTS;
use crate::watch::WatchedScheduler;

/// A checkpoint or a backup of the database, in a directory next to it.
#[derive(Debug)]
pub(super) struct KeptCopy {
    path: PathBuf,
    /// The last transaction that it holds.
    number: u64,
    promises: Promises,
}

impl Runner {
    /// Makes a checkpoint or a backup; what was made before must still be what it was, and goes.
    pub(super) fn copy_database(&mut self, db: &Db, backup: bool) -> Verdict {
        self.check_kept_copy()?;
        let promises = locked(&self.promises).clone();
        let number = promises.started;
        let path = PathBuf::from(format!("/copy{number}-{}", self.random.next_u64()));
        let options = CopyOptions::default().verify_copy(self.random.chance(1, 4));
        let result = match backup {
            true => db.backup_with(&path, options),
            false => db.checkpoint_with(&path, options),
        };
        let worked = result.is_ok();
        self.durable_if("copy", result)?;
        let copy = KeptCopy { path, number, promises };
        if worked {
            self.check_copy(&copy)?;
            self.kept_copy = Some(copy);
        }
        Ok(())
    }

    /// Checks the last copy again, and removes it.
    fn check_kept_copy(&mut self) -> Verdict {
        let Some(copy) = self.kept_copy.take() else { return Ok(()) };
        if copy.number.is_multiple_of(2) {
            self.check_copy(&copy).map_err(|e| format!("later: {e}"))?;
        }
        let (sim, path) = (&self.machine.sim, &copy.path);
        let remove = || {
            sim.list(path)?.iter().try_for_each(|entry| sim.remove(&path.join(&entry.name)))?;
            sim.remove_dir(path)
        };
        remove().map_err(|e| format!("remove {}: {e}", path.display()))
    }

    /// Opens a copy where nothing fails, and compares it with the oracle.
    fn check_copy(&self, copy: &KeptCopy) -> Verdict {
        let context = |e: String| format!("copy {}: {e}", copy.path.display());
        let _quiet = self.machine.faults.as_ref().map(|faults| faults.suspend());
        let sim = self.machine.sim.fork();
        let machine = self.machine.with_disk(Arc::clone(&sim));
        let scheduler = WatchedScheduler::new(1);
        let db = machine
            .open_at(&copy.path, false, &scheduler)
            .map_err(|e| context(format!("open: {e}")))?;
        self.compare(&db, copy).map_err(context)?;
        inspect::deep_check(&db, sim.as_ref(), &copy.path).map_err(context)
    }

    fn compare(&self, db: &Db, copy: &KeptCopy) -> Verdict {
        let mut found = Contents::new();
        for (slot, id) in copy.promises.families.iter().enumerate() {
            let family = db.family(&family_name(slot)).ok();
            match (id, family) {
                (Some(id), Some(family)) => {
                    copy.promises.check_options(*id, &family)?;
                    found.insert(*id, inspect::read_forwards(&family, None)?);
                }
                (None, None) => {}
                (id, _) => return Err(format!("family {slot} should be {id:?}")),
            }
        }
        let live: Vec<_> = copy.promises.families.iter().flatten().copied().collect();
        let now = self.machine.clock.unix_seconds();
        let expected = self.history.contents(&live, copy.number, now);
        if found == expected {
            return Ok(());
        }
        Err(self.history.differences(&expected, &found))
    }

    /// An opening for reading while the database is open for writing: it is refused as locked, and
    /// nothing changes.
    pub(super) fn open_beside(&self) -> Verdict {
        let sim = &self.machine.sim;
        let before = sim.mutations();
        let _quiet = self.machine.faults.as_ref().map(|faults| faults.suspend());
        let machine = Machine { faults: None, ..self.machine.clone() };
        match machine.open_at(&Machine::dir(), true, &WatchedScheduler::new(1)) {
            Err(e) if e.kind() == ErrorKind::Locked => {}
            other => {
                return Err(format!("opened for reading while it is open for writing: {other:?}"));
            }
        }
        if sim.mutations() == before { Ok(()) } else { Err("a reader changed the disk".to_owned()) }
    }

    /// Opens the database for reading, after its last handle has gone, and calls what a reader may
    /// and may not: it shows everything, and not a byte changes.
    pub(super) fn read_without_writing(&self) -> Verdict {
        let sim = &self.machine.sim;
        let before = (sim.mutations(), sim.state_hash());
        let _quiet = self.machine.faults.as_ref().map(|faults| faults.suspend());
        let machine = Machine { faults: None, ..self.machine.clone() };
        let db = machine
            .open_at(&Machine::dir(), true, &WatchedScheduler::new(1))
            .map_err(|e| format!("open for reading: {e}"))?;
        let (decided, now_there) = {
            let promises = locked(&self.promises).clone();
            let decided = promises.moving.is_none() && promises.undecided == [None; SLOTS];
            let (path, number) = (Machine::dir(), u64::MAX);
            (decided, KeptCopy { path, number, promises })
        };
        if decided {
            self.compare(&db, &now_there).map_err(|e| format!("opened for reading: {e}"))?;
        }
        refuse_changes(&db)?;
        db.close().map_err(|e| format!("close of a reader: {e}"))?;
        if before != (sim.mutations(), sim.state_hash()) {
            return Err("a reader changed the disk".to_owned());
        }
        Ok(())
    }

    /// A batch that is kept until the database is opened again.
    pub(super) fn stale_batch(&self) -> Option<WriteBatch> {
        let family = self.handles.iter().flatten().next()?;
        let mut batch = WriteBatch::new();
        batch.put(family, b"stale", b"written by another opening").ok()?;
        Some(batch)
    }

    /// Such a batch is refused; what it would have written is looked for by later checks.
    pub(super) fn refuse_stale(&self, batch: &WriteBatch) -> Verdict {
        let Some(db) = &self.db else { return Ok(()) };
        match db.write(batch) {
            Err(e) if e.kind() == ErrorKind::Invalid || self.machine.faults.is_some() => Ok(()),
            other => Err(format!("a batch of an earlier opening: {other:?}")),
        }
    }
}

/// Calls what would change a database.
fn refuse_changes(db: &Db) -> Verdict {
    let mut results = vec![
        ("copy", db.checkpoint("/copy-of-a-reader")),
        ("rename", db.rename_family(&family_name(0), "other")),
        ("clone", db.clone_family(&family_name(0), "other").map(drop)),
    ];
    for slot in 0..SLOTS {
        let Ok(family) = db.family(&family_name(slot)) else { continue };
        results.extend([
            ("flush", db.flush()),
            ("compact", db.compact()),
            ("compact_and_wait", db.compact_and_wait()),
        ]);
        results.push(("put", family.put(b"key", b"value")));
        results.push(("large put", family.put(b"key", &vec![0; 1 << 20])));
        let mut range = [b"a", b"z"];
        let order = family.options().key_order;
        range.sort_by_key(|key| order.stored_key(*key).into_owned());
        results.push(("delete a range", family.delete_range(range[0], range[1])));
        results.push(("set options", family.set_options(family.options())));
        results.push(("drop", db.drop_family(&family_name(slot))));
    }
    for (what, result) in results {
        if result.as_ref().err().map(|e| e.kind()) != Some(ErrorKind::ReadOnly) {
            return Err(format!("{what} of a reader: {result:?}"));
        }
    }
    db.sync_log().and_then(|()| db.wait_idle()).map_err(|e| format!("waiting reader: {e}"))
}
