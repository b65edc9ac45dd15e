//! What `load` makes of good and bad input.

use std::time::Duration;

use crate::support::{Place, json_line, json_lines, sorted};

#[test]
fn a_bad_line_stops_the_load_and_is_repaired() {
    let place = Place::new();
    let good = json_lines(2500);
    let mut lines: Vec<&str> = good.split_inclusive('\n').collect();
    let line_1235 = lines[1234];
    lines[1234] = "{\"key\":\"half a line\n";
    place.file("input.jsonl", lines.concat());
    let run = place.run("load", &["input.jsonl"]);
    run.fails(2, &["line 1235 of input.jsonl", "1,234 records are stored", "goes on at line 1235"]);
    assert_eq!(place.records("default"), sorted(&json_lines(1234)));
    place.run("load", &["input.jsonl"]).fails(2, &["resuming at line 1235", "line 1235 of"]);

    lines[1234] = line_1235;
    place.file("input.jsonl", lines.concat());
    let run = place.run("load", &["input.jsonl"]).ok();
    assert!(run.stderr.contains("resuming at line 1235: 1,234 records"), "{}", run.stderr);
    assert!(run.stderr.contains("loaded 2,500 records"), "{}", run.stderr);
    assert!(run.stderr.contains("1,266 of them in this run"), "{}", run.stderr);
    assert_eq!(place.records("default"), sorted(&good));
}

#[test]
fn bad_lines_can_be_skipped_and_are_counted() {
    let place = Place::new();
    let long_key = "k".repeat(70_000);
    let text = format!(
        "{}nonsense\n{{\"key\":\"\",\"value\":\"v\"}}\n{{\"key\":\"{long_key}\",\"value\":\"v\"}}\n{}",
        json_line(1),
        json_line(2)
    );
    place.file("input.jsonl", text);
    place.run("load", &["input.jsonl"]).fails(2, &["line 2 of input.jsonl", "1 record is stored"]);
    let run = place.run("load", &["input.jsonl", "--skip-bad"]).ok();
    assert!(
        run.stderr.contains("skipped: line 4 of input.jsonl: key of 70000 bytes"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("loaded 2 records"), "{}", run.stderr);
    assert!(run.stderr.contains("skipped 3 bad ones"), "{}", run.stderr);
    assert_eq!(place.records("default"), sorted(&(json_line(1) + &json_line(2))));
}

#[test]
fn fields_and_columns_are_chosen() {
    let place = Place::new();
    place.file("input.ndjson", "{\"id\":7,\"payload\":{\"a\":[1,2]},\"key\":\"x\"}\n");
    place.run("load", &["input.ndjson", "--key-field", "id", "--value-field", "payload"]).ok();
    assert_eq!(place.run("get", &["7"]).ok().text(), "{\"a\":[1,2]}");
    place.file("input.csv", "name,note,size\nfirst,\"a, b\",1\nsecond,c,2\n");
    place.run("load", &["input.csv", "--key-field", "name", "--value-field", "note"]).ok();
    assert_eq!(place.run("get", &["first"]).ok().text(), "a, b");
    place.run("load", &["input.csv"]).fails(2, &["no column 'key'", "name, note, size"]);
    place.file("plain.csv", "one,1\ntwo,2\n");
    place.run("load", &["plain.csv", "--no-header"]).ok();
    assert_eq!(place.run("get", &["one"]).ok().text(), "1");
    place
        .run("load", &["input.csv", "--key-field", "x", "--value-field", "x"])
        .fails(2, &["same field"]);
}

#[test]
fn a_quote_that_is_never_closed_does_not_fill_the_memory() {
    let place = Place::new();
    let text = format!("key,value\na,1\nb,\"2\n{}", "c,3\n".repeat(1 << 20));
    place.file("input.csv", text);
    let run = place.run("load", &["input.csv", "--max-record-mib", "1"]);
    run.fails(2, &["line 3 of input.csv", "longer than 1 MiB", "1 record is stored"]);
}

#[test]
fn empty_input_is_no_error() {
    let place = Place::new();
    for name in ["empty.jsonl", "empty.tsv", "empty.csv"] {
        place.file(name, "");
        let run = place.run("load", &[name]).ok();
        assert!(run.stderr.contains("loaded 0 records"), "{}", run.stderr);
    }
    assert_eq!(place.records("default"), "");
}

#[test]
fn a_repeated_key_keeps_its_last_value_in_every_batch_size() {
    let place = Place::new();
    let text: String = (0..100).map(|number| format!("k{}\t{number}\n", number % 7)).collect();
    place.file("input.tsv", text);
    for batch in ["1", "3", "1000"] {
        place.run("load", &["input.tsv", "--batch", batch, "--family", batch]).ok();
        assert_eq!(place.run("get", &["--family", batch, "k3"]).ok().text(), "94");
    }
    place.run("load", &["input.tsv", "--batch", "0"]).fails(2, &["--batch"]);
}

#[test]
fn another_input_is_not_taken_for_the_one_that_was_interrupted() {
    let place = Place::new();
    let bad = |first: &str| format!("{first}\t1\nb\t2\nbad\n");
    place.file("input.tsv", bad("a"));
    place.run("load", &["input.tsv"]).fails(2, &["line 3"]);
    place.file("input.tsv", bad("x"));
    place.run("load", &["input.tsv"]).fails(2, &["not what was being loaded", "--restart"]);
    place.file("input.tsv", "a");
    place.run("load", &["input.tsv"]).fails(2, &["shorter than it was", "--restart"]);
    place.file("input.tsv", bad("a"));
    place.run("load", &["input.tsv", "--hex"]).fails(2, &["tsv, text then, tsv, hex now"]);
    place.file("input.tsv", "a\t1\nb\t2\nc\t3\n");
    place.run("load", &["input.tsv", "--family", "other"]).ok();
    assert_eq!(place.run("get", &["--family", "other", "a"]).ok().text(), "1");
    let run = place.run("load", &["input.tsv", "--restart"]).ok();
    assert!(run.stderr.contains("loaded 3 records"), "{}", run.stderr);
    assert!(!run.stderr.contains("resuming"), "{}", run.stderr);
    let run = place.run("load", &["input.tsv"]).ok();
    assert!(!run.stderr.contains("resuming"), "a complete load leaves nothing: {}", run.stderr);
}

/// Records that were left out counted as stored ones of the run.
#[test]
fn a_load_that_goes_on_counts_what_it_stores() {
    let place = Place::new();
    place.file("input.tsv", "a\t1\nbad\n");
    place.run("load", &["input.tsv"]).fails(2, &["line 2", "--skip-bad", "1 record is stored"]);
    place.file("input.tsv", "a\t1\nbad\n\n\nb\t2\n\t3\nc\t4\n");
    let run = place.run("load", &["input.tsv", "--skip-bad"]).ok();
    assert!(
        run.stderr.contains("resuming at line 2: 1 record is stored already"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("line 2 of input.tsv: 1 column instead of 2"), "{}", run.stderr);
    assert!(run.stderr.contains("line 6 of input.tsv: "), "{}", run.stderr);
    let counted = "loaded 3 records (21 B) into family 'default' in ";
    assert!(run.stderr.contains(counted), "{}", run.stderr);
    assert!(run.stderr.contains(", 2 of them in this run; skipped 2 bad ones"), "{}", run.stderr);
    // The engine refuses a key behind blank lines: its line is named, not that of the first blank.
    place.file("other.tsv", "a\t1\n\n\n\tempty\n");
    place.run("load", &["other.tsv"]).fails(2, &["line 4 of other.tsv"]);
}

#[test]
fn programs_are_told_what_was_stored_skipped_and_resumed() {
    let place = Place::new();
    let report = |run: &crate::support::Run| -> serde_json::Value {
        assert_eq!(run.text().lines().count(), 1, "{}", run.text());
        serde_json::from_str(run.text()).unwrap()
    };
    place.file("input.tsv", "a\t1\nbad\nc\t3\n");
    assert_eq!(place.run("load", &["input.tsv"]).text(), "", "nobody has asked");
    let run = place.run("load", &["input.tsv", "--json-report", "--restart"]);
    run.fails(2, &["line 2 of input.tsv"]);
    let expected = serde_json::json!({
        "loaded": "input.tsv", "families": ["default"], "complete": false,
        "stored": 1, "stored_before": 0, "skipped": 0, "skipped_before": 0,
        "resumed_at_line": null, "next_line": 2, "bytes": 4,
    });
    assert_eq!(report(&run), expected);
    let run = place.run("load", &["input.tsv", "--json-report", "--skip-bad"]).ok();
    let expected = serde_json::json!({
        "loaded": "input.tsv", "families": ["default"], "complete": true,
        "stored": 1, "stored_before": 1, "skipped": 1, "skipped_before": 0,
        "resumed_at_line": 2, "next_line": 4, "bytes": 12,
    });
    assert_eq!(report(&run), expected);
    // Beside the form of the input, and with the families of a dump.
    place.run("put", &["-f", "other", "--create", "x", "y"]).ok();
    let dump = place.run("dump", &[]).ok();
    let arguments = ["-", "--json", "--json-report"];
    let run = place.run_with_input_in("copy", "load", &arguments, dump.text().as_bytes()).ok();
    let said = report(&run);
    assert_eq!(said["families"], serde_json::json!(["default", "other"]));
    assert_eq!((&said["stored"], &said["complete"]), (&3.into(), &true.into()));
}

/// Bytes of memory of a process that no file backs; `None` when it has ended.
#[cfg(target_os = "linux")]
fn anonymous_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// An allocator that keeps what was freed doubled what the budget says, and a control group killed
/// the load.
#[cfg(target_os = "linux")]
#[test]
fn a_load_stays_within_its_memory_budget() {
    const BUDGET: u64 = 32 << 20;
    let place = Place::new();
    let filler = "x".repeat(90);
    let line =
        |n: u64| format!("{:016x}\t{filler}{n:010}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    place.file("input.tsv", (0..300_000).map(line).collect::<String>());
    place.file("o.toml", format!("[database]\nmax_memory_usage = {BUDGET}\n"));
    let mut child =
        place.command("load").args(["input.tsv", "--options", "o.toml"]).spawn().unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = most.max(anonymous_bytes(child.id()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(child.wait().unwrap().success());
    println!("{} MiB", most >> 20);
    assert!(most > BUDGET / 4, "{most} bytes were seen");
    assert!(most <= BUDGET / 10 * 11 + (8 << 20), "{} MiB", most >> 20);
}
