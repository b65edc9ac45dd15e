//! What a scan looks at: the sources of a snapshot, merged.

use std::sync::Arc;

use tidesdb_base::entry::{NEVER_EXPIRES, ValueKind, is_expired};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::range_tombstone::RangeTombstoneSets;

use crate::cache::CachedBlocks;
use crate::core::Owner;
use crate::family::{FamilyState, View};
use crate::handles::Snapshot;
use crate::iterator::memtable_source::MemtableSource;
use crate::iterator::merge::Merge;
use crate::iterator::options::Bounds;
use crate::iterator::own_writes::{OwnSource, OwnWrites};
use crate::iterator::run_source::{self, RunSource};
use crate::iterator::source::Source;
use crate::memory::{Holder, MemoryReservation};

/// What a source of a scan takes, about, whatever it is over: places, and a key.
const SOURCE_BYTES: u64 = 1 << 10;

/// What a source over tables takes besides: a block that the cache may not have. What it reads
/// ahead is counted as it is read.
const BLOCK_BYTES: u64 = 4 << 10;

/// A family as of a snapshot.
#[derive(Debug)]
pub(super) struct ScanSources {
    /// Keeps compactions from dropping what the scan has still to see.
    pub snapshot: Snapshot,
    pub view: Arc<View>,
    pub merge: Merge,
    /// Range deletions of the view's memtables and files.
    deleted: RangeTombstoneSets,
    /// The active memtable was empty and is no source.
    active_left_out: bool,
    /// What expires by this Unix second is not shown.
    pub now: u64,
    /// The same for own writes, which are younger than the snapshot.
    own_now: u64,
    _reservation: MemoryReservation,
}

/// The time by which own writes have expired, for a snapshot of the time `now`.
fn time_of_own(owner: &Owner, now: u64, own: Option<&Arc<OwnWrites>>) -> u64 {
    own.map_or(now, |_| owner.core().read_point().now.max(now))
}

/// What there is now, for a snapshot that is taken already: so it holds all that the snapshot sees.
fn view_after_snapshot(family: &FamilyState) -> Result<Arc<View>> {
    let view = family.view.load_full();
    family.check_view()?;
    if !view.version.runs.is_empty() {
        family.reads.activity.note();
    }
    Ok(view)
}

impl ScanSources {
    /// What is there now, or at the snapshot of the bounds, with a transaction's writes over it.
    ///
    /// # Errors
    /// As [`crate::Family::scan`].
    pub(super) fn open(
        owner: &Owner,
        family: &Arc<FamilyState>,
        bounds: &Bounds,
        own: Option<&Arc<OwnWrites>>,
    ) -> Result<Self> {
        let core = owner.core();
        core.health.check_readable(family)?;
        let snapshot = match &bounds.snapshot {
            Some(snapshot) if !snapshot.belongs_to(core) => {
                return Err(Error::InvalidArgument(
                    "the snapshot is of another database".to_owned(),
                ));
            }
            Some(snapshot) => snapshot.clone(),
            None => Snapshot::take(core),
        };
        let view = view_after_snapshot(family)?;
        Ok(Self::of_view(owner, family, bounds, (snapshot, view), own))
    }

    /// As [`Self::open`], of the same arguments. While the view is the same, its sources stay, and
    /// see more: to make them costs more than a seek.
    ///
    /// # Errors
    /// As [`crate::Family::scan`]; nothing has changed then.
    pub(super) fn refresh(
        &mut self,
        owner: &Owner,
        family: &Arc<FamilyState>,
        bounds: &Bounds,
        own: Option<&Arc<OwnWrites>>,
    ) -> Result<()> {
        let core = owner.core();
        core.health.check_readable(family)?;
        let snapshot = match &bounds.snapshot {
            None if self.snapshot.read_point() != core.read_point() => Snapshot::take(core),
            _ => self.snapshot.clone(),
        };
        let view = view_after_snapshot(family)?;
        if !Arc::ptr_eq(&view, &self.view) || self.lacks_sources() {
            *self = Self::of_view(owner, family, bounds, (snapshot, view), own);
            return Ok(());
        }
        self.merge.show_through(snapshot.sequence());
        self.now = snapshot.read_point().now;
        self.own_now = time_of_own(owner, self.now, own);
        self.snapshot = snapshot;
        Ok(())
    }

    /// Whether the view has more to merge, or to hide, than when it was loaded.
    fn lacks_sources(&self) -> bool {
        let active = &self.view.active;
        // Range deletions up to the snapshot were there when the view was loaded after it.
        (self.active_left_out && !active.is_empty())
            || active.range_tombstones().highest_sequence() > self.snapshot.sequence()
    }

    fn of_view(
        owner: &Owner,
        family: &Arc<FamilyState>,
        bounds: &Bounds,
        (snapshot, view): (Snapshot, Arc<View>),
        own: Option<&Arc<OwnWrites>>,
    ) -> Self {
        let core = owner.core();
        let sequence = snapshot.sequence();
        let blocks = CachedBlocks::for_scan(
            &core.storage.files.blocks,
            &core.memory.budget,
            &family.counters.hot,
        );
        let memtables = std::iter::once(&view.active).chain(&view.frozen);
        let mut deleted = RangeTombstoneSets::default();
        for memtable in memtables.clone() {
            deleted.extend(memtable.range_tombstones().as_slice().iter().cloned());
        }
        deleted.extend(view.version.range_tombstones.as_slice().iter().cloned());
        // Before the sources: it may fill meanwhile.
        let active_left_out = view.active.is_empty();
        let own_now = time_of_own(owner, snapshot.read_point().now, own);
        let own = own.map(|own| Source::Own(Box::new(OwnSource::new(Arc::clone(own)))));
        let covered = Arc::new(run_source::Bounds {
            lower: bounds.lower.clone().unwrap_or_default(),
            upper: bounds.upper.clone(),
        });
        let memtables = memtables.filter(|memtable| !memtable.is_empty()).map(|memtable| {
            let source = MemtableSource::new(memtable, sequence, Arc::clone(&covered));
            Source::Memtable(Box::new(source))
        });
        let mut sources: Vec<Source> = own.into_iter().chain(memtables).collect();
        for run in 0..view.version.runs.len() {
            let left_out = (deleted.clone(), Arc::clone(&covered));
            let source = RunSource::new(&view.version, run, sequence, blocks.clone(), left_out);
            sources.push(Source::Run(Box::new(source)));
        }
        let (sources_bytes, runs) = (sources.len() as u64 * SOURCE_BYTES, view.version.runs.len());
        let buffers = sources_bytes + runs as u64 * BLOCK_BYTES;
        Self {
            _reservation: core.memory.budget.reserve(Holder::Scans, buffers),
            now: snapshot.read_point().now,
            own_now,
            snapshot,
            view,
            merge: Merge::new(sources),
            deleted,
            active_left_out,
        }
    }

    /// The kind of the newest visible version of a key, where that is one that the user gets to
    /// see.
    #[inline]
    pub(super) fn shown(&self, source: &Source) -> Option<ValueKind> {
        let (kind, expires_at) = source.kind_and_expiry();
        let shows = !kind.is_tombstone()
            && (expires_at == NEVER_EXPIRES || !self.has_expired(source, expires_at))
            && (self.deleted.is_empty() || !self.is_range_deleted(source));
        shows.then_some(kind)
    }

    #[inline]
    fn has_expired(&self, source: &Source, expires_at: u64) -> bool {
        is_expired(expires_at, if source.is_own() { self.own_now } else { self.now })
    }

    #[cold]
    fn is_range_deleted(&self, source: &Source) -> bool {
        self.deleted.hides(source.key(), source.sequence(), self.snapshot.sequence())
    }
}
