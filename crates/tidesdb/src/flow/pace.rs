//! How fast a family may be written, decided from a few numbers.
//!
//! While a memtable is being flushed, the room left for writes must last until its memory comes
//! back: the rate is that room divided by the time that the flush still takes at the measured rate.
//! So writers go at full speed while there is plenty of room, and are at the rate of the flush when
//! there is none, without a jump. A burst does not fill a memtable again and again: the first time,
//! writers go at full speed until little of the room is left, if the flush is short. They wait only
//! when the room is used up, and only for a flush that is under way. Compactions never make them
//! wait: the more runs there are, of level 1 or in all, and the more garbage the tables hold of
//! what `max_space_amplification` allows, the slower they go, down to a fiftieth of the rate of
//! flushes.

use tidesdb_base::event::{MemoryLevel, StallReason};

use super::run_bounds::RunBounds;

/// Rate of flushes that is assumed until one was measured.
const ASSUMED_FLUSH_BYTES_PER_SECOND: u64 = 64 << 20;

/// Memtables of a family may take this much in any case: small ones cost nothing worth a wait.
const SMALL_BYTES: u64 = 16 << 20;

/// Writers that were not paced before are not paced until one part in so many is left of the room.
const BURST_PART: u64 = 8;
/// They are paced before that if what is left of the flush takes longer than this: for so long they
/// would be slow.
const LONGEST_BURST_DEBT_NANOS: u64 = 400_000_000;

/// Runs of level 1, as multiples of the trigger of compactions, between which writers are slowed
/// more and more.
const SLOWING_RUNS_PER_TRIGGER: u64 = 2;
const SLOWEST_RUNS_PER_TRIGGER: u64 = 9;

/// Parts of the write buffer that garbage may take in any case before writers are slowed, and
/// before they are slowest: they cost a small family little.
const SLOWING_GARBAGE_PART: u64 = 8;
const SLOWEST_GARBAGE_PART: u64 = 2;

/// Writers are never held to less than the rate of flushes divided by this.
const MOST_SLOWDOWN: u64 = 50;

/// The numbers of a family that decide how fast it may be written.
// More than a dozen fields: all that the rules of flow control ask, as plain numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FamilySignals {
    /// `write_buffer_size` in bytes.
    pub write_buffer_bytes: u64,
    /// Bytes at which the active memtable is frozen.
    pub freeze_bytes: u64,
    /// `l0_queue_stall_threshold`.
    pub queue_limit: u64,
    /// `l1_file_count_trigger`.
    pub compaction_trigger: u64,
    /// Bytes in the active memtable.
    pub active_bytes: u64,
    /// Memtables waiting for a flush, the one being flushed included.
    pub frozen: u64,
    /// Bytes in all of them.
    pub frozen_bytes: u64,
    /// Bytes in the oldest of them.
    pub oldest_frozen_bytes: u64,
    /// How many of those are written already.
    pub flushed_bytes: u64,
    /// Writers had to make room last for a flush, and go on as fast.
    pub paced: bool,
    /// Runs of level 1.
    pub young_runs: u64,
    /// Runs in all levels.
    pub runs: u64,
    /// Of these, those that were there when the family began to be read: it had higher bounds
    /// before.
    pub runs_before_reads: u64,
    /// Bytes of all runs without the values in value logs: how large compactions are.
    pub run_bytes: u64,
    /// The family is read, so that each run costs, and not deleted in bulk.
    pub favours_readers: bool,
    /// Bytes of the tables that count for the bound on space.
    pub table_bytes: u64,
    /// How many of these are no growth.
    pub settled_table_bytes: u64,
    /// How many of these there are when garbage begins to be collected.
    pub collected_table_bytes: u64,
    /// How many of these the bound allows.
    pub allowed_table_bytes: u64,
    /// Measured rate of flushes in bytes of memtable a second; 0 when none was measured.
    pub flush_bytes_per_second: u64,
}

/// How fast writers may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As fast as they can.
    Free,
    /// At this rate, in bytes of memtable a second.
    Slow { bytes_per_second: u64, reason: StallReason },
    /// Not before a flush has made room.
    Wait(StallReason),
}

/// Whether writers of a family have to ask at all, as long as its view stays as it is: true
/// whenever [`family_pace`] may say anything but [`Pace::Free`].
pub(crate) fn is_held(signals: &FamilySignals) -> bool {
    signals.frozen > 0
        || compaction_pace(signals) != Pace::Free
        || space_pace(signals) != Pace::Free
}

/// Whether garbage slows writers.
pub(crate) fn is_slowed_by_garbage(signals: &FamilySignals) -> bool {
    space_pace(signals) != Pace::Free
}

/// Whether there are so many runs that writers are slowed, or would be had the family always been
/// read.
pub(crate) fn has_many_runs(signals: &FamilySignals) -> bool {
    compaction_pace(&FamilySignals { runs_before_reads: 0, ..*signals }) != Pace::Free
}

/// Bytes that the memtables of a family may take together.
const fn memtable_limit(write_buffer_bytes: u64, queue_limit: u64) -> u64 {
    let queued = write_buffer_bytes.saturating_mul(queue_limit);
    let small = if queued < SMALL_BYTES { queued } else { SMALL_BYTES };
    if write_buffer_bytes > small { write_buffer_bytes } else { small }
}

fn flush_rate(measured: u64) -> u64 {
    if measured == 0 { ASSUMED_FLUSH_BYTES_PER_SECOND } else { measured.max(MOST_SLOWDOWN) }
}

/// How many threads a flush of `bytes` of memtable should have so that flushes are a fifth faster
/// than writers, who took `fill_nanos` to fill it; at least one, at most `most`.
pub(crate) fn flush_parts(
    bytes: u64,
    fill_nanos: u64,
    thread_bytes_per_second: u64,
    most: u64,
) -> u64 {
    let rate = u128::from(flush_rate(thread_bytes_per_second));
    let one_thread_nanos = u128::from(bytes) * 1_000_000_000 / rate;
    let wanted = (one_thread_nanos * 6 / 5).div_ceil(u128::from(fill_nanos.max(1)));
    u64::try_from(wanted).unwrap_or(u64::MAX).min(most).max(1)
}

fn at_rate(bytes: u64, per: u64, of: u64) -> u64 {
    let product = u128::from(bytes) * u128::from(per) / u128::from(of.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// How fast a family may be written.
pub(crate) fn family_pace(signals: &FamilySignals) -> Pace {
    let merges = slower(compaction_pace(signals), space_pace(signals));
    slower(memtable_pace(signals), merges)
}

fn slower(first: Pace, second: Pace) -> Pace {
    match (first, second) {
        (Pace::Free, other) | (other, Pace::Free) => other,
        (wait @ Pace::Wait(_), _) | (_, wait @ Pace::Wait(_)) => wait,
        (Pace::Slow { bytes_per_second: a, .. }, Pace::Slow { bytes_per_second: b, .. }) => {
            if a <= b { first } else { second }
        }
    }
}

fn memtable_pace(signals: &FamilySignals) -> Pace {
    if signals.frozen == 0 {
        return Pace::Free;
    }
    let limit = memtable_limit(signals.write_buffer_bytes, signals.queue_limit);
    let mut all = limit.saturating_sub(signals.frozen_bytes);
    let mut room = all.saturating_sub(signals.active_bytes);
    let mut reason = StallReason::MemtableBytes;
    if signals.frozen + 1 >= signals.queue_limit {
        // Freezing one more would fill the queue, so the active memtable has to last.
        let in_active = match signals.frozen < signals.queue_limit {
            true => signals.freeze_bytes.saturating_sub(signals.active_bytes),
            false => 0,
        };
        if in_active < room {
            (all, room, reason) = (signals.freeze_bytes, in_active, StallReason::FlushQueue);
        }
    }
    if room == 0 {
        return Pace::Wait(reason);
    }
    let rate = flush_rate(signals.flush_bytes_per_second);
    let left = signals.oldest_frozen_bytes.saturating_sub(signals.flushed_bytes);
    let is_short = at_rate(left, 1_000_000_000, rate) <= LONGEST_BURST_DEBT_NANOS;
    if !signals.paced && is_short && room > all / BURST_PART {
        return Pace::Free;
    }
    let bytes_per_second = at_rate(room, rate, left).max(rate / MOST_SLOWDOWN);
    Pace::Slow { bytes_per_second, reason }
}

fn compaction_pace(signals: &FamilySignals) -> Pace {
    let (trigger, reason) = (signals.compaction_trigger, StallReason::CompactionDebt);
    let from = trigger * SLOWING_RUNS_PER_TRIGGER;
    let to = trigger * SLOWEST_RUNS_PER_TRIGGER;
    let by_young_runs = pace_between(signals, signals.young_runs, from, to, reason);
    let mut bounds = RunBounds::of(signals.run_bytes, signals.favours_readers, trigger);
    if signals.favours_readers {
        bounds = bounds.on_top_of(signals.runs_before_reads);
    }
    let (from, to) = (bounds.slowing, bounds.slowest);
    slower(by_young_runs, pace_between(signals, signals.runs, from, to, reason))
}

/// Free up to `from`, at the rate of flushes half way to `to`, and slowest from there on.
fn pace_between(
    signals: &FamilySignals,
    debt: u64,
    from: u64,
    to: u64,
    reason: StallReason,
) -> Pace {
    if debt <= from {
        return Pace::Free;
    }
    let rate = flush_rate(signals.flush_bytes_per_second);
    let bytes_per_second = at_rate(rate, to.saturating_sub(debt), debt - from);
    Pace::Slow { bytes_per_second: bytes_per_second.max(rate / MOST_SLOWDOWN), reason }
}

fn space_pace(signals: &FamilySignals) -> Pace {
    let settled = signals.settled_table_bytes;
    let garbage = signals.table_bytes.saturating_sub(settled);
    let allowed = signals.allowed_table_bytes.saturating_sub(settled);
    let collected = signals.collected_table_bytes.saturating_sub(settled);
    let from = collected.max(signals.write_buffer_bytes / SLOWING_GARBAGE_PART);
    let to = allowed.max(signals.write_buffer_bytes / SLOWEST_GARBAGE_PART);
    pace_between(signals, garbage, from, to, StallReason::SpaceAmplification)
}

/// How fast the whole database may be written at a level of memory use. `room_bytes` is what is
/// left before writers have to wait, `flushing_bytes` what flushes that are under way will free.
pub(crate) fn memory_pace(
    level: MemoryLevel,
    room_bytes: u64,
    flushing_bytes: u64,
    flush_bytes_per_second: u64,
) -> Pace {
    let rate = flush_rate(flush_bytes_per_second);
    let reason = StallReason::MemoryBudget;
    match level {
        MemoryLevel::Normal | MemoryLevel::Elevated => Pace::Free,
        MemoryLevel::Critical if flushing_bytes > 0 => Pace::Wait(reason),
        // Waiting would not help: what holds the memory is not freed by any flush.
        MemoryLevel::Critical => Pace::Slow { bytes_per_second: rate / MOST_SLOWDOWN, reason },
        MemoryLevel::High => {
            let bytes_per_second =
                at_rate(room_bytes, rate, flushing_bytes).max(rate / MOST_SLOWDOWN);
            Pace::Slow { bytes_per_second, reason }
        }
    }
}

#[cfg(test)]
mod tests;
