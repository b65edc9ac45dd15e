//! Listeners that use the database while a commit looks at what it has read.

use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use tidesdb_base::event::EventListener;
use tidesdb_sys::clock::Clock;

use super::*;

/// A clock by which everything takes a second.
#[derive(Debug, Default)]
struct Slow(AtomicU64);

impl Clock for Slow {
    fn unix_seconds(&self) -> u64 {
        1000
    }

    fn unix_millis(&self) -> u64 {
        1_000_000
    }

    fn monotonic_nanos(&self) -> u64 {
        self.0.fetch_add(1_000_000_000, Ordering::Relaxed)
    }

    fn sleep(&self, _: Duration) {}
}

/// A get within the second look was reported as slow at once: the listener's put waited for the
/// commit, in whose place it was called.
#[test]
fn a_listener_that_puts_is_called_when_no_commit_waits_for_it() {
    let family: Arc<OnceLock<Family>> = Arc::default();
    let (its_family, puts) = (Arc::clone(&family), Arc::new(AtomicU64::new(0)));
    let its_puts = Arc::clone(&puts);
    let listener = EventListener::new(move |_| {
        if let Some(family) = its_family.get() {
            family.put(b"event", b"").unwrap();
            its_puts.fetch_add(1, Ordering::Relaxed);
        }
    });
    let components = Components {
        vfs: SimVfs::new(1) as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(Slow::default()),
    };
    let options = options(SyncMode::None).slow_operation_us(1).event_listener(listener);
    let db = Db::open_with("/db", options, components).unwrap();
    let [a, b] = ["a", "b"].map(|name| db.open_family(name, FamilyOptions::default()).unwrap());
    a.put(b"key", b"value").unwrap();
    let mut transaction = db.begin(IsolationLevel::RepeatableRead).unwrap();
    let scan = transaction.scan(&a, ScanOptions::new()).unwrap();
    assert_eq!(scan.entries().count(), 1);
    transaction.put(&b, b"written", b"").unwrap();
    // Something to look for.
    b.put(b"unrelated", b"").unwrap();
    family.set(db.open_family("events", FamilyOptions::default()).unwrap()).unwrap();
    let (committed, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let mut first = true;
        steps::put(&steps::BEFORE_A_VIEW, move || {
            if std::mem::take(&mut first) {
                // In the range, and not there for the reader.
                a.put(b"later", b"").unwrap();
            }
        });
        committed.send(transaction.commit().map(drop)).unwrap();
        steps::remove(&steps::BEFORE_A_VIEW);
    });
    ended.recv_timeout(Duration::from_secs(30)).expect("the commit hangs").unwrap();
    assert!(puts.load(Ordering::Relaxed) > 0, "nothing was put to the test");
}
