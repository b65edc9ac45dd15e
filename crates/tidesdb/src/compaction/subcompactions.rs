//! Cutting a compaction into parts of the key space that several threads do at once.

use std::sync::Arc;

use tidesdb_base::error::Result;

use crate::output::key_partitions::KeySpan;
use crate::output::slices::bounds_between;
use crate::version::TableFile;

/// A part is at least this many output tables long.
const TABLES_PER_PART: u64 = 2;

/// At most `most` ranges that together are `range`, with about equally many bytes each. With
/// `into_oldest` they end between tables of the oldest run if that is large enough: those that no
/// part cuts may stay as they are.
///
/// # Errors
/// [`tidesdb_base::Error::Corruption`] or [`tidesdb_base::Error::Io`] when an index can't be read.
pub(super) fn subcompaction_ranges(
    runs: &[Vec<Arc<TableFile>>],
    range: &KeySpan,
    table_bytes: u64,
    most: usize,
    into_oldest: bool,
) -> Result<Vec<KeySpan>> {
    let bytes = |tables: &[Arc<TableFile>]| tables.iter().map(|t| t.record.bytes).sum::<u64>();
    let total: u64 = runs.iter().map(|run| bytes(run)).sum();
    let worth = (total / table_bytes.max(1) / TABLES_PER_PART).min(most as u64).max(1);
    let largest = runs.iter().max_by_key(|run| bytes(run));
    let suits = |oldest: &&Vec<Arc<TableFile>>| {
        let enough = bytes(oldest) * 2 >= largest.map_or(0, |largest| bytes(largest));
        into_oldest && enough && oldest.len() as u64 >= worth
    };
    let bounds = match runs.last().filter(suits).or(largest).map(Vec::as_slice) {
        _ if worth == 1 => Vec::new(),
        Some([table]) => bounds_within(table, worth)?,
        Some(tables) => bounds_between(tables, worth),
        None => Vec::new(),
    };
    Ok(range.cut_at(bounds))
}

/// Bounds at blocks of one large table.
fn bounds_within(table: &Arc<TableFile>, parts: u64) -> Result<Vec<Vec<u8>>> {
    let open = table.table()?;
    let Some(open) = open.as_ref() else { return Ok(Vec::new()) };
    Ok(open.keys_between(usize::try_from(parts).unwrap_or(usize::MAX)))
}
