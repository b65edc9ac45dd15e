//! What is dumped is loaded again byte for byte, in every format and encoding.

use crate::support::{Place, json_lines, sorted};

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
                place.run_in(&other, "dump", &[&["--format", extension], encoding].concat());
            assert!(again.ok().stdout == place.read(&name), "{name}");
        }
    }
}

#[test]
fn a_dump_can_be_piped_into_a_load() {
    let place = Place::new();
    let text = json_lines(3000);
    place.run_with_input("load", &["-", "--format", "jsonl"], text.as_bytes()).ok();
    let dumped = place.run("dump", &[]).ok();
    assert_eq!(dumped.text(), sorted(&text));
    assert!(dumped.stderr.contains("dumped 3,000 records"), "{}", dumped.stderr);
    place
        .run_with_input("load", &["-", "--format", "jsonl", "-f", "copy"], dumped.text().as_bytes())
        .ok();
    assert_eq!(place.dump("copy"), sorted(&text));
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
