//! Each rule by a table of facts: what it says, and that it is silent otherwise.

use tidesdb::{LevelStats, MemoryLevel, StallReason};

use super::event_log::{EventLog, HeldUp};
use super::facts::Stall;
use super::{Facts, FamilyFacts, Finding, Severity, Viewer, diagnose, report};

const GIB: u64 = 1 << 30;

/// A database that is well.
fn well() -> Facts {
    let mut facts = Facts::default();
    let database = &mut facts.database;
    database.cache.capacity_bytes = 64 << 20;
    database.memory.budget_bytes = 8 * GIB;
    facts.volume.kind = Some("ext4".to_owned());
    facts.volume.free_bytes = Some(500 * GIB);
    facts.volume.bytes = Some(1000 * GIB);
    facts.descriptors = Some((20, 1024));
    facts.resident_bytes = Some(100 << 20);
    let mut family = FamilyFacts { name: "orders".to_owned(), ..FamilyFacts::default() };
    family.space.table_bytes = 10 * GIB;
    (family.space.versions, family.space.live_versions) = (1_000_000, 900_000);
    facts.files.tables = 10 * GIB;
    facts.families.push(family);
    facts
}

/// The findings after a change of the facts of a database that is well.
fn after(change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    let mut facts = well();
    change(&mut facts);
    let findings = diagnose(&facts);
    for finding in &findings {
        assert!(report::as_text(&facts, &findings).contains(finding.severity.name()));
    }
    let json: serde_json::Value =
        serde_json::from_str(&report::as_json(&facts, &findings)).unwrap();
    assert_eq!(json["findings"].as_array().unwrap().len(), findings.len());
    findings
}

/// Expects one finding with that severity and option, in whose texts the parts occur.
#[track_caller]
fn expect(findings: &[Finding], severity: Severity, option: Option<&str>, parts: &[&str]) {
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let finding = &findings[0];
    assert_eq!((finding.severity, finding.option), (severity, option), "{finding:?}");
    for part in parts {
        let text = format!("{} {}", finding.what, finding.advice);
        assert!(text.contains(part), "'{part}' is not in '{text}'");
    }
}

#[test]
fn a_database_that_is_well_needs_nothing() {
    assert_eq!(after(|_| {}), []);
    let text = report::as_text(&well(), &[]);
    assert!(text.contains("Nothing to do.") && text.contains("`tidesdb verify`"), "{text}");
}

#[test]
fn file_systems_are_warned_of() {
    let on = |kind: &str| {
        let kind = kind.to_owned();
        after(|facts| facts.volume.kind = Some(kind))
    };
    expect(&on("tmpfs"), Severity::Problem, None, &["tmpfs", "machine stops"]);
    expect(&on("overlay"), Severity::Advice, None, &["overlay", "volume"]);
    expect(&on("nfs4"), Severity::Advice, None, &["nfs4", "syncs"]);
    assert_eq!(on("xfs"), []);
}

#[test]
fn free_space_is_compared_with_what_must_stay_free() {
    let free = |bytes| after(|facts| facts.volume.free_bytes = Some(bytes));
    let option = Some("min_disk_space");
    expect(&free(100 << 20), Severity::Problem, option, &["100.0 MiB are free", "256.0 MiB"]);
    expect(&free(9 * GIB), Severity::Note, None, &["9.0 GiB", "'orders'", "compact"]);
}

#[test]
fn garbage_is_told_with_what_keeps_it() {
    let of = |change: fn(&mut FamilyFacts)| {
        after(|facts| {
            facts.families[0].space.live_versions = 500_000;
            change(&mut facts.families[0]);
        })
    };
    let advice = Severity::Advice;
    let plain = of(|_| {});
    expect(&plain, advice, Some("max_space_amplification"), &["2.0 bytes for each", "1.5"]);
    assert_eq!(plain[0].family.as_deref(), Some("orders"));
    let held = of(|family| family.space.versions_for_snapshots = 400_000);
    expect(&held, advice, None, &["400,000", "drop snapshots"]);
    let deleted = of(|family| family.space.tombstones = 300_000);
    expect(&deleted, advice, Some("tombstone_density_trigger"), &["300,000", "deletions"]);
    let allowed = of(|family| family.options.max_space_amplification = 3.0);
    assert_eq!(allowed, []);
    let values = after(|facts| {
        facts.families[0].space.value_log_bytes = 30 * GIB;
        facts.families[0].space.unreferenced_value_bytes = 20 * GIB;
        facts.files.value_logs = 30 * GIB;
    });
    expect(&values, advice, None, &["20.0 GiB", "value log"]);
    let damaged = after(|facts| facts.families[0].space.damaged_tables = 2);
    expect(&damaged, Severity::Problem, None, &["2 tables", "verify"]);
}

#[test]
fn runs_caches_stalls_and_memory_are_judged() {
    let runs = |count: u64, filters: bool| {
        after(|facts| {
            let mut level = LevelStats::default();
            level.runs = count;
            facts.families[0].stats.levels = vec![level];
            facts.families[0].options.enable_bloom_filter = filters;
        })
    };
    let advice = Severity::Advice;
    expect(&runs(40, true), advice, Some("l1_file_count_trigger"), &["40 sorted runs"]);
    expect(&runs(3, false), advice, Some("enable_bloom_filter"), &["3 sorted runs"]);
    assert_eq!(runs(3, true), []);

    let searched = after(|facts| {
        let reads = &mut facts.families[0].stats.reads;
        (reads.table_gets, reads.tables_searched) = (1000, 3500);
    });
    expect(&searched, advice, Some("bloom_fpr"), &["3.5 tables each"]);

    let cache = |hits, misses, used| {
        after(|facts| {
            let database = &mut facts.database;
            (database.cache.hits, database.cache.misses) = (hits, misses);
            database.cache.used_bytes = used;
        })
    };
    expect(&cache(300, 700, 64 << 20), advice, Some("block_cache_bytes"), &["30 %"]);
    assert_eq!(cache(300, 700, 1 << 20), [], "it is not full");
    assert_eq!(cache(3, 7, 64 << 20), [], "too few to tell");

    for reason in StallReason::ALL {
        let stall = Stall { reason, count: 5, nanos: 7_000_000, longest_nanos: 3_000_000 };
        let found = after(|facts| facts.stalls.push(stall));
        assert!(found[0].option.is_some());
        expect(&found, advice, found[0].option, &["5 times", reason.name(), "7 ms", "3 ms"]);
    }
    let tight = after(|facts| {
        facts.database.memory.level = MemoryLevel::High;
        facts.database.memory.used_bytes = 7 * GIB;
    });
    expect(&tight, advice, Some("max_memory_usage"), &["7.0 GiB", "8.0 GiB"]);
    let large = after(|facts| facts.resident_bytes = Some(9 * GIB));
    expect(&large, advice, Some("max_memory_usage"), &["9.0 GiB"]);
    let indexes = after(|facts| facts.database.memory.table_bytes = 3 * GIB);
    expect(&indexes, advice, Some("use_btree"), &["3.0 GiB"]);
}

#[test]
fn what_a_file_of_events_tells_is_judged() {
    for reason in StallReason::ALL {
        let held_up = |waited, slowed| HeldUp {
            reason,
            waited,
            milliseconds: 7000,
            longest_milliseconds: 3000,
            slowed,
            family: "orders".to_owned(),
            last: "noon".to_owned(),
        };
        let told = |held_up| {
            after(|facts| {
                facts.viewer = Viewer::Visitor;
                let held_up = vec![held_up];
                facts.event_log = Some(EventLog { lines: 9, held_up, ..EventLog::default() });
            })
        };
        let found = told(held_up(5, 0));
        let parts = ["5 waits", "7,000 ms", "3,000 ms", reason.name(), "'orders' at noon"];
        expect(&found, Severity::Advice, found[0].option, &parts);
        assert!(!found[0].what.contains("slowed"), "{found:?}");
        let found = told(held_up(0, 2));
        expect(&found, Severity::Advice, found[0].option, &["2 times", "slowed", reason.name()]);
        assert!(!found[0].what.contains("waits"), "{found:?}");
    }
}

#[test]
fn a_visitor_says_what_it_has_not_counted() {
    let mut facts = well();
    facts.database.cache.hits = 3;
    let of = |facts: &Facts| (report::as_text(facts, &[]), report::as_json(facts, &[]));
    let (text, json) = of(&facts);
    assert!(text.contains("100.0 %") && text.contains("0 times"), "{text}");
    assert!(json.contains("\"counters\": \"since_the_open\""), "{json}");
    facts.viewer = Viewer::Visitor;
    let (text, json) = of(&facts);
    assert_eq!(text.matches("not known to this command").count(), 3, "{text}");
    assert!(text.contains("counted by the process that uses the\ndatabase"), "{text}");
    assert!(!text.contains("100.0 %") && text.contains("none; `event_log`"), "{text}");
    assert!(json.contains("\"counters\": \"of_this_command\""), "{json}");
    let [first, last] = ["begin", "end"].map(str::to_owned);
    facts.event_log = Some(EventLog { lines: 1200, first, last, ..EventLog::default() });
    assert!(of(&facts).0.contains("1,200 lines, begin to end"), "{}", of(&facts).0);
}

#[test]
fn files_that_are_missing_or_cut_are_problems() {
    let missing = "000007.klog at offset 0: expected a file of 90 bytes, found no file";
    let found = after(|facts| facts.damaged_files = vec![missing.to_owned()]);
    expect(&found, Severity::Problem, None, &[missing, "salvage"]);
}

#[test]
fn log_descriptors_and_files_are_judged() {
    let log = after(|facts| {
        facts.database.log_retained_bytes = GIB;
        facts.families[0].space.unflushed_log_bytes = GIB;
    });
    expect(&log, Severity::Advice, Some("max_retained_log_bytes"), &["1.0 GiB", "'orders'"]);
    let left_out = after(|facts| {
        facts.database.left_out_commits = 7;
        facts.database.left_out_bytes = 2048;
    });
    expect(&left_out, Severity::Advice, None, &["7 commits", "2.0 KiB", "salvage"]);
    let descriptors = after(|facts| facts.descriptors = Some((900, 1024)));
    expect(&descriptors, Severity::Problem, Some("max_open_files"), &["900 of 1,024"]);
    let aside = after(|facts| facts.files.set_aside_files = 3);
    expect(&aside, Severity::Note, None, &["3 files", "set-aside"]);
    let unknown = after(|facts| facts.files.tables = 20 * GIB);
    expect(&unknown, Severity::Advice, None, &["20.0 GiB", "10.0 GiB"]);
}
