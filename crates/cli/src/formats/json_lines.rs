//! JSON lines: one object a line with a key and a value.
//!
//! Written as `{"key":"...","value":"..."}`. What is not UTF-8 goes to `key_base64` or
//! `value_base64` instead; with the hex or base64 encoding all of it goes to `key_hex` and so on.
//! The reader takes any of them, with names of the user's choice in place of `key` and `value`.
//! A value that is not a string is kept as its JSON text, exactly as it stands in the file; a key
//! may also be a number. Other fields are ignored.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Write};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::lines::Lines;
use super::{Position, ReaderOptions, Record, RecordReader, RecordWriter, Row, Step};
use crate::encoding::Encoding;

/// Reads JSON lines.
pub(super) struct Reader<R> {
    lines: Lines<R>,
    key: FieldNames,
    value: FieldNames,
    is_dump: bool,
}

/// The names under which a field may appear, with the encoding that each stands for.
struct FieldNames([(String, Encoding); 3]);

impl FieldNames {
    fn new(name: &str, plain: Encoding) -> Self {
        Self([
            (name.to_owned(), plain),
            (format!("{name}_base64"), Encoding::Base64),
            (format!("{name}_hex"), Encoding::Hex),
        ])
    }

    fn plain(&self) -> &str {
        &self.0[0].0
    }

    fn encoding_of(&self, name: &str) -> Option<Encoding> {
        self.0.iter().find(|(candidate, _)| candidate == name).map(|&(_, encoding)| encoding)
    }
}

/// A field as it stands in the line.
type Field<'a> = (Encoding, &'a RawValue);

impl<R: BufRead> Reader<R> {
    /// Records of `input`, which begins at `start`.
    pub(super) fn new(input: R, options: &ReaderOptions, start: Position) -> Self {
        Self {
            lines: Lines::new(input, start),
            key: FieldNames::new(&options.key_field, options.encoding),
            value: FieldNames::new(&options.value_field, options.encoding),
            is_dump: options.is_dump,
        }
    }
}

impl<R: BufRead> RecordReader for Reader<R> {
    fn next(&mut self, record: &mut Record) -> io::Result<Step> {
        loop {
            let Some(line) = self.lines.next()? else { return Ok(Step::End) };
            let is_header = self.is_dump && line.number == 1;
            if is_header || line.bytes.trim_ascii().is_empty() {
                continue;
            }
            let names = Names { key: &self.key, value: &self.value, is_dump: self.is_dump };
            return Ok(match names.parse(line.bytes, record) {
                Ok(()) => Step::Record { line: line.number },
                Err(reason) => Step::Bad { line: line.number, reason },
            });
        }
    }

    fn position(&self) -> Position {
        self.lines.position()
    }
}

/// Finds key and value in an object without building the rest of it.
#[derive(Clone, Copy)]
struct Names<'n> {
    key: &'n FieldNames,
    value: &'n FieldNames,
    is_dump: bool,
}

/// The fields that were found.
#[derive(Default)]
struct Fields<'a> {
    key: Option<Field<'a>>,
    value: Option<Field<'a>>,
    family: Option<String>,
    expires_at: Option<u64>,
}

impl Names<'_> {
    fn parse(self, line: &[u8], record: &mut Record) -> Result<(), String> {
        if line.trim_ascii_start().starts_with(b"[") {
            return Err("it begins with [, as a JSON array does; a load wants one object a line, \
                        which `jq -c '.[]'` makes of an array of objects"
                .to_owned());
        }
        let mut json = serde_json::Deserializer::from_slice(line);
        let fields =
            self.deserialize(&mut json).and_then(|fields| json.end().map(|()| fields)).map_err(
                // The parser counts lines from the start of the slice, which is one line.
                |error| error.to_string().replace(" at line 1 column ", " at column "),
            )?;
        let missing = |names: &FieldNames| format!("there is no field \"{}\"", names.plain());
        let key = fields.key.ok_or_else(|| missing(self.key))?;
        let value = fields.value.ok_or_else(|| missing(self.value))?;
        let is_number = key.1.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
        if !is_number && !key.1.get().starts_with('"') {
            return Err(format!("the field \"{}\" is no string", self.key.plain()));
        }
        (record.family, record.expires_at) = (fields.family, fields.expires_at);
        take(key, &mut record.key).map_err(|error| format!("in the key: {error}"))?;
        take(value, &mut record.value).map_err(|error| format!("in the value: {error}"))
    }
}

fn take((encoding, raw): Field<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    out.clear();
    if !raw.get().starts_with('"') {
        if encoding != Encoding::Text {
            return Err(format!("{} must be a string", encoding.name()));
        }
        out.extend_from_slice(raw.get().as_bytes());
        return Ok(());
    }
    let Text(text) = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    if encoding == Encoding::Text {
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    encoding.decode(text.as_bytes(), out).map_err(|error| error.to_string())
}

/// A string that is borrowed from the line unless it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = Fields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object such as {\"key\": \"...\", \"value\": \"...\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::default();
        while let Some(Text(name)) = map.next_key()? {
            if self.is_dump && name == "family" {
                fields.family = Some(map.next_value()?);
                continue;
            }
            if self.is_dump && name == "expires_at" {
                fields.expires_at = Some(map.next_value()?);
                continue;
            }
            let raw: &'de RawValue = map.next_value()?;
            let (slot, encoding) =
                match (self.key.encoding_of(&name), self.value.encoding_of(&name)) {
                    (Some(encoding), _) => (&mut fields.key, encoding),
                    (None, Some(encoding)) => (&mut fields.value, encoding),
                    (None, None) => continue,
                };
            if slot.replace((encoding, raw)).is_some() {
                return Err(A::Error::custom(format_args!("\"{name}\" is there twice")));
            }
        }
        Ok(fields)
    }
}

/// Writes JSON lines.
pub(super) struct Writer {
    encoding: Encoding,
    line: Vec<u8>,
}

impl Writer {
    /// A writer; text means strings where possible and base64 elsewhere.
    pub(super) fn new(encoding: Encoding) -> Self {
        Self { encoding, line: Vec::new() }
    }

    fn push_field(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (text, encoding) = match (self.encoding, std::str::from_utf8(bytes)) {
            (Encoding::Text, Ok(text)) => (Some(text), Encoding::Text),
            (Encoding::Text, Err(_)) => (None, Encoding::Base64),
            (encoding, _) => (None, encoding),
        };
        self.line.push(b'"');
        self.line.extend_from_slice(name.as_bytes());
        if let Some(text) = text {
            self.line.extend_from_slice(b"\":");
            return serde_json::to_writer(&mut self.line, text).map_err(io::Error::from);
        }
        self.line.push(b'_');
        self.line.extend_from_slice(encoding.name().as_bytes());
        self.line.extend_from_slice(b"\":\"");
        encoding.encode(bytes, &mut self.line);
        self.line.push(b'"');
        Ok(())
    }
}

impl RecordWriter for Writer {
    fn write(&mut self, out: &mut dyn Write, row: Row<'_>) -> io::Result<()> {
        self.line.clear();
        self.line.push(b'{');
        if let Some(family) = row.family {
            self.line.extend_from_slice(b"\"family\":");
            serde_json::to_writer(&mut self.line, family)?;
            self.line.push(b',');
        }
        self.push_field("key", row.key)?;
        if let Some(value) = row.value {
            self.line.push(b',');
            self.push_field("value", value)?;
        }
        if let Some(second) = row.expires_at {
            self.line.extend_from_slice(format!(",\"expires_at\":{second}").as_bytes());
        }
        self.line.extend_from_slice(b"}\n");
        out.write_all(&self.line)
    }
}
