//! Flushes in parts.

use std::sync::Arc;

use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};
use tidesdb_sys::sched::Lane;

use crate::db::{Components, Db};

/// A database whose flushes are cut into as many parts as it has threads, since its clock stands
/// still.
fn open(vfs: &Arc<SimVfs>, scheduler: &Arc<ManualScheduler>) -> Db {
    let components = Components {
        vfs: Arc::clone(vfs) as _,
        scheduler: Arc::clone(scheduler) as _,
        clock: Arc::new(ManualClock::new(1000)),
    };
    let options = DbOptions::default().log_segment_bytes(1 << 20).compaction_threads(3);
    Db::open_with("/db", options, components).unwrap()
}

fn key(n: u32) -> [u8; 4] {
    n.wrapping_mul(0x9E37_79B1).to_be_bytes()
}

#[test]
fn a_flush_in_parts_is_one_run_and_keeps_no_memory() {
    let (vfs, scheduler) = (Arc::new(SimVfs::new(1)), Arc::new(ManualScheduler::new(1)));
    let db = open(&vfs, &scheduler);
    let options = FamilyOptions::default()
        .write_buffer_size(1 << 20)
        .target_table_bytes(64 << 10)
        .klog_value_threshold(400);
    let family = db.open_family("parts", options).unwrap();
    let value = |n: u32| vec![n as u8; 100 + (n as usize % 5) * 100];
    let mut count = 0;
    while scheduler.ready_in(Lane::Flush) == 0 {
        family.put(&key(count), &value(count)).unwrap();
        count += 1;
    }
    let before = db.stats().memory.memtable_bytes;
    while scheduler.step_lane(Lane::Flush) {}
    // Three helpers were called and none came: they wait behind what else there is to merge.
    assert!(scheduler.ready_in(Lane::Compaction) >= 3);
    let view = family.state().view.load_full();
    assert!(view.frozen.is_empty());
    assert_eq!(view.version.runs.len(), 1);
    assert!(view.version.runs.iter().all(|run| run.tables.len() >= 4));
    assert!(view.version.value_logs.len() >= 4);
    drop(view);
    let after = db.stats().memory.memtable_bytes;
    assert!(after * 2 < before, "{after} bytes of memtables after a flush, {before} before");
    scheduler.run_until_idle();
    for n in 0..count {
        assert_eq!(family.get(&key(n)).unwrap(), Some(value(n)), "{n}");
    }
}
