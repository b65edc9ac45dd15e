//! Who may use a file or a directory: its owner, its group and its mode.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use super::RealVfs;

impl RealVfs {
    /// Gives `to` the owner, the group and the mode of `from`.
    ///
    /// # Errors
    /// `PermissionDenied` when the owner or the group differs and this process may not give it, or
    /// the kernel's error.
    pub fn copy_access(from: &Path, to: &Path) -> io::Result<()> {
        Self::copy_owner(from, to)?;
        // Behind the owner: giving a file away takes some bits of the mode.
        fs::set_permissions(to, fs::metadata(from)?.permissions())
    }

    /// Gives a file the owner and the group of another.
    ///
    /// # Errors
    /// The kernel's error: only a privileged process gives files away.
    pub fn copy_owner(from: &Path, to: &Path) -> io::Result<()> {
        let (wanted, present) = (fs::metadata(from)?, fs::metadata(to)?);
        if (wanted.uid(), wanted.gid()) != (present.uid(), present.gid()) {
            chown(to, Some(wanted.uid()), Some(wanted.gid()))?;
        }
        Ok(())
    }

    /// Gives the owner of a directory all access to it, and others none.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_private(dir: &Path) -> io::Result<()> {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
    }
}
