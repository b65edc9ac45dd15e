//! What the table and value-log files of a database share in memory.

use std::path::PathBuf;
use std::sync::Arc;

use super::{DirectoryLock, ObsoleteFiles, SetAsideChanges};
use crate::cache::{BlockCache, OpenFiles, TableMemory};
use crate::memory::MemoryBudget;

/// What files of all families need to be opened and deleted.
#[derive(Debug)]
pub(crate) struct FileContext {
    pub dir: PathBuf,
    pub lock: Arc<DirectoryLock>,
    pub obsolete: ObsoleteFiles,
    pub open_files: OpenFiles,
    pub blocks: Arc<BlockCache>,
    pub budget: Arc<MemoryBudget>,
    pub table_memory: TableMemory,
    pub set_aside_changes: SetAsideChanges,
}
