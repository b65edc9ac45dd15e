//! Orders of keys.
//!
//! The engine sorts, compares, hashes and shortens keys as strings of bytes, everywhere. A family
//! with another order gives the engine *stored keys*: [`KeyOrder::stored_key`] makes of each key
//! bytes that sort as the keys do, and [`KeyOrder::put_key`] makes the key of them again. So no
//! comparison anywhere depends on the order of a family, filters and indexes work alike for all,
//! and the log and the tables of a family can be read, replayed and merged by any program that
//! opens the database.
//!
//! Where keys of different bytes are the same key, their stored keys are equal. The bytes that were
//! given, the *spelling*, lie in front of the value then (see [`KeyOrder::stored_value`]).
//!
//! An order that is a function of the application ([`CompareKeys`]) has no such bytes: its keys are
//! stored as they are, and put in order by those who scan them.
//!
//! ```text
//! reverse           each byte b: !b if b > 1, FE 00 for 1, FE 01 for 0; then FF
//! lexicographic     the bytes in front of the first NUL; then 00
//! uint64            00, 8 bytes big-endian; 01 and the key itself where it is not 8 bytes long
//! int64             as uint64, with the sign bit inverted
//! case_insensitive  the key with A to Z as a to z
//! ```
//!
//! Threads: plain data.

mod application_orders;

pub use self::application_orders::{CompareKeys, KeyOrders};

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use crate::codec::{Decoder, put_varint};
use crate::error::{Error, Result};

/// In what order a column family has its keys. Fixed when the family is created.
///
/// Scans, bounds and range deletions go by it, except that range deletions are refused with
/// [`KeyOrder::Custom`]. Prefixes are refused with the orders of integers. All but
/// [`KeyOrder::Bytewise`] and [`KeyOrder::Custom`] transform each key on its way in and out; a
/// limit on the size of keys holds for the transformed ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyOrder {
    /// By bytes, a key in front of all longer ones that begin with it.
    #[default]
    Bytewise,
    /// The opposite of [`KeyOrder::Bytewise`]. Keys with many bytes 0 and 1 take up to twice the
    /// space.
    Reverse,
    /// As C strings: by the bytes in front of the first NUL, or all where there is none. Keys that
    /// differ behind it are the same key; the spelling that was put last is kept.
    Lexicographic,
    /// Unsigned integers of eight bytes in the byte order of the machine. Keys of other lengths
    /// come behind all integers, by bytes.
    Uint64,
    /// Signed integers of eight bytes in the byte order of the machine. Keys of other lengths come
    /// behind all integers, by bytes.
    Int64,
    /// By bytes, with A to Z taken for a to z. Keys that differ in case alone are the same key; the
    /// spelling that was put last is kept.
    CaseInsensitive,
    /// An order of the application's own, by the name under which it is registered. See
    /// [`KeyOrders`] for what it can do and what it costs.
    Custom(String),
}

/// Longest name of a custom order, in bytes.
pub const MAX_ORDER_NAME_BYTES: usize = 255;

/// What the text form of a custom order begins with.
const CUSTOM: &str = "custom:";

/// What a byte of one of the two smallest values is written as, in front of which of them it is.
const ESCAPE: u8 = 0xFE;
/// Ends a reversed key. Nothing that a key goes on with sorts behind it.
const END: u8 = 0xFF;

impl fmt::Display for KeyOrder {
    /// The text form: `bytewise`, `reverse`, `lexicographic`, `uint64`, `int64`, `case_insensitive`
    /// or `custom:` and the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytewise => f.write_str("bytewise"),
            Self::Reverse => f.write_str("reverse"),
            Self::Lexicographic => f.write_str("lexicographic"),
            Self::Uint64 => f.write_str("uint64"),
            Self::Int64 => f.write_str("int64"),
            Self::CaseInsensitive => f.write_str("case_insensitive"),
            Self::Custom(name) => write!(f, "{CUSTOM}{name}"),
        }
    }
}

impl KeyOrder {
    /// The order with this text form.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "bytewise" => Self::Bytewise,
            "reverse" => Self::Reverse,
            "lexicographic" => Self::Lexicographic,
            "uint64" => Self::Uint64,
            "int64" => Self::Int64,
            "case_insensitive" => Self::CaseInsensitive,
            _ => Self::Custom(name.strip_prefix(CUSTOM)?.to_owned()),
        })
    }

    /// Why the order can't be one of a family; none if it can.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Custom(name) => application_orders::name_problem(name),
            _ => None,
        }
    }

    /// How two keys compare. `None` for a custom order, whose function the database knows.
    #[must_use]
    pub fn compare(&self, one: &[u8], other: &[u8]) -> Option<Ordering> {
        Some(match self {
            Self::Bytewise => one.cmp(other),
            Self::Reverse => other.cmp(one),
            Self::Lexicographic => c_string(one).cmp(c_string(other)),
            Self::Uint64 | Self::Int64 => match (number(one), number(other)) {
                (Some(one), Some(other)) if *self == Self::Uint64 => one.cmp(&other),
                (Some(one), Some(other)) => one.cast_signed().cmp(&other.cast_signed()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => one.cmp(other),
            },
            Self::CaseInsensitive => {
                let folded = one.iter().map(u8::to_ascii_lowercase);
                folded.cmp(other.iter().map(u8::to_ascii_lowercase))
            }
            Self::Custom(_) => return None,
        })
    }

    /// True when keys and values are stored as they are.
    #[inline]
    #[must_use]
    pub const fn stores_keys_as_given(&self) -> bool {
        matches!(self, Self::Bytewise | Self::Custom(_))
    }

    /// True when keys of different bytes may be the same key, so that values carry the spelling.
    #[must_use]
    pub const fn keeps_spelling(&self) -> bool {
        matches!(self, Self::Lexicographic | Self::CaseInsensitive)
    }

    /// The bytes under which a key is stored.
    #[inline]
    #[must_use]
    pub fn stored_key<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        if self.stores_keys_as_given() {
            return Cow::Borrowed(key);
        }
        Cow::Owned(self.transformed(key))
    }

    fn transformed(&self, key: &[u8]) -> Vec<u8> {
        match self {
            Self::Bytewise | Self::Custom(_) => key.to_vec(),
            Self::Reverse => {
                let mut stored = reversed(key);
                stored.push(END);
                stored
            }
            Self::Lexicographic => [c_string(key), &[0]].concat(),
            Self::Uint64 | Self::Int64 => match number(key) {
                Some(number) => {
                    let flipped = if *self == Self::Int64 { number ^ SIGN } else { number };
                    [&[0], flipped.to_be_bytes().as_slice()].concat()
                }
                None => [&[1], key].concat(),
            },
            Self::CaseInsensitive => key.to_ascii_lowercase(),
        }
    }

    /// What all stored keys of keys with a prefix begin with.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for orders of integers, in which keys that share a prefix are not
    /// next to each other.
    pub fn stored_prefix<'k>(&self, prefix: &'k [u8]) -> Result<Cow<'k, [u8]>> {
        Ok(match self {
            Self::Bytewise | Self::Custom(_) => Cow::Borrowed(prefix),
            Self::Reverse => Cow::Owned(reversed(prefix)),
            // Behind a NUL nothing counts: only that one key begins with it.
            Self::Lexicographic if prefix.contains(&0) => Cow::Owned(self.transformed(prefix)),
            Self::Lexicographic => Cow::Borrowed(prefix),
            Self::CaseInsensitive => Cow::Owned(prefix.to_ascii_lowercase()),
            Self::Uint64 | Self::Int64 => {
                let text = format!("keys in the order {self} can't be chosen by a prefix");
                return Err(Error::InvalidArgument(text));
            }
        })
    }

    /// True for the bounds of a prefix's keys where no two keys are stored as them.
    #[must_use]
    pub fn are_of_prefix(&self, start: &[u8], end: &[u8]) -> bool {
        match self {
            Self::Reverse => start.last() != Some(&END),
            // No key has a capital letter, but the byte in front of `A` has it for successor.
            Self::CaseInsensitive => end.iter().any(u8::is_ascii_uppercase),
            _ => false,
        }
    }

    /// What is stored as the value of a key: behind the spelling, where the order keeps it.
    ///
    /// ```text
    /// 00 | value                               the stored key has the spelling
    /// length of the spelling + 1, varint | spelling | value
    /// ```
    ///
    /// The spelling is, in a lexicographic order, what of the key the stored key lacks.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], which a large value may find.
    #[inline]
    pub fn stored_value<'v>(&self, key: &[u8], value: &'v [u8]) -> Result<Cow<'v, [u8]>> {
        if !self.keeps_spelling() {
            return Ok(Cow::Borrowed(value));
        }
        let spelling = match self {
            Self::Lexicographic => key.get(c_string(key).len()..),
            _ => key.iter().any(u8::is_ascii_uppercase).then_some(key),
        };
        let spelling = spelling.filter(|spelling| !spelling.is_empty());
        let mut stored = Vec::new();
        let bytes = key.len() + value.len() + 3;
        stored.try_reserve_exact(bytes).map_err(|_| Error::OutOfMemory("a write batch"))?;
        put_varint(&mut stored, spelling.map_or(0, |spelling| spelling.len() as u64 + 1));
        stored.extend_from_slice(spelling.unwrap_or_default());
        stored.extend_from_slice(value);
        Ok(Cow::Owned(stored))
    }

    /// The value in what [`KeyOrder::stored_value`] made.
    #[inline]
    #[must_use]
    pub fn value<'v>(&self, stored: &'v [u8]) -> &'v [u8] {
        if self.keeps_spelling() { parted(stored).1 } else { stored }
    }

    /// Replaces `out` by the key that is stored as `stored`; `stored_value` is needed where the
    /// order keeps the spelling.
    #[expect(clippy::host_endian_bytes, reason = "such keys are integers of the machine")]
    pub fn put_key(&self, stored: &[u8], stored_value: &[u8], out: &mut Vec<u8>) {
        out.clear();
        match self {
            Self::Bytewise | Self::Custom(_) => out.extend_from_slice(stored),
            Self::Reverse => put_reversed_back(stored, out),
            Self::Lexicographic => {
                out.extend_from_slice(c_string(stored));
                out.extend_from_slice(parted(stored_value).0);
                if out.is_empty() {
                    // No key is empty, and this one names the same.
                    out.push(0);
                }
            }
            Self::Uint64 | Self::Int64 => match stored.split_first() {
                Some((0, number)) if number.len() == 8 => {
                    let number = u64::from_be_bytes(number.try_into().unwrap_or_default());
                    let flipped = if *self == Self::Int64 { number ^ SIGN } else { number };
                    out.extend_from_slice(&flipped.to_ne_bytes());
                }
                Some((_, key)) => out.extend_from_slice(key),
                None => {}
            },
            Self::CaseInsensitive => match parted(stored_value).0 {
                [] => out.extend_from_slice(stored),
                spelling => out.extend_from_slice(spelling),
            },
        }
    }

    /// The key that is stored as `stored`, in the spelling that the stored key has; for messages.
    #[must_use]
    pub fn key(&self, stored: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        self.put_key(stored, &[], &mut key);
        key
    }
}

const SIGN: u64 = 1 << 63;

/// What comes in front of the first NUL.
fn c_string(key: &[u8]) -> &[u8] {
    key.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn number(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_ne_bytes)
}

/// Bytes that sort the other way round, one code for each, of which none begins another.
fn reversed(key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(key.len() + 8);
    for &byte in key {
        match byte {
            0 => stored.extend_from_slice(&[ESCAPE, 1]),
            1 => stored.extend_from_slice(&[ESCAPE, 0]),
            _ => stored.push(!byte),
        }
    }
    stored
}

fn put_reversed_back(stored: &[u8], out: &mut Vec<u8>) {
    let mut bytes = stored.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            END => return,
            ESCAPE => out.push(u8::from(bytes.next() == Some(0))),
            _ => out.push(!byte),
        }
    }
}

/// Spelling and value. What is not of that form, which is not written, is a value.
fn parted(stored: &[u8]) -> (&[u8], &[u8]) {
    let mut decoder = Decoder::new(stored);
    let Ok(mark) = decoder.length() else { return (&[], stored) };
    let rest = decoder.remaining();
    rest.split_at_checked(mark.saturating_sub(1)).unwrap_or((&[], rest))
}

#[cfg(test)]
mod tests;
