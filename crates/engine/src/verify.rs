//! Deep verification: everything on disk is read and checked against everything that is known
//! of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};

use crate::core::Core;
use crate::family::FamilyState;
use crate::version::{Run, TableFile, Version};

/// What a verification found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Column families checked.
    pub families: u64,
    /// Tables read.
    pub tables: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Entries read.
    pub entries: u64,
    /// Bytes of tables and value logs read.
    pub bytes: u64,
    /// Value-log files read.
    pub value_log_files: u64,
    /// Everything that is wrong; empty for a sound database.
    pub problems: Vec<Error>,
}

impl VerifyReport {
    pub(crate) fn of(core: &Core) -> Self {
        let mut report = Self::default();
        for family in core.families.all() {
            report.families += 1;
            report.check_family(&family);
        }
        report
    }

    fn check_family(&mut self, family: &FamilyState) {
        let version = Arc::clone(&family.view.load().version);
        for run in &version.runs {
            self.check_run(run);
            for table in &run.tables {
                self.tables += 1;
                if let Err(e) = self.check_table(table) {
                    self.problems.push(e);
                }
            }
        }
        self.check_value_logs(&version);
    }

    fn check_table(&mut self, file: &Arc<TableFile>) -> Result<()> {
        let open = file.table()?;
        let Some(table) = open.as_ref() else { return Ok(()) };
        table.verify()?;
        self.blocks += table.block_count() as u64;
        self.entries += table.summary().entries;
        self.bytes += file.record.bytes;
        let summary = table.summary();
        let known = &file.record;
        if summary.min_key != known.smallest_key
            || summary.max_key != known.largest_key
            || summary.tombstones != known.tombstones
            || summary.max_seq != known.highest_sequence
        {
            let detail = "the manifest describes another table";
            return Err(Error::corruption(file.path(), 0, detail));
        }
        Ok(())
    }

    fn check_run(&mut self, run: &Run) {
        for pair in run.tables.windows(2) {
            let [left, right] = pair else { continue };
            if left.record.largest_key >= right.record.smallest_key {
                let detail = "the table overlaps the one before it in its sorted run";
                self.problems.push(Error::corruption(right.path(), 0, detail));
            }
        }
    }

    fn check_value_logs(&mut self, version: &Version) {
        let referenced: BTreeSet<u64> = version
            .tables()
            .flat_map(|table| table.record.value_references.iter().map(|&(file, _)| file))
            .collect();
        for number in referenced {
            if !version.value_logs.contains_key(&number) {
                let name = tidesdb_files::naming::FileKind::ValueLog(number).name();
                let detail = "tables point into the file, the manifest does not list it";
                self.problems.push(Error::corruption(name, 0, detail));
            }
        }
        for file in version.value_logs.values() {
            self.value_log_files += 1;
            match file.reader().and_then(|reader| reader.verify()) {
                Ok(summary) => self.bytes += summary.file_len,
                Err(e) => self.problems.push(e),
            }
        }
    }
}
