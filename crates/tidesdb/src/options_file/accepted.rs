//! Which values a setting takes: sizes with units, and descriptions for messages.

/// Units of sizes, each 1024 times the one before; with or without `B` or `iB`.
const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

/// Settings whose default looks like a whole number, but that are none.
const FRACTIONS: [&str; 1] = ["tombstone_density_trigger"];

/// The value of a setting with this default, with its unit put in.
pub(super) fn normalised(default: &str, value: &str) -> String {
    if default.parse::<u64>().is_ok()
        && let Some(bytes) = in_bytes(value)
    {
        return bytes.to_string();
    }
    value.to_owned()
}

/// What values a setting of this name and default takes, for people.
pub(super) fn description(name: &str, default: &str) -> &'static str {
    match name {
        "filter_kind" => "bloom or ribbon",
        "compression" => "none, snappy, lz4, lz4-fast or zstd",
        "key_order" => {
            "bytewise, reverse, lexicographic, uint64, int64, case_insensitive or custom:NAME"
        }
        "sync_mode" => "none, full, or interval:MICROSECONDS",
        name if FRACTIONS.contains(&name) => "a number such as 0.5",
        _ if default.parse::<bool>().is_ok() => "true or false",
        "min_disk_space" => "none, or a size such as 64MB",
        _ if default.parse::<u64>().is_ok() => {
            "a whole number; sizes may have a unit, such as 64KB, 64MiB or 1G, of 1024 each"
        }
        _ if default.parse::<f64>().is_ok() => "a number such as 0.01 or 1.5",
        _ => "another text",
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
