//! Directories of databases: size, copy, removal.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Size of a database directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Sum of the file lengths.
    pub(crate) length: u64,
    /// Bytes allocated on the device.
    pub(crate) allocated: u64,
}

/// Adds up all files below a directory; a file that vanishes meanwhile counts nothing.
pub(crate) fn size_of(directory: &Path) -> Size {
    let mut size = Size::default();
    let Ok(entries) = fs::read_dir(directory) else { return size };
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            let inner = size_of(&entry.path());
            size.length += inner.length;
            size.allocated += inner.allocated;
        } else {
            size.length += metadata.len();
            size.allocated += metadata.blocks() * 512;
        }
    }
    size
}

/// Copies a directory tree.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_copies_include_folders() {
        let directory = tempfile::tempdir().unwrap();
        let from = directory.path().join("from");
        fs::create_dir_all(from.join("inner")).unwrap();
        fs::write(from.join("a"), vec![1; 10_000]).unwrap();
        fs::write(from.join("inner/b"), vec![1; 5]).unwrap();
        assert_eq!(size_of(&from).length, 10_005);
        assert!(size_of(&from).allocated >= 10_005);
        let to = directory.path().join("to");
        copy_tree(&from, &to).unwrap();
        assert_eq!(size_of(&to).length, 10_005);
        assert_eq!(fs::read(to.join("inner/b")).unwrap(), [1; 5]);
    }
}
