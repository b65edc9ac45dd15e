//! Settings of families as `NAME=VALUE`, with units for sizes and messages that say what is taken.

use tidesdb::FamilyOptions;

use crate::failure::{Failure, Result};

/// Units of sizes, each 1024 times the one before; with or without `B` or `iB`.
const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

/// These options with some changed.
///
/// # Errors
/// A usage failure for an unknown name or a value that is not taken; it lists what is.
pub(crate) fn changed(options: &FamilyOptions, settings: &[String]) -> Result<FamilyOptions> {
    let mut text = options.to_text();
    let known: Vec<String> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim().to_owned())
        .collect();
    for setting in settings {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let (name, value) = (name.trim(), value.trim());
        // The engine ignores unknown names, which a later version may have stored.
        if !known.iter().any(|known| known == name) {
            return Err(Failure::usage(format!("there is no setting '{name}'"))
                .hint(format!("settings are: {}", known.join(", "))));
        }
        let value = in_bytes(value).map_or_else(|| value.to_owned(), |bytes| bytes.to_string());
        let line = format!("{name} = {value}");
        FamilyOptions::from_text(&line).map_err(|error| {
            Failure::usage(error.to_string()).hint(format!("{name} takes {}", accepted(name)))
        })?;
        // Of two lines with one name the later counts.
        text.push('\n');
        text.push_str(&line);
    }
    FamilyOptions::from_text(&text).map_err(|error| Failure::usage(error.to_string()))
}

/// What values a setting takes.
fn accepted(name: &str) -> &'static str {
    match name {
        "compression" => "none, snappy, lz4, lz4-fast or zstd",
        "sync_mode" => "none, full, or interval:MICROSECONDS",
        "enable_bloom_filter" => "true or false",
        "bloom_fpr" | "max_space_amplification" | "tombstone_density_trigger" => {
            "a number such as 0.01 or 1.5"
        }
        _ => "a whole number; sizes may have a unit, such as 64KB, 64MiB or 1G, of 1024 each",
    }
}

/// The bytes of a size with a unit.
fn in_bytes(text: &str) -> Option<u64> {
    let text = text.to_ascii_uppercase();
    let text = text.strip_suffix("IB").or_else(|| text.strip_suffix('B')).unwrap_or(&text);
    let (letter, shift) = UNITS.into_iter().find(|&(letter, _)| text.ends_with(letter))?;
    let number: u64 = text.strip_suffix(letter)?.trim().parse().ok()?;
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("64MB", 64 << 20), ("64mib", 64 << 20), ("1g", 1 << 30)] {
            assert_eq!(in_bytes(text), Some(bytes), "{text}");
        }
        for text in ["64", "zstd", "MB", "-1K", "99999999999999G", ""] {
            assert_eq!(in_bytes(text), None, "{text}");
        }
    }
}
