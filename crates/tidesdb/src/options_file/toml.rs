//! Options as TOML.

use std::fmt::Write as _;
use std::ops::Range;

use crate::{Error, Result};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::setting::{PROPERTY, Setting};
use super::{OptionsFile, Reading};

const TABLES: &str = "there are [database] and [family.NAME]";

pub(super) fn read(text: &str) -> Result<OptionsFile> {
    let line_of = |span: Range<usize>| {
        let before = text.get(..span.start).unwrap_or(text);
        before.bytes().filter(|&byte| byte == b'\n').count() + 1
    };
    let document = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, line_of);
        Error::InvalidOptions(vec![format!("line {line}: {}", error.message())])
    })?;
    let mut reading = Reading::default();
    for (name, value) in document.get_ref() {
        let line = line_of(name.span());
        match (name.get_ref().as_ref(), value.get_ref()) {
            ("database", DeValue::Table(settings)) => {
                read_settings(&mut reading, settings, None, &line_of);
            }
            ("family", DeValue::Table(families)) => {
                for (family, settings) in families {
                    let family_name = family.get_ref();
                    let DeValue::Table(settings) = settings.get_ref() else {
                        let problem = format!("'{family_name}' is no table; {TABLES}");
                        reading.problem(line_of(family.span()), problem);
                        continue;
                    };
                    // A table without a setting is a family as well.
                    reading.file.families.entry(family_name.to_string()).or_default();
                    read_settings(&mut reading, settings, Some(family_name), &line_of);
                }
            }
            (name, DeValue::Table(_)) => {
                reading.problem(line, format!("there is no table '{name}'; {TABLES}"));
            }
            (name, _) => {
                reading.problem(line, format!("'{name}' stands outside of the tables; {TABLES}"));
            }
        }
    }
    reading.finish()
}

fn read_settings(
    reading: &mut Reading,
    settings: &DeTable<'_>,
    family: Option<&str>,
    line_of: &impl Fn(Range<usize>) -> usize,
) {
    for (name, value) in settings {
        let (line, name) = (line_of(name.span()), name.get_ref().as_ref());
        match value.get_ref() {
            DeValue::Table(properties) if name == "properties" && family.is_some() => {
                for (name, value) in properties {
                    take_property(reading, line_of(name.span()), family, name.get_ref(), value);
                }
            }
            value => match scalar(value) {
                Some(value) => reading.take(line, family, name, &value),
                None => {
                    let kind = value.type_str();
                    reading.problem(line, format!("{name} takes one value, not a TOML {kind}"));
                }
            },
        }
    }
}

fn take_property(
    reading: &mut Reading,
    line: usize,
    family: Option<&str>,
    name: &str,
    value: &Spanned<DeValue<'_>>,
) {
    match value.get_ref().as_str() {
        Some(text) => reading.take(line, family, &format!("{PROPERTY}{name}"), text),
        None => reading.problem(line, format!("the property '{name}' takes a text in quotes")),
    }
}

/// A value in the form of the options' text.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(switch) => Some(switch.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Integer(number) => {
            Some(match u64::from_str_radix(number.as_str(), number.radix()) {
                Ok(value) => value.to_string(),
                Err(_) => number.to_string(),
            })
        }
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

pub(super) fn write(file: &OptionsFile) -> String {
    let mut text = String::new();
    if !file.database.is_empty() {
        text.push_str("[database]\n");
        write_settings(&mut text, &file.database);
    }
    for (family, settings) in &file.families {
        if !text.is_empty() {
            text.push('\n');
        }
        let name = key(family);
        // Writing to a string does not fail.
        let _ = writeln!(text, "[family.{name}]");
        write_settings(&mut text, settings);
        let properties: Vec<_> = settings.iter().filter_map(Setting::property).collect();
        if !properties.is_empty() {
            let _ = writeln!(text, "\n[family.{name}.properties]");
        }
        for (name, value) in properties {
            let _ = writeln!(text, "{} = {}", key(&name), string(&value));
        }
    }
    text
}

fn write_settings(text: &mut String, settings: &[Setting]) {
    for setting in settings.iter().filter(|setting| setting.property().is_none()) {
        let value = &setting.value;
        let bare = value.parse::<bool>().is_ok()
            || value.parse::<i64>().is_ok()
            || value.contains('.') && value.parse::<f64>().is_ok_and(f64::is_finite);
        let value = if bare { value.clone() } else { string(value) };
        let _ = writeln!(text, "{} = {value}", setting.name);
    }
}

/// A key, in quotes where it needs them.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { string(name) }
}

/// A basic string.
fn string(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}
