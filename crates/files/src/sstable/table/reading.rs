//! Reading the data blocks of a table.

use super::super::BlockHandle;
use super::super::block::{Block, Place, open_stored};
use super::Table;
use std::io;
use std::path::Path;
use tidesdb_base::{Error, Result};
use tidesdb_sys::large_vec::{LargeVec, NoMemory};
use tidesdb_sys::vfs::File;

/// Buffers for pieces are as long as a multiple of this.
const BUFFER_STEP: usize = 8 << 10;

impl Table {
    /// Reads, checks and decodes one data block; `scratch` holds the stored bytes meanwhile.
    ///
    /// # Errors
    /// [`Error::Corruption`], [`Error::Io`] or [`Error::OutOfMemory`].
    pub fn read_block(&self, handle: BlockHandle, scratch: &mut Vec<u8>) -> Result<Block> {
        self.read_block_into(handle, scratch, Vec::new())
    }

    /// As [`Table::read_block`]; the block takes over the allocation of `raw` if it is large
    /// enough.
    ///
    /// # Errors
    /// As [`Table::read_block`].
    pub fn read_block_into(
        &self,
        handle: BlockHandle,
        scratch: &mut Vec<u8>,
        raw: Vec<u8>,
    ) -> Result<Block> {
        let stored = self.read_stored(handle.offset, handle.len as usize, scratch)?;
        match &self.parts {
            Some(parts) if parts.hold(handle) => parts
                .decode(handle, self.identity, stored, raw)
                .map_err(|text| Error::corruption(&self.path, handle.offset, text)),
            _ => {
                debug_assert!(self.holds(handle), "a block behind the last of the table");
                self.decode_block(handle, stored, raw)
            }
        }
    }

    /// Whether a block lies where the table has blocks.
    fn holds(&self, handle: BlockHandle) -> bool {
        let end = handle.offset.checked_add(u64::from(handle.len));
        end.is_some_and(|end| self.index.blocks_end().is_none_or(|last| end <= last))
    }

    /// Reads `len` bytes at `offset` into the front of `scratch`, which grows as needed.
    pub(in crate::sstable) fn read_stored<'a>(
        &self,
        offset: u64,
        len: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        // A longer buffer is kept as it is: growing it again would mean clearing it again.
        if scratch.len() < len {
            scratch.try_reserve(len - scratch.len()).map_err(|_| NoMemory)?;
            scratch.resize(len, 0);
        }
        let buffer = scratch.get_mut(..len).unwrap_or_default();
        read_exact(self.file.as_ref(), &self.path, buffer, offset)?;
        Ok(buffer)
    }

    /// Replaces `buffer` by `len` bytes at `offset`.
    pub(in crate::sstable) fn read_ahead(
        &self,
        offset: u64,
        len: usize,
        buffer: &mut LargeVec<u8>,
    ) -> Result<()> {
        // A longer buffer is kept as it is: growing it again would mean clearing it again. A
        // shorter one holds nothing to copy. Pieces of about one size have room in one buffer.
        if buffer.len() < len {
            *buffer = LargeVec::filled(len.next_multiple_of(BUFFER_STEP), 0)?;
        }
        let buffer = buffer.get_mut(..len).unwrap_or_default();
        read_exact(self.file.as_ref(), &self.path, buffer, offset)
    }

    /// Asks the system to begin reading a block that will be wanted soon.
    pub fn start_reading_block(&self, handle: BlockHandle) {
        self.file.start_reading(handle.offset, u64::from(handle.len));
    }

    /// Asks the system to begin reading data blocks that will be wanted soon.
    pub(in crate::sstable) fn start_reading(&self, offset: u64, len: u64) {
        let len = len.min(self.index.data_bytes().saturating_sub(offset));
        if len > 0 {
            self.file.start_reading(offset, len);
        }
    }

    /// Checks and decodes the stored bytes of a data block, reusing the allocation of `raw`.
    pub(in crate::sstable) fn decode_block(
        &self,
        handle: BlockHandle,
        stored: &[u8],
        mut raw: Vec<u8>,
    ) -> Result<Block> {
        let place = Place { identity: self.identity, offset: handle.offset };
        open_stored(stored, place, &mut raw)
            .map_err(|error| error.or(|text| Error::corruption(&self.path, handle.offset, text)))?;
        Block::from_raw(raw).map_err(|_| self.malformed(handle))
    }

    #[cold]
    pub(in crate::sstable) fn malformed(&self, handle: BlockHandle) -> Error {
        let BlockHandle { offset, len } = handle;
        let text = format!("expected entries in order, found {len} bytes that are none");
        Error::corruption(&self.path, offset, text)
    }
}

pub(super) fn read_exact(file: &dyn File, path: &Path, buffer: &mut [u8], at: u64) -> Result<()> {
    file.read_exact_at(buffer, at).map_err(|error| {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Error::corruption(path, at, error.to_string());
        }
        Error::io("read", path, error)
    })
}
