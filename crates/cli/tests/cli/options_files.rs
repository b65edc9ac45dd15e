//! Options as files: shown, given back, and wrong ones.

use crate::support::{Place, Run};

#[test]
fn options_are_written_and_applied_in_both_formats() {
    for format in ["toml", "ini"] {
        let place = Place::new();
        place.run("create-family", &["a", "--set", "compression=zstd"]).ok();
        place.run("create-family", &["b", "--set", "sync_mode=interval:50"]).ok();
        let shown = place.run("options", &["--format", format]).ok();
        let name = format!("saved.{format}");
        place.file(&name, shown.text());
        place.run("options", &["-f", "a", "--set", "compression=none"]).ok();
        place.run("options", &["-f", "b", "--set", "bloom_fpr=0.5"]).ok();
        let reported = place.run("options", &["--apply", &name]).ok();
        assert!(
            reported.stderr.contains("'a': compression was none, is zstd\n"),
            "{}",
            reported.stderr
        );
        assert!(
            reported.stderr.contains("'b': bloom_fpr was 0.5, is 0.01\n"),
            "{}",
            reported.stderr
        );
        let again = place.run("options", &["--format", format]).ok();
        assert_eq!(again.text(), shown.text(), "they are stored with the data");
        let reported = place.run("options", &["--apply", &name, "-f", "a"]).ok();
        assert_eq!(reported.stderr, "family 'a': nothing changes\n");
        let one = place.run("options", &["--format", format, "-f", "b"]).ok();
        assert!(!one.text().contains("zstd"), "{}", one.text());
    }
}

#[test]
fn a_file_of_options_is_opened_with() {
    let place = Place::new();
    place.file(
        "o.toml",
        "[database]\nblock_cache_bytes = \"3MB\"\n[family.default]\nblock_size = \"8K\"\n",
    );
    place.run("put", &["k", "v", "--options", "o.toml"]).ok();
    let options = place.run("options", &[]).ok();
    assert!(options.text().contains("block_size = 8192\n"), "{}", options.text());
    let stats = place.run("stats", &["--options", "o.toml", "--json"]).ok();
    let stats: serde_json::Value = serde_json::from_str(stats.text()).unwrap();
    assert_eq!(stats["database"]["block_cache_capacity"], 3 << 20);
}

#[test]
fn wrong_files_change_nothing_and_name_line_and_key() {
    let place = Place::new();
    place.run("create-family", &["a"]).ok();
    let before = place.run("options", &["-f", "a"]).ok();
    place.file("o.toml", "[family.a]\nblock_size = 8192\ncompression = \"gzip\"\nblok = 1\n");
    place.run("options", &["--apply", "o.toml"]).fails(
        2,
        &["o.toml: line 3: 'gzip'", "none, snappy", "o.toml: line 4: there is no setting 'blok'"],
    );
    place.file("missing.toml", "[family.a]\nblock_size = 8192\n[family.b]\nblock_size = 8192\n");
    place.run("options", &["--apply", "missing.toml"]).fails(2, &["'b'"]);
    assert_eq!(place.run("options", &["-f", "a"]).ok().text(), before.text());
    place.file("o.ini", "[a\n");
    place.run("options", &["--apply", "o.ini"]).fails(2, &["o.ini: line 1:"]);
    place.file("database.toml", "[database]\nflush_threads = 1\n");
    place.run("options", &["--apply", "database.toml"]).fails(2, &["no family", "--options"]);
    place.run("get", &["k", "--options", "absent.toml"]).fails(2, &["absent.toml"]);
}

#[test]
fn an_order_of_keys_that_would_change_is_refused_before_anything_changes() {
    let place = Place::new();
    for family in ["a", "b", "c"] {
        place.run("create-family", &[family]).ok();
    }
    let before = place.run("options", &["--format", "toml"]).ok();
    place.file(
        "o.toml",
        "[family.a]\nblock_size = 8192\n[family.b]\nkey_order = \"reverse\"\n\
         [family.c]\nkey_order = \"uint64\"\n",
    );
    place
        .run("options", &["--apply", "o.toml"])
        .fails(2, &["'b': key_order is reverse", "'c': key_order is uint64"]);
    assert_eq!(place.run("options", &["--format", "toml"]).ok().text(), before.text());
}

#[test]
fn what_an_applied_file_changes_is_told_as_json_and_what_is_not_stored_in_words() {
    let place = Place::new();
    place.run("create-family", &["a"]).ok();
    place.file("o.toml", "[database]\nflush_threads = 1\n[family.a]\nblock_size = 8192\n");
    let run = place.run("options", &["--apply", "o.toml", "--json"]).ok();
    assert!(run.stderr.contains("[database] are not stored"), "{}", run.stderr);
    let report: serde_json::Value = serde_json::from_str(run.text()).unwrap();
    let expected = serde_json::json!({ "block_size": { "was": 4096, "is": 8192 } });
    assert_eq!(report["changed"]["a"], expected);
    let again = place.run("options", &["--apply", "o.toml", "--json"]).ok();
    assert_eq!(again.text(), "{\n  \"changed\": {\n    \"a\": {}\n  }\n}\n");
}

/// They took the defaults, whatever file was given. A limit on the length of files shows what the
/// log of the new database takes.
#[test]
fn salvage_and_repair_take_the_options_of_a_file() {
    let place = Place::new();
    place.run("put", &["key", "value"]).ok();
    place.file("small.toml", "[database]\nlog_segment_bytes = \"64KB\"\n");
    let limited = |arguments: &str| -> Run {
        let tool = env!("CARGO_BIN_EXE_tidesdb");
        let script = format!("ulimit -f 4096 && exec {tool} {arguments}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(place.path("")).output().unwrap().into()
    };
    assert_ne!(limited("salvage db large").code, Some(0), "a segment of 8 MiB is not allowed");
    limited("salvage db small --options small.toml").ok();
    assert_eq!(place.run_in("small", "get", &["key"]).ok().text(), "value");
    limited("repair --db db --options small.toml").ok();
    assert_eq!(place.run("get", &["key"]).ok().text(), "value");
}
