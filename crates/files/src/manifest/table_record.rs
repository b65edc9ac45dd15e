//! What the manifest remembers of a table, and its encoding.

use tidesdb_base::codec::{Decoder, Malformed, put_bytes, put_varint};

use crate::sstable::{ExpiryOctiles, KeySketch};

/// What the manifest remembers of a table.
// More than a dozen fields: one for each value that the manifest stores of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRecord {
    /// Number of the file.
    pub number: u64,
    /// 1 for what a flush wrote, 2 for what a compaction wrote. It says nothing of age.
    pub level: u32,
    /// Sorted run that the table belongs to. A higher number is newer, whatever the levels.
    pub run: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Smallest key.
    pub smallest_key: Vec<u8>,
    /// Largest key.
    pub largest_key: Vec<u8>,
    /// Lowest sequence number.
    pub lowest_sequence: u64,
    /// Highest sequence number.
    pub highest_sequence: u64,
    /// Value-log files that entries point into, with the bytes they refer to.
    pub value_references: Vec<(u64, u64)>,
    /// Which keys there are, for estimates.
    pub keys: KeySketch,
    /// The table holds nothing that a range tombstone with a sequence number up to this one hides.
    pub range_deletes_applied_through: u64,
    /// By when how much of the table and its values has expired; none when version 2 wrote the
    /// record.
    pub expiry: ExpiryOctiles,
}

impl TableRecord {
    /// Bytes of values in value logs that the table points to.
    #[must_use]
    pub fn value_bytes(&self) -> u64 {
        self.value_references.iter().map(|(_, bytes)| bytes).sum()
    }

    /// About what it takes in memory, without its references to value logs.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let keys = self.smallest_key.capacity() + self.largest_key.capacity();
        size_of::<Self>() + keys + KeySketch::HEAP_BYTES
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for number in [
            self.number,
            u64::from(self.level),
            self.run,
            self.bytes,
            self.entries,
            self.tombstones,
            self.lowest_sequence,
            self.highest_sequence,
            self.range_deletes_applied_through,
        ] {
            put_varint(out, number);
        }
        put_bytes(out, &self.smallest_key);
        put_bytes(out, &self.largest_key);
        put_varint(out, self.value_references.len() as u64);
        for &(file, bytes) in &self.value_references {
            put_varint(out, file);
            put_varint(out, bytes);
        }
        put_bytes(out, self.keys.as_bytes());
        self.expiry.encode(out);
    }

    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let table = Self::decode_without_expiry(decoder)?;
        Ok(Self { expiry: ExpiryOctiles::decode(decoder)?, ..table })
    }

    pub(super) fn decode_without_expiry(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let mut table = Self {
            number: decoder.varint()?,
            level: u32::try_from(decoder.varint()?).map_err(|_| Malformed)?,
            run: decoder.varint()?,
            bytes: decoder.varint()?,
            entries: decoder.varint()?,
            tombstones: decoder.varint()?,
            lowest_sequence: decoder.varint()?,
            highest_sequence: decoder.varint()?,
            range_deletes_applied_through: decoder.varint()?,
            smallest_key: decoder.bytes()?.to_vec(),
            largest_key: decoder.bytes()?.to_vec(),
            value_references: Vec::new(),
            keys: KeySketch::default(),
            expiry: ExpiryOctiles::default(),
        };
        for _ in 0..decoder.varint()? {
            table.value_references.push((decoder.varint()?, decoder.varint()?));
        }
        table.keys = KeySketch::from_bytes(decoder.bytes()?).ok_or(Malformed)?;
        Ok(table)
    }
}
