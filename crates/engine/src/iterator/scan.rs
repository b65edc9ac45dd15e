//! Scans of stored keys: what is visible in the merged sources, within bounds.

mod dead_runs;

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use tidesdb_base::entry::{NEVER_EXPIRES, ValueKind, is_expired};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::event::OperationMet;
use tidesdb_base::latency::TimedOperation;
use tidesdb_base::range_tombstone::RangeTombstoneSets;

use self::dead_runs::DEAD_KEYS_IN_A_ROW;
use super::in_order::{Movement, Walk};
use super::memtable_source::MemtableSource;
use super::merge::{Direction, Merge};
use super::options::Bounds;
use super::run_source::{self, RunSource};
use super::scanned_values::ScannedValues;
use super::source::Source;
use crate::cache::CachedBlocks;
use crate::core::Owner;
use crate::counters::Hot;
use crate::family::{FamilyState, View};
use crate::flow::{Holder, Lent};
use crate::snapshot::Snapshot;
use crate::watch::Told;

/// Where a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nowhere yet: no seek since the scan was made or refreshed.
    Unpositioned,
    OnKey,
    /// Beyond the first or the last key: a seek found nothing, a step left the keys, or a call
    /// failed.
    Outside,
}

/// What a source of a scan takes, about: a block or a part of its read-ahead, and a key.
const SOURCE_BYTES: u64 = 16 << 10;

/// Walks the stored keys of a family in the order of bytes, both ways, as of one moment: what a
/// [`super::Scan`] is made of. It has its methods, and what these say holds for it.
#[derive(Debug)]
pub(crate) struct StoredScan {
    /// Keeps the directory, in which files that the scan has still to open must stay.
    owner: Arc<Owner>,
    family: Arc<FamilyState>,
    bounds: Bounds,
    /// Keeps merges from dropping what the scan has still to see.
    snapshot: Snapshot,
    view: Arc<View>,
    merge: Merge,
    /// Range deletions of the view's memtables and files.
    deleted: RangeTombstoneSets,
    _lent: Lent,
    now: u64,
    /// Seeks and steps may have to be timed.
    watched: bool,
    place: Place,
    /// The present value when it lies in a value log.
    fetched: OnceCell<Vec<u8>>,
    values: RefCell<ScannedValues>,
}

impl StoredScan {
    pub(crate) fn new(owner: Arc<Owner>, family: Arc<FamilyState>, bounds: Bounds) -> Result<Self> {
        let core = owner.core();
        core.check_readable(&family)?;
        let snapshot = match &bounds.snapshot {
            Some(snapshot) if !snapshot.belongs_to(core) => {
                return Err(Error::InvalidArgument(
                    "the snapshot is of another database".to_owned(),
                ));
            }
            Some(snapshot) => snapshot.clone(),
            None => Snapshot::take(core),
        };
        // The snapshot first: whatever view is loaded now holds all that it sees.
        let view = family.view.load_full();
        if !view.version.runs.is_empty() {
            family.reads.note();
        }
        let sequence = snapshot.sequence();
        let blocks = CachedBlocks::new(&core.files.blocks, &family.counters.hot);
        let memtables = std::iter::once(&view.active).chain(&view.frozen);
        let mut deleted = RangeTombstoneSets::default();
        for memtable in memtables.clone() {
            deleted.extend(memtable.range_tombstones().as_slice().iter().cloned());
        }
        deleted.extend(view.version.range_tombstones.as_slice().iter().cloned());
        let mut sources: Vec<Source> = memtables
            .filter(|memtable| !memtable.is_empty())
            .map(|memtable| Source::Memtable(Box::new(MemtableSource::new(memtable, sequence))))
            .collect();
        let covered = Arc::new(run_source::Bounds {
            lower: bounds.lower.clone().unwrap_or_default(),
            upper: bounds.upper.clone(),
        });
        for run in 0..view.version.runs.len() {
            let left_out = (deleted.clone(), Arc::clone(&covered));
            let source = RunSource::new(&view.version, run, sequence, blocks.clone(), left_out);
            sources.push(Source::Run(Box::new(source)));
        }
        let buffers = sources.len() as u64 * SOURCE_BYTES + ScannedValues::bytes(&view.version);
        Ok(Self {
            _lent: core.budget.lend(Holder::Scans, buffers),
            now: snapshot.moment().now,
            watched: core.watch.is_on(),
            owner,
            family,
            bounds,
            snapshot,
            view,
            merge: Merge::new(sources),
            deleted,
            place: Place::Unpositioned,
            fetched: OnceCell::new(),
            values: RefCell::default(),
        })
    }

    /// What expires by this Unix second is not shown.
    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    /// Takes up what was committed since; the scan is not positioned afterwards. A scan made with
    /// a snapshot stays at that snapshot.
    ///
    /// # Errors
    /// As [`crate::Family::scan`].
    pub(crate) fn refresh(&mut self) -> Result<()> {
        let bounds = std::mem::take(&mut self.bounds);
        *self = Self::new(Arc::clone(&self.owner), Arc::clone(&self.family), bounds)?;
        Ok(())
    }

    /// True when the scan stands on a key.
    #[inline]
    pub(crate) const fn valid(&self) -> bool {
        matches!(self.place, Place::OnKey)
    }

    /// The present key; empty when the scan is not valid.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        if self.valid() { self.merge.current().map_or(&[], Source::key) } else { &[] }
    }

    /// The present value, borrowed where it lies; empty when the scan is not valid.
    ///
    /// # Errors
    /// `Corrupt` or `Io` when the value lies in a value log and can't be read.
    #[inline]
    pub(crate) fn value(&self) -> Result<&[u8]> {
        match self.merge.current() {
            Some(source) if self.valid() => match source.kind() {
                ValueKind::ValuePointer => self.fetch(source.value()),
                _ => Ok(source.value()),
            },
            _ => Ok(&[]),
        }
    }

    /// Unix second at which the present entry expires; `None` when it never does, or the scan is not
    /// valid.
    #[must_use]
    pub(crate) fn expires_at_unix_seconds(&self) -> Option<u64> {
        let source = if self.valid() { self.merge.current() } else { None };
        source.map(Source::expires_at).filter(|&second| second != NEVER_EXPIRES)
    }

    #[cold]
    fn fetch(&self, pointer: &[u8]) -> Result<&[u8]> {
        if self.fetched.get().is_none() {
            let value = self.values.borrow_mut().fetch(&self.view.version, pointer)?;
            let _ = self.fetched.set(value);
        }
        Ok(self.fetched.get().map_or(&[], Vec::as_slice))
    }

    /// Goes to the first key at or after `key`.
    ///
    /// # Errors
    /// `Corrupt` or `Io`; the scan is not valid then.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.watched(TimedOperation::Seek, key.len(), |scan| {
            scan.begin_seek();
            let merge = &mut scan.merge;
            match &scan.bounds.lower {
                Some(lower) if lower.as_slice() > key => merge.seek(lower)?,
                _ => merge.seek(key)?,
            }
            scan.settle_forward()
        })
    }

    /// Goes to the last key at or before `key`.
    ///
    /// # Errors
    /// As [`Scan::seek`].
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        if self.bounds.upper.as_ref().is_some_and(|upper| upper.as_slice() <= key) {
            return self.seek_to_last();
        }
        self.watched(TimedOperation::Seek, key.len(), |scan| {
            scan.begin_seek();
            scan.merge.seek_for_prev(key)?;
            scan.settle_backward()
        })
    }

    /// Goes to the first key.
    ///
    /// # Errors
    /// As [`Scan::seek`].
    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        self.watched(TimedOperation::Seek, 0, |scan| {
            scan.begin_seek();
            match &scan.bounds.lower {
                Some(lower) => scan.merge.seek(lower)?,
                None => scan.merge.seek_to_first()?,
            }
            scan.settle_forward()
        })
    }

    /// Goes to the last key.
    ///
    /// # Errors
    /// As [`Scan::seek`].
    pub(crate) fn seek_to_last(&mut self) -> Result<()> {
        self.watched(TimedOperation::Seek, 0, |scan| {
            scan.begin_seek();
            match &scan.bounds.upper {
                Some(upper) => {
                    let merge = &mut scan.merge;
                    merge.seek_for_prev(upper)?;
                    if merge.current().is_some_and(|source| source.key() == upper.as_slice()) {
                        merge.prev()?;
                    }
                }
                None => scan.merge.seek_to_last()?,
            }
            scan.settle_backward()
        })
    }

    /// Goes to the next key. On a scan that is not valid it does nothing.
    ///
    /// # Errors
    /// As [`Scan::seek`].
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        self.watched(TimedOperation::Step, 0, |scan| {
            scan.begin();
            scan.merge.next()?;
            scan.settle_forward()
        })
    }

    /// Goes to the key before. On a scan that is not valid it does nothing.
    ///
    /// # Errors
    /// As [`Scan::seek`].
    pub(crate) fn prev(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        self.watched(TimedOperation::Step, 0, |scan| {
            scan.begin();
            scan.merge.prev()?;
            scan.settle_backward()
        })
    }

    /// Does `work`, timed when that is asked for.
    #[inline]
    fn watched(
        &mut self,
        operation: TimedOperation,
        key_bytes: usize,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if self.watched && self.owner.core().watch.is_due() {
            self.timed(operation, key_bytes, work)
        } else {
            work(self)
        }
    }

    #[inline(never)]
    fn timed(
        &mut self,
        operation: TimedOperation,
        key_bytes: usize,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let before = self.family.counters.hot.my_blocks();
        let started = self.owner.core().start_timing();
        let result = work(self);
        let family = Some(self.family.as_ref());
        let told = Told { operation, family, bytes: key_bytes as u64, operations: 1 };
        self.owner.core().end_timing(started, told, || self.met(before));
        result
    }

    /// What the scan has met since its thread had counted as many blocks in the cache and read.
    fn met(&self, [cached, read]: [u64; 2]) -> OperationMet {
        let after = self.family.counters.hot.my_blocks();
        let mut met = OperationMet::default();
        met.memtables_searched = 1 + self.view.frozen.len() as u64;
        met.tables_searched = self.view.version.runs.len() as u64;
        met.blocks_cached = after[0].saturating_sub(cached);
        met.blocks_read = after[1].saturating_sub(read);
        met
    }

    #[inline]
    fn begin_seek(&mut self) {
        self.family.counters.hot.add(Hot::Seeks, 1);
        self.begin();
    }

    #[inline]
    fn begin(&mut self) {
        self.place = Place::Outside;
        if let Some(value) = self.fetched.take() {
            self.values.get_mut().reuse(value);
        }
    }

    /// Whether the newest visible version of a key is one that the user gets to see.
    #[inline]
    fn shows(&self, source: &Source) -> bool {
        !source.kind().is_tombstone()
            && !is_expired(source.expires_at(), self.now)
            && (self.deleted.is_empty() || !self.is_range_deleted(source))
    }

    #[cold]
    fn is_range_deleted(&self, source: &Source) -> bool {
        self.deleted.hides(source.key(), source.sequence(), self.snapshot.sequence())
    }

    #[inline]
    fn settle_forward(&mut self) -> Result<()> {
        let mut dead = 0;
        while let Some(source) = self.merge.current() {
            if self.bounds.upper.as_ref().is_some_and(|upper| source.key() >= upper.as_slice()) {
                return Ok(());
            }
            if self.shows(source) {
                self.place = Place::OnKey;
                return Ok(());
            }
            if dead == DEAD_KEYS_IN_A_ROW {
                return self.pass_dead_run(Direction::Forward);
            }
            dead += 1;
            self.merge.next()?;
        }
        Ok(())
    }

    fn settle_backward(&mut self) -> Result<()> {
        let mut dead = 0;
        while let Some(source) = self.merge.current() {
            if self.bounds.lower.as_ref().is_some_and(|lower| source.key() < lower.as_slice()) {
                return Ok(());
            }
            if self.shows(source) {
                self.place = Place::OnKey;
                return Ok(());
            }
            if dead == DEAD_KEYS_IN_A_ROW {
                return self.pass_dead_run(Direction::Backward);
            }
            dead += 1;
            self.merge.prev()?;
        }
        Ok(())
    }
}

impl Walk for StoredScan {
    fn is_unpositioned(&self) -> bool {
        self.place == Place::Unpositioned
    }

    fn moves_with_commits(&self) -> bool {
        false
    }

    #[inline]
    fn valid(&self) -> bool {
        Self::valid(self)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        Self::key(self)
    }

    #[inline]
    fn value(&self) -> Result<&[u8]> {
        Self::value(self)
    }

    #[inline]
    fn go(&mut self, movement: Movement<'_>) -> Result<()> {
        match movement {
            Movement::Next => self.next(),
            Movement::Prev => self.prev(),
            Movement::To(key) => self.seek(key),
            Movement::ToOrBefore(key) => self.seek_for_prev(key),
            Movement::First => self.seek_to_first(),
            Movement::Last => self.seek_to_last(),
        }
    }

    fn lend(&self, bytes: u64) -> Lent {
        self.owner.core().budget.lend(Holder::Scans, bytes)
    }
}
