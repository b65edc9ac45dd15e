//! Blocks and sections as they lie in the file: possibly compressed, always sealed.
//!
//! ```text
//! stored bytes | codec u8 | raw_len u32 | checksum u64
//! ```
//!
//! The checksum covers everything before it and is seeded with the file's identity and the
//! offset of the stored bytes, so bytes from another place, another file or an older life of the
//! file do not pass. Nothing is decompressed, and no length is believed, before it matched.

use crate::sink::Sink;
use tidesdb_base::Error;
use tidesdb_base::checksum;
use tidesdb_base::codec::Decoder;
use tidesdb_base::compress::Compression;
use tidesdb_sys::large_vec::NoMemory;

/// Bytes after the stored bytes.
pub(crate) const TRAILER_BYTES: usize = 13;
const CHECKSUM_BYTES: usize = 8;

/// Where in which file bytes lie, as their checksum wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) identity: u64,
    pub(crate) offset: u64,
}

/// Appends the sealed form of `raw`, compressed with `codec` where that pays, to `out`, whose end
/// lies at `place`. `scratch` is overwritten. `raw` is shorter than 4 GiB.
///
/// # Errors
/// [`NoMemory`]; `out` may have a part of it then.
#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "what is written is shorter than 4 GiB, and begins at what was the end"
)]
pub(crate) fn seal_stored(
    raw: &[u8],
    codec: Compression,
    place: Place,
    scratch: &mut Vec<u8>,
    out: &mut impl Sink,
) -> Result<(), NoMemory> {
    let start = out.len();
    let codec = if codec.compress(raw, scratch) {
        out.put(scratch)?;
        codec
    } else {
        out.put(raw)?;
        Compression::None
    };
    out.put(&[codec as u8])?;
    out.put(&(raw.len() as u32).to_le_bytes())?;
    let sum = checksum::placed(place.identity, place.offset, &out[start..]);
    out.put(&sum.to_le_bytes())
}

/// Why sealed bytes were not opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// A text saying what is wrong with them.
    Damaged(String),
    NoMemory,
}

impl From<String> for Unopened {
    fn from(text: String) -> Self {
        Self::Damaged(text)
    }
}

impl From<NoMemory> for Unopened {
    fn from(_: NoMemory) -> Self {
        Self::NoMemory
    }
}

impl Unopened {
    /// The error of a call, which is `damaged` with the text for damaged bytes.
    pub(crate) fn or(self, damaged: impl FnOnce(String) -> Error) -> Error {
        match self {
            Self::Damaged(text) => damaged(text),
            Self::NoMemory => NoMemory.into(),
        }
    }
}

/// Checks the sealed bytes that lie at `place` and replaces `raw`, whatever is in it, by their raw
/// form.
///
/// # Errors
/// [`Unopened`].
pub(crate) fn open_stored(sealed: &[u8], place: Place, raw: &mut Vec<u8>) -> Result<(), Unopened> {
    let covered = check_sum(sealed, place)?;
    let Some((stored, trailer)) =
        covered.split_at_checked(covered.len().wrapping_sub(TRAILER_BYTES - CHECKSUM_BYTES))
    else {
        return Err(shorter_than_trailer(sealed).into());
    };
    let mut trailer = Decoder::new(trailer);
    let (Ok(codec), Ok(raw_len)) = (trailer.u8(), trailer.u32()) else {
        return Err(shorter_than_trailer(sealed).into());
    };
    let Some(codec) = Compression::from_u8(codec) else {
        return Err(format!("block has codec {codec}, expected a known one").into());
    };
    let raw_len = raw_len as usize;
    if raw_len > longest_raw(codec, stored.len()) {
        return Err(format!(
            "block has a length of {raw_len} raw bytes, expected at most what {} stored ones can be",
            stored.len()
        )
        .into());
    }
    if codec == Compression::None {
        raw.clear();
        raw.put(stored)?;
        let is_right = raw_len == stored.len();
        return if is_right { Ok(()) } else { Err(wrong_length(raw_len).into()) };
    }
    if raw.capacity() < raw_len {
        // Growing would copy what is overwritten anyway.
        *raw = Vec::new();
        raw.try_reserve_exact(raw_len).map_err(|_| NoMemory)?;
    }
    raw.resize(raw_len, 0);
    codec.decompress(stored, raw).map_err(|_| wrong_length(raw_len).into())
}

/// Checks sealed bytes that lie at `place`, and whether they are stored raw: then they begin with
/// what [`open_stored`] would return.
///
/// # Errors
/// As [`open_stored`].
pub(crate) fn is_stored_as_it_is(sealed: &[u8], place: Place) -> Result<bool, String> {
    let raw_len = sealed.len().checked_sub(TRAILER_BYTES);
    let stored_raw = raw_len.is_some_and(|raw_len| {
        let mut trailer = Decoder::new(sealed.get(raw_len..).unwrap_or_default());
        let (codec, len) = (trailer.u8(), trailer.u32());
        codec == Ok(Compression::None as u8) && len.is_ok_and(|len| len as usize == raw_len)
    });
    if !stored_raw {
        return Ok(false);
    }
    check_sum(sealed, place).map(|_| true)
}

/// What comes before the checksum of sealed bytes, which is right.
fn check_sum(sealed: &[u8], place: Place) -> Result<&[u8], String> {
    let Some((covered, sum)) = sealed.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(shorter_than_trailer(sealed));
    };
    let found = checksum::placed(place.identity, place.offset, covered);
    let expected = u64::from_le_bytes(*sum);
    if found != expected {
        return Err(format!("block checksum is {found:016x}, expected {expected:016x}"));
    }
    Ok(covered)
}

fn shorter_than_trailer(sealed: &[u8]) -> String {
    format!("block has {} bytes, expected {TRAILER_BYTES} and more", sealed.len())
}

fn wrong_length(raw_len: usize) -> String {
    format!("block decodes to another length than the expected {raw_len} bytes")
}

/// Most raw bytes that so many stored bytes can stand for: bounds what a forged length allocates.
fn longest_raw(codec: Compression, stored: usize) -> usize {
    let ratio = match codec {
        Compression::None => return stored,
        Compression::Snappy => 64,
        Compression::Lz4 | Compression::Lz4Fast => 255,
        // A run-length block of 128 KiB takes four bytes.
        Compression::Zstd => 1 << 15,
    };
    stored.saturating_mul(ratio)
}
