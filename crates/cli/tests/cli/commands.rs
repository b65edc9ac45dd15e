//! put, get, delete, scan, stats, verify and the families: the ordinary use.

use std::io::{BufRead, BufReader};

use crate::support::{Place, json_lines};

#[test]
fn put_get_delete() {
    let place = Place::new();
    place.run("put", &["greeting", "hello, world"]).ok();
    place.run("put", &["number", "-5"]).ok();
    assert_eq!(place.run("get", &["greeting"]).ok().text(), "hello, world");
    assert_eq!(place.run("get", &["number"]).ok().text(), "-5");
    place.run("put", &["greeting", "again"]).ok();
    assert_eq!(place.run("get", &["greeting"]).ok().text(), "again");
    place.run("delete", &["greeting"]).ok();
    place.run("get", &["greeting"]).fails(1, &["not found"]);
    place.run("delete", &["greeting"]).ok();
}

#[test]
fn ranges_and_prefixes_are_deleted() {
    let place = Place::new();
    for key in ["a", "ab", "ac", "b", "c", "d"] {
        place.run("put", &[key, "1"]).ok();
    }
    place.run("delete", &["--prefix", "a"]).ok();
    place.run("delete", &["b", "--to", "d"]).ok();
    assert_eq!(place.run("scan", &["--format", "tsv"]).ok().text(), "d\t1\n");
    place.run("delete", &["d", "--to", "d"]).fails(2, &["the range is empty"]);
    place.run("delete", &["d", "--to", "e", "--prefix"]).fails(2, &["--prefix"]);
}

#[test]
fn bytes_as_escapes_hex_and_base64() {
    let place = Place::new();
    place.run("put", &[r"a\x00\xff", r"tab\t back\\slash"]).ok();
    assert_eq!(place.run("get", &[r"a\x00\xff"]).ok().text(), "tab\t back\\slash");
    assert_eq!(
        place.run("get", &["--hex", "6100ff"]).ok().text(),
        "746162096261636b5c736c617368\n".replace("0962", "092062")
    );
    place.run("put", &["--base64", "AAE=", "/w=="]).ok();
    assert_eq!(place.run("get", &["--hex", "0001"]).ok().text(), "ff\n");
    assert_eq!(
        place.run("scan", &[]).ok().text(),
        "\\x00\\x01  \\xff\na\\x00\\xff  tab\\t back\\\\slash\n"
    );
    assert_eq!(
        place.run("scan", &["--hex", "--prefix", "00", "--format", "tsv"]).ok().text(),
        "0001\tff\n"
    );
}

#[test]
fn values_from_standard_input_and_files_are_kept_as_they_are() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    place.run_with_input("put", &["a", "-"], &bytes).ok();
    place.file("value", &bytes);
    place.run("put", &["b", "--value-file", "value"]).ok();
    place.run("put", &["empty", ""]).ok();
    assert!(place.run("get", &["a"]).ok().stdout == bytes);
    assert!(place.run("get", &["b"]).ok().stdout == bytes);
    assert!(place.run("get", &["empty"]).ok().stdout.is_empty());
}

#[test]
fn a_record_with_a_long_life_is_there() {
    let place = Place::new();
    place.run("put", &["k", "v", "--ttl", "86400"]).ok();
    assert_eq!(place.run("get", &["k"]).ok().text(), "v");
}

#[test]
fn scans_in_both_directions_with_bounds() {
    let place = Place::new();
    for key in ["a", "ab", "abc", "b", "ba", "c"] {
        place.run("put", &[key, &key.to_uppercase()]).ok();
    }
    let keys = |arguments: &[&str]| {
        let run = place.run("scan", &[&["--keys-only"], arguments].concat()).ok();
        run.text().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(keys(&[]), ["a", "ab", "abc", "b", "ba", "c"]);
    assert_eq!(keys(&["--reverse"]), ["c", "ba", "b", "abc", "ab", "a"]);
    assert_eq!(keys(&["--prefix", "ab"]), ["ab", "abc"]);
    assert_eq!(keys(&["--prefix", "ab", "--reverse", "-n", "1"]), ["abc"]);
    assert_eq!(keys(&["--from", "ab", "--to", "ba"]), ["ab", "abc", "b"]);
    assert_eq!(keys(&["--from", "ab", "--to", "ba", "--reverse"]), ["b", "abc", "ab"]);
    assert_eq!(keys(&["--limit", "2"]), ["a", "ab"]);
    assert_eq!(keys(&["--limit", "0"]), Vec::<String>::new());
    assert_eq!(keys(&["--prefix", "x"]), Vec::<String>::new());
    let csv = place.run("scan", &["--prefix", "b", "--format", "csv"]).ok();
    assert_eq!(csv.text(), "key,value\nb,B\nba,BA\n");
    let jsonl = place.run("scan", &["--prefix", "b", "--format", "jsonl", "--keys-only"]).ok();
    assert_eq!(jsonl.text(), "{\"key\":\"b\"}\n{\"key\":\"ba\"}\n");
}

#[test]
fn families_are_created_listed_and_dropped() {
    let place = Place::new();
    place
        .run("create-family", &["cold", "--set", "compression=zstd", "--set", "block_size=16384"])
        .ok();
    place.run("create-family", &["cold"]).fails(2, &["'cold' exists"]);
    place.run("put", &["--family", "warm", "--create", "k", "v"]).ok();
    assert_eq!(place.run("families", &[]).ok().text(), "cold\nwarm\n");
    place.run("get", &["--family", "cold", "k"]).fails(1, &["not found"]);
    place.run("drop-family", &["warm"]).fails(2, &["all of its data", "--yes"]);
    place.run("drop-family", &["warm", "--yes"]).ok();
    assert_eq!(place.run("families", &[]).ok().text(), "cold\n");
    place
        .run("create-family", &["x", "--set", "blok_size=1"])
        .fails(2, &["no setting 'blok_size'", "block_size"]);
    place.run("create-family", &["x", "--set", "block_size=1"]).fails(2, &["block_size is 1"]);
    place.run("create-family", &["__load_progress"]).fails(2, &["how far a load"]);
}

#[test]
fn stats_and_verify_of_loaded_data() {
    let place = Place::new();
    place.file("input.jsonl", json_lines(5000));
    place.run("load", &["input.jsonl"]).ok();
    let tables = place.run("stats", &[]).ok();
    assert!(tables.text().contains("Family default"), "{}", tables.text());
    assert!(!tables.text().contains("__load_progress"), "{}", tables.text());
    assert!(tables.text().contains("5,000"), "{}", tables.text());
    let stats: serde_json::Value =
        serde_json::from_str(place.run("stats", &["--json"]).ok().text()).unwrap();
    let levels = stats["families"][0]["levels"].as_array().unwrap();
    let entries: u64 = levels.iter().map(|level| level["entries"].as_u64().unwrap()).sum();
    assert_eq!(entries, 5000);

    assert!(place.run("verify", &[]).ok().text().contains("No damage"));
    let report: serde_json::Value =
        serde_json::from_str(place.run("verify", &["--json"]).ok().text()).unwrap();
    assert_eq!(report["ok"], true);
}

#[test]
fn a_reader_that_has_seen_enough_ends_a_dump_quietly() {
    let place = Place::new();
    place.file("input.jsonl", json_lines(20_000));
    place.run("load", &["input.jsonl"]).ok();
    for command in ["dump", "scan"] {
        let mut child = place.spawn(command, &["--format", "jsonl"]);
        let mut line = String::new();
        BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("{\"key\":\"0") || line.contains("dump"), "{line}");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn the_database_is_named_in_front_behind_or_in_the_environment() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    let tool = |arguments: &[&str], variable: Option<&str>| -> crate::support::Run {
        let mut process = std::process::Command::new(env!("CARGO_BIN_EXE_tidesdb"));
        process.current_dir(place.path("")).env_remove("TIDESDB_DB").args(arguments);
        process.envs(variable.map(|value| ("TIDESDB_DB", value)));
        process.output().unwrap().into()
    };
    assert_eq!(tool(&["--db", "db", "get", "k"], None).ok().text(), "v");
    assert_eq!(tool(&["get", "k", "--db=db"], None).ok().text(), "v");
    assert_eq!(tool(&["get", "k"], Some("db")).ok().text(), "v");
    tool(&["get", "k", "--db", "other"], Some("db")).fails(2, &["no database at other"]);
    tool(&["get", "k"], None).fails(2, &["no database is named", "TIDESDB_DB"]);
    tool(&["get", "db", "k"], None).fails(2, &["no database is named", "hint: add --db"]);
    tool(&["put", "db", "k", "v"], None).fails(2, &["unexpected argument", "hint: the database"]);
}

#[test]
fn keys_are_counted_families_flushed_and_compacted() {
    let place = Place::new();
    place.file("input.jsonl", json_lines(500));
    place.run("load", &["input.jsonl"]).ok();
    assert_eq!(place.run("count", &[]).ok().text(), "500\n");
    assert_eq!(place.run("count", &["--from", "8", "--to", "8"]).ok().text(), "0\n");
    place.run("flush", &[]).ok();
    place.run("compact", &[]).ok();
    for command in ["flush", "compact"] {
        place.run(command, &["-f", "absent"]).fails(2, &["'absent'"]);
    }
    let range = &["-f", "default", "--from", "1", "--to", r"\x32"];
    place.run("compact", range).ok();
    place.run("compact", &["--from", "1"]).fails(2, &["--family"]);
    assert_eq!(place.run("count", &[]).ok().text(), "500\n");
    assert!(place.run("verify", &[]).ok().text().contains("No damage"));
}

#[test]
fn options_are_shown_and_changed() {
    let place = Place::new();
    place.run("create-family", &["x", "--set", "block_size=16384"]).ok();
    let changed = place.run("options", &["-f", "x", "--set", "compression=zstd"]).ok();
    assert!(changed.text().contains("compression = zstd\n"), "{}", changed.text());
    assert!(changed.text().contains("block_size = 16384\n"), "the others stay");
    let json = place.run("options", &["-f", "x", "--json"]).ok();
    let options: serde_json::Value = serde_json::from_str(json.text()).unwrap();
    assert_eq!(options["compression"], "zstd");
    assert_eq!((&options["block_size"], &options["use_btree"]), (&16384.into(), &false.into()));
    assert_eq!(options["bloom_fpr"], 0.01);
    place.run("create-family", &["y", "--set", "block_size=8192"]).ok();
    let all = place.run("options", &["--json"]).ok();
    let all: serde_json::Value = serde_json::from_str(all.text()).unwrap();
    assert_eq!(all["x"], options);
    assert_eq!((all.as_object().unwrap().len(), &all["y"]["block_size"]), (2, &8192.into()));
    let families = place.run("families", &["--json"]).ok();
    let families: serde_json::Value = serde_json::from_str(families.text()).unwrap();
    assert_eq!(families[0]["name"], "x");
    assert_eq!(families[0]["options"]["block_size"], 16384);
    place.run("options", &["-f", "x", "--set", "block_sise=1"]).fails(2, &["no setting"]);
}

#[test]
fn expiry_is_shown_and_bytes_are_taken_as_they_are() {
    let place = Place::new();
    place.run("put", &["--raw", "path", r"C:\temp\new"]).ok();
    assert_eq!(place.run("get", &["path"]).ok().text(), r"C:\temp\new");
    place.run("put", &["session", "v", "--ttl", "3600", "--sync"]).ok();
    let text = place.run("scan", &["--expiry", "--prefix", "s"]).ok();
    assert!(text.text().starts_with("session  v  (expires at "), "{}", text.text());
    let jsonl = place.run("scan", &["--expiry", "--format", "jsonl"]).ok();
    assert_eq!(jsonl.text().matches("\"expires_at\":").count(), 1, "{}", jsonl.text());
    place.run("scan", &["--expiry", "--format", "tsv"]).fails(2, &["no place for --expiry"]);
}

#[test]
fn several_keys_at_once() {
    let place = Place::new();
    for (key, value) in [("a", "1"), ("b\\t", "2\\n"), ("c", "3")] {
        place.run("put", &[key, value]).ok();
    }
    assert_eq!(place.run("get", &["c", "a", "b\\t"]).ok().text(), "c  3\na  1\nb\\t  2\\n\n");
    assert_eq!(place.run("get", &["--hex", "61", "63"]).ok().text(), "61  31\n63  33\n");
    let run = place.run("get", &["c", "x\\n", "a"]);
    assert_eq!((run.code, run.text()), (Some(1), "c  3\na  1\n"));
    assert_eq!(run.stderr, "not found: x\\n\n1 key not found\n");
    let run = place.run("get", &["--json", "a", "x"]);
    assert_eq!(run.code, Some(1));
    assert_eq!(run.text(), "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"x\"}\n");
    let one = place.run("get", &["--json", "a"]).ok();
    assert_eq!(one.text(), "{\"key\":\"a\",\"value\":\"1\"}\n");
    place.run("get", &[]).fails(2, &["no key is named", "--keys-from"]);

    let from =
        |input: &str| place.run_with_input("get", &["c", "--keys-from", "-"], input.as_bytes());
    assert_eq!(from("a\r\n\nb\\t").ok().text(), "c  3\na  1\nb\\t  2\\n\n");
    assert_eq!(from("").ok().text(), "c  3\n");
    from("a\n\\q\n").fails(2, &["line 2: the key is no valid text"]);
    let file = place.file("keys", "x\n".repeat(2500) + "a\n");
    let run = place.run("get", &["--keys-from", file.to_str().unwrap()]);
    assert_eq!((run.code, run.text()), (Some(1), "a  1\n"));
    assert_eq!(run.stderr.lines().count(), 11);
    assert!(run.stderr.ends_with("\n2500 keys not found\n"));
    place.run("get", &["--keys-from", "absent"]).fails(2, &["cannot read absent"]);
}

/// The close of the command wrote the other families to tables as well.
#[test]
fn flushing_one_family_leaves_the_others_in_the_log() {
    let place = Place::new();
    let open = || tidesdb::Db::open(place.path("db"), tidesdb::DbOptions::default()).unwrap();
    let db = open();
    for name in ["a", "b"] {
        let family = db.create_family(name, tidesdb::FamilyOptions::default()).unwrap();
        family.put("key", "value").unwrap();
    }
    // Without a close: both are in the log.
    drop(db);
    place.run("flush", &["--family", "b"]).ok();
    let db = open();
    let tables = |name: &str| {
        let levels = db.family(name).unwrap().stats().levels;
        levels.iter().map(|level| level.tables).sum::<u64>()
    };
    assert_eq!((tables("a"), tables("b")), (0, 1));
    drop(db);
    place.run("flush", &[]).ok();
    let db = open();
    assert_eq!(db.family("a").unwrap().stats().memtable_bytes, 0);
}

#[test]
fn every_command_that_changes_something_says_so_as_json_when_asked() {
    let place = Place::new();
    let reported: &[(&str, &[&str], &str)] = &[
        ("put", &["key", "value"], r#"{"family":"default","stored":1,"value_bytes":5}"#),
        ("delete", &["k", "--prefix"], r#"{"family":"default","removed":"prefix"}"#),
        ("delete", &["k"], r#"{"family":"default","removed":"key"}"#),
        ("create-family", &["a", "--set", "min_disk_space=1MB"], r#"{"created":"a"}"#),
        ("rename-family", &["a", "b"], r#"{"renamed":"a","to":"b"}"#),
        ("clone-family", &["b", "c"], r#"{"cloned":"b","to":"c"}"#),
        ("drop-family", &["c", "--yes"], r#"{"dropped":"c"}"#),
        ("flush", &["-f", "b"], r#"{"flushed":["b"]}"#),
        ("flush", &[], r#"{"flushed":["b","default"]}"#),
        ("compact", &[], r#"{"compacted":["b","default"]}"#),
        ("compact", &["-f", "b"], r#"{"compacted":["b"]}"#),
        ("compact", &["-f", "b", "--from", "k"], r#"{"compacted":["b"]}"#),
        ("checkpoint", &["point"], r#"{"checkpoint":"point","verified":false}"#),
        ("backup", &["copy"], r#"{"backup":"copy","verified":false}"#),
    ];
    for (command, arguments, expected) in reported {
        assert_eq!(place.run(command, arguments).ok().text(), "", "{command}");
        if ["checkpoint", "backup"].contains(command) {
            std::fs::remove_dir_all(place.path(arguments[0])).unwrap();
        }
        match *command {
            "create-family" => place.run("drop-family", &["a", "--yes"]).ok(),
            "rename-family" => place.run("rename-family", &["b", "a"]).ok(),
            "clone-family" => place.run("drop-family", &["c", "--yes"]).ok(),
            "drop-family" => place.run("clone-family", &["b", "c"]).ok(),
            _ => place.run("verify", &[]).ok(),
        };
        let run = place.run(command, &[arguments, &["--json"][..]].concat()).ok();
        let said: serde_json::Value = serde_json::from_str(run.text()).unwrap();
        let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
        assert_eq!(said, expected, "{command}");
    }
    let dump = place.run("dump", &["--json"]).ok();
    place.run_with_input("load", &["-", "--json"], dump.text().as_bytes()).ok();
}

#[test]
fn numbers_are_estimated_and_figures_told_to_prometheus() {
    let place = Place::new();
    place.file("in.jsonl", json_lines(3000));
    place.run("load", &["in.jsonl"]).ok();
    place.run("compact", &[]).ok();
    let number = |arguments: &[&str]| -> i64 {
        let run = place.run("count", arguments).ok();
        run.text().trim().parse().unwrap()
    };
    for range in [&[][..], &["--prefix", "a"], &["--from", "3", "--to", "c"], &["--from", "x"]] {
        let (about, exactly) = (number(&[&["--estimate"], range].concat()), number(range));
        assert!((about - exactly).abs() < 100, "{about} for {exactly} in {range:?}");
    }
    for apart in [["--from", "x"], ["--to", "5"]] {
        assert_eq!(number(&[&["--estimate", "--prefix", "a"], &apart[..]].concat()), 0);
    }
    let cost = |from: &str, to: &str| {
        let run = place.run("count", &["--estimate", "--json", "--from", from, "--to", to]).ok();
        let json: serde_json::Value = serde_json::from_str(run.text()).unwrap();
        json["cost"].as_f64().unwrap()
    };
    assert!(cost("0", "f") > 2.0 * cost("0", "2") && cost("x", "y") < cost("0", "2"));
    let run = place.run("count", &["--estimate", "--from", "0", "--to", "f"]).ok();
    let told = format!("costs {:.1}, in a unit", cost("0", "f"));
    assert!(run.stderr.contains(&told), "'{told}' is not in: {}", run.stderr);
    assert_eq!(run.text().lines().count(), 1);
    assert_eq!(place.run("count", &["--estimate"]).ok().stderr, "", "there is no range");
    place.run("create-family", &["r", "--set", "key_order=reverse"]).ok();
    let run = place.run("count", &["-f", "r", "--estimate", "--prefix", "a"]);
    run.fails(2, &["--estimate takes no --prefix"]);

    let run = place.run("stats", &["--prometheus"]).ok();
    assert!(run.text().contains("tidesdb_level_entries{family=\"default\""), "{}", run.text());
    place.run("stats", &["--prometheus", "--json"]).fails(2, &["cannot be used with"]);
    let run = place.run("stats", &["--json"]).ok();
    let json: serde_json::Value = serde_json::from_str(run.text()).unwrap();
    assert_eq!(json["families"][0]["keys_about"], 3000, "{json}");
}

#[test]
fn expiry_is_in_the_json_of_get_and_in_scans_of_the_shell() {
    let place = Place::new();
    place.run("create-family", &["i", "--set", "key_order=case_insensitive"]).ok();
    for family in ["default", "i"] {
        place.run("put", &["-f", family, "Session", "v", "--ttl", "3600"]).ok();
        place.run("put", &["-f", family, "z", "v"]).ok();
        let key = if family == "i" { "sESSION" } else { "Session" };
        let run = place.run("get", &["-f", family, key, "z", "absent", "--json"]);
        run.fails(1, &["1 key not found"]);
        let lines: Vec<serde_json::Value> =
            run.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines[0]["expires_at"].as_u64().unwrap() > 1_000_000_000, "{}", run.text());
        assert!(lines[1].get("expires_at").is_none() && lines[2].get("value").is_none());
    }
    let script =
        b"get Session --json\nscan --expiry\nbegin\nput t 1 --ttl 9\nget t --json\nrollback\n";
    let run = place.run_with_input("shell", &[], script).ok();
    assert_eq!(run.text().matches("expires_at\":").count(), 2, "{}", run.text());
    assert!(run.text().contains("Session  v  (expires at "), "{}", run.text());
    let run = place.run_with_input("shell", &[], b"stats --prometheus\n").ok();
    assert!(run.text().contains("tidesdb_operations_written_total"), "{}", run.text());
}

#[test]
fn trees_and_all_counters_are_in_the_statistics() {
    let place = Place::new();
    place.run("create-family", &["default", "--set", "use_btree=true"]).ok();
    place.file("in.jsonl", json_lines(20_000));
    place.run("load", &["in.jsonl"]).ok();
    place.run("compact", &[]).ok();
    let text = place.run("stats", &[]).ok();
    assert!(text.text().contains("trees of level"), "{}", text.text());
    let stats = place.run("stats", &["--json"]).ok();
    let stats: serde_json::Value = serde_json::from_str(stats.text()).unwrap();
    let trees = &stats["families"][0]["trees"];
    assert!(trees["levels"][0]["leaves"].as_u64().unwrap() > 10, "{trees}");
    for part in ["work", "reads"] {
        for of in [&stats["database"], &stats["families"][0]] {
            assert!(of[part].as_object().unwrap().len() >= 9, "{of}");
        }
    }
    assert_eq!(stats["database"]["transactions"]["conflicts"], 0);
}
