//! Repairs whose last steps fail, or that are killed in them.

mod openings;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::{Error, ErrorKind, Result};
use tidesdb_files::naming::FileKind;
use tidesdb_sim::{FaultError, FaultKind, FaultVfs, Op, OpSet};
use tidesdb_sys::vfs::{LockMode, RealVfs};

use super::*;
use crate::salvage::repair::{RepairStep, Repaired, give_names};
use crate::salvage::report::SalvageReport;
use crate::salvage::source::Source;

/// A parent directory with a damaged database, and a repaired one that has not got the name.
struct Place {
    parent: tempfile::TempDir,
    vfs: Arc<FaultVfs>,
}

impl Place {
    /// On a file system that can exchange names, or can't.
    fn new(exchanges: bool) -> Self {
        let vfs = FaultVfs::new(Arc::new(RealVfs::new()));
        if !exchanges {
            vfs.refuse_exchanges();
        }
        let place = Self { parent: tempfile::tempdir().unwrap(), vfs };
        place.put("db", "old");
        place.put("db.repaired", "new");
        place
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.parent.path().join(name)
    }

    fn put(&self, name: &str, content: &str) {
        fs::create_dir(self.path(name)).unwrap();
        for kind in [FileKind::Table(1), FileKind::Manifest(2), FileKind::EventLog] {
            fs::write(self.path(name).join(kind.name()), content).unwrap();
        }
    }

    /// What lies there by that name: `old` or `new`, each of which has to be whole.
    fn content(&self, name: &str) -> Option<String> {
        let files = [FileKind::Table(1), FileKind::Manifest(2), FileKind::EventLog];
        let read = |kind: FileKind| fs::read_to_string(self.path(name).join(kind.name())).ok();
        let contents = files.map(read);
        assert!(contents.iter().all(|content| *content == contents[0]), "{name}: {contents:?}");
        contents[0].clone()
    }

    fn is_marked(&self, name: &str) -> bool {
        self.path(name).join(MARK).exists()
    }

    /// After a repair that was killed between its two renames.
    fn killed_between() -> Self {
        let place = Self::new(false);
        place.vfs.count_only(OpSet::of(&[Op::Rename]));
        place.end(Some((2, FaultKind::Forever))).unwrap_err();
        assert!(!place.path("db").exists() && place.is_marked("db.repaired"));
        place
    }

    /// Removes a mark and writes another one.
    fn mark_as(&self, kept: &str) {
        let repaired = self.path("db.repaired");
        unmark(&RealVfs::new(), &repaired).unwrap();
        mark(&RealVfs::new(), &repaired, &self.path(kept), &|_| Ok(())).unwrap();
    }

    /// The end of a repair, of which the call of this number fails.
    fn end(&self, failing: Option<(u64, FaultKind)>) -> Result<Repaired> {
        self.end_with(failing, "db.repaired", "db.damaged")
    }

    fn end_with(
        &self,
        failing: Option<(u64, FaultKind)>,
        repaired: &str,
        kept: &str,
    ) -> Result<Repaired> {
        let source = Source::open_alone(&self.path("db"))?;
        let kept = self.path(kept);
        let done = Repaired { report: SalvageReport::default(), kept };
        if let Some((call, kind)) = failing {
            self.vfs.fail_call(call, kind, FaultError::IO);
        }
        let vfs = self.vfs.as_ref();
        let ended = give_names(vfs, &source, &self.path(repaired), done, &mut |step| {
            assert!(matches!(step, RepairStep::Whole(..)), "{step:?}");
            Ok(())
        });
        self.vfs.clear_faults();
        ended
    }

    /// What an opening does first, and when it has locked the database.
    fn opened(&self) -> Option<PathBuf> {
        let dir = self.path("db");
        let finished = finish_on(&RealVfs::new(), &dir).unwrap();
        killed_repair::forget(&RealVfs::new(), &dir);
        finished
    }

    /// With the database removed by its user, an opening finds nothing to go on with.
    fn check_begins_empty(&self, what: &str) {
        fs::rename(self.path("db"), self.path("mine")).unwrap();
        assert_eq!(self.opened(), None, "{what}");
        assert!(!self.path("db").exists(), "{what}");
    }
}

/// How many calls the end of a repair makes.
fn calls(exchanges: bool) -> u64 {
    let place = Place::new(exchanges);
    place.end(None).unwrap();
    place.vfs.calls()
}

#[test]
fn a_repair_that_is_killed_in_its_last_steps_leaves_the_old_database_or_the_new_one() {
    for exchanges in [true, false] {
        let mut finished = 0;
        for call in 0..=calls(exchanges) {
            let what = format!("exchanges: {exchanges}, call {call}");
            let place = Place::new(exchanges);
            // From there on nothing is done any more.
            let ended = place.end(Some((call, FaultKind::Forever)));
            finished += u64::from(place.opened().is_some());
            let content = place.content("db");
            assert!(!place.is_marked("db"), "{what}");
            if content.as_deref() == Some("new") {
                let kept = ["db.damaged", "db.repaired"].map(|name| place.content(name));
                let old = kept.iter().flatten().filter(|content| *content == "old").count();
                assert_eq!((old, kept.iter().flatten().count()), (1, 1), "{what}");
                place.check_begins_empty(&what);
                continue;
            }
            assert_eq!((content.as_deref(), ended.is_ok()), (Some("old"), false), "{what}");
            assert_eq!(place.content("db.damaged"), None, "{what}");
            // The next opening repairs it anew.
            place.put("db.repaired-1", "new");
            let dir = place.path("db");
            let taken = names_beside(&RealVfs::new(), &dir).unwrap();
            forget_marks(&RealVfs::new(), &taken, &dir).unwrap();
            place.end_with(None, "db.repaired-1", "db.damaged").unwrap();
            assert_eq!(place.content("db.damaged").as_deref(), Some("old"), "{what}");
            assert_eq!(place.content("db").as_deref(), Some("new"), "{what}");
            place.check_begins_empty(&what);
        }
        // The moment between two renames, and no other.
        assert_eq!(finished, u64::from(!exchanges));
    }
}

#[test]
fn a_last_step_of_a_repair_that_fails_leaves_the_old_database_alone_or_the_repair_complete() {
    for exchanges in [true, false] {
        let (mut refused, mut warned) = (0, 0);
        for call in 0..calls(exchanges) {
            let what = format!("exchanges: {exchanges}, call {call}");
            let place = Place::new(exchanges);
            let Ok(done) = place.end(Some((call, FaultKind::Once))) else {
                assert_eq!(place.content("db").as_deref(), Some("old"), "{what}");
                let names = fs::read_dir(place.parent.path()).unwrap().count();
                // Another process may have what could not be locked.
                assert_eq!(names, 1 + usize::from(call == 0), "{what}: something is left");
                assert!(!place.is_marked("db"), "{what}");
                refused += 1;
                continue;
            };
            warned += done.report.warnings.len();
            assert_eq!(place.content("db").as_deref(), Some("new"), "{what}");
            let kept = done.kept.file_name().unwrap().to_str().unwrap();
            assert_eq!(place.content(kept).as_deref(), Some("old"), "{what}");
            assert!(!place.is_marked(kept), "{what}");
            // The mark is removed as soon as something has the name.
            assert_eq!(place.opened(), None, "{what}");
            assert!(!place.is_marked("db"), "{what}");
        }
        assert!(refused > 5, "{refused}");
        assert_eq!(warned, 1, "the sync of the parent");
    }
}

/// The damaged database can get neither its new name nor its old one back: it must not be removed.
#[test]
fn a_damaged_database_that_can_get_no_name_is_kept_where_it_is() {
    let place = Place::new(true);
    place.vfs.count_only(OpSet::of(&[Op::Rename]));
    let done = place.end(Some((1, FaultKind::Once))).unwrap();
    assert_eq!(done.kept, place.path("db.repaired"));
    assert_eq!(place.content("db.repaired").as_deref(), Some("old"));
    assert_eq!(place.content("db").as_deref(), Some("new"));
    // Between two renames, and nothing can be undone.
    let place = Place::new(false);
    place.vfs.count_only(OpSet::of(&[Op::Rename]));
    place.end(Some((2, FaultKind::Times(2)))).unwrap_err();
    assert_eq!(place.content("db.damaged").as_deref(), Some("old"));
    assert_eq!(place.opened(), Some(place.path("db.repaired")));
    assert_eq!(place.content("db").as_deref(), Some("new"));
}

/// A salvage takes hours, in which others may make directories and files.
#[test]
fn the_damaged_database_gets_another_name_when_its_own_was_taken_meanwhile() {
    for (exchanges, killed) in [(true, false), (false, false), (false, true)] {
        let place = Place::new(exchanges);
        place.put("db.damaged", "of the user");
        fs::write(place.path("db.damaged-1"), "of the user").unwrap();
        place.vfs.count_only(OpSet::of(&[Op::Rename]));
        // The second of the two renames that get done.
        let ended = place.end(killed.then_some((4, FaultKind::Forever)));
        if killed {
            ended.unwrap_err();
            // The mark names the one that was given.
            fs::rename(place.path("db.damaged"), place.path("elsewhere")).unwrap();
            assert_eq!(place.opened(), Some(place.path("db.repaired")));
            fs::rename(place.path("elsewhere"), place.path("db.damaged")).unwrap();
        } else {
            assert_eq!(ended.unwrap().kept, place.path("db.damaged-2"));
        }
        assert_eq!(place.content("db.damaged-2").as_deref(), Some("old"));
        assert_eq!(place.content("db").as_deref(), Some("new"));
        assert_eq!(place.content("db.damaged").as_deref(), Some("of the user"));
        assert!(!place.is_marked("db") && !place.path("db.repaired").exists());
    }
}

/// What another opening wrote to the new database could be lost with its name in a power cut.
#[test]
fn both_databases_are_locked_until_the_names_are_on_disk() {
    for exchanges in [true, false] {
        let place = Place::new(exchanges);
        let dirs = ["db", "db.repaired", "db.damaged"].map(|name| place.path(name));
        let checks = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&checks);
        place.vfs.before_calls(Some(Arc::new(move |op, path: &Path| {
            if op == Op::Lock {
                return;
            }
            let there: Vec<_> = dirs.iter().filter(|dir| dir.exists()).collect();
            assert_eq!(there.len(), 2, "before {op:?} of {path:?}");
            for dir in there {
                let lock = RealVfs::new().lock(&dir.join("LOCK"), LockMode::Exclusive);
                let error = lock.expect_err("it is not locked");
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{op:?}: {error}");
            }
            seen.lock().unwrap().push((op, path.to_path_buf()));
        })));
        place.end(None).unwrap();
        place.vfs.before_calls(None);
        let last = checks.lock().unwrap().pop().unwrap();
        assert_eq!(last, (Op::Remove, place.path("db").join(MARK)));
        // And no longer.
        RealVfs::new().lock(&place.path("db/LOCK"), LockMode::Exclusive).unwrap();
    }
    // Where another process has the new one, nothing of it is removed.
    let place = Place::new(true);
    let theirs = RealVfs::new().lock(&place.path("db.repaired/LOCK"), LockMode::Exclusive).unwrap();
    assert_eq!(place.end(None).unwrap_err().kind(), ErrorKind::Locked);
    drop(theirs);
    assert_eq!(place.content("db.repaired").as_deref(), Some("new"));
    assert_eq!(place.content("db").as_deref(), Some("old"));
}

#[test]
fn an_opening_between_the_two_renames_of_a_running_repair_finds_it_locked() {
    let place = Place::new(false);
    let (gone, last) = (place.path("db"), place.path("db.repaired"));
    place.vfs.before_calls(Some(Arc::new(move |op, path: &Path| {
        if op == Op::Rename && *path == *last && !gone.exists() {
            let error = finish_on(&RealVfs::new(), &gone).unwrap_err();
            assert!(matches!(&error, Error::Locked(dir) if *dir == gone), "{error}");
        }
    })));
    let done = place.end(None).unwrap();
    assert_eq!(done.kept, place.path("db.damaged"));
    assert_eq!(place.content("db.damaged").as_deref(), Some("old"));
    assert_eq!(place.content("db").as_deref(), Some("new"));
    assert!(!place.is_marked("db"));
    // Two openings that find what a killed repair left: the second is too late.
    for comes_at in [Op::Lock, Op::Rename] {
        let place = Place::killed_between();
        place.vfs.clear_faults();
        let dir = place.path("db");
        let first = dir.clone();
        place.vfs.before_calls(Some(Arc::new(move |op, path: &Path| {
            if op == comes_at && path.starts_with(first.with_file_name("db.repaired")) {
                let finished = finish_on(&RealVfs::new(), &first);
                assert_eq!(finished.is_ok(), comes_at == Op::Lock, "{finished:?}");
            }
        })));
        let finished = finish_on(place.vfs.as_ref(), &dir).unwrap();
        assert_eq!(finished.is_some(), comes_at == Op::Rename);
        assert_eq!(place.content("db").as_deref(), Some("new"));
    }
}

/// What a user or another repair has put there has no mark, or one that says something else.
#[test]
fn directories_beside_a_missing_database_are_left_alone_unless_a_repair_has_marked_them() {
    let place = Place::new(true);
    fs::rename(place.path("db"), place.path("db.damaged")).unwrap();
    assert_eq!(place.opened(), None, "there is no mark");
    place.mark_as("db.damaged-1");
    assert_eq!(place.opened(), None, "what it names is not there");
    fs::create_dir(place.path("db.other")).unwrap();
    place.mark_as("db.other");
    assert_eq!(place.opened(), None, "no repair gives that name");
    unmark(&RealVfs::new(), &place.path("db.repaired")).unwrap();
    fs::create_dir(place.path("db.repaired").join(MARK)).unwrap();
    assert_eq!(place.opened(), None, "it is a directory");
    fs::remove_dir(place.path("db.repaired").join(MARK)).unwrap();
    assert_eq!(place.content("db.repaired").as_deref(), Some("new"));
    assert!(!place.path("db").exists());
    place.mark_as("db.damaged");
    assert_eq!(place.opened(), Some(place.path("db.repaired")));
}

/// Who repairs, with all rights, is often not who opens the database then.
#[test]
fn the_mark_can_be_read_by_who_can_read_the_files() {
    let place = Place::new(true);
    let mode_of = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for entry in fs::read_dir(place.path("db")).unwrap() {
        fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(0o604)).unwrap();
    }
    let path = place.path("db.repaired").join(MARK);
    place.vfs.before_calls(Some(Arc::new(move |op, _: &Path| {
        // Before the sync, which takes the mode along.
        if op == Op::SyncDir && path.exists() {
            assert_eq!(mode_of(&path), 0o604);
        }
    })));
    place.end(None).unwrap();
    assert!(fs::read_dir(place.path("db")).unwrap().count() > 3);
    for entry in fs::read_dir(place.path("db")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode_of(&path), 0o604, "{path:?}");
    }
}

#[test]
fn a_repair_forgets_the_marks_of_earlier_ones_alone() {
    let place = Place::new(true);
    place.put("db.repaired-1", "of the user");
    place.mark_as("db.damaged");
    fs::write(place.path("db.repaired-1").join(MARK), "mine").unwrap();
    let dir = place.path("db");
    let taken = names_beside(&RealVfs::new(), &dir).unwrap();
    forget_marks(&RealVfs::new(), &taken, &dir).unwrap();
    assert!(!place.is_marked("db.repaired") && place.is_marked("db.repaired-1"));
}

/// Syncs come before the names: a power cut behind them finds whole files with their access.
#[test]
fn all_files_and_the_mark_are_synced_before_the_names_change() {
    let place = Place::new(true);
    place.vfs.record(true);
    place.end(None).unwrap();
    let records = place.vfs.records();
    let exchange = records.iter().position(|record| record.op == Op::Rename).unwrap();
    let synced = |name: &str| {
        let is_it = |path: &Path| path.ends_with(Path::new("db.repaired").join(name));
        let mut before = records.iter().take(exchange);
        before.any(|record| record.op == Op::Sync && is_it(&record.path))
    };
    for kind in [FileKind::Table(1), FileKind::Manifest(2), FileKind::EventLog] {
        assert!(synced(&kind.name()), "{kind:?}");
    }
    assert!(synced(MARK));
    let mut before = records.iter().take(exchange);
    assert!(before.any(|record| record.op == Op::SyncDir && record.path.ends_with("db.repaired")));
    // The mark goes once, behind the sync of all names.
    let last = |op: Op| records.iter().rposition(|record| record.op == op).unwrap();
    let unmarked = records.iter().position(|record| record.op == Op::Remove).unwrap();
    let named = last(Op::SyncDir);
    assert_eq!(*records[named].path, *place.parent.path());
    assert_eq!(*records[unmarked].path, *place.path("db/REPAIRED"));
    assert!(last(Op::Rename) < named && named < unmarked, "{records:?}");
    // Where a killed repair is ended, too.
    let place = Place::killed_between();
    place.vfs.clear_faults();
    place.vfs.count_only(OpSet::CHANGES);
    place.vfs.record(true);
    finish_on(place.vfs.as_ref(), &place.path("db")).unwrap().unwrap();
    let records = place.vfs.records();
    let ops: Vec<Op> =
        records.iter().map(|record| record.op).filter(|op| *op != Op::Lock).collect();
    assert_eq!(ops, [Op::Rename, Op::SyncDir, Op::Remove]);
}
