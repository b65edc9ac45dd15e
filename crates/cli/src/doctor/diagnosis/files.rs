//! What lies on the volume: its space, the files of the directory, the log.

use super::super::Facts;
use super::{Findings, LEAST_GARBAGE_BYTES, Severity};
use crate::table::{bytes, count};

/// Log that is always kept while a database is in use.
const USUAL_LOG_BYTES: u64 = 128 << 20;
/// What puts leave free on a volume: a share, and the most of it.
const SHARE_KEPT_FREE: u64 = 50;
const MOST_KEPT_FREE: u64 = 256 << 20;
const LEAST_VOLUME_WITH_RESERVE: u64 = 32 << 20;

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

pub(super) fn volume(facts: &Facts, findings: &mut Findings) {
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
            "`tidesdb compact` of it may not find room for its output next to its input; a backup \
             belongs on another volume",
        );
    }
}

pub(super) fn files(facts: &Facts, findings: &mut Findings) {
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

pub(super) fn left_out(facts: &Facts, findings: &mut Findings) {
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
        "after a crash they were never acknowledged; after damage to the log they are lost, and \
         `tidesdb salvage` leaves them out as well: `tidesdb verify` says where they are, and \
         `tidesdb inspect --keys` shows them, until an open for writing starts the log anew",
    );
}

pub(super) fn log(facts: &Facts, findings: &mut Findings) {
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

pub(super) fn descriptors(facts: &Facts, findings: &mut Findings) {
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
