//! Damage on request, and views of the simulated disk for tests.
//!
//! Damage goes to the cache and to the medium alike, as if the bytes had rotted long ago and
//! were read back from there. Every call says whether readers can notice: a test that damages
//! nothing proves nothing.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{Disk, Node, NodeId, ROOT};
use super::{SECTOR_BYTES, SimVfs, hash_bytes};

/// What goes wrong with the sector, or the byte, at an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// One bit (0 to 7) of the byte at the offset is inverted.
    Flip(u8),
    /// The sector reads as zeros.
    Zero,
    /// Reading any byte of the sector fails with an I/O error, until it is written again.
    ReadError,
    /// The sector holds what was on the medium before the sync that last replaced it.
    Stale,
    /// The sector holds the bytes of another place.
    Misplaced {
        /// The file they are from.
        from: PathBuf,
        /// An offset inside the sector they are from.
        at: u64,
    },
}

impl SimVfs {
    /// Damages the file `path` at `offset`. Returns whether readers can notice: false when the
    /// damaged bytes equal the old ones.
    ///
    /// # Errors
    /// `NotFound` when a file does not exist, `InvalidInput` when the offset is beyond its end.
    pub fn corrupt(&self, path: &Path, offset: u64, damage: Corruption) -> io::Result<bool> {
        let mut disk = self.disk();
        let node = disk.find_file(path)?;
        let sector = sector_inside(&disk, node, offset)?;
        let mut bytes = disk.file(node)?.volatile.sector(sector);
        match damage {
            Corruption::ReadError => {
                return Ok(disk.file_mut(node)?.unreadable.insert(sector));
            }
            Corruption::Flip(bit) => bytes[(offset % SECTOR_BYTES) as usize] ^= 1 << (bit % 8),
            Corruption::Zero => bytes.fill(0),
            Corruption::Stale => bytes = disk.file(node)?.previous.sector(sector),
            Corruption::Misplaced { from, at } => {
                let source = disk.find_file(&from)?;
                let from_sector = sector_inside(&disk, source, at)?;
                bytes = disk.file(source)?.volatile.sector(from_sector);
            }
        }
        Ok(disk.file_mut(node)?.damage(sector, &bytes))
    }

    /// The whole content of a file as readers see it, read errors ignored.
    ///
    /// # Errors
    /// `NotFound` when it does not exist.
    pub fn content(&self, path: &Path) -> io::Result<Vec<u8>> {
        let disk = self.disk();
        let content = &disk.file(disk.find_file(path)?)?.volatile;
        let mut bytes = vec![0; content.len() as usize];
        content.read(0, &mut bytes);
        Ok(bytes)
    }

    /// The tree of names with each file's length, unsynced state and a hash of its bytes, for
    /// failure reports.
    #[must_use]
    pub fn dump(&self) -> String {
        let disk = self.disk();
        let mut text = String::new();
        dump_dir(&disk, ROOT, "", &mut text);
        // Writing to a string cannot fail; here and below.
        let _ = writeln!(text, "name changes not durable: {}", disk.pending.len());
        text
    }

    /// Hash of everything that [`SimVfs::dump`] shows.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        hash_bytes(self.dump().as_bytes())
    }
}

/// The number of the sector that holds `offset`, which must lie inside the file.
fn sector_inside(disk: &Disk, node: NodeId, offset: u64) -> io::Result<u64> {
    let len = disk.file(node)?.volatile.len();
    if offset < len {
        return Ok(offset / SECTOR_BYTES);
    }
    let text = format!("damage at {offset} is beyond the file's {len} bytes");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

fn dump_dir(disk: &Disk, dir: NodeId, prefix: &str, text: &mut String) {
    let Some(Node::Dir { volatile, durable }) = disk.nodes.get(&dir) else { return };
    for (name, child) in volatile.iter() {
        let mark = if durable.get(name) == Some(child) { "" } else { " (name not durable)" };
        match disk.nodes.get(child) {
            Some(Node::Dir { .. }) => {
                let _ = writeln!(text, "{prefix}/{name}/{mark}");
                dump_dir(disk, *child, &format!("{prefix}/{name}"), text);
            }
            Some(Node::File(file)) => {
                let mut bytes = vec![0; file.volatile.len() as usize];
                file.volatile.read(0, &mut bytes);
                let mut medium = vec![0; file.durable.len() as usize];
                file.durable.read(0, &mut medium);
                let _ = writeln!(
                    text,
                    "{prefix}/{name} {} bytes {:016x}, durable {} bytes {:016x}, {} dirty, \
                     {} lost, {} unreadable sectors{mark}",
                    bytes.len(),
                    hash_bytes(&bytes),
                    medium.len(),
                    hash_bytes(&medium),
                    file.dirty.len(),
                    file.lost.len(),
                    file.unreadable.len(),
                );
            }
            None => {}
        }
    }
}
