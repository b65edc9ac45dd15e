//! One table written anew, in the run that it is in, without a part of its versions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::entry::ValueKind;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::sstable::EntryMeta;
use tidesdb_files::vlog::ValuePointer;
use tidesdb_lockfree::sync::lock;

use super::merge::{READAHEAD_BYTES, VersionMerge};
use crate::core::Core;
use crate::family::FamilyState;
use crate::output::drop_rules::{DropRules, Verdict};
use crate::output::key_partitions::KeySpan;
use crate::output::parts::OutputParts;
use crate::output::table_output::{OutputPlace, TableOutput};
use crate::output::written::{Syncs, Written};
use crate::version::{Run, TableFile, Version, is_deleted_in_part, read_pointer};

/// A table ends where keys are left out if it has so many bytes: then no table lies over them.
const LEAST_TABLE_BYTES: u64 = 1 << 20;

/// What becomes of the versions of a table.
#[derive(Debug)]
enum Purpose {
    /// Those go that nothing needs.
    DropGarbage,
    /// As before, and values in the value log of this number are written to another.
    Empty(u64),
    /// Those of keys in the span go, which an older run has as well. Tombstones of others stay.
    LeaveOut(KeySpan),
}

/// A table and what has to be read with it.
pub(super) struct TableRewrite<'a> {
    version: &'a Version,
    table: &'a TableFile,
    /// Tables of each run with keys of the table's range, newest run first; of its own run it
    /// alone.
    runs: Vec<Vec<Arc<TableFile>>>,
    /// Which of the runs is the table's.
    own: usize,
    /// Level and number of that run. A compaction may have moved the table since its record was
    /// written.
    place: (u32, u64),
    purpose: Purpose,
}

impl<'a> TableRewrite<'a> {
    /// Without what nothing needs, and with the values that lie in the value log `emptied` written
    /// to another. `None` when there is nothing to remove from the table.
    pub(super) fn without_garbage(
        version: &'a Version,
        table: &'a Arc<TableFile>,
        emptied: Option<u64>,
    ) -> Option<Self> {
        let record = &table.record;
        let (smallest, largest) = (&record.smallest_key, &record.largest_key);
        let own = own_run(version, table)?;
        let in_run = |(at, run): (usize, &Run)| match at == own {
            true => vec![Arc::clone(table)],
            false => run.tables_over(smallest, largest).to_vec(),
        };
        let runs: Vec<_> = version.runs.iter().enumerate().map(in_run).collect();
        let hidden = runs.iter().take(own).any(|newer| !newer.is_empty());
        let deleted = is_deleted_in_part(record, &version.range_tombstones);
        let any = hidden || deleted || record.tombstones > 0 || emptied.is_some();
        let place = version.runs.get(own)?.place();
        let purpose = emptied.map_or(Purpose::DropGarbage, Purpose::Empty);
        any.then_some(Self { version, table, runs, own, place, purpose })
    }

    /// Without the keys in a span, whose versions lie in an older run as well, and in no run
    /// between. `None` when it is not in the version.
    pub(super) fn without_keys(
        version: &'a Version,
        table: &'a Arc<TableFile>,
        span: &KeySpan,
    ) -> Option<Self> {
        let place = version.runs.get(own_run(version, table)?)?.place();
        let (runs, purpose) = (vec![vec![Arc::clone(table)]], Purpose::LeaveOut(span.clone()));
        Some(Self { version, table, runs, own: 0, place, purpose })
    }

    /// Level and number of the run that the table is in.
    pub(super) fn place(&self) -> (u32, u64) {
        self.place
    }

    /// Writes the table anew; nothing at all if no version of it stays.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Io`] when it can't be read, [`Error::Io`] when it can't be
    /// written. Nothing has changed then.
    pub(super) fn write(&self, core: &Core, family: &FamilyState) -> Result<Written> {
        let record = &self.table.record;
        let options = family.options.load_full();
        let snapshots = core.isolation.snapshots.list();
        let mut rules = DropRules::new(snapshots, false, core.expired_for_all())
            .with_range_tombstones(self.version.range_tombstones.clone());
        let (level, run) = self.place;
        let place = OutputPlace {
            level,
            run,
            table_bytes: options.target_table_bytes.min(core.env.largest_table_bytes()),
            range_deletes_applied_through: rules.range_deletes_applied_through(),
            expected_entries: usize::try_from(record.entries).unwrap_or(0),
            syncs: Syncs::Each,
        };
        let bounds = lock(&family.compactions.slice_bounds).clone();
        let parts = OutputParts { env: &core.env, memory: &core.memory, storage: &core.storage };
        let mut output = TableOutput::new(parts, family, &options, place, bounds);
        let mut past_largest = record.largest_key.clone();
        past_largest.push(0);
        let range = KeySpan { from: Some(record.smallest_key.clone()), until: Some(past_largest) };
        let mut merge = VersionMerge::open(self.runs.clone(), range, READAHEAD_BYTES)?;
        let (mut present, mut moved) = (Vec::new(), Vec::new());
        // A tombstone of the table that goes unless an older run holds its key.
        let mut tombstone = None;
        while let (Some(run), Some((key, meta, value))) = (merge.present_run(), merge.current()) {
            if key < present.as_slice() {
                let detail = format!("expected a key behind {present:02x?}, found {key:02x?}");
                return Err(Error::corruption(merge.present_path(), 0, detail));
            }
            if key != present.as_slice() {
                tombstone = None;
                rules.next_key(key);
                present.clear();
                present.extend_from_slice(key);
            }
            if self.is_left_out(key) {
                output.end_table_of(LEAST_TABLE_BYTES)?;
                merge.next()?;
                continue;
            }
            let verdict = rules.judge(meta.seq, meta.kind, meta.expires_at);
            if run > self.own
                && let Some(kept) = tombstone.take()
            {
                output.add(&present, kept, &[])?;
            }
            if run == self.own
                && let Verdict::Keep(_) = verdict
            {
                if self.may_go(meta) && rules.is_seen_by_all(meta.seq) {
                    tombstone = Some(meta);
                } else if self.is_moved(meta, value) {
                    read_pointer(self.version, value, &mut moved)?;
                    output.add(key, EntryMeta { kind: ValueKind::Value, ..meta }, &moved)?;
                } else {
                    output.add(key, meta, value)?;
                }
            }
            merge.next()?;
        }
        // The table goes when this is done.
        let read = merge.read().into_iter().find(|(table, _)| *table == record.number);
        self.table.check_read(read.map_or(0, |(_, versions)| versions))?;
        let written = output.complete()?;
        // ORDERING: relaxed; those who wait for compactions ask whether anything gets on.
        core.flow.merged.fetch_add(1, Ordering::Relaxed);
        Ok(written)
    }

    fn is_left_out(&self, key: &[u8]) -> bool {
        match &self.purpose {
            Purpose::LeaveOut(span) => span.holds(key),
            _ => false,
        }
    }

    /// Whether it is a tombstone that goes where no older run holds its key. Older runs have to be
    /// among what is read.
    fn may_go(&self, meta: EntryMeta) -> bool {
        meta.kind.is_tombstone() && !matches!(self.purpose, Purpose::LeaveOut(_))
    }

    /// Whether a value lies in the value log that is emptied.
    fn is_moved(&self, meta: EntryMeta, value: &[u8]) -> bool {
        let Purpose::Empty(emptied) = self.purpose else { return false };
        let pointer = || ValuePointer::decode(value).ok().map(|pointer| pointer.file);
        meta.kind == ValueKind::ValuePointer && pointer() == Some(emptied)
    }
}

/// Which run of the version the table is in.
fn own_run(version: &Version, table: &Arc<TableFile>) -> Option<usize> {
    let (smallest, largest) = (&table.record.smallest_key, &table.record.largest_key);
    let is_it = |other: &Arc<TableFile>| other.record.number == table.record.number;
    version.runs.iter().position(|run| run.tables_over(smallest, largest).iter().any(is_it))
}
