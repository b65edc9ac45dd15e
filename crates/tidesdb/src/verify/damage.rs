//! All damage of one file: what a check of it has met first, and what lies behind that.

use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::sstable::SalvagedTable;
use tidesdb_files::vlog::SalvagedRecord;
use tidesdb_sys::vfs::{OpenMode, Vfs};

use crate::version::{TableFile, ValueLogFile};

/// Everything that is wrong with a table, in which `first` was found.
pub(super) fn of_table(vfs: &Arc<dyn Vfs>, table: &TableFile, first: Error) -> Vec<Error> {
    let path = table.path();
    let surveyed = vfs
        .open(path, OpenMode::Read)
        .map_err(|e| Error::io("open", path, e))
        .and_then(|file| SalvagedTable::survey(file, path, table.record.number));
    // Where it can't be surveyed, the first error says why.
    let remains = surveyed.map(|remains| remains.problems().to_vec());
    together(first, remains.unwrap_or_default())
}

/// Everything that is wrong with a value log up to `known`, in which `first` was found.
pub(super) fn of_value_log(file: &ValueLogFile, known: u64, first: Error) -> Vec<Error> {
    let mut problems = Vec::new();
    let surveyed: Result<()> = file.with_reader(|reader| {
        reader.survey(&mut |record| {
            if let SalvagedRecord::Lost { offset, reason, .. } = record
                && offset < known
            {
                problems.push(reason);
            }
            Ok(())
        })
    });
    // As above.
    drop(surveyed);
    together(first, problems)
}

/// What was found first, unless it is among the others, and these.
fn together(first: Error, mut others: Vec<Error>) -> Vec<Error> {
    let place = |error: &Error| match error {
        Error::Corruption { offset, .. } => Some(*offset),
        _ => None,
    };
    if place(&first).is_none() || others.iter().all(|other| place(other) != place(&first)) {
        others.insert(0, first);
    }
    others
}
