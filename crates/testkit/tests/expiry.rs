//! Values that expire: what returns their space, when no call asks for it too, and who still sees
//! what.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

mod random;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common_support::seeds::{scaled, seed};
use tidesdb::{
    Components, Compression, Db, DbOptions, ErrorKind, Family, FamilyOptions, IsolationLevel,
    ScanOptions, Snapshot,
};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};
use tidesdb_sys::clock::Clock;
use tidesdb_sys::vfs::Vfs;
use tidesdb_testkit::inspect::deep_check;

const NOW: u64 = 1_000_000;
const KEYS: u32 = 200;

struct Bench {
    sim: Arc<SimVfs>,
    clock: Arc<ManualClock>,
    scheduler: Arc<ManualScheduler>,
    db: Db,
    family: Family,
}

impl Bench {
    /// Values lie in value logs.
    fn new() -> Self {
        Self::with_values_from(200)
    }

    /// Values of so many bytes lie in value logs.
    fn with_values_from(klog_value_threshold: usize) -> Self {
        Self::open(SimVfs::new(1), NOW, klog_value_threshold)
    }

    fn open(sim: Arc<SimVfs>, unix_seconds: u64, klog_value_threshold: usize) -> Self {
        let clock = Arc::new(ManualClock::new(unix_seconds));
        let scheduler = Arc::new(ManualScheduler::new(1));
        let components = Components {
            vfs: Arc::clone(&sim) as _,
            scheduler: Arc::clone(&scheduler) as _,
            clock: Arc::clone(&clock) as _,
        };
        let options = DbOptions::default().log_segment_bytes(1 << 20);
        let db = Db::open_with("/db", options, components).unwrap();
        let options = FamilyOptions::default()
            .write_buffer_size(256 << 10)
            .klog_value_threshold(klog_value_threshold)
            .compression(Compression::None)
            .target_table_bytes(64 << 10)
            .min_disk_space(0);
        let family = db.open_family("family", options).unwrap();
        Self { sim, clock, scheduler, db, family }
    }

    /// The same files with a clock that shows this.
    fn reopened(self, unix_seconds: u64, klog_value_threshold: usize) -> Self {
        self.db.close().unwrap();
        Self::open(self.sim, unix_seconds, klog_value_threshold)
    }

    /// As [`Bench::reopened`], where values lie in value logs, at the same time.
    fn again(self) -> Self {
        let now = self.now();
        self.reopened(now, 200)
    }

    /// Time passes without a call: what background work there is gets done.
    fn idle_for(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        for _ in 0..6 {
            self.scheduler.run_until_idle();
            self.scheduler.fire_timer();
        }
        self.scheduler.run_until_idle();
    }

    /// What time it is for the database, whose clock is not put back or ahead.
    fn now(&self) -> u64 {
        self.clock.unix_seconds()
    }

    fn table_bytes(&self) -> u64 {
        self.bytes_of(".klog")
    }

    /// Bytes of the files whose names end so.
    fn bytes_of(&self, ending: &str) -> u64 {
        let entries = self.sim.list(Path::new("/db")).unwrap();
        entries.iter().filter(|e| e.name.ends_with(ending)).map(|e| e.len).sum()
    }

    /// Merges done, and what they read.
    fn merges(&self) -> (u64, u64) {
        let stats = self.db.stats();
        (stats.work.compactions, stats.work.compaction_bytes_read)
    }

    fn get(&self, n: u32) -> Option<Vec<u8>> {
        self.family.get(&n.to_be_bytes()).unwrap()
    }

    /// Values that expire at a time, or never at 0, of every key from one to the other.
    fn put(&self, keys: Range<u32>, fill: u8, expires_at: u64) {
        for n in keys {
            let key = n.to_be_bytes();
            self.family.put_expiring_at(&key, &[fill; 1000], expires_at).unwrap();
        }
        self.family.flush().unwrap();
    }

    fn value_bytes(&self) -> u64 {
        self.bytes_of(".vlog")
    }

    fn check_files(&self) {
        deep_check(&self.db, self.sim.as_ref(), Path::new("/db")).unwrap();
    }
}

fn value(fill: u8) -> Option<Vec<u8>> {
    Some(vec![fill; 1000])
}

/// What a snapshot or a transaction has seen expired under it: a get went by the clock, and merges
/// dropped it.
#[test]
fn what_a_reader_has_seen_does_not_expire_under_it() {
    let bench = Bench::new();
    bench.put(0..KEYS, 1, NOW + 100);
    let key = 7_u32.to_be_bytes();
    let snapshot = bench.db.snapshot();
    let mut scan = bench.family.scan(ScanOptions::new()).unwrap();
    let levels =
        [IsolationLevel::RepeatableRead, IsolationLevel::Snapshot, IsolationLevel::Serializable];
    let mut transactions = levels.map(|level| bench.db.begin(level).unwrap());
    let mut newest = bench.db.begin(IsolationLevel::ReadCommitted).unwrap();
    bench.clock.advance(Duration::from_secs(101));
    for round in 0..3 {
        assert_eq!(bench.get(7), None);
        assert_eq!(newest.get(&bench.family, &key).unwrap(), None);
        assert_eq!(bench.family.get_at(&snapshot, &key).unwrap(), value(1), "{round}");
        let at = ScanOptions::new().snapshot(&snapshot);
        assert_eq!(bench.family.scan(at).unwrap().entries().count(), KEYS as usize, "{round}");
        scan.seek(&key).unwrap();
        assert_eq!(scan.value().unwrap(), value(1).unwrap(), "{round}");
        for transaction in &transactions {
            assert_eq!(transaction.get(&bench.family, &key).unwrap(), value(1), "{round}");
            assert!(transaction.contains(&bench.family, &key).unwrap(), "{round}");
            let all = transaction.scan(&bench.family, ScanOptions::new()).unwrap();
            assert_eq!(all.entries().count(), KEYS as usize, "{round}");
        }
        // Merges and tables that go unread.
        match round {
            0 => bench.family.compact().unwrap(),
            1 => bench.idle_for(4_000),
            _ => {}
        }
    }
    transactions.iter_mut().for_each(|transaction| transaction.rollback().unwrap());
    newest.commit().unwrap();
    drop((snapshot, scan));
    bench.idle_for(20);
    assert_eq!((bench.table_bytes(), bench.value_bytes()), (0, 0));
    bench.check_files();
}

/// A scan had seen the key, which expired, and what another put there was taken for a key that had
/// not been there.
#[test]
fn a_value_that_has_expired_since_it_was_read_counts_as_read() {
    let bench = Bench::new();
    bench.put(0..1, 1, NOW + 10);
    let mut reader = bench.db.begin(IsolationLevel::RepeatableRead).unwrap();
    let seen = reader.scan(&bench.family, ScanOptions::new()).unwrap().entries().count();
    assert_eq!(seen, 1);
    bench.clock.advance(Duration::from_secs(9));
    bench.put(0..1, 2, 0);
    bench.clock.advance(Duration::from_secs(2));
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

/// Without a write: the values of one log have all expired, half of another's, and none of a
/// third's.
#[test]
fn a_time_to_live_is_kept_to_within_a_second_and_never_cut_short() {
    let bench = Bench::new();
    let mut transaction = bench.db.begin(IsolationLevel::ReadCommitted).unwrap();
    for begin in [0, 1, 100, 500, 999] {
        for ttl in [1, 100, 999, 1000, 1001, 1500] {
            let whole = 1000 - bench.clock.unix_millis() % 1000 + begin;
            bench.clock.advance(Duration::from_millis(whole));
            let live = Duration::from_millis(ttl);
            bench.family.put_with_ttl(b"k", b"v", live).unwrap();
            transaction.put_with_ttl(&bench.family, b"t", b"v", live).unwrap();
            transaction.commit().unwrap();
            transaction.reset(IsolationLevel::ReadCommitted).unwrap();
            bench.clock.advance(live - Duration::from_millis(1));
            for key in [b"k", b"t"] {
                assert!(bench.family.contains(key).unwrap(), "cut short: {begin} {ttl}");
            }
            bench.clock.advance(Duration::from_millis(1000));
            for key in [b"k", b"t"] {
                assert!(!bench.family.contains(key).unwrap(), "too long: {begin} {ttl}");
            }
        }
    }
}

#[test]
fn a_compaction_returns_the_space_of_expired_values() {
    let bench = Bench::new();
    bench.put(0..KEYS, 1, NOW + 100);
    bench.put(KEYS..KEYS * 2, 2, NOW + 1_000);
    bench.put(KEYS * 2..KEYS * 3, 3, 0);
    let all = bench.value_bytes();
    bench.family.compact().unwrap();
    assert_eq!(bench.value_bytes(), all, "nothing has expired yet");
    bench.clock.advance(Duration::from_secs(101));
    bench.family.compact().unwrap();
    let bench = bench.again();
    assert!(bench.value_bytes() <= all * 2 / 3 + 1_000, "{} of {all}", bench.value_bytes());
    bench.check_files();
    bench.clock.advance(Duration::from_secs(1_000));
    bench.family.compact().unwrap();
    let bench = bench.again();
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
        bench.family.put_expiring_at(&n.to_be_bytes(), &[1; 1000], expires_at).unwrap();
    }
    bench.family.flush().unwrap();
    let all = bench.value_bytes();
    bench.clock.advance(Duration::from_secs(101));
    bench.family.compact().unwrap();
    bench.db.wait_idle().unwrap();
    let bench = bench.again();
    assert!(bench.value_bytes() < all / 3, "{} of {all}", bench.value_bytes());
    bench.check_files();
    assert_eq!(bench.family.get(&4_u32.to_be_bytes()).unwrap(), value(1));
    assert_eq!(bench.family.get(&5_u32.to_be_bytes()).unwrap(), None);
}

/// A snapshot from before a value that expired sees the older one, one from after it sees it still,
/// and one from after it has expired neither; so do all readers when the snapshots are gone and the
/// space is returned.
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
    let late = bench.db.snapshot();
    bench.family.compact().unwrap();
    bench.check_files();
    assert_eq!(bench.family.get_at(&before, &key).unwrap(), value(1));
    assert_eq!(bench.family.get_at(&after, &key).unwrap(), value(2));
    assert_eq!(bench.family.get_at(&late, &key).unwrap(), None);
    assert_eq!(bench.family.get(&key).unwrap(), None);
    assert!(bench.value_bytes() < all * 2, "{} of {all}", bench.value_bytes());
    drop((before, after, late));
    bench.db.wait_idle().unwrap();
    assert_eq!(bench.family.get(&key).unwrap(), None);
    assert_eq!(bench.value_bytes(), 0, "no merge came without a write");
    bench.check_files();
}

/// A store that was written once kept what had expired, without end.
#[test]
fn an_idle_store_gives_back_what_has_expired() {
    for threshold in [200, 100_000] {
        let bench = Bench::with_values_from(threshold);
        bench.put(0..KEYS, 1, NOW + 100);
        bench.put(0..KEYS, 2, NOW + 200);
        bench.put(KEYS..KEYS * 2, 3, 0);
        bench.idle_for(50);
        let (all, merges) = (bench.table_bytes() + bench.value_bytes(), bench.merges());
        bench.idle_for(49);
        assert_eq!(bench.table_bytes() + bench.value_bytes(), all, "nothing has expired yet");
        bench.idle_for(102);
        let left = bench.table_bytes() + bench.value_bytes();
        assert!(left <= all / 2 + 5_000, "{left} of {all}");
        assert_eq!(bench.get(7), None);
        assert_eq!(bench.get(KEYS + 7), value(3));
        bench.check_files();
        let after = bench.merges();
        assert!(after.0 <= merges.0 + 2, "{merges:?} {after:?}");
        bench.idle_for(100_000);
        assert_eq!(bench.merges(), after, "nothing more can go");
    }
}

#[test]
fn tables_of_which_everything_has_expired_go_without_being_read() {
    let bench = Bench::with_values_from(100_000);
    bench.put(0..KEYS, 1, NOW + 100);
    bench.put(KEYS..KEYS * 2, 2, NOW + 300);
    bench.family.compact().unwrap();
    let (all, merges) = (bench.table_bytes(), bench.merges());
    bench.idle_for(120);
    assert_eq!(bench.merges().1, merges.1, "nothing was read");
    assert!(bench.table_bytes() <= all / 2 + 70_000, "{} of {all}", bench.table_bytes());
    assert_eq!(bench.get(KEYS + 7), value(2));
    bench.check_files();
    bench.idle_for(200);
    assert_eq!((bench.table_bytes(), bench.scheduler.timers()), (0, 0), "and no timer is left");
}

/// Of one old run, only the tables that hold much of it are merged.
#[test]
fn a_compaction_for_expired_values_takes_the_tables_that_hold_them() {
    let bench = Bench::with_values_from(100_000);
    for n in 0..KEYS * 4 {
        let expires_at = if n < KEYS && n % 2 == 0 { NOW + 100 } else { 0 };
        bench.family.put_expiring_at(&n.to_be_bytes(), &[1; 1000], expires_at).unwrap();
    }
    bench.family.compact().unwrap();
    let (all, merges) = (bench.table_bytes(), bench.merges());
    bench.idle_for(130);
    let (count, read) = bench.merges();
    assert_eq!(count, merges.0 + 1);
    assert!(read - merges.1 < all * 2 / 5, "{} of {all} read", read - merges.1);
    let left = bench.table_bytes();
    assert!(left < all * 9 / 10 && left > all * 8 / 10, "{left} of {all}");
    bench.check_files();
    for n in 0..KEYS * 4 {
        let expected = if n < KEYS && n % 2 == 0 { None } else { value(1) };
        assert_eq!(bench.get(n), expected, "{n}");
    }
    bench.idle_for(100_000);
    assert_eq!(bench.merges(), (count, read), "nothing more can go");
}

/// The value below one that has expired is neither seen again nor kept.
#[test]
fn an_idle_store_brings_no_older_value_back() {
    let bench = Bench::with_values_from(100_000);
    bench.put(0..KEYS * 2, 1, 0);
    bench.family.compact().unwrap();
    bench.put(0..KEYS, 2, NOW + 100);
    let all = bench.table_bytes();
    bench.idle_for(120);
    let absent = |bench: &Bench| (0..KEYS).all(|n| bench.get(n).is_none());
    assert!(absent(&bench));
    assert!(bench.table_bytes() < all / 2, "{} of {all}", bench.table_bytes());
    assert_eq!(bench.get(KEYS), value(1));
    bench.check_files();
    // A clock that was put back is not believed; after an opening it is, and still nothing older is
    // there.
    bench.clock.set_unix_seconds(NOW - 500);
    bench.idle_for(10);
    assert!(absent(&bench));
    let bench = bench.reopened(NOW - 500, 100_000);
    bench.idle_for(10);
    assert!((0..KEYS).all(|n| bench.get(n) != value(1)));
}

#[test]
fn a_snapshot_keeps_what_has_expired_until_it_goes() {
    let bench = Bench::with_values_from(100_000);
    bench.put(0..KEYS, 1, 0);
    let before = bench.db.snapshot();
    bench.put(0..KEYS, 2, NOW + 100);
    let behind = bench.db.snapshot();
    bench.idle_for(150);
    let (all, merges) = (bench.table_bytes(), bench.merges());
    assert!(all > u64::from(KEYS) * 2_000);
    let key = 7_u32.to_be_bytes();
    assert_eq!(bench.family.get_at(&before, &key).unwrap(), value(1));
    bench.idle_for(5_000);
    bench.idle_for(5_000);
    assert_eq!((bench.table_bytes(), bench.merges()), (all, merges), "merged in vain");
    drop(before);
    bench.idle_for(0);
    assert_eq!(bench.family.get_at(&behind, &key).unwrap(), value(2));
    drop(behind);
    bench.scheduler.run_until_idle();
    assert_eq!(bench.table_bytes(), 0, "nothing was looked for as the snapshot went");
    assert_eq!(bench.get(7), None);
    bench.check_files();
}

/// A commit that came in between counts, whether or not what it wrote has expired since.
#[test]
fn a_transaction_meets_a_version_that_has_expired() {
    // Since the transaction began, or before it did.
    for expires_at in [NOW + 100, NOW] {
        let bench = Bench::with_values_from(100_000);
        let mut transaction = bench.db.begin(IsolationLevel::Snapshot).unwrap();
        assert_eq!(transaction.get(&bench.family, b"key").unwrap(), None);
        bench.family.put_expiring_at(b"key", b"between", expires_at).unwrap();
        bench.family.flush().unwrap();
        bench.idle_for(150);
        transaction.put(&bench.family, b"key", b"value").unwrap();
        let kind = transaction.commit().unwrap_err().kind();
        assert_eq!(kind, ErrorKind::Conflict, "it expired at {expires_at}");
        drop(transaction);
        bench.idle_for(0);
        assert_eq!(bench.table_bytes(), 0, "it went with the transaction");
    }
}

/// A clock that shows a day too much for less than an hour drops nothing.
#[test]
fn a_clock_that_jumps_drops_nothing() {
    let bench = Bench::with_values_from(100_000);
    bench.put(0..KEYS, 1, NOW + 40_000);
    bench.family.compact().unwrap();
    let all = bench.table_bytes();
    bench.clock.set_unix_seconds(NOW + 86_400);
    bench.idle_for(1_800);
    assert_eq!((bench.table_bytes(), bench.get(7)), (all, value(1)));
    bench.clock.set_unix_seconds(NOW + 1_800);
    bench.idle_for(3_600);
    assert_eq!((bench.table_bytes(), bench.get(7)), (all, value(1)));
    bench.clock.set_unix_seconds(NOW + 86_400);
    bench.idle_for(0);
    bench.idle_for(3_601);
    assert_eq!((bench.table_bytes(), bench.get(7)), (0, None), "it stayed there");
}

#[test]
fn what_expired_while_the_database_was_closed_or_paused_goes_after_that() {
    let bench = Bench::with_values_from(100_000);
    bench.put(0..KEYS, 1, NOW + 100);
    bench.put(KEYS..KEYS * 2, 2, NOW + 300);
    bench.family.compact().unwrap();
    let all = bench.table_bytes();
    let bench = bench.reopened(NOW + 120, 100_000);
    bench.idle_for(0);
    assert!(bench.table_bytes() <= all / 2 + 70_000, "{} of {all}", bench.table_bytes());
    bench.db.pause_background().unwrap();
    bench.idle_for(300);
    assert!(bench.table_bytes() > all / 3);
    bench.db.resume_background();
    bench.idle_for(0);
    assert_eq!(bench.table_bytes(), 0);
}

/// However many families wait, one timer does.
#[test]
fn families_share_a_timer_and_need_none_without_expiry() {
    let bench = Bench::with_values_from(100_000);
    bench.put(0..10, 1, 0);
    bench.idle_for(10);
    assert_eq!(bench.scheduler.timers(), 0);
    let options = FamilyOptions::default().min_disk_space(0);
    let families: Vec<_> = (0..50_u64)
        .map(|n| {
            let family = bench.db.create_family(&format!("family {n}"), options.clone()).unwrap();
            family.put_expiring_at(b"key", b"value", NOW + 1_000 + n * 100).unwrap();
            family.flush().unwrap();
            // The look that the flush has queued. One of a later family would set another timer.
            bench.scheduler.run_until_idle();
            family
        })
        .collect();
    bench.scheduler.run_until_idle();
    assert_eq!(bench.scheduler.timers(), 1);
    let tables = || families.iter().map(|family| family.stats().levels.len()).sum::<usize>();
    for _ in 0..10 {
        bench.idle_for(500);
        assert!(bench.scheduler.timers() <= 1, "{}", bench.scheduler.timers());
    }
    assert_eq!(tables(), families.len() - 41, "an hour and more");
    bench.idle_for(1_500);
    assert_eq!((tables(), bench.scheduler.timers()), (0, 0));
}
