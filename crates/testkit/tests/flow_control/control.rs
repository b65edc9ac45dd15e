//! Work that is paused and cancelled, and options that change in use.

use super::*;

#[test]
fn many_runs_slow_writers_while_compactions_are_cancelled() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default());
    let options = small().l1_file_count_trigger(2);
    let family = db.create_family("family", options).unwrap();
    db.stop_compactions().unwrap();
    for n in 0_u64..12_000 {
        family.put(&n.to_be_bytes(), &[7; 100]).unwrap();
    }
    let stats = family.stats();
    assert!(stats.read_amplification > 10, "{stats:?}");
    assert_eq!((stats.work.compactions, family.is_compacting()), (0, false));
    assert!(stall_count(&db, StallReason::CompactionDebt) > 0, "{:?}", db.stats());
    // A caller is told that nothing was compacted; a reopened database merges again.
    let refused =
        [family.compact(), family.compact_range("a"..), family.compact_and_wait(), db.compact()];
    assert!(refused.iter().all(|it| matches!(it, Err(Error::CompactionsStopped))), "{refused:?}");
    assert!(family.stats().levels[0].runs > 10);
    db.close().unwrap();
    let db = fixture.open(DbOptions::default());
    let family = db.family("family").unwrap();
    db.compact_and_wait().unwrap();
    assert_eq!(family.stats().read_amplification, 1);
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 12_000);
}

#[test]
fn paused_work_does_not_start_until_it_is_resumed_as_often() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default());
    let family = db.create_family("family", small()).unwrap();
    db.pause_background().unwrap();
    db.pause_background().unwrap();
    family.put(b"key", b"value").unwrap();
    family.start_flush().unwrap();
    assert!(family.is_flushing());
    fixture.disk.inner.run_until_idle();
    assert!(family.is_flushing());
    assert_eq!(family.flush().unwrap_err().kind(), ErrorKind::Stalled);
    db.wait_idle().unwrap();
    db.resume_background();
    fixture.disk.inner.run_until_idle();
    assert_eq!(family.stats().work.flush_tables_written, 0);
    db.resume_background();
    fixture.disk.inner.run_until_idle();
    assert!(!family.is_flushing());
    assert_eq!(family.stats().work.flush_tables_written, 1);
    db.resume_background();
    // A pause that was not ended does not keep the database from closing.
    db.pause_background().unwrap();
    db.close().unwrap();
}

#[test]
fn changed_options_hold_at_once_and_after_a_reopening() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default());
    let family = db.create_family("family", small()).unwrap();
    for n in 0_u64..100 {
        family.put(&n.to_be_bytes(), &[7; 200]).unwrap();
    }
    assert!(!family.is_flushing());
    let wrong = small().block_size(1);
    assert_eq!(family.set_options(wrong).unwrap_err().kind(), ErrorKind::Invalid);
    let changed =
        small().write_buffer_size(16 << 10).sync_mode(SyncMode::Full).enable_bloom_filter(false);
    family.set_options(changed.clone()).unwrap();
    assert!(family.is_flushing(), "a smaller write buffer freezes what is over it");
    let synced = db.stats().synced_commits;
    family.put(b"synced", b"1").unwrap();
    assert_eq!(db.stats().synced_commits, synced + 1);
    db.close().unwrap();
    let db = fixture.open(DbOptions::default());
    let family = db.family("family").unwrap();
    assert_eq!(family.options(), changed);
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 101);
}

#[test]
fn a_timer_of_syncs_ends_when_no_family_asks_for_it() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default());
    let family = db.create_family("family", small()).unwrap();
    let timed = small().sync_mode(SyncMode::Interval { interval_us: 10 });
    family.set_options(timed).unwrap();
    family.put(b"key", b"value").unwrap();
    let published = db.stats().sequence;
    while fixture.disk.inner.fire_timer() && db.stats().synced_sequence < published {
        fixture.disk.inner.run_until_idle();
    }
    assert_eq!(db.stats().synced_sequence, published);
    family.set_options(small()).unwrap();
    for _ in 0..100 {
        fixture.disk.inner.fire_timer();
        fixture.disk.inner.run_until_idle();
    }
    assert_eq!(fixture.disk.inner.timers(), 0);
}

#[test]
fn compacting_a_range_leaves_the_rest_alone() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default());
    let options = small().l1_file_count_trigger(100);
    let family = db.create_family("family", options).unwrap();
    for range in [b'a', b'm', b'x'] {
        for n in 0..100_u8 {
            family.put(&[range, n], b"value").unwrap();
        }
        family.delete(&[range, 7]).unwrap();
        family.flush().unwrap();
    }
    assert_eq!(family.stats().levels[0].runs, 3);
    family.compact_range("b".."m").unwrap();
    assert_eq!(family.stats().work.compactions, 0, "nothing lies there");
    family.compact_range("m".."n").unwrap();
    let stats = family.stats();
    assert_eq!((stats.work.compactions, stats.read_amplification), (1, 2), "{stats:?}");
    family.compact_range(.."b").unwrap();
    assert_eq!(family.stats().read_amplification, 1);
    let count = family.stats().work.compactions;
    family.compact_range(..).unwrap();
    assert_eq!(family.stats().work.compactions, count, "it is one run without tombstones");
    assert_eq!(family.scan(ScanOptions::new()).unwrap().entries().count(), 297);
    assert_eq!(family.get(&[b'm', 7]).unwrap(), None);
}

/// The other compaction gets nowhere: a caller that can wait gives up after `stall_timeout_ms`, one
/// that can do without after its own time, which may be shorter or longer.
#[test]
fn a_compaction_that_need_not_be_waits_no_longer_than_it_is_to() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default().stall_timeout_ms(5_000));
    let family = db.create_family("family", small()).unwrap();
    for n in 0_u64..2 {
        (0_u64..100).for_each(|key| family.put(&key.to_be_bytes(), &[n as u8; 20]).unwrap());
        family.flush().unwrap();
    }
    fixture.disk.stuck.store(true, Ordering::SeqCst);
    let (inner, met) = (family.clone(), Arc::new(Mutex::new(Vec::new())));
    let (took, clock) = (Arc::clone(&met), Arc::clone(&fixture.clock));
    fixture.sim.on_mutation(Some(Arc::new(move |_, mutation| {
        let table = mutation.path.extension().is_some_and(|extension| extension == "klog");
        if table && mutation.kind == MutationKind::Create && mutation.phase == Phase::Before {
            for limit in [0, 700, 20_000] {
                let before = clock.monotonic_nanos();
                let error = inner.try_compact_range(.., Duration::from_millis(limit)).unwrap_err();
                let waited = (clock.monotonic_nanos() - before) / 1_000_000;
                took.lock().unwrap().push((limit, waited, error));
            }
        }
    })));
    family.compact().unwrap();
    fixture.sim.on_mutation(None);
    let met = met.lock().unwrap();
    assert_eq!(met.len(), 3, "nothing was put to the test");
    for (limit, waited, error) in met.iter() {
        let debt = StallReason::CompactionDebt;
        assert!(matches!(error, Error::Stalled { reason, .. } if *reason == debt), "{error}");
        assert!((*limit..limit + 500).contains(waited), "{waited} ms of {limit}");
    }
    // With nothing under way it does as the other call.
    fixture.disk.stuck.store(false, Ordering::SeqCst);
    family.put(b"key", b"value").unwrap();
    family.flush().unwrap();
    assert_eq!(family.stats().read_amplification, 2);
    family.try_compact_range(b"x".., Duration::ZERO).unwrap();
    assert_eq!(family.stats().read_amplification, 2, "nothing lies there");
    family.try_compact_range(.., Duration::ZERO).unwrap();
    assert_eq!(family.stats().read_amplification, 1);
}

#[test]
fn families_are_created_together_or_not_at_all() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default());
    let created = db.create_families(&[("a", small()), ("b", small())]).unwrap();
    assert_eq!(created.len(), 2);
    for wrong in [[("c", small()), ("a", small())], [("c", small()), ("c", small())]] {
        assert_eq!(db.create_families(&wrong).unwrap_err().kind(), ErrorKind::Exists);
    }
    created[1].put(b"key", b"value").unwrap();
    drop((db, created));
    let db = fixture.open(DbOptions::default());
    assert_eq!(db.family_names(), ["a", "b"]);
    assert_eq!(db.family("b").unwrap().get(b"key").unwrap(), Some(b"value".to_vec()));
}

/// Segments that are kept to be used again, and the one that is prepared.
const FREE_BYTES: u64 = 9 * (64 << 10);

/// What the files of the log take.
fn log_bytes(sim: &SimVfs) -> u64 {
    let entries = sim.list(Path::new("/db")).unwrap();
    entries.iter().filter(|e| e.name.ends_with(".log")).map(|e| e.len).sum()
}

/// Idle families with a little in memory must not keep the whole log alive.
#[test]
fn many_idle_families_do_not_pin_the_log() {
    let mut fixture = Fixture::new();
    let bound = 256 << 10;
    let db = fixture.open(DbOptions::default().max_retained_log_bytes(bound));
    let names: Vec<String> = (0..100).map(|n| format!("idle-{n}")).collect();
    let wanted: Vec<_> = names.iter().map(|name| (name.as_str(), small())).collect();
    let idle = db.create_families(&wanted).unwrap();
    idle.iter().for_each(|family| family.put(b"key", b"value").unwrap());
    let busy = db.create_family("busy", small()).unwrap();
    for n in 0_u64..10_000 {
        busy.put(&n.to_be_bytes(), &[7; 100]).unwrap();
        if n % 100 == 0 {
            fixture.disk.inner.run_until_idle();
        }
    }
    let retained = log_bytes(&fixture.sim);
    assert!(retained < 2 * bound + FREE_BYTES, "{retained} bytes of log are kept");
    assert!(idle.iter().all(|family| family.stats().work.flush_tables_written == 1));
}

/// The bound was looked at when a memtable was full, and none of these ever is.
#[test]
fn families_that_are_far_from_full_do_not_pin_the_log() {
    let mut fixture = Fixture::new();
    let bound = 256 << 10;
    let db = fixture.open(DbOptions::default().max_retained_log_bytes(bound));
    let names: Vec<String> = (0..20).map(|n| format!("family-{n}")).collect();
    let large = || small().write_buffer_size(16 << 20);
    let wanted: Vec<_> = names.iter().map(|name| (name.as_str(), large())).collect();
    let families = db.create_families(&wanted).unwrap();
    for n in 0..20_000 {
        families[n % families.len()].put(&n.to_be_bytes(), &[7; 100]).unwrap();
        if n % 100 == 0 {
            fixture.disk.inner.run_until_idle();
        }
    }
    let retained = log_bytes(&fixture.sim);
    assert!(retained < 2 * bound + FREE_BYTES, "{retained} bytes of log are kept");
}

/// Each look at the pace, every two milliseconds, had a merge tried that found no space.
#[test]
fn writers_slowed_by_garbage_try_no_compaction_again_and_again_on_a_full_disk() {
    let mut fixture = Fixture::new();
    let db = fixture.open(DbOptions::default());
    let options = small()
        .write_buffer_size(1 << 20)
        .l1_file_count_trigger(500)
        .compression(Compression::None)
        .max_space_amplification(100.0);
    let family = db.create_family("family", options.clone()).unwrap();
    for _ in 0..12 {
        for n in 0_u64..1_000 {
            family.put(&n.to_be_bytes(), &[7; 100]).unwrap();
        }
        family.flush().unwrap();
    }
    fixture.disk.inner.run_until_idle();
    fixture.sim.set_capacity(Some(1 << 40));
    let used = (1 << 40) - fixture.sim.free_bytes(Path::new("/db")).unwrap();
    // For the log and no compaction.
    fixture.sim.set_capacity(Some(used + (80 << 10)));
    family.set_options(options.max_space_amplification(1.5)).unwrap();
    for n in 0_u64..1_500 {
        family.put(&n.to_be_bytes(), b"").unwrap();
    }
    assert!(stall_count(&db, StallReason::SpaceAmplification) > 0, "{:?}", db.stats());
    let work = family.stats().work;
    assert!((1..=2).contains(&work.compaction_failures), "{work:?}");
}
