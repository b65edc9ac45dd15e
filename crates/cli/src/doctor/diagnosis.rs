//! What is wrong with a database, or could be better: a pure function of the facts.

use tidesdb::{MemoryLevel, StallReason};

use super::{Facts, FamilyFacts};
use crate::table::{bytes, count};

/// Garbage of less than this is not worth a word.
const LEAST_GARBAGE_BYTES: u64 = 8 << 20;
/// Lookups in the cache from which its hit rate means something.
const LEAST_LOOKUPS: u64 = 1000;
/// Tables that a get searches when filters and compactions do their work.
const MANY_TABLES_PER_GET: f64 = 2.0;
/// Hits of a cache that is large enough.
const GOOD_HIT_RATE: f64 = 0.8;
/// Log that is always kept while a database is in use.
const USUAL_LOG_BYTES: u64 = 128 << 20;
/// What puts leave free on a volume: a share, and the most of it.
const SHARE_KEPT_FREE: u64 = 50;
const MOST_KEPT_FREE: u64 = 256 << 20;
const LEAST_VOLUME_WITH_RESERVE: u64 = 32 << 20;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Something fails, or will.
    Problem,
    /// It could be better.
    Advice,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// One word, in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Advice => "advice",
            Self::Note => "note",
        }
    }
}

/// Something that is worth a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// The family concerned, or none.
    pub(crate) family: Option<String>,
    /// What is so.
    pub(crate) what: String,
    /// What to do, and why that helps.
    pub(crate) advice: String,
    /// The option to change.
    pub(crate) option: Option<&'static str>,
}

/// Collects findings.
#[derive(Default)]
struct Findings {
    family: Option<String>,
    list: Vec<Finding>,
}

impl Findings {
    fn add(
        &mut self,
        severity: Severity,
        option: Option<&'static str>,
        what: String,
        advice: impl Into<String>,
    ) {
        let (family, advice) = (self.family.clone(), advice.into());
        self.list.push(Finding { severity, family, what, advice, option });
    }
}

/// All findings, the worst first.
pub(crate) fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::default();
    volume(facts, &mut findings);
    files(facts, &mut findings);
    stalls(facts, &mut findings);
    memory(facts, &mut findings);
    cache(facts, &mut findings);
    left_out(facts, &mut findings);
    log(facts, &mut findings);
    descriptors(facts, &mut findings);
    for family in &facts.families {
        findings.family = Some(family.name.clone());
        space(family, &mut findings);
        reads(family, &mut findings);
    }
    findings.list.sort_by_key(|finding| finding.severity);
    findings.list
}

/// Bytes of the volume that the database does not use for puts.
pub(crate) fn reserve_bytes(facts: &Facts) -> u64 {
    let volume = facts.volume.bytes;
    let flushes = facts.families.iter().map(|family| family.options.least_free_bytes(volume));
    let puts = match volume {
        Some(bytes) if bytes >= LEAST_VOLUME_WITH_RESERVE => {
            (bytes / SHARE_KEPT_FREE).min(MOST_KEPT_FREE)
        }
        _ => 0,
    };
    flushes.max().unwrap_or(0).max(puts)
}

fn volume(facts: &Facts, findings: &mut Findings) {
    match facts.volume.kind.as_deref() {
        Some(kind @ ("tmpfs" | "ramfs")) => findings.add(
            Severity::Problem,
            None,
            format!("the database lies on {kind}, which is memory"),
            "all of it is gone when the machine stops; put it on a disk unless that is meant",
        ),
        Some(kind @ ("overlay" | "overlayfs")) => findings.add(
            Severity::Advice,
            None,
            format!("the database lies on {kind}, the layered file system of a container"),
            "the log is written with a system call for each commit there, and the data goes with \
             the container; mount a volume for it",
        ),
        Some(kind) if kind.starts_with("nfs") || kind == "cifs" || kind.starts_with("fuse") => {
            findings.add(
                Severity::Advice,
                None,
                format!("the database lies on {kind}"),
                "whether syncs and locks hold there is up to a server; what a power cut may take \
                 is promised for local file systems only",
            );
        }
        _ => {}
    }
    let (Some(free), reserve) = (facts.volume.free_bytes, reserve_bytes(facts)) else { return };
    let (free_text, reserve_text) = (bytes(free), bytes(reserve));
    if free < reserve {
        findings.add(
            Severity::Problem,
            Some("min_disk_space"),
            format!("{free_text} are free on the volume, and {reserve_text} must stay so"),
            "puts and flushes are refused until there is room; deletions go on and free some",
        );
        return;
    }
    let largest = facts.families.iter().max_by_key(|family| family.space.bytes());
    if let Some(largest) = largest.filter(|family| family.space.bytes() > free - reserve) {
        findings.add(
            Severity::Note,
            None,
            format!(
                "{free_text} are free, less than family '{}' takes ({})",
                largest.name,
                bytes(largest.space.bytes())
            ),
            "`tidesdb compact` of it may not find room for its output beside its input; a backup \
             belongs on another volume",
        );
    }
}

fn files(facts: &Facts, findings: &mut Findings) {
    for damaged in &facts.damaged_files {
        findings.add(
            Severity::Problem,
            None,
            damaged.clone(),
            "reads that need the file fail; `tidesdb verify` lists all that is damaged, `tidesdb \
             salvage` reads what is left",
        );
    }
    let set_aside = facts.files.set_aside_files;
    if set_aside > 0 {
        findings.add(
            Severity::Note,
            None,
            match set_aside {
                1 => format!("1 file ({}) lies in set-aside/", bytes(facts.files.set_aside)),
                many => {
                    format!("{many} files ({}) lie in set-aside/", bytes(facts.files.set_aside))
                }
            },
            "they are outputs of work that a crash cut short; a later open removes them by itself",
        );
    }
    let known: u64 = facts.families.iter().map(|family| family.space.bytes()).sum();
    let on_disk = facts.files.tables + facts.files.value_logs;
    if on_disk > known + known / 4 + LEAST_GARBAGE_BYTES {
        findings.add(
            Severity::Advice,
            None,
            format!(
                "tables and value logs take {} on the disk, of which families have {}",
                bytes(on_disk),
                bytes(known)
            ),
            "the rest waits until scans and snapshots that read it are gone, or was left by a \
             crash; an open for writing removes what is not needed",
        );
    }
}

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

fn stalls(facts: &Facts, findings: &mut Findings) {
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

fn memory(facts: &Facts, findings: &mut Findings) {
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
            format!("indexes and filters of open tables take {}", bytes(memory.table_bytes)),
            "tables as B+trees keep only the root of their index in memory",
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

fn cache(facts: &Facts, findings: &mut Findings) {
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

fn left_out(facts: &Facts, findings: &mut Findings) {
    let commits = facts.database.left_out_commits;
    if commits == 0 {
        return;
    }
    findings.add(
        Severity::Advice,
        None,
        format!(
            "the opening left {} {} ({}) out of the log, behind a record that is not whole",
            count(commits),
            if commits == 1 { "commit" } else { "commits" },
            bytes(facts.database.left_out_bytes)
        ),
        "after a crash they were never acknowledged; after damage to the log they are lost: \
         `tidesdb verify` says where, and `tidesdb salvage` recovers them as far as they are whole, \
         before an open for writing starts the log anew",
    );
}

fn log(facts: &Facts, findings: &mut Findings) {
    let retained = facts.database.log_retained_bytes;
    let buffers = facts.families.iter().map(|family| family.options.write_buffer_size as u64);
    let usual = buffers.max().unwrap_or(0).saturating_mul(2).max(USUAL_LOG_BYTES);
    let oldest = facts.families.iter().max_by_key(|family| family.space.unflushed_log_bytes);
    let Some(oldest) = oldest.filter(|_| retained > usual) else { return };
    findings.add(
        Severity::Advice,
        Some("max_retained_log_bytes"),
        format!(
            "{} of log are kept, because family '{}' has commits in it that are in no table yet",
            bytes(retained),
            oldest.name
        ),
        "an open replays all of it; `tidesdb flush` ends that now, and a lower bound flushes \
         families that are rarely written earlier",
    );
}

fn descriptors(facts: &Facts, findings: &mut Findings) {
    let Some((open, most)) = facts.descriptors else { return };
    if open > most / 10 * 8 {
        findings.add(
            Severity::Problem,
            Some("max_open_files"),
            format!("{} of {} descriptors are open", count(open), count(most)),
            "when there are none left, files and sockets cannot be opened; raise `ulimit -n`, or \
             keep fewer tables open",
        );
    }
}

fn space(family: &FamilyFacts, findings: &mut Findings) {
    let space = &family.space;
    if space.damaged_tables > 0 {
        findings.add(
            Severity::Problem,
            None,
            format!("{} tables could not be read by compactions", space.damaged_tables),
            "`tidesdb verify` lists what is damaged; restore a backup of it",
        );
    }
    let garbage = space.bytes().saturating_sub(space.live_bytes());
    let allowed = family.options.max_space_amplification;
    if garbage < LEAST_GARBAGE_BYTES || space.amplification() <= allowed {
        return;
    }
    let what = format!(
        "about {} of {} are garbage: {:.1} bytes for each live one, {allowed} are allowed",
        bytes(garbage),
        bytes(space.bytes()),
        space.amplification()
    );
    let versions = space.versions.max(1);
    if space.versions_for_snapshots * 4 > versions.saturating_sub(space.live_versions) {
        let held = count(space.versions_for_snapshots);
        findings.add(
            Severity::Advice,
            None,
            format!("{what}; live snapshots keep about {held} versions of it"),
            "drop snapshots, scans and transactions that are no longer needed: compactions keep what \
             they see",
        );
    } else if space.unreferenced_value_bytes * 2 > garbage {
        findings.add(
            Severity::Advice,
            None,
            format!("{what}; {} are values of value logs", bytes(space.unreferenced_value_bytes)),
            "a value log is written anew when more than half of it is garbage; `tidesdb compact` \
             does so now",
        );
    } else if space.tombstones * 4 > versions {
        findings.add(
            Severity::Advice,
            Some("tombstone_density_trigger"),
            format!("{what}; {} of the versions are deletions", count(space.tombstones)),
            "a trigger such as 0.5 compacts tables that are mostly deletions; `tidesdb compact` \
             removes them now",
        );
    } else {
        findings.add(
            Severity::Advice,
            Some("max_space_amplification"),
            what,
            "compaction collects it while the database is open; `tidesdb compact` does so now, and a \
             lower bound keeps less of it at the price of more compaction",
        );
    }
}

fn reads(family: &FamilyFacts, findings: &mut Findings) {
    let runs: u64 = family.stats.levels.iter().map(|level| level.runs).sum();
    let trigger = family.options.l1_file_count_trigger as u64;
    if runs > trigger * 4 {
        findings.add(
            Severity::Advice,
            Some("l1_file_count_trigger"),
            format!("there are {runs} sorted runs"),
            "a seek looks into each of them; compactions make them fewer while the database is open and \
             the family is read, `tidesdb compact` does so now, and a lower trigger keeps fewer",
        );
    }
    if runs > 1 && !family.options.enable_bloom_filter {
        findings.add(
            Severity::Advice,
            Some("enable_bloom_filter"),
            format!("there are {runs} sorted runs without filters"),
            "a get reads a block of each of them; with filters, which new tables have from then \
             on, about one",
        );
    }
    let met = &family.stats.reads;
    if met.table_gets >= LEAST_LOOKUPS && met.tables_per_get() > MANY_TABLES_PER_GET {
        findings.add(
            Severity::Advice,
            Some("bloom_fpr"),
            format!("gets that found nothing in memory searched {:.1} tables each", met.tables_per_get()),
            "one is the best for keys that exist; fewer runs (`tidesdb compact`) and better filters \
             spare the others",
        );
    }
}
