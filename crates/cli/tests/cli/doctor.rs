//! What the doctor says of real databases.

use crate::support::{Place, json_lines};

#[test]
fn a_database_is_explained_by_the_systems_figures() {
    let place = Place::new();
    place.file("input.jsonl", json_lines(5000));
    place.run("load", &["input.jsonl"]).ok();
    place.run("create-family", &["other"]).ok();
    let text = place.run("doctor", &[]).ok();
    for part in ["file system", "free", "log to replay", "default", "5,000", "manifest, version"] {
        assert!(text.text().contains(part), "'{part}' is not in:\n{}", text.text());
    }
    assert!(!text.text().contains("__load_progress"));
    let json = place.run("doctor", &["--json"]).ok();
    let report: serde_json::Value = serde_json::from_str(json.text()).unwrap();
    assert_eq!(report["families"][0]["versions"], 5000);
    let tables: u64 = crate::support::files_below(&place.path("db"))
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "klog"))
        .map(|path| std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap()) * 512)
        .sum();
    assert_eq!(report["files"]["table_bytes"], tables);
    assert!(report["volume"]["free_bytes"].as_u64().unwrap() > 0);
    assert_eq!(report["stalls"].as_array().unwrap().len(), 5);
}

/// The process that was held up is gone, and its counters with it; its lines are there.
#[test]
fn a_closed_database_is_explained_by_its_file_of_events() {
    let place = Place::new();
    let options = tidesdb::DbOptions::default().event_log(true);
    let db = tidesdb::Db::open(place.path("db"), options).unwrap();
    let small = tidesdb::FamilyOptions::default()
        .write_buffer_size(64 << 10)
        .l1_file_count_trigger(2)
        .min_disk_space(0);
    let family = db.create_family("orders", small).unwrap();
    db.stop_compactions().unwrap();
    let debt = tidesdb::StallReason::CompactionDebt;
    let is_slowed = || db.stats().stalls.iter().any(|s| s.reason == debt && s.count > 0);
    let slowed = (0..1_000_000_u64).any(|number| {
        family.put(number.to_be_bytes(), [7; 100]).unwrap();
        number % 100 == 0 && is_slowed()
    });
    assert!(slowed, "nothing was put to the test");
    let own = tidesdb_cli::doctor_report(&db, true).unwrap();
    let own: serde_json::Value = serde_json::from_str(&own).unwrap();
    assert_eq!((&own["counters"], &own["event_log"]), (&"since_the_open".into(), &().into()));
    drop(family);
    db.close().unwrap();
    let text = place.run("doctor", &[]).ok();
    for part in ["not known to this command", "file LOG", "held up by compaction debt"] {
        assert!(text.text().contains(part), "'{part}' is not in:\n{}", text.text());
    }
    let report = place.run("doctor", &["--json"]).ok();
    let report: serde_json::Value = serde_json::from_str(report.text()).unwrap();
    assert_eq!(report["counters"], "of_this_command");
    let lines = String::from_utf8(place.read("db/LOG")).unwrap().lines().count();
    assert_eq!(report["event_log"]["lines"], lines);
    let told = report["event_log"]["held_up"].as_array().unwrap();
    let told = told.iter().find(|told| told["reason"] == "compaction debt").unwrap();
    assert!(told["slowed"].as_u64().unwrap() > 0 && told["family"] == "orders", "{report}");
}

#[test]
fn it_changes_nothing_and_takes_the_database_as_an_argument() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    std::fs::create_dir(place.path("db/set-aside")).unwrap();
    place.file("db/set-aside/000999.klog", [0; 5000]);
    let files = |place: &Place| {
        let mut files = crate::support::files_below(&place.path("db"));
        files.sort();
        files.into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    let before = files(&place);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidesdb"));
    command.current_dir(place.path("")).env_remove("TIDESDB_DB").args(["doctor", "db"]);
    let run: crate::support::Run = command.output().unwrap().into();
    let run = run.ok();
    assert!(run.text().contains("note: 1 file ("), "{}", run.text());
    assert!(files(&place) == before);
    place.run_in("absent", "doctor", &[]).fails(2, &["no database at absent"]);
}

/// It said that there was nothing to do.
#[test]
fn missing_and_cut_files_are_problems_without_reading_any() {
    let place = Place::new();
    place.file("input.jsonl", json_lines(5000));
    place.run("load", &["input.jsonl"]).ok();
    place.run("flush", &[]).ok();
    let text = place.run("doctor", &[]).ok();
    assert!(text.text().contains("Nothing to do. Checksums were not read"), "{}", text.text());
    let files = crate::support::files_below(&place.path("db"));
    let is_table = |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "klog");
    let table = files.iter().filter(is_table).max_by_key(|p| p.metadata().unwrap().len()).unwrap();
    let file = std::fs::File::options().write(true).open(table).unwrap();
    let len = file.metadata().unwrap().len();
    file.set_len(len - 100).unwrap();
    let expected = format!("found one of {} bytes", len - 100);
    for (damage, expected) in [("cut", expected.as_str()), ("gone", "found no file")] {
        if damage == "gone" {
            std::fs::remove_file(table).unwrap();
        }
        let report = place.run("doctor", &["--json"]).ok();
        let report: serde_json::Value = serde_json::from_str(report.text()).unwrap();
        let finding = &report["findings"][0];
        assert_eq!(finding["severity"], "problem", "{damage}: {report}");
        assert!(finding["what"].as_str().unwrap().contains(expected), "{damage}: {finding}");
    }
}

#[test]
fn the_log_of_a_killed_database_is_shown() {
    let place = Place::new();
    let mut child = place.spawn("shell", &["--create"]);
    let script = (0..2000).map(|n| format!("put key{n} {}\n", "v".repeat(100)));
    let stdin = child.stdin.as_mut().unwrap();
    std::io::Write::write_all(stdin, script.collect::<String>().as_bytes()).unwrap();
    std::io::Write::write_all(stdin, b"count\n").unwrap();
    let mut answer = [0; 4];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut answer).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let report = place.run("doctor", &["--json"]).ok();
    let report: serde_json::Value = serde_json::from_str(report.text()).unwrap();
    let bytes = report["log"]["retained_bytes"].as_u64().unwrap();
    assert!(bytes > 200_000, "{bytes}");
    let stats = place.run("stats", &["--json"]).ok();
    let stats: serde_json::Value = serde_json::from_str(stats.text()).unwrap();
    assert_eq!(stats["database"]["log_retained_bytes"], bytes);
    assert_eq!(report["log"]["left_out_commits"], 0, "{report}");
    damage_a_record(&place.path("db"));
    let report = place.run("doctor", &["--json"]).ok();
    let report: serde_json::Value = serde_json::from_str(report.text()).unwrap();
    let stats = place.run("stats", &["--json"]).ok();
    let stats: serde_json::Value = serde_json::from_str(stats.text()).unwrap();
    let commits = report["log"]["left_out_commits"].as_u64().unwrap();
    assert!((1..2000).contains(&commits), "{report}");
    assert!(report["log"]["left_out_bytes"].as_u64().unwrap() > commits * 100, "{report}");
    for counter in ["left_out_commits", "left_out_bytes"] {
        assert_eq!(stats["database"][counter], report["log"][counter]);
    }
    let findings = report["findings"].as_array().unwrap();
    let is_about_it =
        |finding: &&serde_json::Value| finding["what"].as_str().unwrap().contains("out of the log");
    let finding = findings.iter().find(is_about_it).expect("a finding about the log");
    assert_eq!(finding["severity"], "advice");
    // It said that a salvage recovers them.
    assert!(finding["advice"].as_str().unwrap().contains("inspect --keys"), "{finding}");
    let saved = place.run("salvage", &["db", "saved", "--json"]).ok();
    let saved: serde_json::Value = serde_json::from_str(saved.text()).unwrap();
    let left_out = format!("{commits} commits in ");
    assert!(saved["warnings"][0].as_str().unwrap().starts_with(&left_out), "{saved}");
    let page = place.run("stats", &["--prometheus"]).ok();
    let line = format!("tidesdb_left_out_commits {commits}\n");
    assert!(page.text().contains(&line), "{}", page.text());
}

/// Writes zeros over a value in the middle of the log.
fn damage_a_record(dir: &std::path::Path) {
    let is_log = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "log");
    let mut damaged = 0;
    for path in crate::support::files_below(dir).into_iter().filter(is_log) {
        let mut bytes = std::fs::read(&path).unwrap();
        let Some(at) = bytes.windows(8).position(|bytes| bytes == b"key1000v") else { continue };
        bytes[at + 10..at + 50].fill(0);
        std::fs::write(&path, bytes).unwrap();
        damaged += 1;
    }
    assert_eq!(damaged, 1, "the record is in the log once");
}

/// The command can't open a database that another process writes.
#[test]
fn the_process_that_holds_a_database_has_the_report_too() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    let db = tidesdb::Db::open(place.path("db"), tidesdb::DbOptions::default()).unwrap();
    place.run("doctor", &[]).fails(2, &["open"]);
    let family = db.family("default").unwrap();
    for number in 0..100_u32 {
        family.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    family.flush().unwrap();
    let report = tidesdb_cli::doctor_report(&db, true).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["families"][0]["versions"], 101, "{report}");
    assert!(report["write_amplification"].as_f64().unwrap() > 0.0, "{report}");
    let words = tidesdb_cli::doctor_report(&db, false).unwrap();
    assert!(words.starts_with("Database\n") && words.contains("file system"), "{words}");
    // It can be had from outside by a copy.
    db.checkpoint(place.path("point")).unwrap();
    let outside = place.run_in("point", "doctor", &["--json"]).ok();
    let outside: serde_json::Value = serde_json::from_str(outside.text()).unwrap();
    assert_eq!(outside["families"][0]["versions"], 101, "{outside}");
    db.clone().close().unwrap();
    assert_eq!(
        tidesdb_cli::doctor_report(&db, true).unwrap_err().kind(),
        tidesdb::ErrorKind::Closed
    );
}
