//! The pages of the formats show bytes of stored databases: each byte that is printed is compared
//! with the file that the page names.

use std::path::Path;

use super::archives::{files_of, fixtures, unpack};

/// Pages with dumps, and how many each has.
const PAGES: [(&str, usize); 4] = [("manifest", 1), ("sstable-block", 3), ("vlog", 1), ("wal", 1)];

/// Columns of a line in which its offset and its bytes stand; what they mean stands behind.
const OFFSET: std::ops::Range<usize> = 0..6;
const BYTES: std::ops::Range<usize> = 8..43;

fn page(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats");
    std::fs::read_to_string(docs.join(name).with_extension("md")).unwrap()
}

/// A block of lines that shows a file, which the words in front of it name.
struct Dump {
    fixture: String,
    file: String,
    is_whole: bool,
    /// Number of the first line in the page, and the lines.
    at: usize,
    lines: Vec<String>,
}

/// The blocks of a page behind words like "`FILE` of the fixture `NAME`".
fn dumps(page: &str) -> Vec<Dump> {
    let (mut found, mut words, mut block) = (Vec::new(), String::new(), None);
    for (at, line) in page.lines().enumerate() {
        match (&mut block, line.starts_with("```")) {
            (None, true) => block = Some((at + 2, Vec::new())),
            (Some(_), true) => {
                let (at, lines) = block.take().unwrap();
                found.extend(named(&words).map(|(file, fixture)| Dump {
                    is_whole: words.contains(", whole"),
                    fixture,
                    file,
                    at,
                    lines,
                }));
                words.clear();
            }
            (Some((_, lines)), false) => lines.push(line.to_owned()),
            (None, false) if line.starts_with('#') => words.clear(),
            (None, false) => words.extend([line, " "]),
        }
    }
    found
}

fn named(words: &str) -> Option<(String, String)> {
    let (before, behind) = words.split_once("of the fixture `")?;
    let file = before.trim_end().strip_suffix('`')?.rsplit('`').next()?;
    Some((file.to_owned(), behind.split('`').next()?.to_owned()))
}

/// What one line says: where its bytes lie, unless it stands for some that are left out, the bytes,
/// and whether others are left out behind them.
struct Shown {
    offset: Option<usize>,
    bytes: Vec<u8>,
    leaves_out: bool,
}

fn shown(line: &str) -> Shown {
    let offset = line[OFFSET.start..OFFSET.end.min(line.len())].trim();
    let offset = (offset != "..")
        .then(|| usize::from_str_radix(offset, 16).unwrap_or_else(|e| panic!("{line}: {e}")));
    let columns = line.get(BYTES.start..BYTES.end.min(line.len())).unwrap_or("");
    let mut words: Vec<&str> = columns.split_whitespace().collect();
    let leaves_out = offset.is_none() || words.last() == Some(&"..");
    words.retain(|word| *word != "..");
    if offset.is_none() {
        words.clear();
    }
    let byte = |word: &&str| {
        assert_eq!(word.len(), 2, "{line}: '{word}' is no byte");
        u8::from_str_radix(word, 16).unwrap_or_else(|e| panic!("{line}: '{word}': {e}"))
    };
    Shown { offset, bytes: words.iter().map(byte).collect(), leaves_out }
}

/// Compares a dump with the bytes of its file: each line with what lies there, and that it begins
/// where the one before it ended. Returns how many bytes it shows.
fn compare(page: &str, dump: &Dump, file: &[u8]) -> usize {
    let (mut compared, mut end) = (0, Some(0));
    for (number, line) in (dump.at..).zip(&dump.lines) {
        let Shown { offset, bytes, leaves_out } = shown(line);
        if let Some(offset) = offset {
            let there = file.get(offset..offset + bytes.len());
            assert_eq!(there, Some(&bytes[..]), "{page}:{number}: {line}");
            if let Some(end) = end.filter(|_| compared > 0 || dump.is_whole) {
                assert_eq!(offset, end, "{page}:{number}: begins elsewhere: {line}");
            }
            compared += bytes.len();
            end = Some(offset + bytes.len());
        }
        if leaves_out {
            end = None;
        }
    }
    assert!(!dump.is_whole || end == Some(file.len()), "{page}: {} goes on", dump.file);
    compared
}

#[test]
fn the_bytes_that_the_pages_show_are_those_of_the_stored_databases() {
    let place = tempfile::tempdir().unwrap();
    for (name, count) in PAGES {
        let dumps = dumps(&page(name));
        assert_eq!(dumps.len(), count, "dumps of {name}.md");
        for dump in dumps {
            let dir = place.path().join(&dump.fixture);
            if !dir.exists() {
                let archive = fixtures().join(&dump.fixture).with_extension("archive");
                unpack(&std::fs::read(archive).unwrap(), &dir);
            }
            let file = std::fs::read(dir.join(&dump.file)).unwrap();
            let compared = compare(name, &dump, &file);
            assert!(compared > 60, "{name}.md shows {compared} bytes of {}", dump.file);
        }
    }
}

/// The listing of a directory: lengths and names, and what stands in `CURRENT`.
#[test]
fn the_files_that_the_page_of_the_directory_lists_are_those_of_the_stored_database() {
    let page = page("directory");
    let (words, block) = page.split_once("(fixture `").unwrap().1.split_once("```text\n").unwrap();
    let fixture = words.split('`').next().unwrap();
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join(fixture);
    unpack(&std::fs::read(fixtures().join(fixture).with_extension("archive")).unwrap(), &dir);
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let len: usize = words.next().unwrap().parse().unwrap();
        (words.next().unwrap().to_owned(), len)
    };
    let mut listed: Vec<_> = block.split("```").next().unwrap().lines().map(line).collect();
    listed.sort();
    let files = files_of(&dir);
    let there: Vec<_> = files.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect();
    assert_eq!(listed, there);
    let current = std::fs::read_to_string(dir.join("CURRENT")).unwrap();
    assert!(block.contains(&format!("{current:?}")), "CURRENT is {current:?}");
}

/// What the test above relies on: a byte, an offset or an end that is not the file's is seen.
#[test]
fn a_dump_that_is_not_the_file_is_seen() {
    let line = |offset, bytes| format!("{offset:>6}  {bytes:35} meaning\n");
    let gap = line("2", "..");
    let text = [&line("0", "01 02"), gap.as_str(), &line("5", "06")].concat();
    let text = &format!("A `f` of the fixture `x`, whole:\n\n```text\n{text}```\n");
    let dump = |text: &str| dumps(text).pop().unwrap();
    let fails = |text: &str, file: &[u8]| {
        let dump = dump(text);
        std::panic::catch_unwind(|| compare("p", &dump, file)).is_err()
    };
    assert_eq!((dump(text).file.as_str(), dump(text).fixture.as_str()), ("f", "x"));
    assert_eq!(compare("p", &dump(text), &[1, 2, 3, 4, 5, 6]), 3);
    assert!(fails(text, &[1, 3, 3, 4, 5, 6]), "another byte");
    assert!(fails(text, &[1, 2, 3, 4, 5, 6, 7]), "bytes behind the end");
    assert!(fails(&text.replace(&gap, ""), &[1, 2, 3, 4, 5, 6]), "a gap");
    assert!(fails(&text.replace("     0", "     1"), &[0, 1, 2, 3, 4, 6]), "a later start");
}
