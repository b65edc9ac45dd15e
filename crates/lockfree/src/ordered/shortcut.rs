//! Shortcuts in long chains of versions.
//!
//! A key that is overwritten all the time has a long chain, and a reader at an old snapshot would
//! walk all of it. So one of a few versions has a *shortcut*: links to the next older version with
//! a shortcut and to one that lies much further back. Where the far link leads follows from the two
//! shortcuts behind (the skew-binary rule of Myers' applicative lists): it joins two equally long
//! hops into one, so that any version is reached in about twice the logarithm of the number of
//! shortcuts, and nothing that is linked ever has to change.
//!
//! Links are hints: a reader follows one only when the version that it names is still too new, so
//! nothing that is passed over can be what it looks for, whatever was put between meanwhile.
//!
//! Threads: any. A shortcut is filled before its version is linked and only read from then on.
//!
//! Invariant: a link names an older version of the same chain, with a shortcut.

use super::record::VersionRef;
use crate::arena::Arena;
use crate::sync::{AtomicU32, Ordering};

/// Further behind a shortcut is not looked for. By chance it never lies there, in a long chain.
const FURTHEST: usize = 128;

/// Links from a version over many older ones of its key. Zero in a link: there is none.
#[repr(C, align(8))]
pub(super) struct Shortcut {
    near: AtomicU32,
    far: AtomicU32,
    /// How many shortcuts lie behind.
    depth: AtomicU32,
}

impl Shortcut {
    pub(super) fn new() -> Self {
        Self { near: AtomicU32::new(0), far: AtomicU32::new(0), depth: AtomicU32::new(0) }
    }

    /// Sets the links of a version that is about to be linked in front of `older`.
    #[cold]
    pub(super) fn fill(&self, arena: &Arena, older: VersionRef) {
        let chain = std::iter::successors(Some(older), |version| version.older(arena));
        let mut chain = chain.take(FURTHEST).filter_map(|at| Some((at, at.shortcut(arena)?)));
        let (near, far, depth) = match chain.next() {
            Some((near, behind)) => {
                (near.raw(), behind.far_in_front(arena, near).raw(), behind.depth() + 1)
            }
            None => (0, 0, 0),
        };
        // ORDERING: relaxed; published by the exchange that links the version.
        self.near.store(near, Ordering::Relaxed);
        self.far.store(far, Ordering::Relaxed);
        self.depth.store(depth, Ordering::Relaxed);
    }

    /// Where the far link of the shortcut in front of this one, which is that of `at`, leads.
    fn far_in_front(&self, arena: &Arena, at: VersionRef) -> VersionRef {
        let Some((far, behind)) = self.far_hop(arena) else { return at };
        let (further, last) = match behind.far_hop(arena) {
            Some((further, last)) => (further, last.depth()),
            None => (far, behind.depth()),
        };
        let (hop, next_hop) = (self.depth() - behind.depth(), behind.depth() - last);
        if hop == next_hop { further } else { at }
    }

    fn far_hop<'a>(&self, arena: &'a Arena) -> Option<(VersionRef, &'a Self)> {
        // ORDERING: relaxed; see `past`.
        let far = VersionRef::from_raw(self.far.load(Ordering::Relaxed))?;
        Some((far, far.shortcut(arena)?))
    }

    fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// The oldest version that the links name and that is newer than `snapshot`.
    #[inline]
    pub(super) fn past(&self, arena: &Arena, snapshot: u64) -> Option<VersionRef> {
        // ORDERING: relaxed; a thread that has this version has acquired its link, and with it all
        // that its writer had seen, which includes the versions that the links name.
        [&self.far, &self.near]
            .into_iter()
            .filter_map(|link| VersionRef::from_raw(link.load(Ordering::Relaxed)))
            .find(|version| version.seq(arena) > snapshot)
    }
}
