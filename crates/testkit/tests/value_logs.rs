//! Space of value logs: files of values of 1 MiB and more, which commits append to, are collected
//! like all others once nothing is appended any more, whatever was closed, cut off or opened again.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidesdb::{Components, Db, DbOptions, Family, FamilyOptions};
use tidesdb_sim::{CrashProfile, ManualClock, ManualScheduler, SimVfs};
use tidesdb_sys::vfs::Vfs;

const MIB: u64 = 1 << 20;
const VALUES: u64 = 12;

/// A machine that a database is opened on again and again.
struct Machine {
    sim: Arc<SimVfs>,
    clock: Arc<ManualClock>,
    scheduler: Arc<ManualScheduler>,
}

impl Machine {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(1_000_000));
        Self { sim: SimVfs::new(1), clock, scheduler: Arc::new(ManualScheduler::new(1)) }
    }

    fn open(&mut self) -> (Db, Family) {
        self.scheduler = Arc::new(ManualScheduler::new(1));
        let components = Components {
            vfs: Arc::clone(&self.sim) as _,
            scheduler: Arc::clone(&self.scheduler) as _,
            clock: Arc::clone(&self.clock) as _,
        };
        let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
        let options = FamilyOptions::default().write_buffer_size(64 << 10);
        let family = db.open_family("family", options).unwrap();
        (db, family)
    }

    /// Bytes of value logs in the directory.
    fn value_log_bytes(&self) -> u64 {
        let entries = self.sim.list(Path::new("/db")).unwrap();
        let logs = entries.iter().filter(|entry| entry.name.ends_with(".vlog"));
        logs.map(|entry| entry.len).sum()
    }

    /// What happens in a minute.
    fn pass_time(&self) {
        for _ in 0..30 {
            self.scheduler.run_until_idle();
            self.clock.advance(Duration::from_secs(2));
            self.scheduler.fire_timer();
        }
    }
}

fn value(n: u64) -> Vec<u8> {
    // Longer than what is compressed.
    vec![n as u8; MIB as usize + 1 + n as usize]
}

fn put_values(family: &Family) {
    (0..VALUES).for_each(|n| family.put(&n.to_be_bytes(), &value(n)).unwrap());
}

/// How a database ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Closed,
    Dropped,
    PowerCut,
}

impl End {
    const ALL: [Self; 3] = [Self::Closed, Self::Dropped, Self::PowerCut];

    fn of(self, machine: &mut Machine, db: Db, family: Family) {
        match self {
            Self::Closed => db.clone().close().unwrap(),
            Self::Dropped => {}
            Self::PowerCut => {
                db.sync_log().unwrap();
                machine.sim = machine.sim.crash_image(CrashProfile::Nothing, 1);
            }
        }
        drop((family, db));
    }
}

#[test]
fn a_compaction_after_a_reopening_gives_the_space_of_large_values_back() {
    for end in End::ALL {
        let mut machine = Machine::new();
        let (db, family) = machine.open();
        put_values(&family);
        end.of(&mut machine, db, family);
        let (db, family) = machine.open();
        (1..VALUES).for_each(|n| family.delete(&n.to_be_bytes()).unwrap());
        family.compact().unwrap();
        let bytes = machine.value_log_bytes();
        assert!(bytes < 2 * MIB, "{end:?}: {bytes} bytes of value logs for one value of 1 MiB");
        assert_eq!(family.get(&0_u64.to_be_bytes()).unwrap(), Some(value(0)));
        assert!(db.verify().unwrap().problems.is_empty());
    }
}

#[test]
fn the_space_of_large_values_comes_back_without_a_call() {
    for end in End::ALL {
        let mut machine = Machine::new();
        let (db, family) = machine.open();
        put_values(&family);
        end.of(&mut machine, db, family);
        let (_db, family) = machine.open();
        (1..VALUES).for_each(|n| family.delete(&n.to_be_bytes()).unwrap());
        // Writes go on, so that memtables are flushed.
        for n in 100..300_u64 {
            family.put(&n.to_be_bytes(), &[7; 500]).unwrap();
        }
        machine.pass_time();
        let bytes = machine.value_log_bytes();
        assert!(bytes < 2 * MIB, "{end:?}: {bytes} bytes of value logs for one value of 1 MiB");
        assert_eq!(family.get(&0_u64.to_be_bytes()).unwrap(), Some(value(0)));
    }
}

/// There was no merge that could have noticed, and never one in a family without tables.
#[test]
fn a_value_log_that_nothing_points_into_goes_without_a_compaction() {
    for end in End::ALL {
        let mut machine = Machine::new();
        let (db, family) = machine.open();
        put_values(&family);
        (0..VALUES).for_each(|n| family.delete(&n.to_be_bytes()).unwrap());
        family.flush().unwrap();
        end.of(&mut machine, db, family);
        let (_db, _family) = machine.open();
        machine.pass_time();
        assert_eq!(machine.value_log_bytes(), 0, "{end:?}");
    }
}

/// It counted as pinned until the family was flushed, and it is not written any more.
#[test]
fn expired_values_of_a_family_that_is_left_alone_go_after_a_reopening() {
    for end in End::ALL {
        let mut machine = Machine::new();
        let (db, family) = machine.open();
        for n in 0..VALUES {
            family.put_with_ttl(&n.to_be_bytes(), &value(n), Duration::from_secs(1000)).unwrap();
        }
        family.flush().unwrap();
        end.of(&mut machine, db, family);
        let (_db, _family) = machine.open();
        machine.pass_time();
        assert!(machine.value_log_bytes() > VALUES * MIB);
        for _ in 0..20 {
            machine.clock.advance(Duration::from_secs(100));
            machine.pass_time();
        }
        assert_eq!(machine.value_log_bytes(), 0, "{end:?}");
    }
}

/// What is in the log alone points into the file, whatever tables say.
#[test]
fn values_of_commits_that_were_replayed_stay() {
    let mut machine = Machine::new();
    let (db, family) = machine.open();
    put_values(&family);
    End::PowerCut.of(&mut machine, db, family);
    let (db, family) = machine.open();
    machine.pass_time();
    family.compact_range(..).unwrap();
    machine.pass_time();
    for n in 0..VALUES {
        assert_eq!(family.get(&n.to_be_bytes()).unwrap(), Some(value(n)), "{n}");
    }
    assert!(db.verify().unwrap().problems.is_empty());
}

/// The manifest says how long a file was that was closed, so what is cut off is missed.
#[test]
fn the_length_of_a_closed_file_is_known_after_a_reopening() {
    let mut machine = Machine::new();
    let (db, family) = machine.open();
    put_values(&family);
    End::Closed.of(&mut machine, db, family);
    let entries = machine.sim.list(Path::new("/db")).unwrap();
    let log = entries.iter().find(|entry| entry.name.ends_with(".vlog")).unwrap();
    let path = Path::new("/db").join(&log.name);
    let file = machine.sim.open(&path, tidesdb_sys::vfs::OpenMode::ReadWrite).unwrap();
    // Between two records, so that only the length shows it.
    file.set_len(log.len - 20 - (MIB + VALUES)).unwrap();
    let (db, _family) = machine.open();
    let problems = db.verify().unwrap().problems;
    assert!(problems.iter().any(|e| e.to_string().contains("ends early")), "{problems:?}");
}
