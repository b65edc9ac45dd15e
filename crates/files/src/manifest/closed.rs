//! `CLOSED`: the mark that a clean close leaves, when all of the manifest in force is on disk.
//!
//! What an opening reads of a manifest may be in the kernel's cache only, since a sync of it failed
//! in an earlier process; so it writes another one. The mark spares it that. It is left when every
//! sync of the manifest and of its name has succeeded, and is not synced itself: one that is lost,
//! torn or of another manifest only means that the opening can't spare anything. Nothing removes it
//! before a change, since the first edit of an opening that spared a manifest starts another one.
//!
//! A copy of the directory has the mark too, and may be in the cache only. So the mark has what
//! tells the file from its copies.

use std::io;
use std::path::Path;

use tidesdb_base::checksum;
use tidesdb_sys::vfs::{OpenMode, Vfs};

use super::ManifestWriter;
use crate::naming::FileKind;

/// Leaves the mark for a manifest of which everything is on disk, its name in `CURRENT` too.
///
/// # Errors
/// The kernel's error; there is no mark of this manifest then.
pub fn leave_mark(vfs: &dyn Vfs, dir: &Path, manifest: &ManifestWriter) -> io::Result<()> {
    let text = text(manifest)?;
    let path = dir.join(FileKind::Closed.name());
    match vfs.remove(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    vfs.open(&path, OpenMode::CreateNew)?.write_all_at(text.as_bytes(), 0)
}

/// Whether everything of the manifest in force, as it was found, is on disk for certain.
#[must_use]
pub fn is_marked(vfs: &dyn Vfs, dir: &Path, manifest: &ManifestWriter) -> bool {
    let found = || -> io::Result<bool> {
        let expected = text(manifest)?;
        let file = vfs.open(&dir.join(FileKind::Closed.name()), OpenMode::Read)?;
        if file.len()? != expected.len() as u64 {
            return Ok(false);
        }
        let mut found = vec![0; expected.len()];
        file.read_exact_at(&mut found, 0)?;
        Ok(found == expected.as_bytes())
    };
    found().unwrap_or(false)
}

/// The mark of a manifest: its name and length, what tells it from its copies, and a checksum.
fn text(manifest: &ManifestWriter) -> io::Result<String> {
    let [number, seconds, nanos] = manifest.stamp_if_whole()?.0;
    let name = FileKind::Manifest(manifest.number()).name();
    let bytes = manifest.bytes();
    let said = format!("{name} {bytes} {number:x}-{seconds:x}-{nanos:x}");
    let sum = checksum::plain(said.as_bytes());
    Ok(format!("{said} {sum:016x}\n"))
}

#[cfg(test)]
mod tests {
    use tidesdb_sim::SimVfs;

    use super::super::{Change, Edit};
    use super::*;

    #[test]
    fn a_mark_is_of_one_manifest_and_of_one_length_of_it() {
        let vfs = SimVfs::new(1);
        let (vfs, dir): (&dyn Vfs, _) = (vfs.as_ref(), Path::new("/db"));
        vfs.create_dir(dir).unwrap();
        let edit = Edit::new(vec![Change::NextFile { number: 9 }]);
        let mut manifest = ManifestWriter::create(vfs, dir, 4, &edit).unwrap();
        assert!(!is_marked(vfs, dir, &manifest));
        leave_mark(vfs, dir, &manifest).unwrap();
        assert!(is_marked(vfs, dir, &manifest));
        let other = ManifestWriter::create(vfs, dir, 5, &edit).unwrap();
        assert!(!is_marked(vfs, dir, &other));
        manifest.append(&edit).unwrap();
        assert!(!is_marked(vfs, dir, &manifest));
        leave_mark(vfs, dir, &manifest).unwrap();
        assert!(is_marked(vfs, dir, &manifest));
        // What an append left that was cut short.
        let path = dir.join(FileKind::Manifest(4).name());
        let file = vfs.open(&path, OpenMode::ReadWrite).unwrap();
        file.write_all_at(&[0], manifest.bytes()).unwrap();
        assert!(!is_marked(vfs, dir, &manifest));
    }
}
