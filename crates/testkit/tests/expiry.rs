//! Values that expire in value logs: what returns their space, and who still sees what.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidesdb_engine::{Components, Compression, Db, DbOptions, Family, FamilyOptions};
use tidesdb_sys::clock::ManualClock;
use tidesdb_sys::sched::ManualScheduler;
use tidesdb_sys::vfs::SimVfs;
use tidesdb_testkit::inspect::deep_check;

const NOW: u64 = 1_000_000;
const KEYS: u32 = 200;

struct Bench {
    sim: Arc<SimVfs>,
    clock: Arc<ManualClock>,
    db: Db,
    family: Family,
}

impl Bench {
    fn new() -> Self {
        let (sim, clock) = (SimVfs::new(1), Arc::new(ManualClock::new(NOW)));
        let components = Components {
            vfs: Arc::clone(&sim) as _,
            scheduler: Arc::new(ManualScheduler::new(1)),
            clock: Arc::clone(&clock) as _,
        };
        let options = DbOptions { log_segment_bytes: 1 << 20, ..DbOptions::default() };
        let db = Db::open_with("/db", options, components).unwrap();
        let options = FamilyOptions {
            write_buffer_size: 256 << 10,
            klog_value_threshold: 200,
            compression: Compression::None,
            min_disk_space: 0,
            ..FamilyOptions::default()
        };
        let family = db.create_family("family", options).unwrap();
        Self { sim, clock, db, family }
    }

    /// Values that expire at a time, or never at 0, of every key from one to the other.
    fn put(&self, keys: std::ops::Range<u32>, fill: u8, expires_at: u64) {
        for n in keys {
            let key = n.to_be_bytes();
            self.family.put_expiring(&key, &[fill; 1000], expires_at).unwrap();
        }
        self.family.flush().unwrap();
    }

    fn value_bytes(&self) -> u64 {
        self.family.stats().value_log_bytes
    }

    fn check_files(&self) {
        deep_check(&self.db, self.sim.as_ref(), Path::new("/db")).unwrap();
    }
}

fn value(fill: u8) -> Option<Vec<u8>> {
    Some(vec![fill; 1000])
}

/// Without a write: the values of one log have all expired, half of another's, and none of a third's.
#[test]
fn a_merge_returns_the_space_of_expired_values() {
    let bench = Bench::new();
    bench.put(0..KEYS, 1, NOW + 100);
    bench.put(KEYS..KEYS * 2, 2, NOW + 1_000);
    bench.put(KEYS * 2..KEYS * 3, 3, 0);
    let all = bench.value_bytes();
    bench.family.compact().unwrap();
    assert_eq!(bench.value_bytes(), all, "nothing has expired yet");
    bench.clock.advance(Duration::from_secs(101));
    bench.family.compact().unwrap();
    assert!(bench.value_bytes() <= all * 2 / 3 + 1_000, "{} of {all}", bench.value_bytes());
    bench.check_files();
    bench.clock.advance(Duration::from_secs(1_000));
    bench.family.compact().unwrap();
    assert!(bench.value_bytes() <= all / 3 + 1_000, "{} of {all}", bench.value_bytes());
    bench.check_files();
    for (n, expected) in [(7, None), (KEYS + 7, None), (KEYS * 2 + 7, value(3))] {
        assert_eq!(bench.family.get(&n.to_be_bytes()).unwrap(), expected, "{n}");
    }
}

/// Half of one file has expired: what is left of it is written elsewhere.
#[test]
fn a_value_log_that_expired_in_part_is_rewritten() {
    let bench = Bench::new();
    for n in 0..KEYS {
        let expires_at = if n % 4 == 0 { 0 } else { NOW + 100 };
        bench.family.put_expiring(&n.to_be_bytes(), &[1; 1000], expires_at).unwrap();
    }
    bench.family.flush().unwrap();
    let all = bench.value_bytes();
    bench.clock.advance(Duration::from_secs(101));
    bench.family.compact().unwrap();
    bench.db.wait_idle().unwrap();
    assert!(bench.value_bytes() < all / 3, "{} of {all}", bench.value_bytes());
    bench.check_files();
    assert_eq!(bench.family.get(&4_u32.to_be_bytes()).unwrap(), value(1));
    assert_eq!(bench.family.get(&5_u32.to_be_bytes()).unwrap(), None);
}

/// A snapshot from before a value that expired sees the older one; one from after it sees neither, and so
/// does everybody when the snapshot is gone and the space is returned.
#[test]
fn snapshots_see_what_lies_below_an_expired_value() {
    let bench = Bench::new();
    bench.put(0..KEYS, 1, 0);
    let before = bench.db.snapshot();
    bench.put(0..KEYS, 2, NOW + 100);
    let after = bench.db.snapshot();
    let all = bench.value_bytes();
    let key = 7_u32.to_be_bytes();
    assert_eq!(bench.family.get_at(&after, &key).unwrap(), value(2));
    bench.clock.advance(Duration::from_secs(101));
    bench.family.compact().unwrap();
    bench.check_files();
    assert_eq!(bench.family.get_at(&before, &key).unwrap(), value(1));
    assert_eq!(bench.family.get_at(&after, &key).unwrap(), None);
    assert_eq!(bench.family.get(&key).unwrap(), None);
    assert!(bench.value_bytes() < all * 2, "{} of {all}", bench.value_bytes());
    drop((before, after));
    bench.db.wait_idle().unwrap();
    assert_eq!(bench.family.get(&key).unwrap(), None);
    assert_eq!(bench.value_bytes(), 0, "no merge came without a write");
    bench.check_files();
}
