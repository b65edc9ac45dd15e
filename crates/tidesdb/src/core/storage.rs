//! What a database has on disk.

use std::sync::{Arc, Mutex};

use crate::file_numbers::FileNumbers;
use crate::log::Log;
use crate::version::{Catalog, FileContext};

/// The files of a database, as far as no family alone has them.
#[derive(Debug)]
pub(crate) struct Storage {
    pub numbers: Arc<FileNumbers>,
    pub log: Log,
    /// Taken before any lock of a family's view.
    pub catalog: Mutex<Catalog>,
    /// What open tables and value logs share.
    pub files: Arc<FileContext>,
}
