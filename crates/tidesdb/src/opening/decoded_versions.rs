//! What the threads that decode the log remember of the versions of a family.

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Result;
use tidesdb_files::wal::Operation;
use tidesdb_lockfree::arena::Part;
use tidesdb_lockfree::ordered::btree::Unlinked;
use tidesdb_sys::large_vec::LargeVec;

use super::replayed_families::ReplayedFamily;

/// What one thread at a time has decoded of a family.
#[derive(Debug, Default)]
pub(super) struct DecodedVersions {
    part: Part,
    /// In the order in which the versions lie in memory.
    pub unlinked: LargeVec<Unlinked>,
    /// The first key, of which all share `shared` bytes.
    pub sample: Vec<u8>,
    pub shared: usize,
    /// Versions before this one have heads behind more bytes than that.
    pub outdated: usize,
    pub first_sequence: SequenceNumber,
}

impl DecodedVersions {
    /// Bytes that all keys, `key` among them, share.
    #[inline]
    fn share(&mut self, key: &[u8]) -> usize {
        if self.unlinked.is_empty() {
            self.sample.clear();
            self.sample.extend_from_slice(key);
            self.shared = key.len();
            self.first_sequence = u64::MAX;
        } else if !key.starts_with(self.sample.get(..self.shared).unwrap_or_default()) {
            self.shared = common_bytes(&self.sample, key);
            self.outdated = self.unlinked.len();
        }
        self.shared
    }

    /// Writes a version into the memory of its memtable and remembers it, with its sequence number
    /// and its place in the log.
    ///
    /// # Errors
    /// [`tidesdb_base::error::Error::OutOfMemory`].
    pub(super) fn add(
        &mut self,
        target: &ReplayedFamily,
        operation: &Operation<'_>,
        (sequence, place): (SequenceNumber, u64),
    ) -> Result<()> {
        let skip = self.share(operation.key);
        let order = (skip, place);
        let unlinked = target.memtable.prepare(&mut self.part, operation, sequence, order)?;
        self.unlinked.push(unlinked)?;
        self.first_sequence = self.first_sequence.min(sequence);
        Ok(())
    }
}

/// How many leading bytes two keys share.
pub(super) fn common_bytes(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(a, b)| a == b).count()
}
