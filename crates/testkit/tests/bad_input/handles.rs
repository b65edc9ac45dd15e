//! Handles of what is closed, dropped, or of another database.

use super::*;

#[test]
fn after_close_everything_answers_closed() {
    let directory = tempfile::tempdir().unwrap();
    let (db, family, second) = two_families(directory.path());
    family.put(b"k", b"v").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&family, b"k2", b"v").unwrap();
    batch.put(&second, b"k2", b"v").unwrap();
    let snapshot = db.snapshot();
    db.clone().close().unwrap();
    let before = picture(directory.path());
    refused(family.put(b"k", b"v"), ErrorKind::Closed, &[]);
    refused(family.put(b"k", &vec![0; 2 << 20]), ErrorKind::Closed, &[]);
    refused(family.delete(b"k"), ErrorKind::Closed, &[]);
    refused(family.get(b"k"), ErrorKind::Closed, &[]);
    refused(family.get_at(&snapshot, b"k"), ErrorKind::Closed, &[]);
    refused(family.contains(b"k"), ErrorKind::Closed, &[]);
    refused(family.scan(ScanOptions::new()).map(drop), ErrorKind::Closed, &[]);
    refused(family.flush(), ErrorKind::Closed, &[]);
    refused(family.compact(), ErrorKind::Closed, &[]);
    refused(db.write(&batch), ErrorKind::Closed, &[]);
    refused(db.family("first"), ErrorKind::Closed, &[]);
    refused(db.create_family("third", small_family()), ErrorKind::Closed, &[]);
    refused(db.drop_family("first"), ErrorKind::Closed, &[]);
    refused(db.flush(), ErrorKind::Closed, &[]);
    refused(db.compact(), ErrorKind::Closed, &[]);
    refused(db.wait_idle(), ErrorKind::Closed, &[]);
    refused(db.sync_log(), ErrorKind::Closed, &[]);
    refused(db.verify(), ErrorKind::Closed, &[]);
    // The statistics stay readable, and a second close does nothing.
    let _ = (db.stats(), family.stats(), db.snapshot());
    db.clone().close().unwrap();
    assert_unchanged(directory.path(), &before);
    // Old handles neither hold the directory nor disturb its next owner.
    let again = open(directory.path());
    again.family("first").unwrap().put(b"k", b"new").unwrap();
    refused(family.put(b"k", b"stale"), ErrorKind::Closed, &[]);
    drop((db, family, second, snapshot, batch));
    assert_eq!(again.family("first").unwrap().get(b"k").unwrap().unwrap(), b"new");
}

#[test]
fn a_dropped_family_answers_closed_and_spoils_no_batch() {
    let directory = tempfile::tempdir().unwrap();
    let (db, first, second) = two_families(directory.path());
    let mut batch = WriteBatch::new();
    batch.put(&first, b"k", b"v").unwrap();
    batch.put(&second, b"k", b"v").unwrap();
    db.drop_family("second").unwrap();
    refused(second.put(b"k", b"v"), ErrorKind::Closed, &["second"]);
    refused(second.get(b"k"), ErrorKind::Closed, &["second"]);
    refused(db.write(&batch), ErrorKind::Closed, &["second"]);
    assert_eq!(first.get(b"k").unwrap(), None, "half of a refused batch is visible");
}

#[test]
fn what_belongs_to_another_database_is_refused() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_db, own, _) = two_families(here.path());
    let (other, foreign, _) = two_families(there.path());
    let mut batch = WriteBatch::new();
    batch.put(&own, b"k", b"v").unwrap();
    refused(batch.put(&foreign, b"k", b"v"), ErrorKind::Invalid, &["another database"]);
    assert_eq!(batch.len(), 1);
    refused(other.write(&batch), ErrorKind::Invalid, &["another database"]);
    assert_eq!((own.get(b"k").unwrap(), foreign.get(b"k").unwrap()), (None, None));
    let snapshot = other.snapshot();
    refused(own.get_at(&snapshot, b"k"), ErrorKind::Invalid, &["another database"]);
    let options = ScanOptions::new().snapshot(&snapshot);
    refused(own.scan(options).map(drop), ErrorKind::Invalid, &["another database"]);
}

/// Databases that are opened one after the other may lie at the same addresses, and number their
/// families alike.
#[test]
fn batches_of_an_earlier_opening_are_refused() {
    const OPENINGS: usize = 201;
    const BATCHES: usize = 50;
    let disk = SimVfs::new(1);
    let mut stale: Vec<WriteBatch> = Vec::new();
    let mut refusals = 0;
    for opening in 0..OPENINGS {
        let path = ["/one", "/two"][opening % 3 % 2];
        let components = Components {
            vfs: disk.clone(),
            scheduler: Arc::new(ManualScheduler::new(1)),
            clock: Arc::new(ManualClock::new(1_000)),
        };
        let db = Db::open_with(path, small_db(), components).unwrap();
        let family = db.open_family("f", small_family()).unwrap();
        for mut batch in stale.drain(..) {
            refused(db.write(&batch), ErrorKind::Invalid, &["another database"]);
            // Kept or filled again, it goes on knowing.
            if refusals % 2 == 0 {
                refused(batch.put(&family, b"k", b"v"), ErrorKind::Invalid, &["another database"]);
            }
            refusals += 1;
        }
        assert_eq!(family.get(b"k").unwrap(), None);
        stale.resize_with(BATCHES, WriteBatch::new);
        for batch in &mut stale {
            batch.put(&family, b"k", b"v").unwrap();
        }
        db.close().unwrap();
    }
    assert_eq!(refusals, 10_000);
}
