//! What a table says about its content as a whole.
//!
//! [`TableSummary`] is what the writer returns, the manifest keeps and an opened table knows
//! again. Stored as a sequence of fields, each `tag varint, length varint, bytes`, so that a later
//! version can add fields that this one skips. Entry and tombstone counts live in the footer.

use super::{ExpiryOctiles, KeySketch};
use tidesdb_base::SequenceNumber;
use tidesdb_base::codec::{Decoder, Malformed, put_bytes, put_varint};

/// How much of one value log a table refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueReferences {
    /// Number of the value-log file.
    pub file: u64,
    /// Bytes of the records referred to, with their headers.
    pub bytes: u64,
    /// Number of records referred to.
    pub count: u64,
}

/// The family that a table was written for: what a salvage goes by when the manifest is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOrigin {
    /// Number of the family.
    pub family: u32,
    /// Its name at that time; empty in tables that don't know their origin.
    pub name: String,
    /// Those lines of its options in text form that were not the default's.
    pub options: String,
    /// Every commit of the family up to this one was in tables then, or about to be in this one.
    pub in_tables_through: SequenceNumber,
}

impl TableOrigin {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.family));
        put_varint(out, self.in_tables_through);
        put_bytes(out, self.name.as_bytes());
        put_bytes(out, self.options.as_bytes());
    }

    /// What stands behind is left to later versions.
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        Ok(Self {
            family: u32::try_from(decoder.varint()?).map_err(|_| Malformed)?,
            in_tables_through: decoder.varint()?,
            name: decoder.text()?.to_owned(),
            options: decoder.text()?.to_owned(),
        })
    }
}

/// What a table holds.
// More than a dozen fields: one for each value that is stored with a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSummary {
    /// Length of the file in bytes.
    pub file_len: u64,
    /// Number of versions.
    pub entries: u64,
    /// Number of versions that are deletions of either kind.
    pub tombstones: u64,
    /// Number of distinct keys.
    pub distinct_keys: u64,
    /// Number of data blocks.
    pub data_blocks: u64,
    /// Number of index nodes between the data blocks and the resident root; 0 in a flat index.
    pub index_nodes: u64,
    /// Smallest key; empty when there is no entry.
    pub min_key: Vec<u8>,
    /// Largest key; empty when there is no entry.
    pub max_key: Vec<u8>,
    /// Smallest sequence number.
    pub min_seq: SequenceNumber,
    /// Largest sequence number.
    pub max_seq: SequenceNumber,
    /// Bytes of all keys and in-line values before compression.
    pub raw_bytes: u64,
    /// Earliest expiry in Unix seconds, 0 when nothing expires.
    pub earliest_expiry: u64,
    /// By when how much has expired, values in value logs included; of tables from before this was
    /// written, none.
    pub expiry: ExpiryOctiles,
    /// The value logs referred to, by ascending file number.
    pub value_references: Vec<ValueReferences>,
    /// Which keys there are, for estimates.
    pub keys: KeySketch,
    /// The family that it was written for.
    pub origin: TableOrigin,
}

const MIN_KEY: u64 = 1;
const MAX_KEY: u64 = 2;
const MIN_SEQ: u64 = 3;
const MAX_SEQ: u64 = 4;
const DISTINCT_KEYS: u64 = 5;
const RAW_BYTES: u64 = 6;
const EARLIEST_EXPIRY: u64 = 7;
const VALUE_REFERENCES: u64 = 8;
const KEYS: u64 = 9;
const EXPIRY: u64 = 10;
const ORIGIN: u64 = 12;

/// Tags 1 to 9, as bits.
const REQUIRED: u64 = 0x3FE;

impl TableSummary {
    /// Bytes of all keys and values before compression, those in value logs as they are stored.
    pub(crate) fn bytes_with_values(&self) -> u64 {
        let referred = self.value_references.iter().map(|reference| reference.bytes);
        self.raw_bytes + referred.sum::<u64>()
    }

    /// Appends the persisted fields.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut field = |tag: u64, bytes: &[u8]| {
            put_varint(out, tag);
            put_bytes(out, bytes);
        };
        field(MIN_KEY, &self.min_key);
        field(MAX_KEY, &self.max_key);
        for (tag, number) in [
            (MIN_SEQ, self.min_seq),
            (MAX_SEQ, self.max_seq),
            (DISTINCT_KEYS, self.distinct_keys),
            (RAW_BYTES, self.raw_bytes),
            (EARLIEST_EXPIRY, self.earliest_expiry),
        ] {
            field(tag, &number.to_le_bytes());
        }
        let mut references = Vec::new();
        for reference in &self.value_references {
            put_varint(&mut references, reference.file);
            put_varint(&mut references, reference.bytes);
            put_varint(&mut references, reference.count);
        }
        field(VALUE_REFERENCES, &references);
        field(KEYS, self.keys.as_bytes());
        if self.expiry != ExpiryOctiles::default() {
            let mut expiry = Vec::new();
            self.expiry.encode(&mut expiry);
            field(EXPIRY, &expiry);
        }
        if self.origin != TableOrigin::default() {
            let mut origin = Vec::new();
            self.origin.encode(&mut origin);
            field(ORIGIN, &origin);
        }
    }

    /// Reads the persisted fields; those kept elsewhere stay as they are by default.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut summary = Self::default();
        let mut seen = 0u64;
        let mut decoder = Decoder::new(bytes);
        while !decoder.is_empty() {
            let tag = decoder.varint()?;
            let bytes = decoder.bytes()?;
            let number = || bytes.try_into().map(u64::from_le_bytes).map_err(|_| Malformed);
            match tag {
                MIN_KEY => summary.min_key = bytes.to_vec(),
                MAX_KEY => summary.max_key = bytes.to_vec(),
                MIN_SEQ => summary.min_seq = number()?,
                MAX_SEQ => summary.max_seq = number()?,
                DISTINCT_KEYS => summary.distinct_keys = number()?,
                RAW_BYTES => summary.raw_bytes = number()?,
                EARLIEST_EXPIRY => summary.earliest_expiry = number()?,
                VALUE_REFERENCES => summary.value_references = decode_references(bytes)?,
                KEYS => summary.keys = KeySketch::from_bytes(bytes).ok_or(Malformed)?,
                EXPIRY => summary.expiry = ExpiryOctiles::decode(&mut Decoder::new(bytes))?,
                ORIGIN => summary.origin = TableOrigin::decode(bytes)?,
                _ => continue,
            }
            seen |= 1 << tag;
        }
        if seen & REQUIRED == REQUIRED { Ok(summary) } else { Err(Malformed) }
    }
}

fn decode_references(bytes: &[u8]) -> Result<Vec<ValueReferences>, Malformed> {
    let mut decoder = Decoder::new(bytes);
    let mut references = Vec::new();
    while !decoder.is_empty() {
        references.push(ValueReferences {
            file: decoder.varint()?,
            bytes: decoder.varint()?,
            count: decoder.varint()?,
        });
    }
    Ok(references)
}
