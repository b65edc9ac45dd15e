//! Failures that tests order and that no component of [`crate::Components`] can bring about. No
//! part of the interface.

#[cfg(test)]
use tidesdb_base::options::FamilyOptions;

use crate::db::Db;
#[cfg(test)]
use crate::handles::Family;

/// Makes the memory of memtables behave like that of a system that runs out of it: of the blocks
/// that are asked for from now on the first `given` are given, and the next `refused` are not.
pub fn refuse_memtable_blocks(db: &Db, given: u64, refused: u64) {
    db.core().memory.pool.refuse_blocks(given, refused);
}

/// A family with so many runs of one key.
#[cfg(test)]
pub(crate) fn with_runs(db: &Db, runs: u8) -> Family {
    let options = FamilyOptions::default().min_disk_space(0);
    let family = db.create_family("family", options).unwrap();
    for value in 0..runs {
        family.put(b"key", &[value]).unwrap();
        family.flush().unwrap();
    }
    family
}
