//! The parts of the database that outputs use, and the making of their files.

use std::path::PathBuf;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::FileKind;
use tidesdb_sys::vfs::{File, OpenMode};

use super::written::Written;
use crate::core::{Environment, Storage};
use crate::memory::Memory;

/// The parts of the database that an output uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputParts<'a> {
    pub env: &'a Environment,
    pub memory: &'a Memory,
    pub storage: &'a Storage,
}

/// Makes a file that is removed if the output comes to nothing.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn create(
    parts: OutputParts<'_>,
    written: &mut Written,
    kind: FileKind,
) -> Result<(PathBuf, Arc<dyn File>)> {
    let path = parts.env.path.join(kind.name());
    let file = parts.env.vfs.open(&path, OpenMode::CreateNew);
    let file = file.map_err(|e| Error::io("create", &path, e))?;
    written.paths.push(path.clone());
    Ok((path, file))
}
