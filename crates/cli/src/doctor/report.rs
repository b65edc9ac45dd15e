//! The report in words and as JSON.

use serde_json::{Value, json};

use super::diagnosis::reserve_bytes;
use super::event_log::EventLog;
use super::{Facts, FamilyFacts, Finding, Viewer};
use crate::table::{bytes, count, printable, render};

/// In place of a counter of a process that has only come to look.
const NOT_COUNTED: &str = "not known to this command";

/// What follows the statistics then.
const VISITOR: &str = "\
Cache hits, reads, stalls and write amplification are counted by the process that uses the
database, and end with it: `Db::stats` has them there, and `doctor` in a shell.
";

/// The report as JSON.
pub(crate) fn as_json(facts: &Facts, findings: &[Finding]) -> String {
    let database = &facts.database;
    let families: Vec<Value> = facts.families.iter().map(family_json).collect();
    let findings: Vec<Value> = findings.iter().map(finding_json).collect();
    let stalls = facts.stalls.iter().map(|stall| {
        json!({ "reason": stall.reason.name(), "count": stall.count, "nanos": stall.nanos })
    });
    let report = json!({
        "files": {
            "bytes": facts.files.bytes(),
            "table_bytes": facts.files.tables,
            "value_log_bytes": facts.files.value_logs,
            "log_bytes": facts.files.log,
            "manifest_bytes": facts.files.manifest,
            "set_aside_files": facts.files.set_aside_files,
            "set_aside_bytes": facts.files.set_aside,
            "formats": facts.formats.files,
            "formats_not_read": facts.formats.not_read,
        },
        "volume": {
            "kind": facts.volume.kind,
            "bytes": facts.volume.bytes,
            "free_bytes": facts.volume.free_bytes,
            "reserve_bytes": reserve_bytes(facts),
        },
        "memory": {
            "resident_bytes": facts.resident_bytes,
            "budget_bytes": database.memory.budget_bytes,
            "used_bytes": database.memory.used_bytes,
            "level": database.memory.level.name(),
        },
        "cache": {
            "bytes": database.cache.used_bytes,
            "capacity": database.cache.capacity_bytes,
            "hits": database.cache.hits,
            "misses": database.cache.misses,
        },
        "log": {
            "retained_bytes": database.log_retained_bytes,
            "left_out_commits": database.left_out_commits,
            "left_out_bytes": database.left_out_bytes,
            "oldest_family": oldest_in_log(facts).map(|family| &family.name),
        },
        "write_amplification": database.work.write_amplification(),
        "descriptors": {
            "open": facts.descriptors.map(|(open, _)| open),
            "most": facts.descriptors.map(|(_, most)| most),
            "tables": database.open_files,
        },
        "counters": match facts.viewer {
            Viewer::User => "since_the_open",
            Viewer::Visitor => "of_this_command",
        },
        "stalls": stalls.collect::<Vec<_>>(),
        "event_log": facts.event_log.as_ref().map(event_log_json),
        "families": families,
        "findings": findings,
    });
    format!("{report:#}\n")
}

fn event_log_json(log: &EventLog) -> Value {
    let held_up = log.held_up.iter().map(|held_up| {
        json!({
            "reason": held_up.reason.name(),
            "waited": held_up.waited,
            "milliseconds": held_up.milliseconds,
            "longest_milliseconds": held_up.longest_milliseconds,
            "slowed": held_up.slowed,
            "family": held_up.family,
            "last": held_up.last,
        })
    });
    let held_up = held_up.collect::<Vec<_>>();
    json!({ "lines": log.lines, "first": log.first, "last": log.last, "held_up": held_up })
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "severity": finding.severity.name(),
        "family": finding.family,
        "what": finding.what,
        "advice": finding.advice,
        "option": finding.option,
    })
}

fn family_json(family: &FamilyFacts) -> Value {
    let space = &family.space;
    json!({
        "name": family.name,
        "bytes": space.bytes(),
        "live_bytes": space.live_bytes(),
        "space_amplification": space.amplification(),
        "versions": space.versions,
        "live_versions": space.live_versions,
        "versions_for_snapshots": space.versions_for_snapshots,
        "tombstones": space.tombstones,
        "range_tombstones": family.stats.range_tombstones,
        "expired_versions": space.expired_versions,
        "unreferenced_value_bytes": space.unreferenced_value_bytes,
        "read_amplification": family.stats.read_amplification,
        "tables_per_get": family.stats.reads.tables_per_get(),
        "unflushed_log_bytes": space.unflushed_log_bytes,
        "damaged_tables": space.damaged_tables,
    })
}

/// The family with the oldest commit that is in no table yet.
fn oldest_in_log(facts: &Facts) -> Option<&FamilyFacts> {
    let families = facts.families.iter().filter(|family| family.space.unflushed_log_bytes > 0);
    families.max_by_key(|family| family.space.unflushed_log_bytes)
}

/// The report in words.
pub(crate) fn as_text(facts: &Facts, findings: &[Finding]) -> String {
    let mut text = String::from("Database\n");
    text.push_str(&render(&["", ""], &database_rows(facts)));
    if facts.viewer == Viewer::Visitor {
        text.push_str(VISITOR);
    }
    if !facts.families.is_empty() {
        text.push_str("\nFamilies\n");
        text.push_str(&families_table(&facts.families));
    }
    if findings.is_empty() {
        text.push_str("\nNothing to do. Checksums were not read: `tidesdb verify` reads them.\n");
    } else {
        text.push_str("\nFindings (checksums were not read: `tidesdb verify` reads them)\n");
    }
    for finding in findings {
        let of =
            finding.family.as_ref().map_or_else(String::new, |name| format!("family '{name}': "));
        let option = finding.option.map_or_else(String::new, |option| format!(" [{option}]"));
        let words = format!("{}: {of}{}", finding.severity.name(), finding.what);
        text.push_str(&wrapped("  ", &words));
        text.push_str(&wrapped("    ", &format!("{}{option}", finding.advice)));
    }
    text
}

fn database_rows(facts: &Facts) -> Vec<Vec<String>> {
    let database = &facts.database;
    let known = |value: Option<u64>| value.map_or_else(|| "not known".to_owned(), bytes);
    let budget = match database.memory.budget_bytes {
        u64::MAX => "no budget".to_owned(),
        budget => format!("{} of {}", bytes(database.memory.used_bytes), bytes(budget)),
    };
    let is_visitor = facts.viewer == Viewer::Visitor;
    let lookups = database.cache.hits + database.cache.misses;
    let hits = match lookups {
        _ if is_visitor => NOT_COUNTED.to_owned(),
        0 => "not asked yet".to_owned(),
        _ => format!("{:.1} %", database.cache.hits as f64 * 100.0 / lookups as f64),
    };
    let log = match oldest_in_log(facts) {
        Some(family) => {
            format!("{}, for '{}'", bytes(database.log_retained_bytes), family.name)
        }
        None => bytes(database.log_retained_bytes),
    };
    let descriptors = facts.descriptors.map_or_else(
        || "not known".to_owned(),
        |(open, most)| format!("{} of {}", count(open), count(most)),
    );
    let held: u64 = facts.stalls.iter().map(|stall| stall.count).sum();
    let held = if is_visitor { NOT_COUNTED.to_owned() } else { format!("{} times", count(held)) };
    let mut rows = vec![
        ("on the disk", bytes(facts.files.bytes())),
        ("  tables", bytes(facts.files.tables)),
        ("  value logs", bytes(facts.files.value_logs)),
        ("  log", bytes(facts.files.log)),
        ("  set aside", bytes(facts.files.set_aside)),
        ("file system", facts.volume.kind.clone().unwrap_or_else(|| "not known".to_owned())),
        ("free", known(facts.volume.free_bytes)),
        ("  kept free", bytes(reserve_bytes(facts))),
        ("log to replay", log),
        ("memory counted", budget),
        ("memory of the process", known(facts.resident_bytes)),
        ("cache hits", hits),
        ("descriptors", descriptors),
        ("writers held up", held),
        ("write amplification", write_amplification(facts)),
    ];
    if is_visitor {
        rows.push(("file LOG", facts.event_log.as_ref().map_or_else(no_event_log, event_log)));
    }
    rows.push(("files", count(facts.formats.files.values().sum())));
    let formats = facts.formats.files.iter();
    let formats = formats.map(|(format, files)| vec![format!("  {format}"), count(*files)]);
    let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]);
    let not_read = facts.formats.not_read;
    let not_read = (not_read > 0).then(|| vec!["  not looked at".to_owned(), count(not_read)]);
    rows.chain(formats).chain(not_read).collect()
}

fn no_event_log() -> String {
    "none; `event_log` has one written".to_owned()
}

fn event_log(log: &EventLog) -> String {
    match log.lines {
        0 => "no lines".to_owned(),
        1 => format!("1 line, {}", log.last),
        lines => format!("{} lines, {} to {}", count(lines), log.first, log.last),
    }
}

/// Bytes written for each byte of users, since the open.
fn write_amplification(facts: &Facts) -> String {
    match facts.database.work.user_bytes_written {
        _ if facts.viewer == Viewer::Visitor => NOT_COUNTED.to_owned(),
        0 => "nothing was written since the open".to_owned(),
        _ => format!("{:.2} since the open", facts.database.work.write_amplification()),
    }
}

fn families_table(families: &[FamilyFacts]) -> String {
    let header = [
        "family",
        "size",
        "live",
        "ratio",
        "runs",
        "versions",
        "deletions",
        "ranges deleted",
        "expired",
        "in snapshots",
    ];
    let rows: Vec<Vec<String>> = families
        .iter()
        .map(|family| {
            let space = &family.space;
            let runs: u64 = family.stats.levels.iter().map(|level| level.runs).sum();
            vec![
                family.name.clone(),
                bytes(space.bytes()),
                bytes(space.live_bytes()),
                format!("{:.2}", space.amplification()),
                count(runs),
                count(space.versions),
                count(space.tombstones),
                count(family.stats.range_tombstones),
                count(space.expired_versions),
                count(space.versions_for_snapshots),
            ]
        })
        .collect();
    render(&header, &rows)
}

/// Words in lines of a width for terminals, each with `indent`.
fn wrapped(indent: &str, words: &str) -> String {
    const WIDTH: usize = 96;
    let mut text = String::new();
    let mut line = String::from(indent);
    // Names of families, and what a file of events says, come from elsewhere.
    for word in printable(words).split_whitespace() {
        if line.len() > indent.len() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = format!("{indent}  ");
        } else if line.len() > indent.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    text + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn what_comes_from_files_moves_no_cursor() {
        assert_eq!(wrapped("  ", "of '\u{1b}[2J'  at noon"), "  of '\\u{1b}[2J' at noon\n");
    }
}
