//! Letting writers in only as fast as memory and the background work allow.
//!
//! Each commit asks before it reserves anything. Usually the answer is two loads. While a flush
//! is under way, or compactions or memory are short, bytes are handed out at a rate that `flow`
//! decides, and when there is no room at all a writer waits for a flush. Every wait has a reason,
//! is counted, and ends: by progress, by the failure of what it waits for, or by the deadline of
//! a disk that does not respond.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::event::{Event, MemoryLevel, StallReason};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sync_points::sync_point;

use crate::core::Core;
use crate::family::FamilyState;
use crate::flow::{ENTRY_OVERHEAD_BYTES, Pace, Pacer, StallTimer, family_pace, memory_pace};
use crate::memory::Holder;
use crate::telemetry::latency_recorder::note_stall;
use crate::telemetry::spans::{EnteredSpan, span};

/// Waits shorter than this are not worth an event.
const REPORTED_WAIT_NANOS: u64 = 10_000_000;

/// After a look for a compaction slowed writers go on for this many times as long as it took, and
/// for this time at most.
const LOOK_PAUSE: u64 = 2;
const LONGEST_LOOK_PAUSE_NANOS: u64 = 1_000_000_000;

/// A writer that has to wait, while it waits.
struct WriterStall<'a> {
    core: &'a Core,
    family: &'a Arc<FamilyState>,
    started_nanos: u64,
    reason: Option<StallReason>,
    stall_timer: StallTimer,
    failures: u32,
    /// Is refused instead.
    no_wait: bool,
    /// From the first moment of waiting on.
    span: Option<EnteredSpan>,
}

/// What admission asks of a commit, and what it has taken from pacers on its way in. A commit that
/// is not to wait may be tried again and again, which must not add up for those who wait: unless it
/// is let in, all goes back.
#[derive(Debug)]
pub(crate) struct Admission<'a> {
    /// It deletes only, and is let in while the disk has no space for others.
    deletes: bool,
    /// It is refused where it would have to wait.
    no_wait: bool,
    taken: Vec<(&'a Pacer, u64)>,
}

impl<'a> Admission<'a> {
    #[inline]
    pub(crate) const fn new(deletes: bool, no_wait: bool) -> Self {
        Self { deletes, no_wait, taken: Vec::new() }
    }

    /// As [`Pacer::take`].
    fn take(&mut self, pacer: &'a Pacer, bytes: u64) -> bool {
        if self.no_wait {
            self.taken.push((pacer, bytes));
        }
        pacer.take(bytes)
    }

    /// The commit is let in by all.
    #[inline]
    pub(crate) fn pass(mut self) {
        self.taken.clear();
    }
}

impl Drop for Admission<'_> {
    #[inline]
    fn drop(&mut self) {
        for (pacer, bytes) in &self.taken {
            pacer.give_back(*bytes);
        }
    }
}

impl Core {
    /// A wait for flushes that begins now.
    pub(crate) fn stall_timer_with_flushes(&self) -> StallTimer {
        let (limit, now) = (self.env.options.stall_timeout_ms, self.env.clock.monotonic_nanos());
        StallTimer::new(limit, self.flow.flushes.progress(), now)
    }

    /// Returns once the family has room for another commit of `bytes` in `operations`.
    ///
    /// # Errors
    /// Why the flush that would make room fails, such as a full disk; `Stalled` when it
    /// gets nowhere, or there is to be no wait. The commit had no effect and may be repeated.
    #[inline]
    pub(crate) fn admit<'a>(
        &'a self,
        family: &'a Arc<FamilyState>,
        (bytes, operations): (u64, u64),
        admission: &mut Admission<'a>,
    ) -> Result<()> {
        let bytes = bytes + operations * ENTRY_OVERHEAD_BYTES;
        let flow = &family.writes.flow;
        // ORDERING: acquire pairs with the release where the view is changed.
        if flow.held.load(Ordering::Acquire) && !admission.take(&flow.pacer, bytes) {
            self.wait_for_family(family, admission.no_wait)?;
        }
        if self.memory.budget.is_due(bytes) {
            self.review_memory();
        }
        // ORDERING: relaxed; a hint that the next review renews.
        if self.flow.held.load(Ordering::Relaxed) {
            self.pass_hold(family, bytes, admission)?;
        }
        Ok(())
    }

    #[cold]
    fn wait_for_family(&self, family: &Arc<FamilyState>, no_wait: bool) -> Result<()> {
        let mut wait = WriterStall::new(self, family, no_wait);
        loop {
            let rate = self.flow.flushes.bytes_per_second(wait.now());
            let signals = family.signals(rate, || self.isolation.snapshots.list());
            match family_pace(&signals) {
                Pace::Free => {
                    // Asked again when so much more is written: it may cost as much as many
                    // commits.
                    let now = wait.now();
                    family.writes.flow.pacer.refill(u64::MAX, signals.write_buffer_bytes, now);
                    break;
                }
                Pace::Slow { bytes_per_second, reason } => {
                    note_pacing(family, reason);
                    let for_compactions =
                        [StallReason::CompactionDebt, StallReason::SpaceAmplification];
                    // On a full disk each try would fail: until there is space, each flush asks.
                    if for_compactions.contains(&reason)
                        && !family.compactions.have_jobs()
                        && !self.work.jobs.await_space()
                    {
                        self.look_for_compaction(family);
                    }
                    let pacer = &family.writes.flow.pacer;
                    wait.refuse_if_due(pacer, reason)?;
                    let scale = signals.write_buffer_bytes;
                    let nanos = pacer.refill(bytes_per_second, scale, wait.now());
                    wait.slow_down(nanos, bytes_per_second, reason)?;
                    break;
                }
                Pace::Wait(reason) => {
                    note_pacing(family, reason);
                    wait.for_flush(reason)?;
                }
            }
        }
        Ok(())
    }

    /// Has a slowed writer look whether a compaction can begin. Whatever ends one looks as well, so
    /// this is for what has changed since, and need not be often: of a large family that snapshots
    /// keep it takes long.
    fn look_for_compaction(&self, family: &Arc<FamilyState>) {
        let next = &family.writes.flow.next_look_nanos;
        let begun = self.env.clock.monotonic_nanos();
        // ORDERING: relaxed here and below; the word orders nothing. One of several writers looks.
        let (due, later) = (next.load(Ordering::Relaxed), begun + LONGEST_LOOK_PAUSE_NANOS);
        let (stored, missed) = (Ordering::Relaxed, Ordering::Relaxed);
        if begun < due || next.compare_exchange(due, later, stored, missed).is_err() {
            return;
        }
        self.schedule_compaction(family);
        let ended = self.env.clock.monotonic_nanos();
        let pause = ended.saturating_sub(begun).saturating_mul(LOOK_PAUSE);
        next.store(ended + pause.min(LONGEST_LOOK_PAUSE_NANOS), Ordering::Relaxed);
    }

    /// Passes what holds up the writers of all families.
    #[cold]
    fn pass_hold<'a>(
        &'a self,
        family: &Arc<FamilyState>,
        bytes: u64,
        admission: &mut Admission<'a>,
    ) -> Result<()> {
        if self.flow.disk.is_short() && !admission.deletes {
            self.check_disk()?;
        }
        if admission.take(&self.flow.pacer, bytes) {
            return Ok(());
        }
        self.wait_for_memory(family, admission.no_wait)
    }

    fn wait_for_memory(&self, family: &Arc<FamilyState>, no_wait: bool) -> Result<()> {
        let mut wait = WriterStall::new(self, family, no_wait);
        loop {
            let plan = self.review_memory();
            let frozen_bytes = || self.memory.budget.held_by(Holder::Frozen);
            let mut flushing = frozen_bytes();
            if flushing == 0 && plan.level == MemoryLevel::Critical && !no_wait {
                // Another thread may be choosing what to freeze.
                drop(lock(&self.flow.choosing_memtables));
                flushing = frozen_bytes();
            }
            let rate = self.flow.flushes.bytes_per_second(wait.now());
            match memory_pace(plan.level, plan.room_bytes, flushing, rate) {
                Pace::Free => break,
                Pace::Slow { bytes_per_second, reason } => {
                    wait.refuse_if_due(&self.flow.pacer, reason)?;
                    let scale = self.memory.budget.bytes() / 64;
                    let nanos = self.flow.pacer.refill(bytes_per_second, scale, wait.now());
                    wait.slow_down(nanos, bytes_per_second, reason)?;
                    break;
                }
                Pace::Wait(reason) => wait.for_flush(reason)?,
            }
        }
        Ok(())
    }
}

/// Notes that writers have to make room last for a flush.
fn note_pacing(family: &FamilyState, reason: StallReason) {
    if [StallReason::MemtableBytes, StallReason::FlushQueue].contains(&reason) {
        // ORDERING: relaxed; an estimate.
        family.writes.flow.paced.store(true, Ordering::Relaxed);
    }
}

const fn refused(reason: StallReason) -> Error {
    Error::Stalled { reason, milliseconds: 0 }
}

impl<'a> WriterStall<'a> {
    fn new(core: &'a Core, family: &'a Arc<FamilyState>, no_wait: bool) -> Self {
        Self {
            core,
            family,
            started_nanos: core.env.clock.monotonic_nanos(),
            reason: None,
            stall_timer: core.stall_timer_with_flushes(),
            failures: 0,
            no_wait,
            span: None,
        }
    }

    /// Refuses a writer that is not to wait where the next lump is not due yet. The lump stays with
    /// those who wait for it.
    fn refuse_if_due(&self, pacer: &Pacer, reason: StallReason) -> Result<()> {
        if self.no_wait && pacer.has_wait(self.now()) { Err(refused(reason)) } else { Ok(()) }
    }

    fn now(&self) -> u64 {
        self.core.env.clock.monotonic_nanos()
    }

    /// Notes why the writer does not go on.
    fn held_up(&mut self, reason: StallReason) {
        self.reason = Some(reason);
        let name = || self.family.name();
        self.span.get_or_insert_with(|| span!(DEBUG, "stall", family = name(), reason = reason));
    }

    /// Sleeps for `nanos`, or does background work if no other thread does it.
    fn slow_down(&mut self, nanos: u64, bytes_per_second: u64, reason: StallReason) -> Result<()> {
        // Another writer may have taken the lump that was due.
        if nanos == 0 || self.no_wait {
            return Ok(());
        }
        self.core.check_writable(self.family)?;
        self.held_up(reason);
        if self.core.flow.stalls.should_report_slowing(reason, self.now()) {
            let family = self.family.name().to_string();
            self.core.telemetry.events.report(&Event::WritesSlowed {
                family,
                reason,
                bytes_per_second,
            });
        }
        if !self.core.env.scheduler.run_one_job() {
            self.core.env.clock.sleep(Duration::from_nanos(nanos));
        }
        Ok(())
    }

    /// Waits until some background work has got somewhere.
    fn for_flush(&mut self, reason: StallReason) -> Result<()> {
        self.core.check_writable(self.family)?;
        if self.no_wait {
            self.core.schedule_flush(self.family);
            return Err(refused(reason));
        }
        self.held_up(reason);
        let seen = self.core.work.progress.now();
        self.take_failure()?;
        self.stall_timer.check(self.core.flow.flushes.progress(), self.now(), reason)?;
        self.core.schedule_flush(self.family);
        if !self.core.env.scheduler.run_one_job() {
            self.core.work.progress.wait(seen);
        }
        Ok(())
    }

    /// Tries a failed flush again once, and gives the second failure to the caller. A writer who
    /// waits for memory looks at all families, if a flush has failed since one looked last.
    fn take_failure(&mut self) -> Result<()> {
        let flush_failed = &self.core.flow.flush_failed;
        // ORDERING: SeqCst here and below; set once the failure is kept, before it is told that a
        // job has ended: a writer who finds nothing is woken by that. The load first, because
        // others read the word.
        let waits_for_all = self.reason == Some(StallReason::MemoryBudget);
        let looks_at_all = waits_for_all
            && flush_failed.load(Ordering::SeqCst)
            && flush_failed.swap(false, Ordering::SeqCst);
        let mut families = if looks_at_all { self.core.families.all() } else { Vec::new() };
        if looks_at_all {
            sync_point("failures looked through");
        }
        families.push(Arc::clone(self.family));
        for family in families {
            if waits_for_all && family.view.load().frozen.is_empty() {
                continue;
            }
            let Some(cause) = family.flushes.failure.take() else { continue };
            self.failures += 1;
            if self.failures > 1 {
                family.flushes.failure.keep(cause.clone());
                flush_failed.store(true, Ordering::SeqCst);
                return Err(cause);
            }
            self.core.schedule_flush(&family);
        }
        Ok(())
    }
}

impl Drop for WriterStall<'_> {
    fn drop(&mut self) {
        let Some(reason) = self.reason else { return };
        let now = self.now();
        let nanos = now.saturating_sub(self.started_nanos);
        self.core.flow.stalls.count(reason, nanos);
        note_stall(reason, nanos);
        if nanos >= REPORTED_WAIT_NANOS && self.core.flow.stalls.should_report_wait(reason, now) {
            let (family, milliseconds) = (self.family.name().to_string(), nanos / 1_000_000);
            self.core.telemetry.events.report(&Event::WriterWaited {
                family,
                reason,
                milliseconds,
            });
        }
    }
}

#[cfg(test)]
mod tests;
