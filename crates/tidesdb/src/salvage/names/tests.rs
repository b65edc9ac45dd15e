//! Repairs whose last steps fail, or that are killed in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_base::error::Result;
use tidesdb_files::naming::FileKind;
use tidesdb_sim::{FaultError, FaultKind, FaultVfs, Op, OpSet};
use tidesdb_sys::vfs::RealVfs;

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

    fn path(&self, name: &str) -> PathBuf {
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
        self.path(name).join(marker::NAME).exists()
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

    /// What an opening does first.
    fn opened(&self) -> Option<PathBuf> {
        finish_on(&RealVfs::new(), &self.path("db")).unwrap()
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
                let names = fs::read_dir(place.parent.path()).unwrap();
                assert_eq!(names.count(), 1, "{what}: something is left");
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
    // The renaming of the damaged one, and the exchange that would take the first one back.
    let done = place.end(Some((1, FaultKind::Times(2)))).unwrap();
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

#[test]
fn an_opening_between_the_two_renames_of_a_running_repair_goes_on_and_neither_fails() {
    let place = Place::new(false);
    let (gone, last) = (place.path("db"), place.path("db.repaired"));
    place.vfs.before_calls(Some(Arc::new(move |op, path: &Path| {
        if op == Op::Rename && *path == *last && !gone.exists() {
            assert_eq!(finish_on(&RealVfs::new(), &gone).unwrap(), Some(last.clone()));
        }
    })));
    let done = place.end(None).unwrap();
    assert_eq!(done.kept, place.path("db.damaged"));
    assert_eq!(place.content("db.damaged").as_deref(), Some("old"));
    assert_eq!(place.content("db").as_deref(), Some("new"));
    assert!(!place.is_marked("db"));
    // Two openings that find what a killed repair left: the second is too late.
    let place = Place::new(false);
    place.vfs.count_only(OpSet::of(&[Op::Rename]));
    place.end(Some((2, FaultKind::Forever))).unwrap_err();
    let (first, dir) = (place.path("db"), place.path("db"));
    place.vfs.before_calls(Some(Arc::new(move |op, _: &Path| {
        if op == Op::Rename {
            finish_on(&RealVfs::new(), &first).unwrap().unwrap();
        }
    })));
    assert_eq!(finish_on(place.vfs.as_ref(), &dir).unwrap(), None);
    assert_eq!(place.content("db").as_deref(), Some("new"));
}

/// What a user or another repair has put there has no mark, or one that says something else.
#[test]
fn directories_beside_a_missing_database_are_left_alone_unless_a_repair_has_marked_them() {
    let place = Place::new(true);
    fs::rename(place.path("db"), place.path("db.damaged")).unwrap();
    assert_eq!(place.opened(), None, "there is no mark");
    marker::write(&RealVfs::new(), &place.path("db.repaired"), &place.path("db.damaged-1"))
        .unwrap();
    assert_eq!(place.opened(), None, "what it names is not there");
    marker::remove(&RealVfs::new(), &place.path("db.repaired")).unwrap();
    let elsewhere = place.path("db.other");
    fs::create_dir(&elsewhere).unwrap();
    marker::write(&RealVfs::new(), &place.path("db.repaired"), &elsewhere).unwrap();
    assert_eq!(place.opened(), None, "no repair gives that name");
    assert_eq!(place.content("db.repaired").as_deref(), Some("new"));
    assert!(!place.path("db").exists());
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
    assert!(synced(marker::NAME));
    let mut before = records.iter().take(exchange);
    assert!(before.any(|record| record.op == Op::SyncDir && record.path.ends_with("db.repaired")));
    let [.., named, unmarked] = &records[..] else { panic!("{records:?}") };
    assert_eq!((named.op, &*named.path), (Op::SyncDir, place.parent.path()));
    assert_eq!((unmarked.op, &*unmarked.path), (Op::Remove, &*place.path("db/REPAIRED")));
    // Where a killed repair is ended, too.
    let place = Place::new(false);
    place.vfs.count_only(OpSet::of(&[Op::Rename]));
    place.end(Some((2, FaultKind::Forever))).unwrap_err();
    place.vfs.count_only(OpSet::CHANGES);
    place.vfs.record(true);
    finish_on(place.vfs.as_ref(), &place.path("db")).unwrap().unwrap();
    let ops: Vec<Op> = place.vfs.records().iter().map(|record| record.op).collect();
    assert_eq!(ops, [Op::Rename, Op::SyncDir, Op::Remove]);
}
