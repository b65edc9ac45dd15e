//! What makes calls fail, and which errors are excused by that.
//!
//! [`Faults`] wraps the disk of one run. While a fault is ordered, calls may return errors; once
//! it is cleared, none may. Looking at the database in between is done with the fault suspended
//! and uncounted, so that looking does not change which call fails.

pub mod sweep;

use std::sync::{Arc, Mutex};

use tidesdb::testing::refuse_memtable_blocks;
use tidesdb::{Db, Error, ErrorKind};
use tidesdb_sim::{FaultError, FaultKind, FaultVfs, OpSet, SimVfs};
use tidesdb_sys::large_vec::refusals;
use tidesdb_sys::vfs::Vfs;

use crate::Verdict;
use crate::runner::locked;

/// An order to fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Which of the counted calls.
    pub call: u64,
    /// Which calls are counted.
    pub counted: OpSet,
    /// Once, or from there on.
    pub kind: FaultKind,
    /// What the call returns.
    pub error: FaultError,
}

/// The faults of one run.
#[derive(Debug)]
pub struct Faults {
    vfs: Arc<FaultVfs>,
    ordered: Mutex<Option<Fault>>,
    /// The fault is gone, and what it broke may not be repaired yet.
    repairing: Mutex<bool>,
    longest_write: Mutex<Option<usize>>,
    counted: OpSet,
    memory: Mutex<Option<Refusal>>,
    /// Calls that were refused for want of memory.
    out_of_memory: Mutex<u64>,
    /// Memory for what lies in files is refused.
    contents: Mutex<bool>,
    /// How much of that memory was refused to this thread before.
    refused_before: u64,
}

/// Memory of memtables that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Blocks that are given first, after each opening.
    pub given: u64,
    /// Blocks that are refused then.
    pub refused: u64,
}

impl Faults {
    /// Around `sim`, counting the calls in `counted` and failing none.
    #[must_use]
    pub fn around(sim: &Arc<SimVfs>, counted: OpSet) -> Arc<Self> {
        let vfs = FaultVfs::new(Arc::clone(sim) as Arc<dyn Vfs>);
        vfs.count_only(counted);
        Arc::new(Self {
            vfs,
            ordered: Mutex::new(None),
            repairing: Mutex::new(false),
            longest_write: Mutex::new(None),
            counted,
            memory: Mutex::new(None),
            out_of_memory: Mutex::new(0),
            contents: Mutex::new(false),
            refused_before: refusals::so_far(),
        })
    }

    /// Around `sim`, with an order.
    #[must_use]
    pub fn ordered(sim: &Arc<SimVfs>, fault: Fault) -> Arc<Self> {
        let faults = Self::around(sim, fault.counted);
        *locked(&faults.ordered) = Some(fault);
        faults.vfs.fail_call(fault.call, fault.kind, fault.error);
        faults
    }

    /// Around `sim`, whose calls all work, with memory that is refused.
    #[must_use]
    pub fn of_memory(sim: &Arc<SimVfs>, refusal: Refusal) -> Arc<Self> {
        let faults = Self::around(sim, OpSet::of(&[]));
        *locked(&faults.memory) = Some(refusal);
        faults
    }

    /// Around `sim`, whose calls all work, with memory that is refused to buffers, indexes and
    /// filters: to all vectors that this thread makes grow and that may be large.
    #[must_use]
    pub fn of_contents(sim: &Arc<SimVfs>, Refusal { given, refused }: Refusal) -> Arc<Self> {
        let faults = Self::around(sim, OpSet::of(&[]));
        *locked(&faults.contents) = true;
        refusals::order(given, refused);
        faults
    }

    /// Lets a database that was just opened, or for which the fault was just cleared, behave so.
    pub fn give_memory(&self, db: &Db) {
        let (given, refused) =
            locked(&self.memory).map_or((0, 0), |refusal| (refusal.given, refusal.refused));
        refuse_memtable_blocks(db, given, refused);
    }

    /// How often something has failed.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.vfs.fired() + *locked(&self.out_of_memory) + self.refused()
    }

    /// How often memory for what lies in files was refused.
    fn refused(&self) -> u64 {
        refusals::so_far() - self.refused_before
    }

    /// Whether calls fail from now on for want of space. Such a disk is opened for reading, and
    /// what is shown then may be in the kernel's cache only.
    #[must_use]
    pub fn disk_is_full(&self) -> bool {
        let full =
            |fault: &Fault| fault.kind == FaultKind::Forever && fault.error == FaultError::NO_SPACE;
        locked(&self.ordered).as_ref().is_some_and(full) && self.vfs.fired() > 0
    }

    /// The file system to give to the database.
    #[must_use]
    pub fn vfs(&self) -> Arc<dyn Vfs> {
        Arc::clone(&self.vfs) as Arc<dyn Vfs>
    }

    /// The wrapping file system itself.
    #[must_use]
    pub fn instrument(&self) -> &FaultVfs {
        &self.vfs
    }

    /// Makes every write take at most so many bytes.
    pub fn limit_writes(&self, bytes: usize) {
        *locked(&self.longest_write) = Some(bytes);
        self.vfs.limit_writes(Some(bytes));
    }

    /// Ends the fault for good. Errors are excused until [`Faults::expect_health`].
    pub fn clear(&self) {
        *locked(&self.ordered) = None;
        *locked(&self.memory) = None;
        *locked(&self.contents) = false;
        refusals::order(0, 0);
        *locked(&self.repairing) = true;
        self.vfs.clear_faults();
    }

    /// From here on nothing is excused.
    pub fn expect_health(&self) {
        *locked(&self.repairing) = false;
    }

    /// Suspends the fault, and the counting, while the guard lives.
    #[must_use]
    pub fn suspend(&self) -> Suspended<'_> {
        self.vfs.clear_faults();
        self.vfs.count_only(OpSet::of(&[]));
        Suspended(self, refusals::order(0, 0))
    }

    /// Accepts an error that the fault can explain.
    ///
    /// # Errors
    /// When no call was made to fail, or the error is none that a failed call explains.
    pub fn excuse(&self, what: &str, error: &Error) -> Verdict {
        if matches!(error, Error::OutOfMemory(_)) {
            let mut refused = locked(&self.out_of_memory);
            *refused += u64::from(locked(&self.memory).is_some());
            // What could not be written to memory goes to tables first.
            let allowed = locked(&self.memory).is_some() || *locked(&self.repairing);
            if allowed && *refused > 0 {
                return Ok(());
            }
        }
        let kinds = [
            ErrorKind::Io,
            ErrorKind::Full,
            ErrorKind::LogFailed,
            ErrorKind::NotDurable,
            ErrorKind::ChangeUncertain,
        ];
        let explained = kinds.contains(&error.kind());
        let fault = *locked(&self.ordered);
        let ordered = fault.is_some() || *locked(&self.contents);
        let allowed = ordered || *locked(&self.repairing);
        if explained && allowed && self.vfs.fired() + self.refused() > 0 {
            return Ok(());
        }
        Err(format!(
            "{what}: {error} ({:?}), fault {fault:?}, fired {}",
            error.kind(),
            self.vfs.fired()
        ))
    }
}

/// See [`Faults::suspend`].
#[derive(Debug)]
pub struct Suspended<'a>(&'a Faults, (u64, u64));

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        self.0.vfs.count_only(self.0.counted);
        if let Some(fault) = *locked(&self.0.ordered) {
            self.0.vfs.fail_call(fault.call, fault.kind, fault.error);
        }
        self.0.vfs.limit_writes(*locked(&self.0.longest_write));
        // One within another finds nothing ordered, and leaves it so.
        let (given, refused) = self.1;
        if *locked(&self.0.contents) {
            refusals::order(given, refused);
        }
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        if *locked(&self.contents) {
            refusals::order(0, 0);
        }
    }
}
