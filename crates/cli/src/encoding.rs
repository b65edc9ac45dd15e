//! Keys and values as text: UTF-8 with escapes, hexadecimal, or base64.
//!
//! Used for arguments of the command line, for the fields of TSV and CSV files and for what
//! commands print. Each encoding represents every byte string, and decoding what was encoded
//! gives the same bytes.
//!
//! The escapes of the text form are `\\`, `\t`, `\n`, `\r` and `\xNN`; printable UTF-8 stands
//! for itself, control characters and bytes that are not UTF-8 are escaped. So text that was
//! encoded holds no tab, no line break and nothing that moves a terminal's cursor.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

use std::fmt;

#[cfg(test)]
mod tests;

/// How bytes are written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// UTF-8 with escapes.
    #[default]
    Text,
    /// Two hexadecimal digits a byte.
    Hex,
    /// Base64 with the standard alphabet.
    Base64,
}

/// Text that is not of the form its encoding asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadText {
    /// Offset of the offending byte.
    pub(crate) offset: usize,
    /// What is wrong with it.
    pub(crate) reason: &'static str,
}

impl fmt::Display for BadText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.reason, self.offset + 1)
    }
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
const BASE64_DIGITS: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl Encoding {
    /// Appends the text form of `bytes` to `out`.
    pub(crate) fn encode(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Text => escape(bytes, out),
            Self::Hex => {
                out.reserve(bytes.len() * 2);
                out.extend(bytes.iter().flat_map(|&byte| hex_pair(byte)));
            }
            Self::Base64 => base64_encode(bytes, out),
        }
    }

    /// Appends the bytes that `text` stands for to `out`, whose added part is unspecified after
    /// an error.
    pub(crate) fn decode(self, text: &[u8], out: &mut Vec<u8>) -> Result<(), BadText> {
        match self {
            Self::Text => unescape(text, out),
            Self::Hex => hex_decode(text, out),
            Self::Base64 => base64_decode(text, out),
        }
    }

    /// The name used in the fields of JSON lines and in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Hex => "hex",
            Self::Base64 => "base64",
        }
    }
}

fn hex_pair(byte: u8) -> [u8; 2] {
    let digit = |value: u8| HEX_DIGITS.get(usize::from(value)).copied().unwrap_or(b'0');
    [digit(byte >> 4), digit(byte & 15)]
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        let text = chunk.valid();
        let part = |from: usize, to: usize| text.as_bytes().get(from..to).unwrap_or_default();
        let mut copied = 0;
        for (start, character) in text.char_indices() {
            // A byte order mark would vanish at the head of a file.
            if !character.is_control() && character != '\\' && character != '\u{feff}' {
                continue;
            }
            let end = start + character.len_utf8();
            out.extend_from_slice(part(copied, start));
            match character {
                '\\' => out.extend_from_slice(b"\\\\"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                _ => escape_bytes(part(start, end), out),
            }
            copied = end;
        }
        out.extend_from_slice(part(copied, text.len()));
        escape_bytes(chunk.invalid(), out);
    }
}

fn escape_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.extend_from_slice(b"\\x");
        out.extend(hex_pair(byte));
    }
}

fn unescape(text: &[u8], out: &mut Vec<u8>) -> Result<(), BadText> {
    let mut rest = text;
    while let Some(plain) = rest.iter().position(|&byte| byte == b'\\') {
        out.extend_from_slice(rest.get(..plain).unwrap_or_default());
        let offset = text.len() - rest.len() + plain;
        let escape = rest.get(plain + 1..).unwrap_or_default();
        let (byte, length) = match escape {
            [b'\\', ..] => (b'\\', 1),
            [b't', ..] => (b'\t', 1),
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b'x', high, low, ..] => match (hex_value(*high), hex_value(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => return Err(BadText { offset, reason: "\\x wants two hexadecimal digits" }),
            },
            [b'x', ..] => {
                return Err(BadText { offset, reason: "\\x wants two hexadecimal digits" });
            }
            _ => {
                let reason = "unknown escape; a backslash that stands for itself is written \\\\";
                return Err(BadText { offset, reason });
            }
        };
        out.push(byte);
        rest = escape.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    Ok(())
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

fn hex_decode(text: &[u8], out: &mut Vec<u8>) -> Result<(), BadText> {
    out.reserve(text.len() / 2);
    let (pairs, odd) = text.as_chunks::<2>();
    for (index, &[high, low]) in pairs.iter().enumerate() {
        match (hex_value(high), hex_value(low)) {
            (Some(high), Some(low)) => out.push(high << 4 | low),
            (Some(_), None) => return Err(not_hex(index * 2 + 1)),
            (None, _) => return Err(not_hex(index * 2)),
        }
    }
    if odd.is_empty() {
        return Ok(());
    }
    Err(BadText { offset: text.len(), reason: "odd number of hexadecimal digits" })
}

fn not_hex(offset: usize) -> BadText {
    BadText { offset, reason: "not a hexadecimal digit" }
}

fn base64_encode(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let digit = BASE64_DIGITS.get((bits >> (18 - 6 * index) & 63) as usize);
            out.push(digit.copied().filter(|_| index <= group.len()).unwrap_or(b'='));
        }
    }
}

fn base64_value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// The padding may be missing; spare bits must be zero, so that each byte string has one form.
fn base64_decode(text: &[u8], out: &mut Vec<u8>) -> Result<(), BadText> {
    let padding = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let digits = text.get(..text.len() - padding).unwrap_or_default();
    if digits.len() % 4 == 1 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return Err(BadText { offset: text.len(), reason: "base64 of an impossible length" });
    }
    out.reserve(digits.len() / 4 * 3 + 2);
    let (mut bits, mut bit_count) = (0u32, 0u32);
    for (offset, &digit) in digits.iter().enumerate() {
        let value = base64_value(digit)
            .ok_or(BadText { offset, reason: "not a digit of the base64 alphabet" })?;
        bits = bits << 6 | u32::from(value);
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            out.push((bits >> bit_count & 255) as u8);
            bits &= (1 << bit_count) - 1;
        }
    }
    if bits != 0 {
        return Err(BadText { offset: digits.len(), reason: "base64 with stray bits at its end" });
    }
    Ok(())
}
