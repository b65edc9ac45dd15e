//! Hands bytes to each reader of what users give to the tool, and of what it has stored for a load
//! to go on: what `fuzz/` and the test of hostile bytes call.
//!
//! A reader may refuse whatever it is given, and must not panic, hang, or take memory out of
//! proportion.

use tidesdb::options_file::OptionsFile;

use crate::encoding::Encoding;
use crate::formats::{self, Columns, DumpHeader, Format, Position, ReaderOptions, Record, Step};
use crate::resume::Checkpoint;
use crate::shell;

/// A reader of bytes from outside.
pub type Reader = fn(&[u8]);

/// All readers, each with the name of its fuzz target.
pub const READERS: &[(&str, Reader)] = &[
    ("options_file", options_file),
    ("dump_header", dump_header),
    ("load_jsonl", |bytes| load(Format::Jsonl, bytes)),
    ("load_tsv", |bytes| load(Format::Tsv, bytes)),
    ("load_csv", |bytes| load(Format::Csv, bytes)),
    ("load_checkpoint", load_checkpoint),
    ("shell_words", shell_words),
];

/// A file of options in both forms. What is read is written so that it is read as the same.
fn options_file(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(file) = OptionsFile::from_toml(&text) {
        let again = OptionsFile::from_toml(&file.to_toml()).ok();
        assert!(again.as_ref() == Some(&file), "{file:?} became {again:?}");
    }
    if let Ok(file) = OptionsFile::from_ini(&text) {
        // Not all settings have a key there; those that are written are taken.
        let text = file.to_ini();
        assert!(OptionsFile::from_ini(&text).is_ok(), "{text}");
    }
}

/// The first line of a dump.
fn dump_header(bytes: &[u8]) {
    if let Ok(header) = DumpHeader::read(bytes) {
        header.families.iter().for_each(|family| drop(family.options()));
    }
}

/// Records of a format in each encoding, to the end, and once more from a place in the middle.
fn load(format: Format, bytes: &[u8]) {
    for encoding in [Encoding::Text, Encoding::Hex, Encoding::Base64] {
        for (header, is_dump) in [(true, false), (false, true)] {
            let options = ReaderOptions { header, is_dump, ..reader_options(format, encoding) };
            let start = (Position::START, None);
            let Some((places, columns)) = read(bytes, &options, start) else { continue };
            if let Some(&place) = places.get(places.len() / 2) {
                let (rest, _) = read(bytes, &options, (place, columns)).unwrap_or_default();
                assert!(places.ends_with(&rest), "{format:?} {encoding:?} from {place:?}");
            }
        }
    }
}

fn reader_options(format: Format, encoding: Encoding) -> ReaderOptions {
    let (key_field, value_field) = ("key".to_owned(), "value".to_owned());
    ReaderOptions { format, encoding, key_field, value_field, header: true, is_dump: false }
}

/// A checkpoint that is stored in the database: how far a load has come, which goes on from there.
/// What is read is written so that it is read as the same.
fn load_checkpoint(bytes: &[u8]) {
    const INPUT: &[u8] = b"key,value\na,1\nb,\"2\n2\"\nc,3\n";
    let Ok(checkpoint) = Checkpoint::read(bytes) else { return };
    let again = checkpoint.to_stored().ok().and_then(|stored| Checkpoint::read(&stored).ok());
    assert!(again.as_ref() == Some(&checkpoint), "{checkpoint:?} became {again:?}");
    let start = (checkpoint.position, checkpoint.columns);
    for format in [Format::Jsonl, Format::Tsv, Format::Csv] {
        // A load whose input is shorter is refused.
        read(INPUT, &reader_options(format, Encoding::Text), start);
    }
}

/// A line of the shell as words, each in both forms. A word in quotes is that word.
fn shell_words(bytes: &[u8]) {
    let line = String::from_utf8_lossy(bytes);
    let Ok(words) = shell::split(&line) else { return };
    assert_eq!(words.escaped.len(), words.literal.len(), "{line:?}");
    for word in words.literal.into_iter().filter(|word| !word.contains('\'')) {
        let again = shell::split(&format!("'{word}'")).map(|words| words.literal);
        assert!(again.as_deref() == Ok(std::slice::from_ref(&word)), "{word:?} became {again:?}");
    }
}

/// The places behind all records, good and bad, and the columns. `None` where the input can't be
/// read.
fn read(
    bytes: &[u8],
    options: &ReaderOptions,
    (start, columns): (Position, Option<Columns>),
) -> Option<(Vec<Position>, Option<Columns>)> {
    let rest = usize::try_from(start.offset).ok().and_then(|from| bytes.get(from..))?;
    let mut reader = formats::reader(rest, options, start, columns).ok()?;
    let (mut places, mut record) = (Vec::new(), Record::default());
    let mut last = start.offset;
    loop {
        match reader.next(&mut record).ok()? {
            Step::End => return Some((places, reader.columns())),
            Step::Record { line } | Step::Bad { line, .. } => {
                let place = reader.position();
                assert!(place.offset > last && line <= place.line, "no end at {place:?}");
                last = place.offset;
                places.push(place);
            }
        }
    }
}
