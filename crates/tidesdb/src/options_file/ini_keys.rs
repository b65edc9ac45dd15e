//! The keys of TidesDB's INI files, and the settings that they are.

use std::fmt::Write as _;

use crate::{Error, FamilyOptions, Result};

use super::ini::{self, CODECS};
use super::setting::{self, PROPERTY, Scope, Setting};
use super::{OptionsFile, Reading};

/// Keys that have another name than the setting.
const RENAMED: [(&str, &str); 2] =
    [("value_threshold", "klog_value_threshold"), ("compression_algorithm", "compression")];

/// Keys of TidesDB that say nothing to this engine, unless there is a setting of the name.
const WITHOUT_EFFECT: [&str; 10] = [
    "min_levels",
    "dividing_level_offset",
    "skip_list_max_level",
    "skip_list_probability",
    "default_isolation_level",
    "object_lazy_compaction",
    "object_prefetch_compaction",
    "object_target_file_size",
    "comparator_name",
    "comparator_ctx_str",
];

/// Settings of TidesDB whose values it corrects when they are out of range.
const CORRECTED: [&str; 9] = [
    "write_buffer_size",
    "level_size_ratio",
    "klog_value_threshold",
    "bloom_fpr",
    "index_sample_ratio",
    "block_index_prefix_len",
    "l1_file_count_trigger",
    "l0_queue_stall_threshold",
    "tombstone_density_trigger",
];

/// The setting that `comparator_name` is.
const KEY_ORDER: &str = "key_order";

/// Orders that have the same name here and there; that by bytes is `memcmp` there.
const BUILT_IN_ORDERS: [&str; 5] =
    ["reverse", "lexicographic", "uint64", "int64", "case_insensitive"];

/// What the other orders begin with here.
const CUSTOM: &str = "custom:";

/// Microseconds between syncs when a file names none.
const USUAL_INTERVAL_US: &str = "128000";

pub(super) fn read(text: &str) -> Result<OptionsFile> {
    let entries = ini::entries(text).map_err(|bad| {
        Error::InvalidOptions(vec![format!(
            "line {}: it is neither '[family]' nor 'key = value' nor a remark",
            bad.line
        )])
    })?;
    let known = Scope::Family.defaults();
    let mut reading = Reading::default();
    for entry in &entries {
        if entry.section.is_empty() {
            reading.problem(entry.line, format!("'{}' stands in front of any section", entry.key));
            continue;
        }
        // A section without a setting is a family as well.
        reading.file.families.entry(entry.section.to_owned()).or_default();
        let interval = || {
            let mut of_section = entries.iter().filter(|other| other.section == entry.section);
            of_section.rfind(|other| other.key == "sync_interval_us").map(|other| other.value)
        };
        match setting_of(entry, &known, interval) {
            Meaning::Setting(name, value) => {
                reading.take(entry.line, Some(entry.section), name, &value);
            }
            Meaning::Nothing => {}
            Meaning::Wrong(problem) => reading.problem(entry.line, problem),
        }
    }
    reading.finish()
}

enum Meaning<'a> {
    Setting(&'a str, String),
    Nothing,
    Wrong(String),
}

fn setting_of<'a>(
    entry: &ini::Entry<'a>,
    known: &[Setting],
    interval: impl Fn() -> Option<&'a str>,
) -> Meaning<'a> {
    let (key, value) = (entry.key, entry.value);
    let wrong = |takes: &str| {
        Meaning::Wrong(format!("'{value}' is no value of {key}, which takes {takes}"))
    };
    match key {
        "compression_algorithm" => {
            if !CODECS.contains(&value) {
                return wrong("NONE, SNAPPY, LZ4, ZSTD or LZ4_FAST");
            }
            Meaning::Setting("compression", value.to_lowercase().replace('_', "-"))
        }
        "sync_mode" => match value {
            "0" => Meaning::Setting(key, "none".to_owned()),
            "1" => Meaning::Setting(key, "full".to_owned()),
            "2" => {
                let interval = interval().unwrap_or(USUAL_INTERVAL_US);
                Meaning::Setting(key, format!("interval:{interval}"))
            }
            _ => wrong("0 for none, 1 for full or 2 for interval"),
        },
        "sync_interval_us" => match value.parse::<u64>() {
            Ok(_) => Meaning::Nothing,
            Err(_) => wrong("a number of microseconds"),
        },
        "comparator_name" if known.iter().any(|default| default.name == KEY_ORDER) => {
            Meaning::Setting(
                KEY_ORDER,
                match value {
                    "" | "memcmp" => "bytewise".to_owned(),
                    built_in if BUILT_IN_ORDERS.contains(&built_in) => built_in.to_owned(),
                    own => format!("{CUSTOM}{own}"),
                },
            )
        }
        _ => {
            let renamed = RENAMED.iter().find(|(ini, _)| *ini == key);
            let name = renamed.map_or(key, |&(_, name)| name);
            let default = known.iter().find(|default| default.name == name);
            match default {
                Some(default) if default.value.parse::<bool>().is_ok() => match value {
                    "0" | "false" => Meaning::Setting(name, "false".to_owned()),
                    "true" => Meaning::Setting(name, "true".to_owned()),
                    // What is not 0 is true in C.
                    number if number.parse::<i64>().is_ok() => {
                        Meaning::Setting(name, "true".to_owned())
                    }
                    _ => wrong("0 or 1"),
                },
                None if key == "comparator_name" && !["", "memcmp"].contains(&value) => {
                    wrong("memcmp, or nothing")
                }
                None if WITHOUT_EFFECT.contains(&key) => Meaning::Nothing,
                None if key.starts_with(PROPERTY) => match property(entry) {
                    Some(text) => Meaning::Setting(key, text),
                    None => wrong("a text in quotes"),
                },
                _ if CORRECTED.contains(&name) => {
                    Meaning::Setting(name, within_limits(name, value))
                }
                _ => Meaning::Setting(name, value.to_owned()),
            }
        }
    }
}

/// The value that TidesDB, which corrects those out of range, would use here.
fn within_limits(name: &str, value: &str) -> String {
    let is_negative = value.parse::<i64>().is_ok_and(|number| number < 0);
    let line = format!("{name} = {}", if is_negative { "0" } else { value });
    let settings = FamilyOptions::from_text_within_limits(&line);
    let settings = settings.map(|options| setting::of_text(&options.to_text()));
    let used = settings.ok().and_then(|all| all.into_iter().find(|setting| setting.name == name));
    used.map_or_else(|| value.to_owned(), |setting| setting.value)
}

/// The text of a property as `write` wrote it.
fn property(entry: &ini::Entry<'_>) -> Option<String> {
    let setting = Setting { name: entry.key.to_owned(), value: entry.value.to_owned() };
    setting.property().map(|(_, text)| text)
}

pub(super) fn write(file: &OptionsFile) -> String {
    let mut text = String::new();
    for (family, settings) in &file.families {
        if !text.is_empty() {
            text.push('\n');
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "[{family}]");
        for setting in settings {
            let (key, value) = entry_of(setting);
            let _ = writeln!(text, "{key} = {value}");
            if let Some(interval) = setting.value.strip_prefix("interval:")
                && key == "sync_mode"
            {
                let _ = writeln!(text, "sync_interval_us = {interval}");
            }
        }
    }
    text
}

fn entry_of(setting: &Setting) -> (&str, String) {
    let (name, value) = (setting.name.as_str(), setting.value.as_str());
    let renamed = RENAMED.iter().find(|(_, of)| *of == name);
    let key = renamed.map_or(name, |&(key, _)| key);
    let key = if name == KEY_ORDER { "comparator_name" } else { key };
    let value = match (name, value) {
        (KEY_ORDER, "bytewise") => "memcmp".to_owned(),
        (KEY_ORDER, order) => order.strip_prefix(CUSTOM).unwrap_or(order).to_owned(),
        ("compression", _) => value.to_uppercase().replace('-', "_"),
        ("sync_mode", "none") => "0".to_owned(),
        ("sync_mode", "full") => "1".to_owned(),
        ("sync_mode", _) => "2".to_owned(),
        (_, "true") => "1".to_owned(),
        (_, "false") => "0".to_owned(),
        _ => value.to_owned(),
    };
    (key, value)
}
