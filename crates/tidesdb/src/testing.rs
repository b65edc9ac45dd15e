//! Failures that tests order and that no component of [`crate::Components`] can bring about. No
//! part of the interface.

use crate::db::Db;

/// Makes the memory of memtables behave like that of a system that runs out of it: of the blocks
/// that are asked for from now on the first `given` are given, and the next `refused` are not.
pub fn refuse_memtable_blocks(db: &Db, given: u64, refused: u64) {
    db.core().memory.pool.refuse_blocks(given, refused);
}
