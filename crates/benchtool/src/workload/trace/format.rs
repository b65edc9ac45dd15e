//! One line of a trace, as JSON.
//!
//! Keys are text (`"key"`) or hexadecimal (`"key_hex"`); a put has a size or a text. Unknown fields
//! are refused, so that a misspelt one is noticed. Sizes are bounded before anything is allocated.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line; a longer one is an error and is not read to its end.
const MAX_LINE: u64 = 64 << 20;
/// Largest value that a trace may ask for.
const MAX_VALUE: u64 = 1 << 30;

/// One line as it stands in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    op: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    key_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    value_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    reverse: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    ops: Vec<Self>,
}

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// Puts a value of so many bytes.
    Put(Vec<u8>, u32),
    /// Deletes.
    Delete(Vec<u8>),
}

impl Change {
    /// The key.
    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
        }
    }
}

/// What a line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// One or more changes, atomic.
    Write(Vec<Change>),
    /// A lookup.
    Get(Vec<u8>),
    /// Some rows from a key on; from the end of the key space without one.
    Scan {
        /// Where to start.
        start: Option<Vec<u8>>,
        /// Rows to visit.
        rows: u64,
        /// Descending.
        reverse: bool,
    },
}

fn to_raw(change: &Change) -> Raw {
    let (op, value_size) = match change {
        Change::Put(_, size) => ("put", Some(u64::from(*size))),
        Change::Delete(_) => ("delete", None),
    };
    with_key(Raw { op: op.to_owned(), value_size, ..Raw::default() }, change.key())
}

fn with_key(mut raw: Raw, key: &[u8]) -> Raw {
    match std::str::from_utf8(key) {
        Ok(text) => raw.key = Some(text.to_owned()),
        Err(_) => raw.key_hex = Some(key.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
    raw
}

impl Line {
    /// The line as text, without its end.
    pub(crate) fn to_text(&self) -> Result<String, String> {
        let op = |name: &str| Raw { op: name.to_owned(), ..Raw::default() };
        let raw = match self {
            Self::Write(changes) => match changes.as_slice() {
                [change] => to_raw(change),
                changes => Raw { ops: changes.iter().map(to_raw).collect(), ..op("batch") },
            },
            Self::Get(key) => with_key(op("get"), key),
            Self::Scan { start, rows, reverse } => {
                let raw = Raw { rows: Some(*rows), reverse: reverse.then_some(true), ..op("scan") };
                start.iter().fold(raw, |raw, key| with_key(raw, key))
            }
        };
        serde_json::to_string(&raw).map_err(|error| error.to_string())
    }

    /// Reads a line.
    pub(crate) fn from_text(text: &str) -> Result<Self, String> {
        let raw: Raw = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match raw.op.as_str() {
            "put" | "delete" => Ok(Self::Write(vec![change(&raw)?])),
            "batch" if raw.ops.is_empty() => Err("a batch without \"ops\"".to_owned()),
            "batch" => Ok(Self::Write(raw.ops.iter().map(change).collect::<Result<_, _>>()?)),
            "get" => Ok(Self::Get(key(&raw)?.ok_or("a get without a key")?)),
            "scan" => Ok(Self::Scan {
                start: key(&raw)?,
                rows: raw.rows.ok_or("a scan without \"rows\"")?,
                reverse: raw.reverse.unwrap_or(false),
            }),
            other => Err(format!("unknown op {other:?}; there are put, delete, batch, get, scan")),
        }
    }
}

fn key(raw: &Raw) -> Result<Option<Vec<u8>>, String> {
    match (&raw.key, &raw.key_hex) {
        (Some(_), Some(_)) => Err("both \"key\" and \"key_hex\"".to_owned()),
        (Some(text), None) => Ok(Some(text.as_bytes().to_vec())),
        (None, Some(hex)) => {
            let digits = hex.as_bytes();
            if !digits.len().is_multiple_of(2) || !hex.is_ascii() {
                return Err("\"key_hex\" is not hexadecimal".to_owned());
            }
            let byte = |pair: usize| u8::from_str_radix(&hex[pair..pair + 2], 16);
            let bytes: Result<Vec<u8>, _> = (0..digits.len()).step_by(2).map(byte).collect();
            bytes.map(Some).map_err(|error| format!("\"key_hex\": {error}"))
        }
        (None, None) => Ok(None),
    }
}

fn change(raw: &Raw) -> Result<Change, String> {
    let key = key(raw)?.filter(|key| !key.is_empty()).ok_or("a change without a key")?;
    match raw.op.as_str() {
        "delete" => Ok(Change::Delete(key)),
        "put" => {
            let text = raw.value.as_ref().map(|value| value.len() as u64);
            let size = raw.value_size.or(text).ok_or("a put without \"value_size\"")?;
            let small = u32::try_from(size).ok().filter(|size| u64::from(*size) <= MAX_VALUE);
            Ok(Change::Put(key, small.ok_or("a value of more than 1 GiB")?))
        }
        other => Err(format!("{other:?} inside a batch")),
    }
}

/// Reads a whole trace; an error names its line.
pub(crate) fn read_lines(path: &Path) -> Result<Vec<Line>, String> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| format!("{shown}: {error}"))?;
    let mut reader = BufReader::new(file);
    let mut lines = Vec::new();
    let mut text = String::new();
    for number in 1_u64.. {
        text.clear();
        let read = (&mut reader).take(MAX_LINE).read_line(&mut text);
        match read.map_err(|error| format!("{shown}, line {number}: {error}"))? {
            0 => break,
            length if length as u64 == MAX_LINE => {
                return Err(format!("{shown}, line {number}: longer than {MAX_LINE} bytes"));
            }
            _ => {}
        }
        let line = text.trim();
        if !line.is_empty() && !line.starts_with('#') {
            let line = Line::from_text(line);
            lines.push(line.map_err(|error| format!("{shown}, line {number}: {error}"))?);
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_the_way_there_and_back() {
        let lines = [
            Line::Get(b"k".to_vec()),
            Line::Get(vec![0xff, 0]),
            Line::Write(vec![Change::Put(b"a".to_vec(), 7)]),
            Line::Write(vec![Change::Delete(b"a".to_vec()), Change::Put(b"b".to_vec(), 0)]),
            Line::Scan { start: None, rows: 3, reverse: true },
            Line::Scan { start: Some(b"x".to_vec()), rows: 3, reverse: false },
        ];
        for line in lines {
            assert_eq!(Line::from_text(&line.to_text().unwrap()), Ok(line));
        }
        let text = r#"{"op":"put","key":"a","value":"hello"}"#;
        let put = Line::Write(vec![Change::Put(b"a".to_vec(), 5)]);
        assert_eq!(Line::from_text(text), Ok(put));
    }

    #[test]
    fn wrong_lines_are_refused_with_a_reason() {
        for (text, reason) in [
            ("{", "EOF"),
            (r#"{"op":"move"}"#, "unknown op"),
            (r#"{"op":"get"}"#, "without a key"),
            (r#"{"op":"put","key":"a"}"#, "value_size"),
            (r#"{"op":"put","key":"a","value_size":99999999999}"#, "1 GiB"),
            (r#"{"op":"get","key_hex":"0g"}"#, "key_hex"),
            (r#"{"op":"get","key_hex":"é"}"#, "key_hex"),
            (r#"{"op":"get","kee":"a"}"#, "unknown field"),
            (r#"{"op":"batch"}"#, "ops"),
        ] {
            let problem = Line::from_text(text).unwrap_err();
            assert!(problem.contains(reason), "{text}: {problem}");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t");
        std::fs::write(&path, "# comment\n\n{\"op\":\"get\",\"key\":\"a\"}\nnonsense\n").unwrap();
        assert!(read_lines(&path).unwrap_err().contains("line 4"));
    }

    #[test]
    fn lines_that_were_changed_are_read_or_refused() {
        let first = [
            r#"{"op":"put","key":"user17","value_size":120}"#,
            r#"{"op":"batch","ops":[{"op":"put","key":"a","value_size":8},{"op":"delete","key":"b"}]}"#,
            r#"{"op":"scan","key":"user","rows":50,"reverse":true}"#,
        ];
        let mut random = splitmix(1);
        for round in 0..6000_usize {
            let mut bytes = first[round % 3].as_bytes().to_vec();
            for _ in 0..1 + random() % 5 {
                let at = random() as usize % bytes.len();
                let byte = [b'"', b'\\', b'{', b'[', b'9', b'-', 0xc3, random() as u8];
                bytes[at] = byte[random() as usize % 8];
            }
            if let Ok(line) = Line::from_text(&String::from_utf8_lossy(&bytes)) {
                assert_eq!(Line::from_text(&line.to_text().unwrap()), Ok(line));
            }
        }
    }

    /// SplitMix64.
    fn splitmix(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = state;
            bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            bits ^ bits >> 31
        }
    }
}
