//! One value-log file of a family: its life, and reading from it. It is open while it is read,
//! within the bound on open files that tables and value logs share.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use arc_swap::ArcSwapOption;
use tidesdb_base::error::Result;
use tidesdb_base::thread_buffer::{keep_buffer, take_buffer};
use tidesdb_files::naming::FileKind;
use tidesdb_files::vlog::{RecordReadahead, ValuePointer, VlogReader};
use tidesdb_lockfree::sync::lock;

use super::set_aside::SetAside;
use super::value_log_life::ValueLogLife;
use super::{FileContext, NamedFile};
use crate::cache::{OpenFile, OpenKind};

/// Buffers larger than this are not kept: a value may have a GiB.
const LARGEST_KEPT_BYTES: usize = 4 << 20;

thread_local! {
    /// Holds the stored bytes of a value while it is decompressed.
    static STORED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A value-log file of a family. Another family that has the same file has an own one of these,
/// since which commits may point into it is a matter of the family.
#[derive(Debug)]
pub(crate) struct ValueLogFile {
    pub number: u64,
    life: Mutex<ValueLogLife>,
    file: Arc<NamedFile>,
    /// The file itself, to be found by the budget of open files.
    this: Weak<Self>,
    open: ArcSwapOption<VlogReader>,
    /// Used since the budget of open files last looked.
    recently_used: AtomicBool,
    pub set_aside: SetAside,
}

impl ValueLogFile {
    /// The file `number`.
    pub(crate) fn new(context: &Arc<FileContext>, number: u64, life: ValueLogLife) -> Arc<Self> {
        Self::of(NamedFile::new(context, FileKind::ValueLog(number)), number, life)
    }

    /// As [`ValueLogFile::new`], of a file that other families may have as well.
    pub(crate) fn of(file: Arc<NamedFile>, number: u64, life: ValueLogLife) -> Arc<Self> {
        let set_aside = SetAside::new(&file.context().set_aside_changes);
        Arc::new_cyclic(|this| Self {
            number,
            life: Mutex::new(life),
            file,
            this: Weak::clone(this),
            open: ArcSwapOption::empty(),
            recently_used: AtomicBool::new(false),
            set_aside,
        })
    }

    /// Who may point into the file besides tables, and how long it is.
    pub(crate) fn life(&self) -> ValueLogLife {
        *lock(&self.life)
    }

    /// Changes that.
    pub(crate) fn change_life(&self, change: impl FnOnce(&mut ValueLogLife)) {
        change(&mut lock(&self.life));
    }

    /// The file as it is for another family, of which tables alone point into it.
    pub(super) fn for_another_family(&self) -> Arc<Self> {
        Self::of(self.file.named_again(), self.number, self.life().for_tables_alone())
    }

    /// The manifest on disk names the file no more as one of its family.
    pub(crate) fn let_go(&self) {
        self.file.let_go();
    }

    /// Whether others keep the file's space when this family lets go of it.
    ///
    /// # Errors
    /// As [`NamedFile::is_shared`].
    pub(crate) fn is_shared(&self) -> Result<bool> {
        self.file.is_shared()
    }

    /// True once a compaction could not read a value of the file.
    pub(crate) fn is_damaged(&self) -> bool {
        self.set_aside.is_set()
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Reads the value that `pointer` points at into `out`, which is replaced.
    ///
    /// # Errors
    /// `Corruption` when the file is missing or the value damaged; `Closed` when it was not opened
    /// before the database was closed; `Io`.
    pub(crate) fn read(&self, pointer: &ValuePointer, out: &mut Vec<u8>) -> Result<()> {
        self.with_stored(|reader, stored| reader.read_into(pointer, stored, out))
    }

    /// Asks the system to begin reading a value that will be wanted soon, if the file is open.
    pub(crate) fn start_reading(&self, pointer: &ValuePointer) {
        if let Some(reader) = self.open.load().as_deref() {
            reader.start_reading(pointer);
        }
    }

    /// As [`ValueLogFile::read`], for one of many values that are read in the order of the file.
    ///
    /// # Errors
    /// As [`ValueLogFile::read`].
    pub(crate) fn read_along(
        &self,
        pointer: &ValuePointer,
        ahead: &mut RecordReadahead,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.with_stored(|reader, stored| reader.read_along(pointer, ahead, stored, out))
    }

    /// Runs `read` with the open file and this thread's buffer.
    fn with_stored<R>(
        &self,
        read: impl FnOnce(&VlogReader, &mut Vec<u8>) -> Result<R>,
    ) -> Result<R> {
        self.with_reader(|reader| {
            let mut stored = take_buffer(&STORED);
            let result = read(reader, &mut stored);
            keep_buffer(&STORED, stored, LARGEST_KEPT_BYTES);
            result
        })
    }

    /// Does something with the open file.
    ///
    /// # Errors
    /// What `read` returns; `Corruption` when the file is missing or another one; `Closed` as for
    /// [`ValueLogFile::read`]; `Io`.
    pub(crate) fn with_reader<R>(&self, read: impl FnOnce(&VlogReader) -> Result<R>) -> Result<R> {
        if let Some(reader) = self.open.load().as_deref() {
            // A load first: the flag is nearly always set, and a store would bounce its line.
            // ORDERING: relaxed; a hint.
            if !self.recently_used.load(Ordering::Relaxed) {
                self.recently_used.store(true, Ordering::Relaxed);
            }
            return read(reader);
        }
        read(&*self.open_file()?)
    }

    #[cold]
    fn open_file(&self) -> Result<Arc<VlogReader>> {
        let file = self.file.context().lock.open(self.path())?;
        let reader = Arc::new(VlogReader::open(file, self.path(), self.number)?);
        // Two threads that open it at once store one after the other; the first is let go.
        if self.open.swap(Some(Arc::clone(&reader))).is_none() {
            let this: Weak<Self> = Weak::clone(&self.this);
            self.file.context().open_files.opened(this, OpenKind::ValueLog);
        }
        Ok(reader)
    }
}

impl OpenFile for ValueLogFile {
    fn kind(&self) -> OpenKind {
        OpenKind::ValueLog
    }

    fn close_if_idle(&self) -> bool {
        // ORDERING: relaxed; a hint.
        let idle = !self.recently_used.swap(false, Ordering::Relaxed);
        if idle {
            self.open.store(None);
        }
        idle
    }
}

impl Drop for ValueLogFile {
    fn drop(&mut self) {
        if self.open.swap(None).is_some() {
            self.file.context().open_files.closed(OpenKind::ValueLog);
        }
    }
}
