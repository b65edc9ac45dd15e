//! The file of an open table, whose descriptor comes and goes.
//!
//! An open table is an index and a filter in memory, and a file. There may be more of them than the
//! process may have descriptors, and opening a file again costs a system call or two where reading
//! index and filter again costs milliseconds. So the two have bounds of their own: a descriptor
//! that others need more is closed, and the file is opened again at its next read.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use tidesdb_base::error::{Error, Result};
use tidesdb_sys::vfs::File;

use super::NamedFile;
use crate::cache::{OpenFile, OpenKind};

/// The file of a table, opened for reading when it is needed.
#[derive(Debug)]
pub(super) struct TableDescriptor {
    /// Keeps the file from being deleted: it could not be opened again.
    file: Arc<NamedFile>,
    /// The descriptor itself, to be found by the budget of open files.
    this: Weak<Self>,
    open: ArcSwapOption<Arc<dyn File>>,
    /// Used since that budget last looked.
    recently_used: AtomicBool,
}

impl TableDescriptor {
    /// The file, opened.
    ///
    /// # Errors
    /// As [`super::DirectoryLock::open`].
    pub(super) fn open(file: &Arc<NamedFile>) -> Result<Arc<Self>> {
        let descriptor = Arc::new_cyclic(|this| Self {
            file: Arc::clone(file),
            this: Weak::clone(this),
            open: ArcSwapOption::empty(),
            recently_used: AtomicBool::new(false),
        });
        descriptor.open_file()?;
        Ok(descriptor)
    }

    #[cold]
    fn open_file(&self) -> Result<Arc<Arc<dyn File>>> {
        let context = self.file.context();
        let file = context.lock.open(self.file.path())?;
        // Gets read single blocks; a walk of the table reads ahead by itself.
        file.expect_random_reads();
        let file = Arc::new(file);
        // Two threads that open it at once store one after the other; the first is let go.
        if self.open.swap(Some(Arc::clone(&file))).is_none() {
            let this: Weak<Self> = Weak::clone(&self.this);
            context.open_files.opened(this, OpenKind::Table);
        }
        Ok(file)
    }

    /// Does something with the open file.
    fn with<R>(&self, act: impl FnOnce(&dyn File) -> io::Result<R>) -> io::Result<R> {
        if let Some(file) = self.open.load().as_deref() {
            // A load first: the flag is nearly always set, and a store would bounce its line.
            // ORDERING: relaxed; a hint.
            if !self.recently_used.load(Ordering::Relaxed) {
                self.recently_used.store(true, Ordering::Relaxed);
            }
            return act(file.as_ref());
        }
        let file = self.open_file().map_err(into_io)?;
        act(file.as_ref().as_ref())
    }
}

/// The error of an opening as one of a read, from which [`Error::io`] takes it out again.
fn into_io(error: Error) -> io::Error {
    io::Error::other(error)
}

fn is_read_only<R>() -> io::Result<R> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl File for TableDescriptor {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.with(|file| file.read_at(buffer, at))
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|file| file.len())
    }

    fn start_reading(&self, at: u64, len: u64) {
        if let Some(file) = self.open.load().as_deref() {
            file.start_reading(at, len);
        }
    }

    fn write_at(&self, _bytes: &[u8], _at: u64) -> io::Result<usize> {
        is_read_only()
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        is_read_only()
    }

    fn sync_data(&self) -> io::Result<()> {
        is_read_only()
    }

    fn sync_all(&self) -> io::Result<()> {
        is_read_only()
    }

    fn allocate(&self, _len: u64) -> io::Result<()> {
        is_read_only()
    }
}

impl OpenFile for TableDescriptor {
    fn kind(&self) -> OpenKind {
        OpenKind::Table
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

impl Drop for TableDescriptor {
    fn drop(&mut self) {
        if self.open.swap(None).is_some() {
            self.file.context().open_files.closed(OpenKind::Table);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use crate::db::{Components, Db};

    /// Each get closes the file of another table, and none reads an index again.
    #[test]
    fn a_closed_table_keeps_its_index() {
        let options = DbOptions::default().max_open_files(1);
        let db = Db::open_with("/db", options, Components::simulated()).unwrap();
        let options = FamilyOptions::default().l1_file_count_trigger(100);
        let family = db.create_family("tables", options).unwrap();
        for table in 0..10_u8 {
            for n in 0..100_u8 {
                family.put(&[table, n], &[n; 100]).unwrap();
            }
            family.flush().unwrap();
        }
        let read_all = || {
            for table in 0..10_u8 {
                assert_eq!(family.get(&[table, 7]).unwrap(), Some(vec![7; 100]), "{table}");
                assert_eq!(db.stats().open_files, 1);
            }
        };
        read_all();
        let tables: Vec<_> = {
            let version = family.state().current_version();
            version
                .tables()
                .map(|file| file.if_open().as_ref().map(std::sync::Arc::clone))
                .collect()
        };
        assert!(tables.len() == 10 && tables.iter().all(Option::is_some));
        read_all();
        let version = family.state().current_version();
        for (before, file) in tables.iter().zip(version.tables()) {
            let now = file.if_open();
            let same = |(a, b)| std::sync::Arc::ptr_eq(a, b);
            assert!(before.as_ref().zip(now.as_ref()).is_some_and(same), "was read again");
        }
    }
}
