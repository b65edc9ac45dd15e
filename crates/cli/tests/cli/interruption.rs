//! Loads that are interrupted by Ctrl-C or killed go on without loss and without repetition.

use std::io::Write;
use std::process::Child;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::{Place, Random, json_line, json_lines, read_until, signal, sorted};

/// Waits without asking. Which moment a process is killed at is the input of a test here; no
/// outcome depends on it.
fn pass(time: Duration) {
    let (keep_open, never) = mpsc::channel::<()>();
    assert!(never.recv_timeout(time).is_err());
    drop(keep_open);
}

/// Makes sure that the stored records are exactly those that the checkpoint names, which are the
/// first ones of the input.
fn check_prefix(place: &Place, lines: &[String]) -> u64 {
    let Some(records) = place.checkpoint_records() else { return 0 };
    let expected = sorted(&lines[..records as usize].concat());
    assert!(place.records("default") == expected, "not the first {records} records");
    records
}

#[test]
fn killed_at_random_moments_a_load_from_a_file_is_completed() {
    let (place, mut random) = (Place::new(), Random::new());
    let lines: Vec<String> = (0..30_000).map(json_line).collect();
    place.file("input.jsonl", lines.concat());
    let arguments = ["input.jsonl", "--batch", "7"];

    let begun = Instant::now();
    place.run_in("timing", "load", &arguments).ok();
    let whole = begun.elapsed().as_micros() as u64;

    let (mut window, mut killed_inside) = (whole / 8, 0);
    for _ in 0..40 {
        let mut child = place.spawn("load", &arguments);
        pass(Duration::from_micros(random.below(window)));
        child.kill().unwrap();
        let has_ended = child.wait().unwrap().success();
        // The kill may have come before there was a database.
        let run = place.run("families", &[]);
        let is_there = run.code == Some(0) && run.text().contains("default");
        // It may also have come behind the last batch: another load then begins anew.
        let is_loaded =
            || place.checkpoint_records().is_none() && place.records("default").lines().count() > 0;
        if has_ended || is_there && is_loaded() {
            assert!(place.records("default") == sorted(&lines.concat()));
            std::fs::remove_dir_all(place.path("db")).unwrap();
            continue;
        }
        if is_there && check_prefix(&place, &lines) > 0 {
            killed_inside += 1;
        } else {
            window = (window + whole / 8).min(whole);
        }
        if killed_inside == 8 {
            break;
        }
    }
    eprintln!("{killed_inside} kills were inside the load");
    assert!(killed_inside > 0, "every kill came before the first batch");
    let run = place.run("load", &arguments).ok();
    assert!(run.stderr.contains("loaded 30,000 records"), "{}", run.stderr);
    assert!(place.records("default") == sorted(&lines.concat()));
    assert_eq!(place.checkpoint_records(), None);
}

#[test]
fn killed_after_random_input_a_load_from_a_pipe_is_completed() {
    let (place, mut random) = (Place::new(), Random::new());
    let lines: Vec<String> = (0..30_000).map(json_line).collect();
    let arguments =
        ["-", "--format", "jsonl", "--resume-key", "pipe", "--batch", "10", "--progress", "always"];
    let mut stored = 0;
    for round in 1..=6 {
        let mut child = place.spawn("load", &arguments);
        // More than before, and more than the pipe holds, so that some of it was read.
        let fed = (stored + 3000 + random.below(1000)).min(29_999) as usize;
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(lines[..fed].concat().as_bytes()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let now = check_prefix(&place, &lines);
        assert!(now >= stored && now <= fed as u64, "round {round}: {stored} {now} {fed}");
        stored = now;
    }
    eprintln!("{stored} records stored before the last run");
    let run = place.run_with_input("load", &arguments, lines.concat().as_bytes()).ok();
    assert!(run.stderr.contains("loaded 30,000 records"), "{}", run.stderr);
    assert_eq!(run.stderr.contains("resuming at line"), stored > 0, "{}", run.stderr);
    assert!(place.records("default") == sorted(&lines.concat()));
}

/// Starts a load of standard input, feeds it, interrupts it, and feeds on until it is gone.
fn interrupt(place: &Place, arguments: &[&str], name: &str) -> (Child, String) {
    let mut child = place.spawn("load", arguments);
    // The database is opened when the input begins.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(json_line(0).as_bytes()).unwrap();
    let mut seen = read_until(&mut child, "progress: ");
    for number in 1..3000 {
        stdin.write_all(json_line(number).as_bytes()).unwrap();
    }
    signal(&child, name);
    // It must not wait for input that may never come, but it does not look before a line has.
    let mut number = 3000;
    while stdin.write_all(json_line(number).as_bytes()).is_ok() {
        number += 1;
    }
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{seen}");
    let mut rest = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut rest).unwrap();
    seen.push_str(&rest);
    (child, seen)
}

#[test]
fn an_interrupted_load_tells_how_to_go_on_and_does() {
    for name in ["-INT", "-TERM"] {
        let place = Place::new();
        let arguments = ["-", "--format", "jsonl", "--resume-key", "pipe", "--progress", "always"];
        let (_, stderr) = interrupt(&place, &arguments, name);
        assert!(
            stderr.contains("interrupted: the load of standard input is incomplete"),
            "{stderr}"
        );
        assert!(stderr.contains("the same command goes on at line"), "{stderr}");
        let stored = place.checkpoint_records().unwrap();
        let lines: Vec<String> = (0..stored + 2000).map(json_line).collect();
        assert_eq!(check_prefix(&place, &lines), stored);

        let run = place.run_with_input("load", &arguments, lines.concat().as_bytes()).ok();
        assert!(
            run.stderr.contains(&format!("resuming at line {}:", stored + 1)),
            "{}",
            run.stderr
        );
        assert!(place.records("default") == sorted(&lines.concat()));
    }
}

#[test]
fn a_stream_without_a_name_is_not_resumed() {
    let place = Place::new();
    let arguments = ["-", "--format", "jsonl", "--progress", "always"];
    let (_, stderr) = interrupt(&place, &arguments, "-INT");
    assert!(stderr.contains("only if it has a --resume-key"), "{stderr}");
    let text = json_lines(100);
    let run = place.run_with_input("load", &arguments, text.as_bytes()).ok();
    assert!(!run.stderr.contains("resuming"), "{}", run.stderr);
    assert!(run.stderr.contains("loaded 100 records"), "{}", run.stderr);
}

#[test]
fn a_csv_load_goes_on_behind_its_header() {
    let place = Place::new();
    let rows = |bad: &str| format!("note,value,key\n\"a\nb\",1,one\nc,2,two\n{bad}\nd,4,four\n");
    place.file("input.csv", rows("oops"));
    place.run("load", &["input.csv"]).fails(2, &["line 5 of input.csv", "goes on at line 5"]);
    place.file("input.csv", rows(",3,three"));
    let run = place.run("load", &["input.csv"]).ok();
    assert!(run.stderr.contains("loaded 4 records"), "{}", run.stderr);
    let expected = "four\t4\none\t1\nthree\t3\ntwo\t2\n";
    assert_eq!(place.run("dump", &["--format", "tsv"]).ok().text(), expected);
}

#[test]
fn an_interrupted_copy_leaves_nothing_behind_and_a_killed_one_is_no_obstacle() {
    let place = Place::new();
    place.run("create-family", &["default", "--set", "compression=none"]).ok();
    place.file("value", vec![7; 96 << 20]);
    place.run("put", &["k0", "--value-file", "value"]).ok();
    let mut keys = 1;
    let made = place.path("made");
    let is_being_written = || {
        let entries = std::fs::read_dir(&made).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.path().extension().is_some_and(|e| e == "vlog"))
    };
    for name in ["-INT", "-TERM", "-KILL"] {
        let mut interrupted = false;
        // It may be done before the signal comes; a larger one takes longer.
        for _ in 0..8 {
            let mut child = place.spawn("backup", &["made", "--verify"]);
            while !is_being_written() && child.try_wait().unwrap().is_none() {
                pass(Duration::from_millis(1));
            }
            signal(&child, name);
            let output = child.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_done = name == "-KILL" && place.run_in("made", "count", &[]).code == Some(0);
            if output.status.success() || is_done {
                std::fs::remove_dir_all(&made).unwrap();
                place.run("put", &[&format!("k{keys}"), "--value-file", "value"]).ok();
                keys += 1;
                continue;
            }
            interrupted = true;
            if name == "-KILL" {
                assert!(made.exists());
                place.run_in("made", "get", &["k0"]).fails(2, &["not finished"]);
            } else {
                assert_eq!(output.status.code(), Some(130), "{stderr}");
                assert!(stderr.contains("nothing was kept of the copy"), "{stderr}");
                assert!(!made.exists());
            }
            break;
        }
        assert!(interrupted, "{name} always came too late");
    }
    place.run("backup", &["made"]).ok();
    assert_eq!(place.run_in("made", "count", &[]).ok().text(), format!("{keys}\n"));
}

#[test]
fn an_interrupted_dump_leaves_nothing_behind() {
    let place = Place::new();
    place.file("input.jsonl", json_lines(20_000));
    place.run("load", &["input.jsonl"]).ok();
    // A pipe that is not read keeps the dump where it is until it is interrupted.
    let mut child = place.spawn("dump", &["--progress", "always"]);
    read_until(&mut child, "progress: ");
    signal(&child, "-INT");
    read_until(&mut child, "once more to stop at once");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the dump is incomplete"));
}
