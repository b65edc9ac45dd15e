//! Single families: garbage, and tables that a read has to search.

use super::super::FamilyFacts;
use super::{Findings, LEAST_GARBAGE_BYTES, LEAST_LOOKUPS, Severity};
use crate::table::{bytes, count};

/// Tables that a get searches when filters and compactions do their work.
const MANY_TABLES_PER_GET: f64 = 2.0;

pub(super) fn space(family: &FamilyFacts, findings: &mut Findings) {
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

pub(super) fn reads(family: &FamilyFacts, findings: &mut Findings) {
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
