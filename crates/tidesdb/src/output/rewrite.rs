//! From versions in order to tables: what a flush and a compaction have in common.
//!
//! Versions come in key order, of one key the newest first. Those that are not needed are left out
//! (`drop_rules`); a single deletion and the one put that it promises to meet cancel each other
//! in a flush; values in value logs that are mostly garbage are written anew.
//!
//! A put in a memtable is in no table, so nothing of it is left when the pair goes. A put that a
//! compaction meets may be in an older run as well, when an earlier compaction into that run ended
//! after some of its steps. So a compaction drops the put alone, and the deletion at the bottom
//! (I-90).

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tidesdb_base::entry::ValueKind;
use tidesdb_base::error::{Error, Result};
use tidesdb_files::sstable::EntryMeta;
use tidesdb_files::vlog::ValuePointer;

use super::drop_rules::{DropRules, Verdict};
use super::table_output::TableOutput;
use super::written::Written;
use crate::version::{Version, read_pointer};

/// Value logs whose values are to be written anew, and where to read them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueRewrite {
    /// File numbers.
    pub files: BTreeSet<u64>,
    /// The version whose tables point into them.
    pub version: Version,
}

/// Takes versions in order and writes those that stay.
#[derive(Debug)]
pub(crate) struct Rewriter<'a> {
    rules: DropRules,
    output: TableOutput<'a>,
    rewrite: &'a ValueRewrite,
    cancels_pairs: bool,
    key: Vec<u8>,
    /// The present key's single deletion, held back until its put is met.
    single_deletion: Option<EntryMeta>,
    value: Vec<u8>,
}

/// Tables whose bytes are what their checksums say may hold keys in any order.
#[cold]
fn out_of_order(file: &Path, key: &[u8], before: &[u8]) -> Error {
    Error::corruption(file, 0, format!("expected a key behind {before:02x?}, found {key:02x?}"))
}

impl<'a> Rewriter<'a> {
    pub(crate) fn new(
        rules: DropRules,
        output: TableOutput<'a>,
        rewrite: &'a ValueRewrite,
    ) -> Self {
        let (key, value) = (Vec::new(), Vec::new());
        Self { rules, output, rewrite, cancels_pairs: false, key, single_deletion: None, value }
    }

    /// The versions are in no table, so that a single deletion and its put may go together.
    pub(crate) fn cancelling_pairs(self) -> Self {
        Self { cancels_pairs: true, ..self }
    }

    /// Takes the next version, which lies in the file that `source` returns.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corruption`] for a value that is to be written anew and can't be
    /// read, and for a key that lies before the one in front of it.
    pub(crate) fn push(
        &mut self,
        (key, meta, value): (&[u8], EntryMeta, &[u8]),
        source: impl FnOnce() -> PathBuf,
    ) -> Result<()> {
        // Keys are not empty, so the first one differs from the buffer as it is made.
        let order = key.cmp(self.key.as_slice());
        if order == Ordering::Less {
            return Err(out_of_order(&source(), key, &self.key));
        }
        if order == Ordering::Greater {
            self.keep_single_deletion()?;
            self.rules.next_key(key);
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        match self.rules.judge(meta.seq, meta.kind, meta.expires_at) {
            // Puts below another deletion may be several: the one above has to stay for them.
            Verdict::Drop if meta.kind.is_tombstone() => self.keep_single_deletion(),
            Verdict::Drop => {
                // Shadowed by the deletion and seen by no snapshot in between. What is older is
                // judged as if there had been neither: it may hide yet older puts in tables.
                let cancelled = self.single_deletion.take().is_some();
                if cancelled {
                    self.rules.forget_newer();
                }
                Ok(())
            }
            Verdict::Keep(seq) => {
                self.keep_single_deletion()?;
                let meta = EntryMeta { seq, ..meta };
                let is_single = meta.kind == ValueKind::SingleTombstone && self.cancels_pairs;
                if is_single && self.rules.is_seen_by_all(seq) {
                    self.single_deletion = Some(meta);
                    return Ok(());
                }
                self.keep(key, meta, value)
            }
        }
    }

    /// No put was met: the deletion stays for what lies below.
    fn keep_single_deletion(&mut self) -> Result<()> {
        match self.single_deletion.take() {
            Some(meta) => self.output.add(&self.key, meta, &[]),
            None => Ok(()),
        }
    }

    fn keep(&mut self, key: &[u8], meta: EntryMeta, value: &[u8]) -> Result<()> {
        if meta.kind != ValueKind::ValuePointer || self.rewrite.files.is_empty() {
            return self.output.add(key, meta, value);
        }
        match ValuePointer::decode(value) {
            Ok(pointer) if self.rewrite.files.contains(&pointer.file) => {
                read_pointer(&self.rewrite.version, value, &mut self.value)?;
                let meta = EntryMeta { kind: ValueKind::Value, ..meta };
                self.output.add(key, meta, &self.value)
            }
            _ => self.output.add(key, meta, value),
        }
    }

    /// A table with keys up to this one is left as it is between the last version and the next.
    pub(crate) fn passed_over(&mut self, largest_key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(largest_key);
    }

    /// The key of the last version taken, whether it stays or not; empty at first.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.key
    }

    /// Ends the present table, so that the next version starts another.
    ///
    /// # Errors
    /// As [`Rewriter::push`].
    pub(crate) fn end_table(&mut self) -> Result<()> {
        self.keep_single_deletion()?;
        self.output.finish_table()
    }

    /// Completes and syncs everything written so far; see [`TableOutput::complete`].
    ///
    /// # Errors
    /// As [`Rewriter::push`].
    pub(crate) fn complete(&mut self) -> Result<Written> {
        self.keep_single_deletion()?;
        self.output.complete()
    }
}
