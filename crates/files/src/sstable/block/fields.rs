//! What an entry of a block begins with: its tag, and what that says follows.

use super::{EntryMeta, TAG_HAS_EXPIRY, TAG_KIND, TAG_SEQ_SHIFT};
use tidesdb_base::ValueKind;
use tidesdb_base::codec::Decoder;

/// What an entry begins with.
pub(super) struct Fields {
    pub(super) meta: EntryMeta,
    pub(super) suffix_len: usize,
    pub(super) value_len: usize,
    /// Bytes that all this takes.
    pub(super) len: usize,
}

/// The fields of nearly every entry: no expiry, and both lengths in one byte. One look at how much
/// is left is enough for them.
#[inline]
pub(super) fn short_fields(bytes: &[u8; 1 + 7 + 2]) -> Option<Fields> {
    let [tag, rest @ ..] = bytes;
    let seq_len = usize::from(tag >> TAG_SEQ_SHIFT & 7);
    let seq = u64::from_le_bytes(*rest.first_chunk()?) & ((1 << (seq_len * 8)) - 1);
    let (suffix_len, value_len) = (*rest.get(seq_len)?, *rest.get(seq_len + 1)?);
    if (tag | suffix_len | value_len) >= 0x80 {
        return None;
    }
    let meta = EntryMeta { seq, kind: ValueKind::of_version(tag & TAG_KIND)?, expires_at: 0 };
    let (suffix_len, value_len) = (usize::from(suffix_len), usize::from(value_len));
    Some(Fields { meta, suffix_len, value_len, len: 1 + seq_len + 2 })
}

/// The fields of any entry.
#[inline(never)]
pub(super) fn long_fields(bytes: &[u8]) -> Option<Fields> {
    let mut decoder = Decoder::new(bytes);
    let tag = decoder.u8().ok()?;
    let mut seq = [0; 8];
    let seq_len = usize::from(tag >> TAG_SEQ_SHIFT & 7);
    seq.get_mut(..seq_len)?.copy_from_slice(decoder.take(seq_len).ok()?);
    let expires_at = if tag >= TAG_HAS_EXPIRY { decoder.varint().ok()? } else { 0 };
    let (suffix_len, value_len) = (decoder.length().ok()?, decoder.length().ok()?);
    let kind = ValueKind::of_version(tag & TAG_KIND)?;
    let meta = EntryMeta { seq: u64::from_le_bytes(seq), kind, expires_at };
    Some(Fields { meta, suffix_len, value_len, len: bytes.len() - decoder.remaining().len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry near the end of a block is read the long way, and so must say the same.
    #[test]
    fn both_ways_read_the_same() {
        let mut short = 0;
        for (tag, suffix_len, value_len) in
            (0..=255u8).flat_map(|tag| [0, 1, 127, 128, 200].map(|len| (tag, len, 255 - len)))
        {
            let seq_len = usize::from(tag >> TAG_SEQ_SHIFT & 7);
            for (suffix_len, value_len) in [(suffix_len, value_len), (suffix_len, suffix_len)] {
                let mut front = [0x81; 10];
                front[0] = tag;
                front[1 + seq_len] = suffix_len;
                front[2 + seq_len] = value_len;
                let read =
                    |fields: Fields| (fields.meta, fields.suffix_len, fields.value_len, fields.len);
                let known = ValueKind::of_version(tag & TAG_KIND).is_some();
                let is_short = known && (tag | suffix_len | value_len) < 0x80;
                let fields = short_fields(&front);
                assert_eq!(fields.is_some(), is_short, "{tag} {suffix_len} {value_len}");
                if is_short {
                    short += 1;
                    assert_eq!(fields.map(read), long_fields(&front).map(read), "{tag}");
                    // No more bytes than it needs.
                    let exact = long_fields(&front[..3 + seq_len]).map(read);
                    assert_eq!(exact, long_fields(&front).map(read), "{tag}");
                }
            }
        }
        assert!(short >= 90, "nothing was put to the test");
    }
}
