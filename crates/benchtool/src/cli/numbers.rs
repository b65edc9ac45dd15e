//! Numbers with suffixes.

fn parse_number(text: &str, thousand: u64) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let (digits, power) = match upper.as_bytes().last() {
        Some(b'K') => (&upper[..upper.len() - 1], 1),
        Some(b'M') => (&upper[..upper.len() - 1], 2),
        Some(b'G') => (&upper[..upper.len() - 1], 3),
        _ => (upper.as_str(), 0),
    };
    let number: u64 =
        digits.parse().map_err(|_| format!("not a number: {text} (digits, with K, M or G)"))?;
    number.checked_mul(thousand.pow(power)).ok_or_else(|| format!("too large: {text}"))
}

/// A size in bytes: K, M and G are powers of 1024.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    parse_number(text, 1024)
}

/// A count: K, M and G are powers of 1000.
pub(super) fn parse_count(text: &str) -> Result<u64, String> {
    parse_number(text, 1000)
}
