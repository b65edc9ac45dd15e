//! The program as a user sees it: exit codes, files, messages.
#![expect(clippy::unwrap_used, reason = "a failed call is a failed test")]

use std::path::Path;
use std::process::{Command, Output};

fn benchtool(directory: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_benchtool"))
        .args(line.split_whitespace())
        .current_dir(directory)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_broken_engine_fails_the_run_and_is_named() {
    let directory = tempfile::tempdir().unwrap();
    for (engine, workload) in
        [("broken-drops", "write"), ("broken-deletes", "delete"), ("broken-stale", "mixed")]
    {
        let line = format!(
            "run --engine memory,{engine} --workload {workload} --num 30K --seconds 60 --ops 60K"
        );
        let output = benchtool(directory.path(), &line);
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{shown}");
        assert!(shown.contains(&format!("INVALID: {engine}")), "{shown}");
        assert!(!shown.contains("INVALID: memory"), "{shown}");
    }
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "data is left behind");
}

#[test]
fn results_are_written_as_csv_and_json() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let line = "run --engine memory,null --workload mixed --num 5K --ops 10K --threads 2 \
            --repeat 2 --csv out.csv --json out.json";
        let output = benchtool(directory.path(), line);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    let csv = std::fs::read_to_string(directory.path().join("out.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    // Two runs of two engines, two repetitions, two operations; one header.
    assert_eq!(lines.len(), 1 + 2 * 2 * 2 * 2);
    let columns = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == columns));
    let original: Vec<&str> = lines[0].split(',').take(33).collect();
    assert_eq!((original[0], original[23], original[32]), ("engine", "space_amp", "sync_enabled"));
    let json = std::fs::read_to_string(directory.path().join("out.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    // A B, then B A.
    let order: Vec<&str> = runs
        .iter()
        .filter(|run| run["spec"]["test"] == "mixed_random")
        .map(|run| run["spec"]["engine"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["memory", "null", "null", "memory"]);
}

#[test]
fn wrong_usage_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let output = benchtool(directory.path(), "run --engine rocksbd");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no engine \"rocksbd\""));
    let output = benchtool(directory.path(), "run --engine rocksdb --rocksdb-lib missing.so");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no library at missing.so"));
    let output = benchtool(directory.path(), "run --wrokload read");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--workload"), "a suggestion is given");
    let output = benchtool(directory.path(), "run --engine memory --value-size 3 --num 1K");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("at least 12 bytes"));
}

#[test]
fn results_become_a_page_and_are_judged() {
    let directory = tempfile::tempdir().unwrap();
    let line = "run --engine memory,null --workload write --num 20K --repeat 5 --json a.json \
        --html out";
    let output = benchtool(directory.path(), line);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("report: out/report.html"));
    assert!(directory.path().join("out/plots/01_write_throughput.svg").exists());
    let output = benchtool(directory.path(), "report a.json out/results.json --out again");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(directory.path().join("again/report.html")).unwrap();
    assert!(page.contains("id=\"28_version_history\""), "two files make a history");
    markdown_is_printed_and_put_into_a_page(directory.path());
    let output = benchtool(directory.path(), "regress a.json a.json --engine memory");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("**passed**"));
    let output = benchtool(directory.path(), "regress a.json a.json --engine lmdb");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no row of lmdb"));
}

fn markdown_is_printed_and_put_into_a_page(directory: &Path) {
    let output = benchtool(directory, "report a.json --baseline null");
    let printed = text(&output.stdout);
    assert!(printed.contains("| operations a second | runs | memory | null |"), "{printed}");
    let page = directory.join("page.md");
    let line = "report a.json --baseline null --keep kept.json --commit 0123abc --into page.md";
    std::fs::write(&page, "no place\n").unwrap();
    let output = benchtool(directory, line);
    assert_eq!(output.status.code(), Some(2), "the page has no place");
    let place =
        "<!-- made by `benchtool report` from nothing yet -->\n<!-- end of what is made -->\n";
    std::fs::write(&page, format!("# Title\n\n{place}")).unwrap();
    let output = benchtool(directory, line);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let made = std::fs::read_to_string(&page).unwrap();
    assert!(made.contains("from kept.json -->") && made.contains("| Commit | 0123abc |"), "{made}");
    let output = benchtool(directory, "report kept.json --baseline null");
    let printed = text(&output.stdout);
    assert!(made.contains(printed.trim_end()), "what is kept says the same: {printed}");
}

#[test]
fn a_worse_candidate_has_an_exit_code_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let line = "run --engine memory --workload write --num 5K --repeat 5 --json a.json";
    assert_eq!(benchtool(directory.path(), line).status.code(), Some(0));
    let before = std::fs::read_to_string(directory.path().join("a.json")).unwrap();
    let mut set: serde_json::Value = serde_json::from_str(&before).unwrap();
    let runs = set["runs"].as_array_mut().unwrap();
    for run in runs.iter_mut() {
        // Far beyond any noise of the two sets: memory is steady, and now ten times as much.
        let bytes = run["result"]["peak_rss"].as_u64().unwrap();
        run["result"]["peak_rss"] = (bytes * 10).into();
    }
    std::fs::write(directory.path().join("b.json"), set.to_string()).unwrap();
    let output = benchtool(directory.path(), "regress a.json b.json --engine memory --json c.json");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
    let answer = std::fs::read_to_string(directory.path().join("c.json")).unwrap();
    assert!(answer.contains("\"outcome\": \"regression\""), "{answer}");
}

/// It passed.
#[test]
fn a_set_that_no_claim_is_about_is_no_answer() {
    let directory = tempfile::tempdir().unwrap();
    for (value, is_known) in [("77", false), ("100", true)] {
        let line = format!(
            "run --engine null,memory --workload write --num 2K --value-size {value} --json a.json"
        );
        assert_eq!(benchtool(directory.path(), &line).status.code(), Some(0), "{value}");
        let output = benchtool(directory.path(), "claims a.json --baseline null");
        assert_eq!(output.status.code() != Some(2), is_known, "{}", text(&output.stdout));
    }
}

#[test]
fn a_killed_process_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let line = "run --engine tidesdb --workload recover --num 20K --batch 10 --json out.json";
    let output = benchtool(directory.path(), line);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let json = std::fs::read_to_string(directory.path().join("out.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let result = &report["runs"][0]["result"];
    assert_eq!(result["operations"][0]["operation"], "RECOVER");
    assert_eq!(
        (&result["keys_expected"], &result["keys_visible"]),
        (&20_000.into(), &20_000.into())
    );
    // An engine that only lives in its process has lost everything, and that shows.
    let line = "run --engine memory --workload recover --num 1K";
    assert_eq!(benchtool(directory.path(), line).status.code(), Some(1));
}

/// What each engine promises after the death of its process is checked, no more and no less.
#[test]
fn unsynced_commits_of_a_killed_process_are_judged_by_what_its_engine_promises() {
    let directory = tempfile::tempdir().unwrap();
    let run = |engine: &str, sync: &str| {
        let line = format!(
            "run --engine {engine} --workload recover --num 2K --batch 100 --sync {sync} --json out.json"
        );
        let output = benchtool(directory.path(), &line);
        let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{engine}: {shown}");
        let json = std::fs::read_to_string(directory.path().join("out.json")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        (report["runs"][0]["result"]["status"].as_str().unwrap().to_owned(), shown)
    };
    if cfg!(feature = "fjall") {
        assert_eq!(run("fjall", "none").0, "VALID");
    }
    if cfg!(feature = "redb") {
        let (status, shown) = run("redb", "none");
        assert_eq!(status, "SKIPPED");
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("2000 of 2000 acknowledged records were gone"), "{shown}");
        assert_eq!(run("redb", "full").0, "VALID");
    }
}

/// Openings of closed and of killed databases notice one lost write in 10,000.
#[test]
fn a_write_that_is_missing_after_an_opening_is_caught() {
    let directory = tempfile::tempdir().unwrap();
    for workload in ["recover", "reopen"] {
        for (engine, code) in [("tidesdb", 0), ("broken-tidesdb", 1)] {
            let line = format!("run --engine {engine} --workload {workload} --num 12K --ops 1");
            let output = benchtool(directory.path(), &line);
            let shown = text(&output.stdout);
            assert_eq!(output.status.code(), Some(code), "{line}: {shown}");
            assert_eq!(shown.contains("INVALID"), code == 1, "{line}: {shown}");
        }
    }
}

#[test]
fn other_ways_to_use_a_database_are_checked_too() {
    let directory = tempfile::tempdir().unwrap();
    for line in [
        "run --engine tidesdb --workload reopen --num 5K",
        "run --engine tidesdb --workload compact --num 5K --ops 1",
        "run --engine tidesdb --workload cf --families 10",
        "run --engine tidesdb --workload txn --num 5K --ops 2K --isolation snapshot --txn-size 3",
        "run --engine tidesdb --workload txn --overlap hot --threads 4 --ops 4K --isolation si",
        "run --engine tidesdb --workload txn --overlap hot --threads 4 --ops 4K --isolation ser",
        "run --engine tidesdb --workload ttl --num 5K --batch 10",
        "run --engine tidesdb --workload ycsb-e --num 5K --spare 1K --ops 2K --threads 2",
        "run --engine tidesdb --workload write --num 5K --families 8 --pattern uniform",
        "run --engine tidesdb --workload read --num 5K --ops 1K --use-btree",
    ] {
        let output = benchtool(directory.path(), line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stdout));
        assert!(!text(&output.stdout).contains("SKIPPED"), "{line}");
    }
    // What an engine does not have is no failure, and is said.
    let line = "run --engine null --workload read --num 5K --ops 1K --use-btree";
    let output = benchtool(directory.path(), line);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("B+tree table format"), "{}", text(&output.stdout));
}

#[test]
fn a_run_is_recorded_and_replayed_on_another_engine() {
    let directory = tempfile::tempdir().unwrap();
    let line = "run --engine tidesdb --workload rmw --num 2K --ops 1K --record trace.jsonl";
    let output = benchtool(directory.path(), line);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = benchtool(directory.path(), "replay trace.jsonl --engine tidesdb,memory");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    std::fs::write(directory.path().join("bad"), "{\"op\":\"put\"}\n").unwrap();
    let output = benchtool(directory.path(), "replay bad --engine memory");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("bad, line 1"), "{}", text(&output.stderr));
}

#[test]
fn databases_are_kept_and_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let line = "run --engine tidesdb --workload write --num 3K --keep-db --dir kept";
    assert_eq!(benchtool(directory.path(), line).status.code(), Some(0));
    let run = std::fs::read_dir(directory.path().join("kept")).unwrap().next().unwrap().unwrap();
    let kept = run.path().join("tidesdb-work");
    let read = |num: &str| {
        let line = format!(
            "run --engine tidesdb --workload iter --ops 1 --num {num} --use-existing-db {}",
            kept.display()
        );
        benchtool(directory.path(), &line).status.code()
    };
    assert_eq!(read("3K"), Some(0));
    assert_eq!(read("4K"), Some(1), "another data set is not in there");
}

#[test]
fn bad_use_is_refused_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    let held = directory.path().join("held");
    std::fs::create_dir(&held).unwrap();
    let lock = std::fs::File::create(held.join(".benchtool-lock")).unwrap();
    lock.lock().unwrap();
    std::fs::write(directory.path().join("text.so"), "no library").unwrap();
    for (line, part) in [
        ("run --engine memory --num 1K --dir held", "in use by another benchtool"),
        ("run --engine memory --num 1000000M --dir free", "free, the data sets need about"),
        ("run --engine memory,null,memory", "engine memory is named twice"),
        ("run --engine rocksdb --rocksdb-lib text.so", "text.so: file too short"),
        ("run --engine tidesdb-c", "--lib PATH"),
        ("run --engine tidesdb-c --lib nowhere.so", "no library at nowhere.so"),
        ("run --engine memory --cpus 99999", "--cpus"),
        ("run --engine memory,null --record x", "one engine"),
        ("run --engine memory --use-existing-db nowhere", "no database at nowhere"),
        ("run --engine memory --engine-opt rocksdb:a=b", "not among the engines"),
        ("run --engine memory --threads 0", "--threads must be from 1 to 1024, not 0"),
        ("run --engine memory --threads 99999999", "--threads must be"),
        ("run --engine memory --num 0", "--num must be"),
        ("run --engine memory --batch 0", "--batch must be"),
        ("run --engine memory --batch 99999999999999", "--batch must be"),
        ("run --engine memory --num -5", "unexpected argument '-5'"),
        ("run --engine memory --num 99999999999999999999", "not a number"),
        ("run --engine memory --value-size 9G", "--value-size must be"),
        ("run --engine memory --key-size 0", "--key-size must be"),
        ("run --engine memory --key-size 1 --num 1K", "do not fit in keys of 1 bytes"),
        ("run --engine memory --seconds 1e300", "--seconds must be"),
        ("run --engine memory --seconds nan", "--seconds must be positive"),
        ("run --engine memory --rate 0", "--rate must be"),
        ("run --engine memory --warmup-sec inf", "--warmup-sec must be"),
        ("run --engine memory --compress-ratio 7", "--compress-ratio must be"),
        ("run --engine memory --repeat 0", "--repeat must be"),
        ("run --engine memory --job-timeout 0", "--job-timeout must be"),
        ("run --engine memory --memtable 0", "--memtable must be"),
        ("run --engine memory --background-threads 0", "--background-threads must be"),
        ("run --engine memory --dir /proc/nowhere", "/proc/nowhere"),
        ("run --engine memory --json /proc/nowhere/x", "/proc/nowhere"),
        ("run --engine memory --csv missing/x", "missing/x"),
        ("run --engine memory --html /proc/nowhere", "/proc/nowhere"),
        ("suite core --scale 0", "--scale must be"),
        ("suite cora", "core"),
        ("suite core --only nothing-like-this", "no test is left"),
    ] {
        let output = benchtool(directory.path(), line);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", text(&output.stdout));
        let shown = text(&output.stderr);
        assert!(shown.contains(part), "{line}: {shown}");
    }
}
