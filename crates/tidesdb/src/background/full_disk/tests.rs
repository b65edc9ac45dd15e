//! What freeing a full disk holds while it runs, and what holds it back.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tidesdb_base::compress::Compression;
use tidesdb_base::error::ErrorKind;
use tidesdb_base::event::{Event, EventListener, LogLevel};
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{ManualClock, ManualScheduler, MutationKind, Phase, SimVfs};
use tidesdb_sys::vfs::Vfs;

use crate::core::Core;
use crate::db::{Components, Db};
use crate::handles::Family;
use crate::testing::refuse_memtable_blocks;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn open(sim: &Arc<SimVfs>, options: DbOptions) -> (Db, Family) {
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::new(ManualClock::new(1000)),
    };
    let db = Db::open_with("/db", options.log_segment_bytes(64 << 10), components).unwrap();
    let family = FamilyOptions::default()
        .min_disk_space(0)
        .compression(Compression::None)
        .l1_file_count_trigger(100);
    let family = db.create_family("family", family).unwrap();
    (db, family)
}

fn free(sim: &SimVfs) -> u64 {
    sim.free_bytes(Path::new("/db")).unwrap()
}

/// Leaves `left` bytes of the disk free.
fn fill(sim: &SimVfs, left: u64) {
    sim.set_capacity(Some(1 << 40));
    let used = (1 << 40) - free(sim);
    sim.set_capacity(Some(used + left));
}

/// A listener that is called after a flush deletes, in its own thread or in another that it waits
/// for. The deletion finds no space, so its thread frees the disk, and waited for the one that
/// already did so: that of the listener.
fn delete_when_reported(in_another_thread: bool) {
    let sim = SimVfs::new(1);
    let place: Arc<Mutex<Option<Family>>> = Arc::default();
    let reported = Arc::new(AtomicU64::new(0));
    let (disk, mine, count) = (Arc::clone(&sim), Arc::clone(&place), Arc::clone(&reported));
    let listen = move |event: &Event| {
        let Event::Flushed { .. } = event else { return };
        let family = mine.lock().unwrap().clone().unwrap();
        let deletions = || {
            fill(&disk, 0);
            // More than the log's segments hold.
            let _ = (0..20_000).try_for_each(|_| family.delete(b"key"));
            count.fetch_add(1, Ordering::SeqCst);
        };
        match in_another_thread {
            true => std::thread::scope(|threads| threads.spawn(deletions).join().unwrap()),
            false => deletions(),
        }
    };
    let options = DbOptions::default()
        .event_listener(EventListener::new(listen))
        .event_listener_level(LogLevel::Info);
    let (db, family) = open(&sim, options);
    *place.lock().unwrap() = Some(family.clone());
    let frees: [fn(&Core); 2] = [Core::reclaim_disk_now, Core::write_memory_out];
    for free_the_disk in frees {
        let before = reported.load(Ordering::SeqCst);
        sim.set_capacity(None);
        family.put(b"key", b"value").unwrap();
        let (ended, end) = mpsc::channel();
        let rescued = db.clone();
        std::thread::spawn(move || {
            free_the_disk(rescued.core());
            let _ = ended.send(());
        });
        end.recv_timeout(LONG).expect("the threads wait for each other");
        assert!(reported.load(Ordering::SeqCst) > before, "nothing was put to the test");
    }
    sim.set_capacity(None);
    place.lock().unwrap().take();
    db.close().unwrap();
}

#[test]
fn a_listener_may_delete_while_its_thread_frees_the_disk() {
    delete_when_reported(false);
}

#[test]
fn a_listener_may_wait_for_a_deletion_while_its_thread_frees_the_disk() {
    delete_when_reported(true);
}

/// With a scheduler that does nothing by itself.
fn open_by_hand(sim: &Arc<SimVfs>) -> (Db, Family, Arc<ManualScheduler>) {
    let scheduler = Arc::new(ManualScheduler::new(1));
    let components = Components {
        vfs: Arc::clone(sim) as _,
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1000)),
    };
    let options = DbOptions::default().log_segment_bytes(64 << 10);
    let db = Db::open_with("/db", options, components).unwrap();
    let family = FamilyOptions::default().min_disk_space(0).l1_file_count_trigger(2);
    let family = db.create_family("family", family).unwrap();
    (db, family, scheduler)
}

/// No one writes to the family, and the thread that freed the disk is gone.
#[test]
fn what_found_no_space_is_written_out_when_there_is_some() {
    let frees: [fn(&Core); 2] = [Core::reclaim_disk_now, Core::write_memory_out];
    for free_the_disk in frees {
        let sim = SimVfs::new(1);
        let (db, family, scheduler) = open_by_hand(&sim);
        let mut value = vec![0; 100 << 10];
        SplitMix64::new(1).fill(&mut value);
        family.put(b"key", &value).unwrap();
        scheduler.run_until_idle();
        fill(&sim, 8 << 10);
        free_the_disk(db.core());
        let left = || family.state().view.load().frozen.len();
        assert_eq!((left(), family.state().current_version().runs.len()), (1, 0));
        sim.set_capacity(None);
        for _ in 0..10 {
            scheduler.fire_timer();
            scheduler.run_until_idle();
        }
        assert_eq!((left(), family.state().current_version().runs.len()), (0, 1));
    }
}

/// While the disk is freed all runs are claimed, so nothing that is flushed then has a compaction.
#[test]
fn runs_that_come_while_the_disk_is_freed_are_compacted() {
    let frees: [fn(&Core); 2] = [Core::reclaim_disk_now, Core::write_memory_out];
    for free_the_disk in frees {
        let sim = SimVfs::new(1);
        let (db, family, scheduler) = open_by_hand(&sim);
        // Twice the trigger are compacted at once.
        for n in 0..4_u8 {
            family.put(&[n % 2], &[n; 500]).unwrap();
            scheduler.run_until_idle();
            free_the_disk(db.core());
        }
        assert_eq!(family.state().current_version().runs.len(), 4);
        scheduler.run_until_idle();
        assert_eq!(family.state().current_version().runs.len(), 1);
    }
}

/// A pause saw no work where a caller's thread flushed for the sake of space, and files changed
/// after it.
#[test]
fn a_pause_waits_for_a_thread_that_frees_the_disk() {
    let frees: [fn(&Core); 2] = [Core::reclaim_disk_now, Core::write_memory_out];
    for free_the_disk in frees {
        let sim = SimVfs::new(1);
        let (db, family) = open(&sim, DbOptions::default());
        let other = db.create_family("other", FamilyOptions::default().min_disk_space(0)).unwrap();
        for n in 0..100_u64 {
            family.put(&n.to_be_bytes(), &[7; 500]).unwrap();
            other.put(&n.to_be_bytes(), &[7; 500]).unwrap();
        }
        let (began, begun) = mpsc::channel();
        let (go_on, gone_on) = mpsc::channel();
        let (gone_on, held) = (Mutex::new(gone_on), AtomicBool::new(false));
        sim.on_mutation(Some(Arc::new(move |_, mutation| {
            let first_table = mutation.kind == MutationKind::Create
                && mutation.phase == Phase::Before
                && !held.swap(true, Ordering::SeqCst);
            if first_table {
                began.send(()).unwrap();
                gone_on.lock().unwrap().recv_timeout(LONG).unwrap();
            }
        })));
        let rescued = db.clone();
        let rescuer = std::thread::spawn(move || free_the_disk(rescued.core()));
        begun.recv_timeout(LONG).unwrap();
        let (ended, end) = mpsc::channel();
        let (paused, disk) = (db.clone(), Arc::clone(&sim));
        let pauser = std::thread::spawn(move || {
            paused.pause_background().unwrap();
            ended.send(disk.mutations()).unwrap();
        });
        let early = end.recv_timeout(Duration::from_millis(300));
        assert!(early.is_err(), "paused while a thread was writing tables");
        go_on.send(()).unwrap();
        let mutations = end.recv_timeout(LONG).unwrap();
        pauser.join().unwrap();
        rescuer.join().unwrap();
        assert_eq!(sim.mutations(), mutations, "files changed after the pause had begun");
        let flushed = [&family, &other].map(|f| f.state().current_version().runs.len());
        assert_eq!(flushed.iter().sum::<usize>(), 1, "the disk was freed further: {flushed:?}");
        // And none begins meanwhile.
        free_the_disk(db.core());
        assert_eq!(sim.mutations(), mutations);
        db.resume_background();
        sim.on_mutation(None);
        db.close().unwrap();
    }
}

/// Each call wrote one table anew: its file was removed only after the next had been tried.
#[test]
fn reclaiming_once_rewrites_all_tables_with_room_for_one() {
    const TABLES: u64 = 10;
    let sim = SimVfs::new(1);
    let (db, family) = open(&sim, DbOptions::default());
    let key = |table: u64, n: u64| (table * 1000 + n).to_be_bytes();
    for table in 0..TABLES {
        for n in 0..100 {
            family.put(&key(table, n), &[7; 400]).unwrap();
        }
        family.flush().unwrap();
    }
    for table in 0..TABLES {
        for n in (0..100).step_by(2) {
            family.delete(&key(table, n)).unwrap();
        }
    }
    family.flush().unwrap();
    db.core().storage.files.obsolete.sweep();
    let bytes = || {
        let version = family.state().current_version();
        version.tables().map(|table| table.record.bytes).collect::<Vec<_>>()
    };
    let largest = bytes().into_iter().max().unwrap();
    fill(&sim, largest / 2 * 6 / 5);
    db.core().reclaim_tables(family.state()).unwrap();
    let rewritten = bytes();
    assert!(rewritten.iter().all(|&bytes| bytes < largest / 4 * 3), "{rewritten:?} of {largest}");
    for table in 0..TABLES {
        for n in 0..100 {
            let wanted = (n % 2 == 1).then(|| vec![7; 400]);
            assert_eq!(family.get(&key(table, n)).unwrap(), wanted);
        }
    }
    sim.set_capacity(None);
    db.close().unwrap();
}

/// Each deletion wrote all tables anew where none of them could become smaller: half of the reserve
/// was still used when that ended.
#[test]
fn deletions_do_not_collect_one_by_one_what_can_not_be_freed() {
    let sim = SimVfs::new(1);
    let (db, family) = open(&sim, DbOptions::default());
    for n in 0..10_000_u64 {
        family.put(&n.to_be_bytes(), &[7; 4000]).unwrap();
    }
    family.flush().unwrap();
    db.core().storage.files.obsolete.sweep();
    db.core().storage.log.remove_free_segments();
    fill(&sim, 150 << 10);
    // As when a put is refused.
    db.core().review_disk(0);
    let created = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&created);
    sim.on_mutation(Some(Arc::new(move |_, mutation| {
        let begins = mutation.kind == MutationKind::Create && mutation.phase == Phase::Before;
        count.fetch_add(u64::from(begins), Ordering::SeqCst);
    })));
    for n in 0..200_u64 {
        family.delete(&(1 << 40 | n).to_be_bytes()).unwrap();
    }
    sim.on_mutation(None);
    let created = created.load(Ordering::SeqCst);
    assert!((1..50).contains(&created), "{created} files were created");
    sim.set_capacity(None);
    db.close().unwrap();
}

/// A put that came after a pause found no space, since the deletions counted as collected.
#[test]
fn what_a_pause_kept_from_being_collected_is_collected_after_it() {
    let sim = SimVfs::new(1);
    let (db, family) = open(&sim, DbOptions::default());
    (0..100_u64).for_each(|n| family.put(&n.to_be_bytes(), &[7; 500]).unwrap());
    family.flush().unwrap();
    (0..50_u64).for_each(|n| family.delete(&n.to_be_bytes()).unwrap());
    let pausing = db.clone();
    let pause = move |_: &SimVfs, _: &tidesdb_sim::Mutation<'_>| {
        let control = &pausing.core().work.control;
        if !control.is_paused() {
            control.pause();
        }
    };
    let has_deletions = || db.core().flow.disk.has_deletions(&[]);
    assert!(has_deletions());
    sim.on_mutation(Some(Arc::new(pause)));
    db.core().reclaim_disk_now();
    sim.on_mutation(None);
    assert!(db.core().work.control.is_paused() && has_deletions());
    db.resume_background();
    db.core().reclaim_disk_now();
    assert!(!has_deletions());
}

/// A memtable that is larger than what is free keeps its log, and nothing can be freed any more.
#[test]
fn memtables_are_small_on_a_small_volume() {
    const VOLUME: u64 = 64 << 20;
    let sim = SimVfs::new(1);
    sim.set_capacity(Some(VOLUME));
    let (db, family) = open(&sim, DbOptions::default());
    db.pause_background().unwrap();
    let write = || (0..8000_u64).for_each(|n| family.put(&n.to_be_bytes(), &[7; 1000]).unwrap());
    let check = || {
        let view = family.state().view.load();
        let sizes: Vec<u64> = view.frozen.iter().map(|memtable| memtable.used_bytes()).collect();
        assert!(sizes.len() > 1, "{sizes:?}");
        assert!(sizes.iter().all(|size| *size < VOLUME / 20), "{sizes:?}");
    };
    write();
    check();
    let options = family.options().write_buffer_size(1 << 30);
    family.set_options(options).unwrap();
    db.resume_background();
    family.flush().unwrap();
    db.pause_background().unwrap();
    write();
    check();
    db.resume_background();
    db.close().unwrap();
}

/// A compaction took the space that the memory needed, and the log of that was kept for good.
#[test]
fn compactions_leave_free_what_memory_will_take() {
    let sim = SimVfs::new(1);
    sim.set_capacity(Some(64 << 20));
    let (db, family) = open(&sim, DbOptions::default());
    db.pause_background().unwrap();
    (0..4000_u64).for_each(|n| family.put(&n.to_be_bytes(), &[7; 1000]).unwrap());
    let core = db.core();
    let room = core.room_for_compactions(family.state()).unwrap();
    let memory = core.memory.pool.used_bytes();
    assert!(memory > 4_000_000, "{memory}");
    assert!(room + memory < free(&sim), "{room} beside {memory} of {}", free(&sim));
    db.resume_background();
    db.close().unwrap();
}

/// Each commit that got no memory wrote tables anew, on the thread of its caller.
#[test]
fn a_deletion_that_gets_no_memory_writes_no_table_anew() {
    let sim = SimVfs::new(1);
    let (db, family) = open(&sim, DbOptions::default());
    (0..100_u32).for_each(|n| family.put(&n.to_be_bytes(), &[1; 400]).unwrap());
    family.flush().unwrap();
    (0..50_u32).for_each(|n| family.delete(&n.to_be_bytes()).unwrap());
    family.flush().unwrap();
    let tables = || -> Vec<_> {
        let entries = sim.list(Path::new("/db")).unwrap().into_iter();
        entries.map(|entry| entry.name).filter(|name| name.ends_with(".klog")).collect()
    };
    let before = tables();
    refuse_memtable_blocks(&db, 0, 1);
    let refused = family.delete(&70_u32.to_be_bytes()).unwrap_err();
    assert_eq!((refused.kind(), refused.is_disk_full()), (ErrorKind::Full, false), "{refused}");
    assert_eq!(tables(), before);
    refuse_memtable_blocks(&db, 0, 0);
    db.wait_idle().unwrap();
    family.delete(&70_u32.to_be_bytes()).unwrap();
}

mod kept_space;
