use tidesdb_sim::rng::SplitMix64;

use super::*;

const FORMATS: [Format; 3] = [Format::Jsonl, Format::Tsv, Format::Csv];
const ENCODINGS: [Encoding; 3] = [Encoding::Text, Encoding::Hex, Encoding::Base64];

fn options(format: Format, encoding: Encoding) -> ReaderOptions {
    let (key_field, value_field) = ("key".to_owned(), "value".to_owned());
    ReaderOptions { format, encoding, key_field, value_field, header: true, is_dump: false }
}

/// Keys and values that trip formats up.
fn awkward_records() -> Vec<Record> {
    let every_byte: Vec<u8> = (0..=255).collect();
    let parts: [&[u8]; 16] = [
        b"plain",
        b" spaces ",
        b"a,b",
        b"say \"hi\"",
        b"\"",
        b"tab\there",
        b"line\nbreak",
        b"dos\r\nbreak\r",
        b"back\\slash \\x41",
        b"\x00\x01\x1b[31m\x7f",
        b"\xff\xfe not utf-8 \xc3",
        "\u{feff}mark".as_bytes(),
        "naïve 漢字 🦀".as_bytes(),
        b"{\"key\":\"x\"}",
        b"#comment",
        &every_byte,
    ];
    let mut records = Vec::new();
    for key in parts {
        for value in parts.into_iter().chain([b"".as_slice(), b"\n"]) {
            let (key, value) = (key.to_vec(), value.to_vec());
            records.push(Record { key, value, ..Record::default() });
        }
    }
    records
}

fn written(records: &[Record], format: Format, encoding: Encoding) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = writer(format, encoding);
    writer.begin(&mut out, true).unwrap();
    for Record { key, value, .. } in records {
        writer.write(&mut out, Row { key, value: Some(value), ..Row::default() }).unwrap();
    }
    out
}

/// A record, or the line and the reason why there is none.
type Found = Result<Record, (u64, String)>;

/// Everything a reader finds from a place on, each with the position behind it.
fn found(
    input: &[u8],
    options: &ReaderOptions,
    start: Position,
    columns: Option<Columns>,
) -> (Vec<(Found, Position)>, Option<Columns>) {
    let mut reader = reader(&input[start.offset as usize..], options, start, columns).unwrap();
    let mut steps = Vec::new();
    loop {
        let mut record = Record::default();
        let step = match reader.next(&mut record).unwrap() {
            Step::End => return (steps, reader.columns()),
            Step::Record { .. } => Ok(record),
            Step::Bad { line, reason } => Err((line, reason)),
        };
        steps.push((step, reader.position()));
    }
}

fn found_in(text: &str, format: Format) -> Vec<Found> {
    let (steps, _) =
        found(text.as_bytes(), &options(format, Encoding::Text), Position::START, None);
    steps.into_iter().map(|(step, _)| step).collect()
}

fn record(key: &str, value: &str) -> Record {
    Record { key: key.into(), value: value.into(), ..Record::default() }
}

#[test]
fn what_is_written_is_read_back_byte_for_byte() {
    let records = awkward_records();
    for format in FORMATS {
        for encoding in ENCODINGS {
            let bytes = written(&records, format, encoding);
            let (steps, _) = found(&bytes, &options(format, encoding), Position::START, None);
            let back: Vec<Record> = steps.into_iter().map(|(step, _)| step.unwrap()).collect();
            assert_eq!(back.len(), records.len(), "{format:?} {encoding:?}");
            for (back, record) in back.iter().zip(&records) {
                assert_eq!(back, record, "{format:?} {encoding:?}");
            }
        }
    }
}

#[test]
fn a_reader_goes_on_at_every_position() {
    let records = awkward_records();
    for format in FORMATS {
        for line_end in ["\n", "\r\n"] {
            let mut bytes = written(&records[..40], format, Encoding::Base64);
            if line_end == "\r\n" {
                bytes = String::from_utf8(bytes).unwrap().replace('\n', "\r\n").into_bytes();
            }
            let options = options(format, Encoding::Base64);
            let (steps, columns) = found(&bytes, &options, Position::START, None);
            for (index, &(_, position)) in steps.iter().enumerate() {
                let (rest, _) = found(&bytes, &options, position, columns);
                assert!(rest == steps[index + 1..], "{format:?} {index} {position:?}");
            }
        }
    }
}

#[test]
fn positions_count_lines_inside_quoted_fields() {
    let text = "key,value\na,\"1\n2\n3\"\nb,2\nc\n";
    let (steps, columns) =
        found(text.as_bytes(), &options(Format::Csv, Encoding::Text), Position::START, None);
    assert_eq!(steps[0].0, Ok(record("a", "1\n2\n3")));
    assert_eq!(steps[0].1.line, 5);
    assert_eq!(steps[2].0, Err((6, "1 column instead of 2".to_owned())));
    let after_first = steps[0].1;
    let (rest, _) =
        found(text.as_bytes(), &options(Format::Csv, Encoding::Text), after_first, columns);
    assert_eq!(rest, steps[1..]);
}

#[test]
fn json_values_keep_their_text_and_keys_may_be_numbers() {
    let text = concat!(
        "\u{feff}{\"value\": {\"b\": [1.0, 1e400]}, \"other\": [], \"key\": 12345678901234567890123}\r\n",
        "\n   \n",
        "{\"key_base64\":\"/w==\",\"value\":null}\n",
        "{\"key\":\"\\u0041\\n\",\"value_hex\":\"00ff\"}",
    );
    let expected = [
        record("12345678901234567890123", "{\"b\": [1.0, 1e400]}"),
        Record { key: vec![0xff], value: b"null".to_vec(), ..Record::default() },
        Record { key: b"A\n".to_vec(), value: vec![0, 0xff], ..Record::default() },
    ];
    assert_eq!(found_in(text, Format::Jsonl), expected.map(Ok));
}

#[test]
fn bad_json_lines_are_told_with_line_and_reason() {
    let bad = [
        ("{\"key\":\"a\"}", "no field \"value\""),
        ("{\"value\":\"a\"}", "no field \"key\""),
        ("{\"key\":null,\"value\":\"a\"}", "\"key\" is no string"),
        ("{\"key\":\"a\",\"key\":\"b\",\"value\":\"a\"}", "twice"),
        ("{\"key\":\"a\",\"key_hex\":\"00\",\"value\":\"a\"}", "twice"),
        ("{\"key\":\"a\",\"value_hex\":\"0\"}", "odd number"),
        ("{\"key\":\"a\",\"value_base64\":7}", "must be a string"),
        ("{\"key\":\"a\",\"value\":\"\\ud800\"}", "in the value"),
        ("{\"key\":\"a\",\"value\":\"a\"} x", "trailing"),
        ("{\"key\":\"a\",", "EOF"),
        ("[1]", "a JSON array"),
        ("\u{0}", "expected"),
    ];
    for (line, reason) in bad {
        let text = format!(
            "\n{{\"key\":\"k\",\"value\":\"v\"}}\n{line}\n{{\"key\":\"l\",\"value\":\"v\"}}"
        );
        let steps = found_in(&text, Format::Jsonl);
        assert_eq!(steps.len(), 3, "{line}");
        let (number, found) = complaint(&steps[1]);
        assert!(number == 3 && found.contains(reason), "{line}: {found}");
        assert_eq!(steps[2], Ok(record("l", "v")), "{line}");
    }
}

fn complaint(step: &Found) -> (u64, &str) {
    let (line, reason) = step.as_ref().unwrap_err();
    (*line, reason)
}

#[test]
fn deeply_nested_json_is_no_stack_overflow() {
    let depth = 200_000;
    let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let text = format!("{{\"other\":{nested},\"key\":\"k\",\"value\":{nested}}}");
    let steps = found_in(&text, Format::Jsonl);
    assert_eq!(steps, [Ok(record("k", &nested))]);
}

#[test]
fn csv_columns_are_found_by_name() {
    let text = "\u{feff}id,comment,payload\n1,\"x, y\",one\n2,,two\n";
    let options = ReaderOptions {
        key_field: "id".to_owned(),
        value_field: "payload".to_owned(),
        ..options(Format::Csv, Encoding::Text)
    };
    let (steps, columns) = found(text.as_bytes(), &options, Position::START, None);
    assert_eq!(columns, Some(Columns { key: 0, value: 2, count: 3 }));
    assert_eq!(steps[0].0, Ok(record("1", "one")));
    assert_eq!(steps[1].0, Ok(record("2", "two")));

    let missing = ReaderOptions { key_field: "name".to_owned(), ..options };
    let error = reader(text.as_bytes(), &missing, Position::START, None).err().unwrap();
    assert!(error.to_string().contains("id, comment, payload"), "{error}");
}

#[test]
fn csv_keeps_a_byte_order_mark_that_belongs_to_a_key() {
    let text = "key,value\nk1,a\n\u{feff}k2,b\n\u{feff}k3\n\u{feff}k4,c\n";
    let options = options(Format::Csv, Encoding::Text);
    let (steps, columns) = found(text.as_bytes(), &options, Position::START, None);
    let (step, bad) = &steps[2];
    assert_eq!(complaint(step).0, 4);
    assert_eq!(steps[1].0, Ok(record("\u{feff}k2", "b")));
    assert_eq!(steps[3].0, Ok(record("\u{feff}k4", "c")));
    for (number, (_, position)) in steps.iter().enumerate() {
        let (rest, _) = found(text.as_bytes(), &options, *position, columns);
        assert_eq!(rest, steps[number + 1..], "behind step {number}");
    }
    let error = reader(&text.as_bytes()[bad.offset as usize..], &options, *bad, columns);
    assert_eq!(error.unwrap().position(), *bad, "nothing was read yet");
}

#[test]
fn headerless_csv_and_bad_tsv() {
    let no_header = ReaderOptions { header: false, ..options(Format::Csv, Encoding::Text) };
    let (steps, _) = found(b"key,value\na,b", &no_header, Position::START, None);
    assert_eq!(steps[0].0, Ok(record("key", "value")));
    assert_eq!(steps[1].0, Ok(record("a", "b")));

    let steps = found_in("a\tb\nalone\na\tb\tc\n\\q\tb\n\n\t\nz\t", Format::Tsv);
    assert_eq!(steps[0], Ok(record("a", "b")));
    assert!(complaint(&steps[1]).1.contains("1 column instead"));
    assert!(complaint(&steps[2]).1.contains("3 columns instead"));
    assert!(complaint(&steps[3]).1.contains("in the key: unknown escape"));
    assert_eq!(steps[4], Ok(record("", "")), "the engine refuses the empty key");
    assert_eq!(steps[5], Ok(record("z", "")));
}

#[test]
fn text_cuts_long_values_and_says_so() {
    let shown = |cut: bool, value: &str| {
        let mut out = Vec::new();
        let row = Row { key: b"k", value: Some(value.as_bytes()), ..Row::default() };
        text_writer(Encoding::Text, cut).write(&mut out, row).unwrap();
        String::from_utf8(out).unwrap()
    };
    let (long, limit) = ("é".repeat(5000), "é".repeat(100));
    assert_eq!(shown(true, &long), format!("k  {limit}… (10000 bytes)\n"));
    assert_eq!(shown(true, &limit), format!("k  {limit}\n"));
    assert_eq!(shown(false, &long), format!("k  {long}\n"));
}

#[test]
fn readers_survive_whatever_they_are_given() {
    let seed = std::env::var("TIDESDB_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("TIDESDB_SEED={seed}");
    let mut random = SplitMix64::new(seed);
    let header =
        DumpHeader::new(vec![DumpedFamily::new("users", &tidesdb::FamilyOptions::default())]);
    let mut first = Vec::new();
    header.write(&mut first).unwrap();
    let records = &awkward_records()[..60];
    for round in 0..3000_usize {
        let (format, encoding) = (FORMATS[round % 3], ENCODINGS[round / 3 % 3]);
        let mut bytes = first.repeat(round % 2);
        bytes.extend(written(&records[round % 50..round % 50 + 10], format, encoding));
        for _ in 0..1 + random.index(8) {
            let at = random.index(bytes.len().max(1));
            let byte = [b'"', b'\\', b'\n', b',', b'{', 0xff, random.next_u64() as u8];
            match random.index(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at.min(bytes.len()), byte[random.index(7)]),
                _ => {
                    if let Some(old) = bytes.get_mut(at) {
                        *old = byte[random.index(7)];
                    }
                }
            }
        }
        let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if let Ok(header) = DumpHeader::read(line) {
            for family in &header.families {
                drop(family.options());
            }
        }
        let options = options(format, encoding);
        // A header that makes no sense is an error of the whole file.
        let Ok(mut reader) = reader(&bytes[..], &options, Position::START, None) else { continue };
        let mut steps = 0;
        while let Ok(Step::Record { .. } | Step::Bad { .. }) = reader.next(&mut Record::default()) {
            steps += 1;
            assert!(steps <= bytes.len() + 1, "it does not end");
        }
    }
}
