//! Commits whose durability failed, and openings that can write to no segment.

use super::*;

/// A database that syncs each commit, some of whose calls fail, and the commits that its hook was
/// called with.
struct Watched {
    sim: Arc<SimVfs>,
    vfs: Arc<FaultVfs>,
    db: Db,
    family: Family,
    reported: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// A database on a simulated disk that may fail, whose background work is stepped.
fn open_stepped(sync_mode: SyncMode) -> (Arc<SimVfs>, Arc<FaultVfs>, Db) {
    let sim = SimVfs::new(1);
    let vfs = FaultVfs::new(Arc::clone(&sim) as _);
    let components = Components {
        vfs: Arc::clone(&vfs) as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1_000_000)),
    };
    let db = Db::open_with("/db", options(sync_mode), components).unwrap();
    (sim, vfs, db)
}

impl Watched {
    fn open() -> Self {
        let (sim, vfs, db) = open_stepped(SyncMode::Full);
        let family = db.create_family("one", family_options()).unwrap();
        let reported = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&reported);
        family.set_commit_hook(Some(Arc::new(move |batch| {
            let keys = batch.operations.iter().map(|operation| operation.key.to_vec());
            noted.lock().unwrap().extend(keys);
        })));
        Self { sim, vfs, db, family, reported }
    }

    fn fail_syncs(&self, kind: FaultKind) {
        self.vfs.count_only(OpSet::SYNCS);
        self.vfs.reset();
        self.vfs.fail_call(0, kind, FaultError::IO);
    }

    /// What a power cut leaves that takes everything that was not synced.
    fn after_a_power_cut(&self) -> Vec<Vec<u8>> {
        let image =
            open_on(self.sim.crash_image(CrashProfile::Nothing, 1), SyncMode::Full).unwrap();
        content(&image.family("one").unwrap()).into_iter().map(|(key, _)| key).collect()
    }

    fn reported(&self) -> Vec<Vec<u8>> {
        self.reported.lock().unwrap().clone()
    }
}

fn keys(keys: &[&[u8]]) -> Vec<Vec<u8>> {
    keys.iter().map(|key| key.to_vec()).collect()
}

/// A sync that fails once: the repair makes the commit durable, and the caller waits for it. The
/// commit was visible and reported as failed; its hook was never called.
#[test]
fn a_commit_whose_sync_fails_is_made_durable_by_the_repair() {
    let watched = Watched::open();
    watched.fail_syncs(FaultKind::Once);
    watched.family.put(b"a", b"value").unwrap();
    assert_eq!(watched.vfs.fired(), 1);
    assert_eq!(watched.after_a_power_cut(), keys(&[b"a"]));
    watched.fail_syncs(FaultKind::Once);
    let mut transaction = watched.db.begin(IsolationLevel::Snapshot).unwrap();
    transaction.put(&watched.family, b"b", b"value").unwrap();
    transaction.commit().unwrap();
    assert_eq!(watched.vfs.fired(), 1);
    assert_eq!(watched.after_a_power_cut(), keys(&[b"a", b"b"]));
    assert_eq!(watched.reported(), keys(&[b"a", b"b"]));
    watched.fail_syncs(FaultKind::Once);
    watched.db.sync_log().unwrap();
}

/// A disk on which the repair fails as well: the caller learns that the commit is visible and may
/// be lost. Hooks are called with it once, and the next repair that works makes it durable.
#[test]
fn a_commit_that_the_disk_does_not_take_is_doubtful_and_visible() {
    let watched = Watched::open();
    watched.fail_syncs(FaultKind::Forever);
    let doubt = watched.family.put(b"a", b"value").unwrap_err();
    assert_eq!(doubt.kind(), ErrorKind::NotDurable, "{doubt}");
    assert_eq!(watched.family.get(b"a").unwrap(), Some(b"value".to_vec()));
    assert_eq!(watched.family.put(b"b", b"value").unwrap_err().kind(), ErrorKind::LogFailed);
    assert_eq!(watched.after_a_power_cut(), keys(&[]));
    assert_eq!(watched.db.sync_log().unwrap_err().kind(), ErrorKind::NotDurable);
    watched.vfs.clear_faults();
    watched.db.sync_log().unwrap();
    assert_eq!(watched.after_a_power_cut(), keys(&[b"a"]));

    watched.fail_syncs(FaultKind::Forever);
    let mut transaction = watched.db.begin(IsolationLevel::Snapshot).unwrap();
    transaction.put(&watched.family, b"c", b"value").unwrap();
    for _ in 0..2 {
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::NotDurable);
    }
    watched.vfs.clear_faults();
    assert!(transaction.commit().unwrap().is_some());
    assert_eq!(watched.after_a_power_cut(), keys(&[b"a", b"c"]));
    assert_eq!(watched.reported(), keys(&[b"a", b"c"]));
}

/// Where blocks are never overwritten the space of a new segment is there, and writing to it fails.
/// Each opening of the full disk left such a file.
#[test]
fn an_opening_that_can_not_write_to_its_segment_leaves_none() {
    let sim = SimVfs::new(1);
    let db = open_on(Arc::clone(&sim) as _, SyncMode::None).unwrap();
    db.create_family("one", family_options()).unwrap().put(b"key", b"value").unwrap();
    drop(db);
    let segments = || {
        let entries = sim.list(Path::new("/db")).unwrap();
        entries.iter().filter(|entry| entry.name.ends_with(".log")).count()
    };
    let before = segments();
    for _ in 0..3 {
        let vfs = FaultVfs::new(Arc::clone(&sim) as _);
        vfs.count_only(OpSet::of(&[Op::SegmentWrite]));
        vfs.fail_call(0, FaultKind::Forever, FaultError::NO_SPACE);
        let db = open_on(Arc::clone(&vfs) as _, SyncMode::None).unwrap();
        let family = db.family("one").unwrap();
        assert_eq!(family.get(b"key").unwrap(), Some(b"value".to_vec()));
        assert_eq!(family.put(b"key", b"other").unwrap_err().kind(), ErrorKind::Full);
        drop((db, family));
        assert!(vfs.fired() > 0);
    }
    assert!(segments() <= before, "{} segments, {before} before", segments());
}

/// I-73: the kernel reports bytes that it failed to write to those alone who had the file open.
#[test]
fn no_segment_is_opened_again_to_be_synced() {
    let (sim, vfs, db) = open_stepped(SyncMode::None);
    let large = family_options().write_buffer_size(8 << 20);
    let family = db.create_family("one", large).unwrap();
    db.sync_log().unwrap();
    for n in 0..1500_u64 {
        family.put(&n.to_be_bytes(), &[7; 100]).unwrap();
    }
    let calls = Arc::new(Mutex::new((Vec::new(), std::collections::BTreeSet::new())));
    let seen = Arc::clone(&calls);
    vfs.before_calls(Some(Arc::new(move |op, path| {
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        let mut seen = seen.lock().unwrap();
        match op {
            Op::Open | Op::SegmentReuse if is_log => seen.0.push(path.to_path_buf()),
            Op::SegmentSync => drop(seen.1.insert(path.to_path_buf())),
            _ => {}
        }
    })));
    db.sync_log().unwrap();
    vfs.before_calls(None);
    let (opened, synced) = &*calls.lock().unwrap();
    assert!(opened.is_empty(), "opened during a sync: {opened:?}");
    assert!(synced.len() > 2, "only {synced:?} were synced");
    let image = open_on(sim.crash_image(CrashProfile::Nothing, 1), SyncMode::None).unwrap();
    assert_eq!(content(&image.family("one").unwrap()).len(), 1500);
}
