//! Filters of a table: which keys, and which prefixes of keys, are certainly not in it.
//!
//! A filter says "certainly absent" or "perhaps present" for the hash of what was put in. There
//! are two kinds, `bloom` and `ribbon`. The filter of whole keys is for exact gets; the filter
//! of prefixes, which a table may have besides, is for scans that stay within one prefix. What is
//! hashed is said by [`key_hash`] and [`prefix_hash`] alone.
//!
//! Persisted form: a version byte, which fixes kind, hash and layout, and what the kind says.
//! Version 3 is two filters:
//!
//! ```text
//! version u8 (3) | prefix bytes varint | filter of keys, length-prefixed, may be empty
//!                | filter of prefixes
//! ```
//!
//! Immutable once built, shared by all threads.

mod bloom;
mod ribbon;

use tidesdb_base::checksum;
use tidesdb_base::codec::{Decoder, put_varint};
pub use tidesdb_base::options::FilterKind;
use tidesdb_sys::large_vec::{LargeVec, NoMemory};

use self::bloom::Bloom;
pub(crate) use self::bloom::LinesOfKeys;
use self::ribbon::{Elimination, Ribbon};
use crate::decode_error::DecodeError;
use crate::sink::Sink;

/// Version 3: a filter of keys and one of prefixes, each of version 1 or 2.
const VERSION_OF_TWO: u8 = 3;

/// Hash of a user key as filters want it. Compute it once and ask any number of filters.
#[inline]
#[must_use]
pub fn key_hash(key: &[u8]) -> u64 {
    checksum::plain(key)
}

/// Hash of the first `prefix_bytes` bytes of a key as filters of prefixes want it; `None` for a
/// shorter key, which those do not know.
#[inline]
#[must_use]
pub fn prefix_hash(key: &[u8], prefix_bytes: usize) -> Option<u64> {
    key.get(..prefix_bytes).map(checksum::plain)
}

/// What filters a table gets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FilterOptions {
    /// How they are made.
    pub kind: FilterKind,
    /// Share of absent keys, or prefixes, that they let through.
    pub rate: f64,
    /// Whether there is a filter of keys.
    pub of_keys: bool,
    /// How many bytes of each key are a prefix; 0 for no filter of prefixes.
    pub prefix_bytes: usize,
}

impl FilterOptions {
    /// A filter of keys of the usual kind.
    #[must_use]
    pub const fn of_keys(rate: f64) -> Self {
        Self { kind: FilterKind::Bloom, rate, of_keys: true, prefix_bytes: 0 }
    }

    /// No filter.
    #[must_use]
    pub const fn none() -> Self {
        Self { of_keys: false, ..Self::of_keys(1.0) }
    }

    /// Whether there is any filter.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        !self.of_keys && self.prefix_bytes == 0
    }
}

/// Makes the filters of one table after the other in the same memory.
#[derive(Debug, Default)]
pub(crate) struct FilterBuilder {
    hashes: LargeVec<u64>,
    prefix_hashes: LargeVec<u64>,
    tools: Tools,
}

impl FilterBuilder {
    /// Expects about so many keys; only saves allocations.
    pub(crate) fn reserve(&mut self, keys: usize) {
        // Where there is no memory for all, there may be for those that come.
        let _ = self.hashes.reserve(keys);
    }

    /// Adds the key with this [`key_hash`].
    ///
    /// # Errors
    /// [`NoMemory`].
    #[inline]
    pub(crate) fn add(&mut self, hash: u64) -> Result<(), NoMemory> {
        self.hashes.push(hash)
    }

    /// Adds the prefix with this [`prefix_hash`].
    ///
    /// # Errors
    /// [`NoMemory`].
    pub(crate) fn add_prefix(&mut self, hash: u64) -> Result<(), NoMemory> {
        self.prefix_hashes.push(hash)
    }

    /// Forgets what was added.
    pub(crate) fn clear(&mut self) {
        self.hashes.clear();
        self.prefix_hashes.clear();
    }

    /// Appends the persisted form of the filters of all that was added, unless that takes more than
    /// `most_bytes`, and forgets what was added. True when it did.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub(crate) fn finish(
        &mut self,
        options: FilterOptions,
        most_bytes: usize,
        out: &mut impl Sink,
    ) -> Result<bool, NoMemory> {
        let tools = &mut self.tools;
        if options.prefix_bytes == 0 {
            tools.encode(&self.hashes, options, out)?;
        } else {
            let mut of_keys = LargeVec::new();
            if options.of_keys {
                tools.encode(&self.hashes, options, &mut of_keys)?;
            }
            let mut header = vec![VERSION_OF_TWO];
            put_varint(&mut header, options.prefix_bytes as u64);
            put_varint(&mut header, of_keys.len() as u64);
            out.put(&header)?;
            out.put(&of_keys)?;
            tools.encode(&self.prefix_hashes, options, out)?;
        }
        self.clear();
        Ok(out.len() <= most_bytes)
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        (self.hashes.capacity() + self.prefix_hashes.capacity()) * size_of::<u64>()
            + self.tools.bloom.memory_bytes()
            + self.tools.elimination.memory_bytes()
    }
}

/// Memory in which filters are made.
#[derive(Debug, Default)]
struct Tools {
    bloom: Bloom,
    elimination: Elimination,
}

impl Tools {
    /// Appends the persisted form of a filter. Of few keys the Bloom filter is the smaller one, and
    /// takes the place of a ribbon filter that can't be made.
    fn encode(
        &mut self,
        hashes: &[u64],
        options: FilterOptions,
        out: &mut impl Sink,
    ) -> Result<(), NoMemory> {
        let shape = bloom::Shape::for_rate(options.rate);
        if options.kind == FilterKind::Ribbon
            && ribbon::bytes_for(hashes.len(), options.rate) < shape.encoded_bytes(hashes.len())
            && let Some(filter) = Ribbon::build(&mut self.elimination, hashes, options.rate)?
        {
            return filter.encode(out);
        }
        self.bloom = Bloom::build(std::mem::take(&mut self.bloom), hashes, shape)?;
        self.bloom.encode(out)
    }
}

/// A filter over some hashes.
#[derive(Debug, PartialEq, Eq)]
enum Filter {
    Bloom(Bloom),
    Ribbon(Ribbon),
}

impl Filter {
    #[inline]
    fn may_contain(&self, hash: u64) -> bool {
        match self {
            Self::Bloom(filter) => filter.may_contain(hash),
            Self::Ribbon(filter) => filter.may_contain(hash),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Bloom(filter) => filter.memory_bytes(),
            Self::Ribbon(filter) => filter.memory_bytes(),
        }
    }

    /// `None` when a later version wrote it in a way unknown here.
    fn decode(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut decoder = Decoder::new(bytes);
        match decoder.u8()? {
            bloom::VERSION => Bloom::decode(decoder).map(|filter| Some(Self::Bloom(filter))),
            ribbon::VERSION => Ribbon::decode(decoder).map(|filter| Some(Self::Ribbon(filter))),
            _ => Ok(None),
        }
    }
}

/// The filters of an open table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters {
    of_keys: Option<Filter>,
    of_prefixes: Option<Filter>,
    /// Length of the prefixes; 0 without a filter of them.
    prefix_bytes: usize,
}

impl Filters {
    /// False when the key with this [`key_hash`] was certainly not put in.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        self.of_keys.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// Whether there is a filter of keys.
    pub(crate) const fn has_keys(&self) -> bool {
        self.of_keys.is_some()
    }

    /// What [`Filters::may_contain`] looks at first.
    #[inline]
    pub(crate) fn first_word(&self, hash: u64) -> Option<&u64> {
        match &self.of_keys {
            Some(Filter::Bloom(filter)) => filter.first_word(hash),
            Some(Filter::Ribbon(filter)) => filter.first_word(hash),
            None => None,
        }
    }

    /// Length of the prefixes that there is a filter of; 0 without one.
    pub(crate) const fn prefix_bytes(&self) -> usize {
        self.prefix_bytes
    }

    /// False when no key with the prefix of this [`prefix_hash`] was put in.
    pub(crate) fn may_contain_prefix(&self, hash: u64) -> bool {
        self.of_prefixes.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        [&self.of_keys, &self.of_prefixes].into_iter().flatten().map(Filter::memory_bytes).sum()
    }

    /// Reads the persisted form. A filter that a later version wrote in a way unknown here is left
    /// out: the table is read without it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.first() != Some(&VERSION_OF_TWO) {
            return Ok(Self { of_keys: Filter::decode(bytes)?, ..Self::default() });
        }
        let mut decoder = Decoder::new(bytes);
        decoder.u8()?;
        let prefix_bytes = decoder.length()?;
        let of_keys = decoder.bytes()?;
        let of_keys = if of_keys.is_empty() { None } else { Filter::decode(of_keys)? };
        let of_prefixes = Filter::decode(decoder.remaining())?;
        if prefix_bytes == 0 {
            return Err(DecodeError::Malformed);
        }
        let prefix_bytes = if of_prefixes.is_some() { prefix_bytes } else { 0 };
        Ok(Self { of_keys, of_prefixes, prefix_bytes })
    }
}

#[cfg(test)]
mod tests;
