//! The handles of the families of a database: which were given out, and when they are freed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::allocator;
use crate::families::FamilyHandle;
use crate::handle_map::HandleMap;

/// So many handles of dropped families are kept, however long ago that was.
const LEAST_DROPPED: usize = 256;

/// Others are kept for this time: a call of a transaction may be under way, on a slow disk.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// No more are kept.
const MOST_DROPPED: usize = 4096;

/// The handles of families that were given out. What is freed is freed here.
///
/// A lookup takes no lock: it reads what the last change has published.
#[derive(Default)]
pub struct FamilyHandles {
    by_name: HandleMap<FamilyPointer>,
    /// The lock is that of all changes: a change that must not meet another holds it until it is
    /// stored, over syncs of the manifest.
    changes: Mutex<Changes>,
}

/// What only changes look at.
#[derive(Default)]
struct Changes {
    /// The names of the handles in `by_name`, for calls that name a family by its handle.
    names: HashMap<*mut FamilyHandle, Arc<str>>,
    /// Of families that were dropped, the last at the end. A call that has such a handle in hand
    /// when the family goes, or that comes too late, finds that it was dropped (I-276).
    dropped: VecDeque<(Instant, FamilyPointer)>,
}

// SAFETY: the pointers among the names are compared, and never followed.
unsafe impl Send for Changes {}

impl FamilyHandles {
    /// The handle of the family that has this name, if there is one.
    pub fn get(&self, name: &str) -> Option<*mut FamilyHandle> {
        self.by_name.get(name).map(|pointer| pointer.0)
    }

    /// Waits until no other call changes the handles, and keeps others from it.
    pub fn change(&self) -> FamilyChange<'_> {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        FamilyChange { handles: self, changes }
    }
}

/// A change of the handles, which no other one is beside.
pub struct FamilyChange<'a> {
    handles: &'a FamilyHandles,
    changes: MutexGuard<'a, Changes>,
}

impl FamilyChange<'_> {
    /// As [`FamilyHandles::get`].
    pub fn get(&self, name: &str) -> Option<*mut FamilyHandle> {
        self.handles.get(name)
    }

    /// The name of the family that has this handle. The handle is not looked at.
    pub fn name_of(&self, handle: *mut FamilyHandle) -> Option<Arc<str>> {
        self.changes.names.get(&handle).map(Arc::clone)
    }

    /// Publishes a handle under a name.
    pub fn insert(&mut self, name: &str, handle: *mut FamilyHandle) {
        let name: Arc<str> = name.into();
        self.changes.names.insert(handle, Arc::clone(&name));
        self.handles.by_name.insert(name, FamilyPointer(handle));
    }

    /// Takes a name away.
    pub fn remove(&mut self, name: &str) -> Option<*mut FamilyHandle> {
        let handle = self.handles.by_name.remove(name)?.0;
        self.changes.names.remove(&handle);
        Some(handle)
    }

    /// The family of a handle that was taken out is gone.
    pub fn keep_dropped(&mut self, handle: *mut FamilyHandle) {
        let dropped = &mut self.changes.dropped;
        dropped.push_back((Instant::now(), FamilyPointer(handle)));
        while dropped.len() > LEAST_DROPPED {
            let is_many = dropped.len() > MOST_DROPPED;
            let oldest = dropped.pop_front_if(|(since, _)| is_many || since.elapsed() >= KEPT_FOR);
            let Some((_, oldest)) = oldest else { break };
            oldest.free();
        }
    }
}

impl Drop for FamilyHandles {
    fn drop(&mut self) {
        self.by_name.handles().into_iter().for_each(FamilyPointer::free);
        let changes = self.changes.get_mut().unwrap_or_else(PoisonError::into_inner);
        changes.dropped.iter().for_each(|(_, handle)| handle.free());
    }
}

/// A handle of a family that the caller may hold.
#[derive(Clone, Copy)]
struct FamilyPointer(*mut FamilyHandle);

// SAFETY: a handle is shared between threads by the interface, and is `Sync` itself; it is freed
// once, when it is in no place any more where a call finds it.
unsafe impl Send for FamilyPointer {}
// SAFETY: as above.
unsafe impl Sync for FamilyPointer {}

impl FamilyPointer {
    fn free(self) {
        // SAFETY: made by `allocator::boxed`, and freed by the last owner of a copy.
        let handle = unsafe { allocator::unbox(self.0) };
        // A transaction that is freed later must not call the program's comparator for them.
        handle.spellings.iter().for_each(|spellings| spellings.forget_all());
    }
}
