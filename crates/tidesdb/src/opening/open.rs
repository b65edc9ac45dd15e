//! Opening: lock, manifest, log, leftovers, and then the machinery.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tidesdb_base::error::{ErrorKind, Result};
use tidesdb_base::event::Event;
use tidesdb_base::latency::TimedOperation;
use tidesdb_base::limits::{MIN_LOG_SEGMENT_BYTES, MIN_MEMORY_BUDGET_BYTES};
use tidesdb_base::options::DbOptions;
use tidesdb_files::file_numbers::FileNumbers;
use tidesdb_files::naming::FileKind;
use tidesdb_lockfree::arena::BlockPool;
use tidesdb_sys::clock::{Clock, SteadyClock};
use tidesdb_sys::sched::Scheduler;
use tidesdb_sys::vfs::Vfs;

use super::components::Components;
use super::directory::{self, OwnedDirectory};
use super::inventory::Inventory;
use super::leftover_segments::LeftoverSegments;
use super::manifest_and_log_start::{self, StartMode};
use super::manifest_families::load_families;
use super::replay_result::Replayed;
use super::replayed_families::{ReplayedFamilies, ReplayedFamily};
use super::unreplayed_log::{self, UnreplayedLog};
use super::workers::Workers;
use crate::background::BACKGROUND;
use crate::cache::{BlockCache, OpenFiles, TableMemory};
use crate::core::{BackgroundWork, Core, Environment, Families, Health, Owner, ShutDown, Storage};
use crate::family::{DatabaseId, FamilyState, SharedOptions};
use crate::flow::disk::{self, DiskSpace};
use crate::flow::{DatabaseFlow, SharedBuffer};
use crate::isolation::Isolation;
use crate::memory::{BufferPool, Memory, MemoryBudget};
use crate::telemetry::event_log::EventLog;
use crate::telemetry::events::Events;
use crate::telemetry::latency_recorder::LatencyRecorder;
use crate::telemetry::spans::span;
use crate::telemetry::{CoreCounters, Telemetry};
use crate::version::{DirectoryLock, FileContext, ObsoleteFiles, Orphans, SetAsideChanges};
use crate::wal::{LogConfig, Wal};

/// Block size that the cache's slots are laid out for.
const USUAL_BLOCK_BYTES: usize = 4096;

/// Opens a database. `shut_down` is called when its last handle is dropped.
///
/// # Errors
/// See [`crate::Db::open`].
pub(crate) fn open_core(
    path: &Path,
    options: DbOptions,
    components: Components,
    shut_down: ShutDown,
) -> Result<Owner> {
    open_in(path, options, components, shut_down, directory::take)
}

/// Opens a database in a directory that `take` makes this opening's.
///
/// # Errors
/// As [`open_core`], and those of `take`.
pub(crate) fn open_in(
    path: &Path,
    options: DbOptions,
    components: Components,
    shut_down: ShutDown,
    take: impl FnOnce(&Arc<dyn Vfs>, &Path, &DbOptions) -> Result<OwnedDirectory>,
) -> Result<Owner> {
    options.validate()?;
    let _span = span!(INFO, "open", path = path.display(), read_only = options.read_only);
    let started = components.clock.monotonic_nanos();
    let directory = take(&components.vfs, path, &options)?;
    let lock = Arc::clone(&directory.lock);
    // An opening that fails from here on shuts it down: work may be queued and running.
    let opened = build(path, options, components, shut_down, directory)
        // A reader that found no lock file may have read while another process wrote.
        .map_err(|e| lock.explain(e))?;
    let core = opened.core();
    lock.check()?;
    let nanos = core.env.clock.monotonic_nanos().saturating_sub(started);
    core.telemetry.latencies.record(TimedOperation::Open, nanos);
    core.report_left_out();
    let families = core.families.names().len() as u64;
    core.telemetry.events.report(&Event::Opened { families, milliseconds: nanos / 1_000_000 });
    Ok(opened)
}

/// The memory budget in bytes for a setting of `max_memory_usage`.
pub(crate) fn memory_budget(setting: u64) -> u64 {
    if setting != 0 {
        return setting;
    }
    let available = tidesdb_sys::memory::available_bytes();
    available.map_or(u64::MAX, |bytes| (bytes / 4 * 3).max(MIN_MEMORY_BUDGET_BYTES))
}

/// A log segment takes one part in so many of the memory budget at most.
const LOG_SHARE: u64 = 32;
/// Options whose log takes a small part of the memory budget: two segments are mapped.
fn with_small_log(mut options: DbOptions) -> DbOptions {
    let most = memory_budget(options.max_memory_usage) / LOG_SHARE;
    let most = (most / MIN_LOG_SEGMENT_BYTES).max(1) * MIN_LOG_SEGMENT_BYTES;
    options.log_segment_bytes = options.log_segment_bytes.min(most);
    options
}

fn build(
    path: &Path,
    options: DbOptions,
    components: Components,
    shut_down: ShutDown,
    directory: OwnedDirectory,
) -> Result<Owner> {
    let OwnedDirectory { vfs, lock, found } = directory;
    let options = with_small_log(options);
    let (files, memory) = shared_memory(path, &options, &vfs, lock);
    let mut state = found.as_ref().map(|found| found.state.clone()).unwrap_or_default();
    let identity = DatabaseId::next();
    let lengths = found.as_ref().map(|found| found.files.clone()).unwrap_or_default();
    let shared_options = SharedOptions::default();
    let manifest = found.as_ref().map_or(0, |found| found.manifest.number());
    let manifest = path.join(FileKind::Manifest(manifest).name());
    let known = (&memory, manifest.as_path());
    let families = load_families(identity, &mut state, &shared_options, &lengths, &files, known)?;
    let workers = workers(&options, &components.scheduler);
    let most_bytes = most_replayed_bytes(&options);
    let replayed = match &found {
        Some(found) => {
            let targets = targets(found, &families, (&memory, most_bytes));
            unreplayed_log::replay_first(&vfs, path, found, targets, &workers)?
        }
        None => Replayed::default(),
    };
    replayed.check_room(&manifest)?;
    let numbers = file_numbers(found.as_ref(), &replayed);
    let mode = match options.read_only {
        true => StartMode::ReadOnly,
        false => StartMode::of((vfs.as_ref(), path), found.as_ref(), &replayed),
    };
    let left = found.as_ref().filter(|_| !mode.is_after_clean_close());
    let mut orphans = left.map(|found| found.orphans(&replayed.retained));
    let rest = found.as_ref().and_then(|found| UnreplayedLog::of(&replayed, found, path));
    let (left_out, torn) = (replayed.left_out.clone(), found.as_ref().and_then(|f| f.torn));
    let leftover = LeftoverSegments::of(&replayed, options.log_segment_bytes);
    let config = log_config(path, &options, &vfs, &components.clock, &numbers);
    let (config, most_segment_bytes) = leftover.begin_small(config);
    let started = manifest_and_log_start::start(config, state, found, replayed, (mode, &workers));
    let (catalog, log) = free_space_after_failure(started, vfs.as_ref(), path, &mut orphans)?;
    // CRASH: only now, with the new log named by the manifest, may the last old segment go.
    let orphans = remove_orphans(orphans, &log, options.read_only, (vfs.as_ref(), path))?;
    let storage = Storage::new(numbers, log, catalog, files, (orphans, left_out, torn));
    let known = Families::new(options.key_orders.clone(), shared_options);
    let core = assemble(identity, path, options, (vfs, components), (memory, storage), known);
    let opened = Owner::new(Arc::clone(&core), shut_down);
    let families: Vec<_> = families.into_values().collect();
    publish_families(&core, &families);
    rest.map_or(Ok(()), |rest| rest.load(&core, &workers, most_bytes))?;
    if !core.env.options.read_only {
        start_due_work(&core, families, most_segment_bytes);
    }
    core.set_interval_sync();
    leftover.release(&core);
    Ok(opened)
}

/// The database, before anything works on it.
fn assemble(
    identity: DatabaseId,
    path: &Path,
    options: DbOptions,
    (vfs, components): (Arc<dyn Vfs>, Components),
    (pool, storage): (Arc<BlockPool>, Storage),
    families: Families,
) -> Arc<Core> {
    let clock: Arc<dyn Clock> = Arc::new(SteadyClock::new(Arc::clone(&components.clock)));
    let events = EventLog::new(&vfs, &components.clock, &options, path);
    let budget = Arc::clone(&storage.files.budget);
    let shared_buffer = SharedBuffer::new(options.shared_write_buffer_bytes);
    Arc::new_cyclic(|this| Core {
        this: this.clone(),
        health: Health::default(),
        families,
        telemetry: Telemetry {
            clock: Arc::clone(&clock),
            counters: CoreCounters::default(),
            latencies: LatencyRecorder::new(&options),
            events: Events::new(events, &options),
        },
        env: Environment {
            identity,
            path: path.to_path_buf(),
            options,
            vfs,
            scheduler: components.scheduler,
            clock,
        },
        memory: Memory { budget: Arc::clone(&budget), pool, buffer_pool: BufferPool::new(budget) },
        storage,
        isolation: Isolation::default(),
        flow: DatabaseFlow { shared_buffer, ..DatabaseFlow::default() },
        work: BackgroundWork::done_by(BACKGROUND),
    })
}

/// Numbers above those of all files, and of all log segments: these are renamed before they are
/// synced, so that one may have a higher number than its file.
fn file_numbers(found: Option<&Inventory>, replayed: &Replayed) -> Arc<FileNumbers> {
    let next = found.map_or(1, Inventory::next_number);
    Arc::new(FileNumbers::starting_at(next.max(replayed.highest_segment + 1)))
}

/// Where and how the log of a database is written.
fn log_config(
    path: &Path,
    options: &DbOptions,
    vfs: &Arc<dyn Vfs>,
    clock: &Arc<dyn Clock>,
    numbers: &Arc<FileNumbers>,
) -> LogConfig {
    LogConfig {
        vfs: Arc::clone(vfs),
        dir: path.to_path_buf(),
        segment_bytes: options.log_segment_bytes,
        most_segment_bytes: first_segment_bytes(vfs.as_ref(), path, options.log_segment_bytes),
        numbers: Arc::clone(numbers),
        clock: Arc::clone(clock),
    }
}

/// Bound of the first log segment: only the reserve may be left of the disk.
fn first_segment_bytes(vfs: &dyn Vfs, path: &Path, usual: u64) -> u64 {
    let (Ok(volume_bytes), Ok(free_bytes)) = (vfs.volume_bytes(path), vfs.free_bytes(path)) else {
        return u64::MAX;
    };
    let is_short = disk::is_short(DiskSpace { volume_bytes, free_bytes }, usual);
    disk::largest_segment_bytes(volume_bytes, is_short)
}

/// Makes room for the next opening when this one has failed for want of space. One that has opened
/// the database does so when a commit finds none.
fn free_space_after_failure<T>(
    started: Result<T>,
    vfs: &dyn Vfs,
    dir: &Path,
    orphans: &mut Option<Orphans>,
) -> Result<T> {
    started.inspect_err(|e| {
        if let Some(orphans) = orphans.as_mut().filter(|_| e.kind() == ErrorKind::Full) {
            orphans.remove_unnamed(vfs, dir);
        }
    })
}

/// Removes what is dead of what was found, unless there was no space for manifest and log to go on,
/// or the database is only read. Returns what is left.
fn remove_orphans(
    orphans: Option<Orphans>,
    log: &Wal,
    read_only: bool,
    (vfs, dir): (&dyn Vfs, &Path),
) -> Result<Option<Orphans>> {
    match orphans.filter(|_| !read_only) {
        Some(orphans) if log.failure().is_none() => orphans.tidy(vfs, dir),
        other => Ok(other),
    }
}

/// Makes the families known to a database that is being opened.
fn publish_families(core: &Core, families: &[Arc<FamilyState>]) {
    core.sweep_in_background();
    core.limit_memtables(families);
    // CRASH: a flush gives up the log that no family needs, so it must not begin before all are
    // known: what was replayed for the others would be lost with the next crash.
    for family in families {
        core.families.insert(Arc::clone(family));
    }
}

/// Starts what is due of a database that may be written, whose log segments were begun small.
fn start_due_work(core: &Core, families: Vec<Arc<FamilyState>>, most_segment_bytes: u64) {
    for family in families {
        // What was replayed may be more than a memtable should hold.
        core.freeze_if_full(&family);
        if !family.view.load().active.is_empty() {
            core.watch_deletions(&family);
        }
        core.schedule_flush(&family);
        core.schedule_compaction(&family);
    }
    core.storage.log.limit_segments(most_segment_bytes);
    core.review_disk(0);
}

/// What tables need, and the memory of memtables, under one budget.
fn shared_memory(
    path: &Path,
    options: &DbOptions,
    vfs: &Arc<dyn Vfs>,
    lock: Arc<DirectoryLock>,
) -> (Arc<FileContext>, Arc<BlockPool>) {
    let blocks = Arc::new(BlockCache::new(options.block_cache_bytes, USUAL_BLOCK_BYTES));
    let memory = BlockPool::new(0);
    let bytes = memory_budget(options.max_memory_usage);
    // The active log segment and the one prepared to be next.
    let log_bytes = 2 * options.log_segment_bytes;
    let budget = MemoryBudget::new(bytes, log_bytes, Arc::clone(&blocks) as _, Arc::clone(&memory));
    let budget = Arc::new(budget);
    let files = Arc::new(FileContext {
        dir: path.to_path_buf(),
        lock,
        obsolete: ObsoleteFiles::new(Arc::clone(vfs), Arc::clone(&blocks)),
        open_files: OpenFiles::new(options.max_open_files),
        blocks,
        table_memory: TableMemory::new(Arc::clone(&budget)),
        budget,
        set_aside_changes: SetAsideChanges::default(),
    });
    (files, memory)
}

/// The families that the log is replayed into.
fn targets(
    found: &Inventory,
    families: &BTreeMap<u32, Arc<FamilyState>>,
    (memory, most_bytes): (&Arc<BlockPool>, u64),
) -> ReplayedFamilies {
    let target = |(&number, family): (&u32, &Arc<FamilyState>)| {
        let record = found.state.families.get(&number);
        let flushed_through = record.map_or(0, |record| record.flushed_through);
        let view = family.view.load();
        let (memtable, version) = (Arc::clone(&view.active), Arc::clone(&view.version));
        (number, ReplayedFamily { memtable, version, flushed_through })
    };
    ReplayedFamilies {
        families: families.iter().map(target).collect(),
        next_family: found.state.next_family,
        memory: Arc::clone(memory),
        most_bytes,
    }
}

/// Bytes that memtables may have while the log is replayed. A database that is opened for reading
/// can't write them to tables.
fn most_replayed_bytes(options: &DbOptions) -> u64 {
    let budget = memory_budget(options.max_memory_usage);
    if options.read_only { u64::MAX } else { budget / unreplayed_log::SHARE_OF_BUDGET }
}

/// The threads that help to replay the log, which merge later.
fn workers(options: &DbOptions, scheduler: &Arc<dyn Scheduler>) -> Workers {
    let budget = memory_budget(options.max_memory_usage);
    Workers::new(scheduler, options.resolved_compaction_threads(), budget)
}
