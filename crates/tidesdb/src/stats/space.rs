//! What the files of a family are made of, estimated from what is in memory: no file is read.

use crate::handles::Family;
use crate::version::{LivenessCount, Version};

/// Parts of a table by which its record says when they have expired.
const EIGHTHS: u64 = 8;

/// What the files of a family are made of. See [`Family::space`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FamilySpace {
    /// Bytes of tables.
    pub table_bytes: u64,
    /// Bytes of value logs.
    pub value_log_bytes: u64,
    /// Those of them that no table points at. What commits in memory point at is among them.
    pub unreferenced_value_bytes: u64,
    /// Versions of keys in tables, deletions included.
    pub versions: u64,
    /// Those that a compaction of everything would keep if there were no snapshot, estimated.
    pub live_versions: u64,
    /// Those that only live snapshots keep, estimated.
    pub versions_for_snapshots: u64,
    /// Deletions.
    pub tombstones: u64,
    /// Versions that have expired, to within an eighth of each table.
    pub expired_versions: u64,
    /// Tables that compactions could not read since the open.
    pub damaged_tables: u64,
    /// Bytes of log behind the oldest commit of the family that is not in a table yet.
    pub unflushed_log_bytes: u64,
}

impl FamilySpace {
    /// Bytes of tables and value logs.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.table_bytes + self.value_log_bytes
    }

    /// About how many of them a compaction of everything would leave if there were no snapshot.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        let values = self.value_log_bytes.saturating_sub(self.unreferenced_value_bytes);
        let share = self.live_versions as f64 / self.versions.max(1) as f64;
        ((self.table_bytes + values) as f64 * share.min(1.0)) as u64
    }

    /// Bytes for each live one, estimated; 1 when nothing is stored.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        self.bytes().max(1) as f64 / self.live_bytes().max(1) as f64
    }
}

impl Family {
    /// What the family's files are made of: how much of them is alive, and what the rest is.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let family = db.open_family("default", FamilyOptions::default())?;
    /// family.put(b"a", b"1")?;
    /// family.flush()?;
    /// family.delete(b"a")?;
    /// family.flush()?;
    /// let space = family.space();
    /// assert_eq!((space.versions, space.tombstones, space.live_versions), (2, 1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn space(&self) -> FamilySpace {
        let core = self.core();
        let view = self.state().view.load();
        let now = core.env.clock.unix_seconds();
        let snapshots = core.isolation.snapshots.list();
        let mut space = of_version(&view.version, now);
        let (alone, held) = (live(&view.version, &[], now), live(&view.version, &snapshots, now));
        space.live_versions = alone;
        space.versions_for_snapshots = held.saturating_sub(alone);
        // The position last: it only grows. Behind it when nothing is in memory.
        let first = view.first_unflushed();
        space.unflushed_log_bytes = core.storage.log.published().saturating_sub(first);
        space
    }
}

/// What the records of the files say.
fn of_version(version: &Version, now: u64) -> FamilySpace {
    let mut space =
        FamilySpace { damaged_tables: version.damaged_tables() as u64, ..FamilySpace::default() };
    let mut referenced = 0;
    for run in &version.runs {
        space.table_bytes += run.totals.bytes;
        space.versions += run.totals.counts.entries;
        space.tombstones += run.totals.counts.tombstones;
        referenced += run.totals.value_bytes;
        for table in run.tables.iter() {
            let times = table.record.expiry.times();
            let eighths = times.iter().filter(|&&time| time <= now).count() as u64;
            space.expired_versions += table.record.entries * eighths / EIGHTHS;
        }
    }
    space.value_log_bytes = version.value_logs.values().map(|file| file.life().bytes()).sum();
    space.unreferenced_value_bytes = space.value_log_bytes.saturating_sub(referenced);
    space
}

/// Versions that a compaction of everything keeps.
fn live(version: &Version, snapshots: &[u64], now: u64) -> u64 {
    let mut count = LivenessCount::new(version.liveness_rules(snapshots, now));
    version.runs.iter().for_each(|run| count.add_run(run));
    count.liveness(true).needed
}

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use crate::db::{Components, Db};

    #[test]
    fn garbage_is_told_by_its_reason() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let options = FamilyOptions::default().max_space_amplification(100.0);
        let family = db.create_family("f", options).unwrap();
        let key = |n: u32| format!("{n:06}").into_bytes();
        let write = |value: &[u8]| {
            (0..1000).for_each(|n| family.put(&key(n), value).unwrap());
            family.flush().unwrap();
        };
        write(b"one");
        let once = family.space();
        assert_eq!((once.versions, once.live_versions), (1000, 1000));
        assert!(once.amplification() < 1.05, "{once:?}");
        write(b"two");
        let twice = family.space();
        assert!((1.8..2.2).contains(&twice.amplification()), "{twice:?}");
        assert_eq!(twice.versions_for_snapshots, 0);

        let snapshot = db.snapshot();
        write(b"three");
        let held = family.space();
        assert!((900..=1100).contains(&held.versions_for_snapshots), "{held:?}");
        drop(snapshot);
        assert_eq!(family.space().versions_for_snapshots, 0);

        family.put_expiring_at(b"old", b"value", 1).unwrap();
        family.put(b"new", b"value").unwrap();
        let in_memory = family.space();
        assert!(in_memory.unflushed_log_bytes > 0, "{in_memory:?}");
        family.flush().unwrap();
        let flushed = family.space();
        assert_eq!((flushed.unflushed_log_bytes, flushed.expired_versions), (0, 1));
    }
}
