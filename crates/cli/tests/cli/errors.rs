//! What cannot work: each has a clear message, and nothing is changed or created.

use std::io::Write;
use std::process::Command;

use crate::support::{Place, files_below, json_line, json_lines, read_until};

#[test]
fn a_missing_database_is_not_created_by_reading() {
    let place = Place::new();
    let commands: [(&str, &[&str]); 7] = [
        ("get", &["k"]),
        ("scan", &[]),
        ("dump", &[]),
        ("stats", &[]),
        ("verify", &[]),
        ("families", &[]),
        ("delete", &["k"]),
    ];
    for (command, arguments) in commands {
        place.run(command, arguments).fails(2, &["no database at db", "hint: check --db"]);
        assert!(!place.path("db").exists(), "{command}");
    }
    std::fs::create_dir(place.path("db")).unwrap();
    place.file("db/notes.txt", "mine");
    for (command, arguments) in commands {
        place.run(command, arguments).fails(2, &["is not a database", "hint: check --db"]);
        assert_eq!(files_below(&place.path("db")).len(), 1, "{command}");
    }
}

#[test]
fn an_unknown_family_is_told_with_those_there_are() {
    let place = Place::new();
    place.run("put", &["--family", "users", "--create", "k", "v"]).ok();
    place.run("get", &["--family", "user", "k"]).fails(2, &["'user'", "there are: users"]);
    place.run("scan", &[]).fails(2, &["'default'", "there are: users"]);
    place.run("delete", &["--family", "user", "k"]).fails(2, &["'user'"]);
    place.run("put", &["-f", "usres", "k", "v"]).fails(2, &["'usres'", "users", "--create"]);
    assert_eq!(place.run("families", &[]).ok().text(), "users\n");
}

#[test]
fn a_database_in_use_is_told() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    let arguments = ["-", "--format", "jsonl", "--progress", "always"];
    let mut owner = place.spawn("load", &arguments);
    owner.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    read_until(&mut owner, "progress: ");
    place.run("get", &["k"]).fails(2, &["another process", "hint: commands that only read"]);
    place.run("put", &["k", "w"]).fails(2, &["another process"]);
    drop(owner.stdin.take());
    assert!(owner.wait_with_output().unwrap().status.success());
    assert_eq!(place.run("get", &["k"]).ok().text(), "v");
}

#[test]
fn wrong_usage_is_explained() {
    let place = Place::new();
    place.run("scna", &[]).fails(2, &["scan"]);
    place.run("scan", &["--prefx", "a"]).fails(2, &["--prefix"]);
    place.run("scan", &["--format", "jsnol"]).fails(2, &["jsonl"]);
    place.run("put", &["k"]).fails(2, &["VALUE"]);
    place.run("put", &["k", "v", "--value-file", "f"]).fails(2, &["cannot be used with"]);
    place.run("put", &["k", "v", "--ttl", "0"]).fails(2, &["--ttl"]);
    place.run("get", &["--hex", "--base64", "00"]).fails(2, &["cannot be used with"]);
    place.run("get", &["--hex", "0g"]).fails(2, &["the key is no valid hex", "at byte 2"]);
    place.run("put", &[r"a\q", "v"]).fails(2, &["unknown escape", r"\\"]);
    place.run("load", &["records.xml"]).fails(2, &["not clear", "--format"]);
    assert!(!place.path("db").exists());
}

#[test]
fn keys_outside_the_limits_are_refused() {
    let place = Place::new();
    place.run("put", &["", "v"]).fails(2, &["the key is empty"]);
    let long = "k".repeat(65_536);
    place.run("put", &[&long, "v"]).fails(2, &["65536", "65535"]);
    place.run("put", &["k", "v", "--family", "f"]).fails(2, &["no database at db"]);
    assert!(!place.path("db").exists());
    place.run("put", &[&long[1..], "v"]).ok();
    assert_eq!(place.run("get", &[&long[1..]]).ok().text(), "v");
}

#[test]
fn an_input_that_cannot_be_read_creates_nothing() {
    let place = Place::new();
    place.run("load", &["absent.jsonl"]).fails(2, &["cannot open absent.jsonl"]);
    std::fs::create_dir(place.path("folder.csv")).unwrap();
    place.run("load", &["folder.csv"]).fails(2, &["is a directory"]);
    place.run("put", &["k", "--value-file", "absent"]).fails(2, &["cannot open absent"]);
    assert!(!place.path("db").exists());
}

#[test]
fn a_dump_that_fails_leaves_the_old_file() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    place.file("old.tsv", "precious");
    place.run("dump", &["absent/file.tsv"]).fails(2, &["cannot write", "absent"]);
    place.run("dump", &["old.tsv", "--family", "absent"]).fails(2, &["'absent'"]);
    assert_eq!(place.read("old.tsv"), b"precious");
    place.run("dump", &["old.tsv"]).ok();
    assert_eq!(place.read("old.tsv"), b"k\tv\n");
    assert!(place.partial_files().is_empty());
}

#[test]
fn no_file_of_a_database_is_written_over() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    place.run_in("other", "put", &["k", "v"]).ok();
    std::fs::create_dir(place.path("db/below")).unwrap();
    let absolute = place.path("db/CURRENT").display().to_string();
    let mut paths = vec!["db/CURRENT", "db/new.tsv", "db/below/x.tsv", "db/../db/./CURRENT"];
    paths.extend(["other/CURRENT", "other/new.tsv", &absolute]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink("db", place.path("way")).unwrap();
        symlink("db/CURRENT", place.path("link.tsv")).unwrap();
        symlink("db/absent.tsv", place.path("dangling.tsv")).unwrap();
        symlink("dangling.tsv", place.path("twice.tsv")).unwrap();
        paths.extend(["way/CURRENT", "way/new.tsv", "link.tsv", "dangling.tsv", "twice.tsv"]);
    }
    let before = files_below(&place.path("")).len();
    for path in paths {
        place.run("dump", &[path, "--format", "tsv"]).fails(2, &["lies in the database", "hint"]);
        assert_eq!(files_below(&place.path("")).len(), before, "{path}");
    }
    assert_eq!(place.run("get", &["k"]).ok().text(), "v");
    place.run("dump", &["db.tsv"]).ok();
}

#[test]
fn damage_that_keeps_a_database_closed_is_what_verify_lists() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    place.file("db/CURRENT", "garbage");
    let run = place.run("verify", &[]);
    run.fails(2, &["its files are checked one by one", "has 1 problem"]);
    assert!(run.text().contains("CURRENT") && !run.stderr.contains("`tidesdb verify"));
    let run = place.run("verify", &["--json"]);
    let report: serde_json::Value = serde_json::from_str(run.text()).unwrap();
    assert_eq!(report["ok"], false);
}

#[test]
fn wrong_settings_are_told_what_is_taken() {
    let place = Place::new();
    let set = |setting: &str| place.run("create-family", &["x", "--set", setting]);
    set("compression=gzip").fails(2, &["no value of compression", "none, snappy, lz4", "zstd"]);
    set("write_buffer_size=much").fails(2, &["whole number", "64MiB"]);
    set("enable_bloom_filter=yes").fails(2, &["true or false"]);
    set("sync_mode=often").fails(2, &["interval:MICROSECONDS"]);
    set("write_buffer_size=8MB").ok();
    let run = place.run("options", &["-f", "x"]).ok();
    assert!(run.text().contains("write_buffer_size = 8388608\n"), "{}", run.text());
}

#[test]
fn damage_is_listed_with_file_and_offset() {
    let place = Place::new();
    place.file("input.jsonl", (0..20_000).map(json_line).collect::<String>());
    place.run("load", &["input.jsonl"]).ok();
    let tables = files_below(&place.path("db"));
    let table = tables
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "klog"))
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap_or_else(|| panic!("there is no table among {tables:?}"));
    let mut bytes = std::fs::read(table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(table, &bytes).unwrap();

    let name = table.file_name().unwrap().to_str().unwrap();
    let run = place.run("verify", &[]);
    run.fails(2, &["problem"]);
    assert!(run.text().contains(name) && run.text().contains("offset"), "{}", run.text());
    let run = place.run("verify", &["--json"]);
    run.fails(2, &["problem"]);
    let report: serde_json::Value = serde_json::from_str(run.text()).unwrap();
    assert_eq!(report["ok"], false);
    let problem = &report["problems"][0];
    assert!(problem["file"].as_str().unwrap().ends_with(name), "{problem}");
    let offset = problem["offset"].as_u64().unwrap();
    assert!(offset <= middle as u64 && middle as u64 - offset < 64 << 10, "{problem} {middle}");
    place.run("dump", &["out.jsonl"]).fails(2, &[name, "hint: `tidesdb verify"]);
    assert!(!place.path("out.jsonl").exists() && place.partial_files().is_empty());
}

#[test]
fn what_programs_ask_for_from_habit() {
    let place = Place::new();
    place.run("put", &["a", "1"]).ok();
    let line = "{\"key\":\"a\",\"value\":\"1\"}\n";
    assert_eq!(place.run("scan", &["--json"]).ok().text(), line);
    assert_eq!(place.run("count", &["--json"]).ok().text(), "{\"count\":1}\n");
    let shell = place.run_with_input("shell", &[], b"scan --json\n");
    assert_eq!(shell.ok().text(), line);
    let run = place.run("scan", &["--josn"]);
    run.fails(2, &["unexpected argument '--josn'", "--json"]);
    assert!(!run.stderr.contains("hint: the database"), "a flag is no directory: {}", run.stderr);
    for command in ["upgrade", "stats", "verify", "doctor", "families", "count", "flush"] {
        let run = place.run_in("absent", command, &[]);
        run.fails(2, &["there is no database at absent", "hint: check --db"]);
    }
}

#[test]
fn bounds_mean_the_same_in_each_order_of_keys_or_are_refused() {
    let place = Place::new();
    for order in ["bytewise", "reverse", "int64", "case_insensitive", "custom:mine"] {
        let set = format!("key_order={order}");
        let family = order.split(':').next().unwrap();
        place.run("create-family", &[family, "--set", &set]).ok();
        for key in ["a", "b", "c"] {
            place.run("put", &["-f", family, key, "v"]).ok();
        }
        for empty in ["--from", "--prefix"] {
            let run = place.run("count", &["-f", family, empty, ""]).ok();
            assert_eq!(run.text(), "3\n", "{order} {empty}");
        }
        place.run("scan", &["-f", family, "--to", ""]).fails(2, &["upper bound is empty"]);
    }
    for bound in ["--from", "--to"] {
        for command in ["scan", "count"] {
            place.run(command, &["-f", "custom", bound, "b"]).fails(2, &["'mine'", "--prefix"]);
        }
    }
    assert_eq!(place.run("count", &["-f", "custom", "--prefix", "b"]).ok().text(), "1\n");
    assert_eq!(place.run("count", &["-f", "reverse", "--from", "b"]).ok().text(), "2\n");
}

#[test]
fn a_dump_touches_no_file_but_its_own() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    let current = place.read("db/CURRENT");
    place.file("mine.tsv.partial", "mine");
    std::os::unix::fs::symlink("db/CURRENT", place.path("link.tsv.partial")).unwrap();
    for file in ["mine.tsv", "link.tsv"] {
        place.run("dump", &[file]).ok();
        assert_eq!(place.read(file), b"k\tv\n");
    }
    assert_eq!(place.read("mine.tsv.partial"), b"mine");
    assert_eq!(place.read("db/CURRENT"), current);
    assert_eq!(place.partial_files(), ["link.tsv.partial", "mine.tsv.partial"]);
}

#[test]
fn a_dump_that_replaces_a_file_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    let mode = |name| std::fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o7777;
    place.run("dump", &["new.tsv"]).ok();
    let of_new_files = mode("new.tsv");
    for wanted in [0o600, 0o640, 0o666] {
        let mut permissions = std::fs::metadata(place.path("new.tsv")).unwrap().permissions();
        permissions.set_mode(wanted);
        std::fs::set_permissions(place.path("new.tsv"), permissions).unwrap();
        place.run("dump", &["new.tsv"]).ok();
        assert_eq!(mode("new.tsv"), wanted);
    }
    assert_eq!(of_new_files, {
        place.file("other", "");
        mode("other")
    });
}

#[test]
fn what_a_killed_dump_left_is_removed_by_the_next_to_the_same_file() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    // Left: no process holds its lock.
    place.file("out.tsv.4194400-0.partial", "half");
    // Of a dump that still runs, of another file, and what only looks like one.
    let held = place.file("out.tsv.1-0.partial", "growing");
    let held = std::fs::File::options().write(true).open(held).unwrap();
    held.lock().unwrap();
    let others = ["out.tsv.1-x.partial", "out.tsv.1-2-3.partial", "out.tsv2.1-0.partial"];
    others.iter().for_each(|name| drop(place.file(name, "mine")));
    std::fs::create_dir(place.path("out.tsv.7-0.partial")).unwrap();
    place.run("dump", &["out.tsv"]).ok();
    let mut left = vec!["out.tsv.1-0.partial", "out.tsv.7-0.partial"];
    left.extend(others);
    left.sort_unstable();
    assert_eq!(place.partial_files(), left);
    assert_eq!(place.read("out.tsv.1-0.partial"), b"growing");
    drop(held);
    place.run("dump", &["out.tsv"]).ok();
    left.retain(|name| *name != "out.tsv.1-0.partial");
    assert_eq!(place.partial_files(), left);
}

#[test]
fn a_closed_pipe_changes_no_verdict() {
    let place = Place::new();
    place.file("input.jsonl", json_lines(2000));
    place.run("load", &["input.jsonl"]).ok();
    place.run("flush", &[]).ok();
    let files = files_below(&place.path("db"));
    let tables = files.iter().filter(|path| path.extension().is_some_and(|e| e == "klog"));
    let table = tables.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
    let table = table.display().to_string();
    place.run_closed("verify", &[]).ok();
    place.run_closed("inspect", &[&table, "--keys"]).ok();
    place.run_closed("scan", &[]).ok();
    place.run_closed("get", &["absent", "too"]).fails(1, &["2 keys not found"]);
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[10] ^= 0xff;
    std::fs::write(&table, bytes).unwrap();
    place.run_closed("verify", &[]).fails(2, &["problem"]);
    place.run_closed("verify", &["--json"]).fails(2, &["problem"]);
    place.run_closed("inspect", &[&table, "--keys"]).fails(2, &["problem"]);
    let from = place.path("db").display().to_string();
    place.run_closed("salvage", &[&from, "new"]).fails(3, &["1 part"]);
}

#[test]
fn what_is_no_database_and_no_file_is_told_in_plain_words() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    place.file("in.tsv", "a\t1\n");
    let (source, dest) = (place.path("in.tsv").display().to_string(), "new");
    for command in ["salvage", "restore"] {
        place
            .run(command, &["nosuch", dest])
            .fails(2, &["no database at nosuch", "first argument"]);
        place.run(command, &[&source, dest]).fails(2, &["is a file; a database is a directory"]);
    }
    place.run("inspect", &["db"]).fails(2, &["db is a directory, not a file of a database"]);
    place.run("drop-family", &["nosuch"]).fails(2, &["no column family is named 'nosuch'"]);
    place.run("drop-family", &["default"]).fails(2, &["--yes"]);
    let shell =
        |arguments: &[&str], script: &[u8]| place.run_with_input("shell", arguments, script);
    shell(&["--read-only"], b"put k w\n").fails(2, &["opened for reading only", "--read-only"]);
    shell(&[], b"drop-family nosuch\n").fails(2, &["'nosuch'"]);
    let dropped = b"create-family x\nuse x\nbegin\nput k v\ndrop-family x --yes\ncommit\n";
    shell(&[], dropped).fails(2, &["line 6:", "'x' was dropped", "`rollback` gives it up"]);
}

/// It was passed over: `salvage --db DIR` looked as if it worked on that.
#[test]
fn a_database_that_a_command_does_not_take_is_refused() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    let run = |named: Option<&str>, arguments: &[&str]| -> crate::support::Run {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tidesdb"));
        process.current_dir(place.path("")).env_remove("TIDESDB_DB").args(arguments);
        named.map(|named| process.env("TIDESDB_DB", named));
        process.output().unwrap().into()
    };
    for command in [
        &["salvage", "db", "new"][..],
        &["restore", "db", "new"],
        &["inspect", "db/CURRENT"],
        &["man", "new"],
        &["completions", "bash"],
    ] {
        for given in [[&["--db", "db"][..], command].concat(), [command, &["--db", "db"]].concat()]
        {
            run(None, &given).fails(2, &["takes no --db"]);
        }
        assert!(!place.path("new").exists(), "{command:?}");
        run(Some("db"), command).ok();
        let _ = std::fs::remove_dir_all(place.path("new"));
    }
    for command in ["doctor", "shell"] {
        run(None, &[command, "--db", "other", "db"]).fails(2, &["named twice"]);
        run(Some("other"), &[command, "db"]).ok();
    }
}
