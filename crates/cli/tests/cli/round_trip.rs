//! What is dumped is loaded again byte for byte, in every format and encoding.

use crate::support::{Place, Run, json_lines, sorted};

/// Keys and values with every byte, separators, quotes, line breaks and other traps.
fn awkward_tsv_in_hex() -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let every_byte: Vec<u8> = (0..=255).collect();
    let traps: [&[u8]; 10] = [
        b"a,b",
        b"\"quoted\"",
        b"tab\tline\nbreak\r",
        b"\\x41",
        b"\xef\xbb\xbfmark",
        b"\xff\xfe",
        b" ",
        "漢字".as_bytes(),
        b"key",
        &every_byte,
    ];
    let mut text = String::new();
    for key in traps {
        text.push_str(&format!("{}\t{}\n", hex(key), hex(b"")));
        for (index, value) in traps.iter().enumerate() {
            text.push_str(&format!("{}\t{}\n", hex(&[key, &[index as u8]].concat()), hex(value)));
        }
    }
    text
}

#[test]
fn every_format_gives_back_every_byte() {
    let place = Place::new();
    let text = awkward_tsv_in_hex();
    place.file("input.tsv", &text);
    place.run("load", &["input.tsv", "--hex"]).ok();
    assert_eq!(place.run("dump", &["--hex", "--format", "tsv"]).ok().text(), sorted(&text));
    for extension in ["jsonl", "tsv", "csv"] {
        for encoding in [&[][..], &["--hex"], &["--base64"]] {
            let name = format!("dump{}.{extension}", encoding.concat());
            let other = format!("db-of-{name}");
            place.run("dump", &[&[name.as_str()], encoding].concat()).ok();
            place.run_in(&other, "load", &[&[name.as_str()], encoding].concat()).ok();
            let back = place.run_in(&other, "dump", &["--hex", "--format", "tsv"]).ok();
            assert_eq!(back.text(), sorted(&text), "{name}");
            let again =
                place.run_in(&other, "dump", &[&["--format", extension], encoding].concat()).ok();
            assert!(again.stdout == place.read(&name), "{name}");
            assert_eq!(again.stderr.contains("warning"), extension != "jsonl", "{}", again.stderr);
        }
    }
}

#[test]
fn a_dump_can_be_piped_into_a_load() {
    let place = Place::new();
    let text = json_lines(3000);
    place.run_with_input("load", &["-", "--format", "jsonl"], text.as_bytes()).ok();
    let dumped = place.run("dump", &[]).ok();
    let (header, records) = dumped.text().split_once('\n').unwrap();
    assert!(header.starts_with("{\"tidesdb_dump\":1,"), "{header}");
    assert_eq!(records, sorted(&text));
    assert!(dumped.stderr.contains("dumped 3,000 records"), "{}", dumped.stderr);
    place
        .run_with_input("load", &["-", "--format", "jsonl", "-f", "copy"], dumped.text().as_bytes())
        .ok();
    assert_eq!(place.records("copy"), sorted(&text));
}

/// Two families of which one has options of its own, records that expire, and an empty family.
fn fill(place: &Place) {
    place.run("put", &["k", "v"]).ok();
    place.run("put", &["session", "4711", "--ttl", "3600"]).ok();
    place.run("create-family", &["cold", "--set", "compression=zstd"]).ok();
    place.run("put", &["--family", "cold", r"\xff", r"\x00", "--ttl", "86400"]).ok();
    place.run("put", &["--family", "cold", "large", &"x".repeat(10_000)]).ok();
    place.run("create-family", &["empty", "--set", "block_size=16384"]).ok();
}

#[test]
fn a_loaded_dump_is_the_same_database() {
    let place = Place::new();
    fill(&place);
    let dumped = place.run("dump", &["all.jsonl"]).ok();
    assert!(dumped.stderr.contains("dumped 4 records"), "{}", dumped.stderr);
    assert!(dumped.stderr.contains("of 3 families"), "{}", dumped.stderr);
    assert!(!dumped.stderr.contains("warning"), "{}", dumped.stderr);
    let text = String::from_utf8(place.read("all.jsonl")).unwrap();
    assert!(text.contains("\"compression\":\"zstd\""), "{text}");
    assert_eq!(text.matches("\"expires_at\":").count(), 2, "{text}");

    place.run_in("copy", "load", &["all.jsonl"]).ok();
    let again = place.run_in("copy", "dump", &[]).ok();
    assert_eq!(again.text(), text, "families, options, records, expiry times");
    // The same line by line, as a killed load would go on: the first line is read each time.
    place.run_in("slow", "load", &["all.jsonl", "--batch", "1"]).ok();
    assert_eq!(place.run_in("slow", "dump", &[]).ok().text(), text);
    let piped = ["-", "--format", "jsonl"];
    place.run_with_input_in("piped", "load", &piped, text.as_bytes()).ok();
    assert_eq!(place.run_in("piped", "dump", &[]).ok().text(), text);
}

#[test]
fn a_broken_dump_is_resumed_with_its_families() {
    let place = Place::new();
    fill(&place);
    place.run("dump", &["all.jsonl"]).ok();
    let text = String::from_utf8(place.read("all.jsonl")).unwrap();
    let (broken, last) = text.trim_end().rsplit_once('\n').unwrap();
    place.file(
        "all.jsonl",
        format!("{broken}\n{{\"family\":\"none\",\"key\":\"k\",\"value\":\"\"}}\n"),
    );
    place.run_in("copy", "load", &["all.jsonl"]).fails(2, &["line 5", "no family 'none'"]);
    place.file("all.jsonl", format!("{broken}\n{last}\n"));
    let resumed = place.run_in("copy", "load", &["all.jsonl"]).ok();
    assert!(resumed.stderr.contains("resuming at line 5"), "{}", resumed.stderr);
    assert!(!resumed.stderr.contains("other options"), "{}", resumed.stderr);
    assert_eq!(place.run_in("copy", "dump", &[]).ok().text(), text);
}

/// Keys that happen to be hexadecimal became others, and no error said so.
#[test]
fn an_encoding_changes_nothing_of_what_a_dump_says() {
    let place = Place::new();
    place.run("put", &["deadbeef", "cafe"]).ok();
    place.run("put", &["\\xff\\x00", "\\xfe"]).ok();
    for dumped in [&[][..], &["--hex"], &["--base64"]] {
        place.run("dump", &[&["all.jsonl"], dumped].concat()).ok();
        for loaded in ["--raw", "--hex", "--base64"] {
            let copy = format!("copy{loaded}{}", dumped.concat());
            place.run_in(&copy, "load", &["all.jsonl", loaded]).ok();
            let again = place.run_in(&copy, "dump", dumped).ok();
            assert_eq!(again.stdout, place.read("all.jsonl"), "{copy}");
        }
    }
}

#[test]
fn what_a_dump_leaves_out_is_said() {
    let place = Place::new();
    fill(&place);
    let one = place.run("dump", &["--family", "cold", "cold.jsonl"]).ok();
    assert!(
        one.stderr.contains("only family 'cold' is dumped, not default, empty"),
        "{}",
        one.stderr
    );
    let tsv = place.run("dump", &["--format", "tsv"]).ok();
    assert!(tsv.stderr.contains("only family 'default'"), "{}", tsv.stderr);
    assert!(tsv.stderr.contains("expiry times"), "{}", tsv.stderr);
    assert_eq!(tsv.text(), "k\tv\nsession\t4711\n");

    // One family goes where it is told to, with its options.
    place.run_in("copy", "load", &["cold.jsonl", "-f", "renamed"]).ok();
    let copied = place.run_in("copy", "dump", &[]).ok();
    let expected = String::from_utf8(place.read("cold.jsonl")).unwrap();
    assert_eq!(copied.text(), expected.replace("\"name\":\"cold\"", "\"name\":\"renamed\""));
    place.run("dump", &["all.jsonl"]).ok();
    place.run_in("copy", "load", &["all.jsonl", "-f", "one"]).fails(2, &["3 families", "--family"]);
    // A family that is there keeps its options, and this is said.
    place.run_in("other", "create-family", &["cold"]).ok();
    let kept = place.run_in("other", "load", &["all.jsonl"]).ok();
    assert!(kept.stderr.contains("'cold' was there with other options"), "{}", kept.stderr);
}

#[test]
fn fields_of_other_files_are_not_taken_for_those_of_a_dump() {
    let place = Place::new();
    let line = "{\"key\":\"wolf\",\"value\":\"v\",\"family\":\"Canidae\",\"expires_at\":1}\n";
    place.file("animals.jsonl", line);
    place.run("load", &["animals.jsonl"]).ok();
    assert_eq!(place.run("get", &["wolf"]).ok().text(), "v");
    assert_eq!(place.run("families", &[]).ok().text(), "default\n");
}

#[test]
fn part_of_a_family_can_be_dumped() {
    let place = Place::new();
    place.run_with_input("load", &["-", "--format", "tsv"], b"a\t1\nab\t2\nb\t3\nc\t4\n").ok();
    let tsv = ["--format", "tsv"];
    assert_eq!(
        place.run("dump", &[&tsv[..], &["--prefix", "a"]].concat()).ok().text(),
        "a\t1\nab\t2\n"
    );
    assert_eq!(
        place.run("dump", &[&tsv[..], &["--from", "ab", "--to", "c"]].concat()).ok().text(),
        "ab\t2\nb\t3\n"
    );
}

#[test]
fn a_dump_goes_into_a_device_or_through_a_link() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    place.run("dump", &["/dev/null", "--format", "tsv"]).ok();
    #[cfg(unix)]
    {
        place.file("real.tsv", "old");
        std::os::unix::fs::symlink("real.tsv", place.path("link.tsv")).unwrap();
        place.run("dump", &["link.tsv"]).ok();
        assert!(place.path("link.tsv").is_symlink());
        assert_eq!(place.read("real.tsv"), b"k\tv\n");
    }
}

/// Names of pipes could not be resolved, and those of standard output replaced the file behind it.
#[cfg(target_os = "linux")]
#[test]
fn a_dump_goes_into_open_descriptors() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    let shell = |script: &str| {
        let tool = env!("CARGO_BIN_EXE_tidesdb");
        let script = format!("dump() {{ {tool} dump --db db --format tsv \"$@\"; }}; {script}");
        let mut process = std::process::Command::new("bash");
        let run: Run =
            process.args(["-c", &script]).current_dir(place.path(".")).output().unwrap().into();
        run.ok().text().to_owned()
    };
    assert_eq!(shell("dump /dev/stdout"), "k\tv\n");
    assert_eq!(shell("dump /dev/stdout | cat"), "k\tv\n");
    assert_eq!(shell("dump >(cat) | cat"), "k\tv\n");
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        place.file("log", "before\n");
        shell(&format!("{{ echo head; dump {name}; echo tail; }} >> log"));
        assert_eq!(place.read("log"), b"before\nhead\nk\tv\ntail\n", "{name}");
    }
    for name in ["/dev/fd/3", "/proc/self/fd/3"] {
        place.file("log", "before\n");
        shell(&format!("{{ echo head >&3; dump {name}; echo tail >&3; }} 3>> log"));
        assert_eq!(place.read("log"), b"before\nhead\nk\tv\ntail\n", "{name}");
    }
    assert_eq!(shell("mkfifo pipe; cat pipe & dump pipe; wait"), "k\tv\n");
}

#[test]
fn the_order_of_keys_is_chosen_shown_and_dumped() {
    let place = Place::new();
    place.run("create-family", &["f", "--set", "key_order=reverse"]).ok();
    for key in ["a", "c", "b"] {
        place.run("put", &[key, "v", "--family", "f"]).ok();
    }
    let shown = |place: &Place, db: &str| {
        let scanned = place.run_in(db, "scan", &["--family", "f"]).ok();
        scanned.text().lines().map(|line| line[..1].to_owned()).collect::<String>()
    };
    place.run("dump", &["all.jsonl"]).ok();
    place.run_in("other", "load", &["all.jsonl"]).ok();
    assert_eq!(shown(&place, "other"), "cba");
    let options = place.run_in("other", "options", &["--family", "f"]).ok();
    assert!(options.text().contains("key_order = reverse"), "{}", options.text());
    place
        .run("options", &["--family", "f", "--set", "key_order=int64"])
        .fails(2, &["can't be changed"]);
    place.run("create-family", &["g", "--set", "key_order=random"]).fails(2, &["case_insensitive"]);
    // An application's own order: the tool shows keys by their bytes.
    place.run("create-family", &["own", "--set", "key_order=custom:mine"]).ok();
    place.run("put", &["k", "v", "--family", "own"]).ok();
    assert_eq!(place.run("get", &["k", "--family", "own"]).ok().text(), "v");
}

#[test]
fn families_with_names_like_the_tools_own_are_dumped() {
    let place = Place::new();
    place.run("put", &["--family", "__x", "--create", "key", "value"]).ok();
    place.run("put", &["--family", "plain", "--create", "key", "other"]).ok();
    assert_eq!(place.run("families", &[]).ok().text(), "__x\nplain\n");
    place.run("dump", &["all.jsonl"]).ok();
    place.run_in("copy", "load", &["all.jsonl"]).ok();
    assert_eq!(place.run_in("copy", "get", &["-f", "__x", "key"]).ok().text(), "value");
    // The tool's own is not.
    assert_eq!(place.run_in("copy", "families", &[]).ok().text(), "__x\nplain\n");
}
