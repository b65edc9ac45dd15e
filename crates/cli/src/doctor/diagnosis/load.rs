//! What the program asks for: stalls, memory, the cache.

use tidesdb::{MemoryLevel, StallReason};

use super::super::Facts;
use super::{Findings, LEAST_LOOKUPS, Severity};
use crate::table::{bytes, count};

/// Hits of a cache that is large enough.
const GOOD_HIT_RATE: f64 = 0.8;

/// What each reason means, and what to do.
fn stall_advice(reason: StallReason) -> (&'static str, &'static str) {
    match reason {
        StallReason::MemtableBytes => (
            "write_buffer_size",
            "flushes write more slowly than the program does; a larger write buffer takes longer \
             bursts, a steady stream needs a faster disk or more flush_threads",
        ),
        StallReason::FlushQueue => (
            "write_buffer_size",
            "many small memtables wait for their flush; a larger write buffer makes fewer of them",
        ),
        StallReason::CompactionDebt => (
            "compaction_threads",
            "compaction is behind and there are many runs; more threads compact faster, and a higher \
             l1_file_count_trigger compacts less at the cost of reads",
        ),
        StallReason::MemoryBudget => (
            "max_memory_usage",
            "memory is near its budget and writers wait for flushes to free some; raise the \
             budget, or lower write_buffer_size and block_cache_bytes",
        ),
        StallReason::SpaceAmplification => (
            "max_space_amplification",
            "keys are overwritten faster than compaction collects the garbage; allow more of it, or \
             raise compaction_threads",
        ),
        _ => ("stall_timeout_ms", "the documentation of StallReason says what it means"),
    }
}

pub(super) fn stalls(facts: &Facts, findings: &mut Findings) {
    for stall in facts.stalls.iter().filter(|stall| stall.count > 0) {
        let (option, advice) = stall_advice(stall.reason);
        findings.add(
            Severity::Advice,
            Some(option),
            format!(
                "writers were held up {} times by {} since the open, {} ms in all and {} ms at \
                 most",
                count(stall.count),
                stall.reason.name(),
                count(stall.nanos / 1_000_000),
                count(stall.longest_nanos / 1_000_000)
            ),
            advice,
        );
    }
}

/// Of those who have used the database before, as far as the file `LOG` has it.
pub(super) fn told_stalls(facts: &Facts, findings: &mut Findings) {
    for held_up in facts.event_log.iter().flat_map(|log| &log.held_up) {
        let (option, advice) = stall_advice(held_up.reason);
        let mut told = Vec::new();
        if held_up.waited > 0 {
            told.push(format!(
                "{} waits, {} ms in all and {} ms at most",
                count(held_up.waited),
                count(held_up.milliseconds),
                count(held_up.longest_milliseconds)
            ));
        }
        if held_up.slowed > 0 {
            told.push(format!("{} times that writers were slowed", count(held_up.slowed)));
        }
        findings.add(
            Severity::Advice,
            Some(option),
            format!(
                "the file LOG tells of writers that were held up by {}: {}; the last was of '{}' \
                 at {}, and it has at most one line of each kind in ten seconds",
                held_up.reason.name(),
                told.join(", and "),
                held_up.family,
                held_up.last
            ),
            advice,
        );
    }
}

pub(super) fn memory(facts: &Facts, findings: &mut Findings) {
    let memory = &facts.database.memory;
    if !matches!(memory.level, MemoryLevel::Normal) {
        findings.add(
            Severity::Advice,
            Some("max_memory_usage"),
            format!(
                "{} of the memory budget of {} are in use ({})",
                bytes(memory.used_bytes),
                bytes(memory.budget_bytes),
                memory.level.name()
            ),
            "near the budget memtables are written out early and writers are slowed; raise it, or \
             lower write_buffer_size and block_cache_bytes",
        );
    }
    if memory.table_bytes > memory.budget_bytes / 4 {
        findings.add(
            Severity::Advice,
            Some("use_btree"),
            format!("indexes, filters and records of tables take {}", bytes(memory.table_bytes)),
            "tables as B+trees keep only the root of their index in memory, and larger tables make \
             for fewer records",
        );
    }
    if let Some(resident) = facts.resident_bytes
        && resident > memory.budget_bytes
    {
        findings.add(
            Severity::Advice,
            Some("max_memory_usage"),
            format!(
                "the process takes {} of memory, more than the budget of {}",
                bytes(resident),
                bytes(memory.budget_bytes)
            ),
            "what the program itself and the allocator take is not in the budget; lower it by as \
             much",
        );
    }
}

pub(super) fn cache(facts: &Facts, findings: &mut Findings) {
    let database = &facts.database;
    let lookups = database.cache.hits + database.cache.misses;
    if database.cache.capacity_bytes == 0 {
        findings.add(
            Severity::Note,
            Some("block_cache_bytes"),
            "there is no block cache".to_owned(),
            "each read decodes its block anew; some megabytes keep the blocks that are read often",
        );
        return;
    }
    let rate = database.cache.hits as f64 / lookups.max(1) as f64;
    let is_full = database.cache.used_bytes > database.cache.capacity_bytes / 10 * 9;
    if lookups >= LEAST_LOOKUPS && rate < GOOD_HIT_RATE && is_full {
        findings.add(
            Severity::Advice,
            Some("block_cache_bytes"),
            format!(
                "{:.0} % of the blocks that were asked for were in the cache, which is full",
                rate * 100.0
            ),
            "a larger cache reads less from the disk, if the program reads the same keys again",
        );
    }
}
