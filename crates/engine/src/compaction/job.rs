//! Performing a merge: read the inputs in order, drop what nobody needs, write the outputs, make
//! them known, and let go of the inputs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::manifest::Change;
use tidesdb_files::sstable::EntryMeta;
use tidesdb_lockfree::sync::lock;

use super::drop_rules::{DropRules, Verdict};
use super::merge::VersionMerge;
use super::plan::{MergePlan, RunSummary};
use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::table_output::{OutputPlace, TableOutput, Written, remove_all};
use crate::version::{Run, TableFile, Version};

/// Versions between two looks at whether the merge is still wanted.
const VERSIONS_PER_CHECK: u64 = 4096;

/// What the planner needs to know of a version.
pub(crate) fn summarize(version: &Version) -> Vec<RunSummary> {
    let summary =
        |run: &Run| RunSummary { level: run.level, id: run.id, bytes: run.bytes().max(1) };
    version.runs.iter().map(summary).collect()
}

impl Core {
    /// Merges the newest runs of a family as planned from `version`, whose runs still are the
    /// oldest of the family. The family's merge lock is held.
    ///
    /// # Errors
    /// [`Error::Corruption`] when an input is damaged, [`Error::Io`]; nothing has changed then.
    pub(crate) fn merge_runs(
        &self,
        family: &Arc<FamilyState>,
        version: &Arc<Version>,
        plan: MergePlan,
    ) -> Result<()> {
        let inputs = version.runs.get(..plan.count).unwrap_or_default();
        let tables: Vec<&Arc<TableFile>> = inputs.iter().flat_map(|run| &run.tables).collect();
        let removed: Vec<u64> = tables.iter().map(|table| table.record.number).collect();
        let bytes_read: u64 = tables.iter().map(|table| table.record.bytes).sum();
        let written = self.write_merged(family, version, plan)?;
        let written_bytes = written.bytes;
        self.install_merge(family, &removed, written)?;
        let counters = &family.counters;
        // ORDERING: statistics.
        counters.compaction_bytes_read.fetch_add(bytes_read, Ordering::Relaxed);
        counters.compaction_bytes_written.fetch_add(written_bytes, Ordering::Relaxed);
        counters.compaction_count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn write_merged(
        &self,
        family: &FamilyState,
        version: &Version,
        plan: MergePlan,
    ) -> Result<Written> {
        let options = family.options.load_full();
        let inputs = version.runs.get(..plan.count).unwrap_or_default();
        let snapshots = self.snapshots.list();
        let bottom = plan.count == version.runs.len();
        let mut rules = DropRules::new(snapshots, bottom, self.clock.unix_seconds());
        let entries: u64 = inputs.iter().flat_map(|r| &r.tables).map(|t| t.record.entries).sum();
        let bytes: u64 = inputs.iter().map(Run::bytes).sum();
        let outputs = bytes.div_ceil(options.target_table_bytes).max(1);
        let place = OutputPlace {
            level: plan.level,
            run: plan.run,
            separate_values: false,
            expected_entries: usize::try_from(entries / outputs).unwrap_or(0),
        };
        let mut output = TableOutput::new(self, &options, place);
        let mut merge = VersionMerge::open(inputs.iter().map(|run| run.tables.clone()).collect())?;
        let mut key: Vec<u8> = Vec::new();
        let mut seen = 0;
        while let Some((next_key, meta, value)) = merge.current() {
            if seen == 0 || next_key != key.as_slice() {
                rules.next_key();
                key.clear();
                key.extend_from_slice(next_key);
            }
            if let Verdict::Keep(seq) = rules.judge(meta.seq, meta.kind, meta.expires_at) {
                output.add(next_key, EntryMeta { seq, ..meta }, value)?;
            }
            merge.next()?;
            seen += 1;
            if seen % VERSIONS_PER_CHECK == 0 {
                self.check_merge_wanted(family)?;
            }
        }
        if seen != entries {
            let file = inputs.first().and_then(|run| run.tables.first());
            let name = file.map(|table| table.path().to_path_buf()).unwrap_or_default();
            let detail = format!("a merge read {seen} entries of {entries}");
            return Err(Error::corruption(name, 0, detail));
        }
        output.finish()
    }

    /// Ends a merge early when the database closes or the family is gone.
    fn check_merge_wanted(&self, family: &FamilyState) -> Result<()> {
        if family.is_dropped() {
            return Err(Error::FamilyDropped(family.name.clone()));
        }
        if self.health.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    fn install_merge(
        &self,
        family: &Arc<FamilyState>,
        removed: &[u64],
        written: Written,
    ) -> Result<()> {
        let mut catalog = lock(&self.catalog);
        if family.is_dropped() {
            remove_all(self.vfs.as_ref(), &written.paths);
            return Err(Error::FamilyDropped(family.name.clone()));
        }
        let added: Vec<Arc<TableFile>> = written
            .tables
            .iter()
            .map(|record| TableFile::new(&self.files, record.clone()))
            .collect();
        let old = Arc::clone(&family.view.load().version);
        let mut next = old.with_tables(removed, added);
        let dead = next.dead_value_logs();
        let mut changes: Vec<Change> = written
            .tables
            .iter()
            .map(|table| Change::AddTable { family: family.id, table: table.clone() })
            .collect();
        changes.extend(
            removed.iter().map(|&number| Change::RemoveTable { family: family.id, number }),
        );
        changes.extend(
            dead.iter().map(|&number| Change::RemoveValueLog { family: family.id, number }),
        );
        if cfg!(planted_bug = "merge_inputs_removed_too_early") {
            let early = old.tables().filter(|table| removed.contains(&table.record.number));
            let paths: Vec<_> = early.map(|table| table.path().to_path_buf()).collect();
            remove_all(self.vfs.as_ref(), &paths);
        }
        if let Err(e) = catalog.commit(changes) {
            if catalog.is_certain() {
                remove_all(self.vfs.as_ref(), &written.paths);
            }
            return Err(e);
        }
        // Only now, with the edit on disk, may the files go: with their last reader.
        for number in &dead {
            if let Some(file) = next.value_logs.remove(number) {
                file.mark_obsolete();
            }
        }
        for table in old.tables().filter(|table| removed.contains(&table.record.number)) {
            table.mark_obsolete();
        }
        let next = Arc::new(next);
        family.change_view(|view| View { version: next, ..view.clone() });
        drop(old);
        drop(catalog);
        Ok(())
    }
}
