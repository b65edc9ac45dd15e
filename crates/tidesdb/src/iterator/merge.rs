//! Merges sources by key.
//!
//! The sources stand in a binary heap ordered by key, then by age, so that of equal keys the
//! newest source comes first and shadows the others. The first eight bytes of each key are kept
//! beside the heap; most comparisons end there. When the root's next key is still the smallest,
//! one or two comparisons settle it, so a source that owns the next run of keys goes through at
//! nearly its own speed, and a single source pays nothing.

use std::cmp::Ordering;

use tidesdb_base::codec::key_head;
use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::{Error, Result};

use super::heap::NumberHeap;
use super::source::Source;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

/// Walks the merged keys of its sources, which are given newest first.
#[derive(Debug)]
pub(super) struct Merge {
    sources: Vec<Source>,
    /// First eight bytes of each source's key.
    heads: Vec<u64>,
    /// Numbers of the valid sources, as a heap.
    heap: Vec<usize>,
    direction: Direction,
    /// A key to come back to.
    key: Vec<u8>,
}

impl NumberHeap for Merge {
    #[inline]
    fn numbers(&self) -> &[usize] {
        &self.heap
    }

    #[inline]
    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
    }

    /// By key, then by age; both sources are valid.
    #[inline]
    fn before(&self, a: usize, b: usize) -> bool {
        let by_key = match self.heads[a].cmp(&self.heads[b]) {
            Ordering::Equal => self.sources[a].key().cmp(self.sources[b].key()),
            unequal => unequal,
        };
        let by_key = match self.direction {
            Direction::Forward => by_key,
            Direction::Backward => by_key.reverse(),
        };
        by_key.then(a.cmp(&b)) == Ordering::Less
    }
}

impl Merge {
    pub(super) fn new(sources: Vec<Source>) -> Self {
        let heads = vec![0; sources.len()];
        let heap = Vec::with_capacity(sources.len());
        Self { sources, heads, heap, direction: Direction::Forward, key: Vec::new() }
    }

    /// The source that stands on the present key.
    #[inline]
    pub(super) fn current(&self) -> Option<&Source> {
        self.heap.first().and_then(|&at| self.sources.get(at))
    }

    fn same_key(&self, a: usize, b: usize) -> bool {
        self.heads[a] == self.heads[b] && self.sources[a].key() == self.sources[b].key()
    }

    fn rebuild(&mut self, direction: Direction) {
        self.direction = direction;
        self.heap.clear();
        for (at, source) in self.sources.iter().enumerate() {
            if source.valid() {
                self.heads[at] = key_head(source.key());
                self.heap.push(at);
            }
        }
        self.make_heap();
    }

    /// Shows what was committed up to a later sequence number, from the next seek on.
    pub(super) fn show_through(&mut self, snapshot: SequenceNumber) {
        self.heap.clear();
        self.sources.iter_mut().for_each(|source| source.show_through(snapshot));
    }

    fn position_all(
        &mut self,
        direction: Direction,
        position: impl Fn(&mut Source) -> Result<()>,
    ) -> Result<()> {
        self.heap.clear();
        for source in &mut self.sources {
            position(source)?;
        }
        self.rebuild(direction);
        Ok(())
    }

    pub(super) fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.position_all(Direction::Forward, |source| source.seek(key))
    }

    pub(super) fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.position_all(Direction::Backward, |source| source.seek_for_prev(key))
    }

    /// Goes to the last key before this one.
    pub(super) fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.position_all(Direction::Backward, |source| source.seek_before(key))
    }

    /// From a key that the committed sources stand on, forwards over all their keys before `key`;
    /// own writes are not passed.
    pub(super) fn pass_committed(&mut self, key: &[u8]) -> Result<()> {
        self.position_all(Direction::Forward, |source| match source.is_own() {
            true => Ok(()),
            false => source.seek(key),
        })
    }

    /// As [`Merge::pass_committed`], backwards over all keys from `key` on.
    pub(super) fn pass_committed_back(&mut self, key: &[u8]) -> Result<()> {
        self.position_all(Direction::Backward, |source| match source.is_own() {
            true => Ok(()),
            false => source.seek_before(key),
        })
    }

    pub(super) fn seek_to_first(&mut self) -> Result<()> {
        self.position_all(Direction::Forward, Source::seek_to_first)
    }

    pub(super) fn seek_to_last(&mut self) -> Result<()> {
        self.position_all(Direction::Backward, Source::seek_to_last)
    }

    // Always inlined, as far as one source goes: a call would take a tenth of a step.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<()> {
        match *self.heap.as_slice() {
            [only] if self.direction == Direction::Forward => {
                self.note_key();
                self.step_alone(only, Source::next)?;
                self.check_moved(Ordering::Greater)
            }
            _ => self.next_of_many(),
        }
    }

    #[inline(never)]
    fn next_of_many(&mut self) -> Result<()> {
        if self.direction == Direction::Backward {
            self.turn(Direction::Forward)?;
        }
        self.note_key();
        self.advance(Source::next)?;
        self.check_moved(Ordering::Greater)
    }

    /// Remembers the present key for [`Merge::check_moved`], which only debug builds use.
    #[inline]
    fn note_key(&mut self) {
        if cfg!(debug_assertions)
            && let Some(&current) = self.heap.first()
        {
            self.key.clear();
            self.key.extend_from_slice(self.sources[current].key());
        }
    }

    /// Whether the present key lies on that side of the one before. Debug builds look: a release
    /// would compare two keys for each step, and returns the rows of a table as they lie there.
    ///
    /// # Errors
    /// [`Error::Corruption`] of a table whose bytes are what their checksums say, and out of order.
    #[inline]
    fn check_moved(&self, to: Ordering) -> Result<()> {
        if !cfg!(debug_assertions) {
            return Ok(());
        }
        let Some(current) = self.current().filter(|now| now.key().cmp(&self.key) != to) else {
            return Ok(());
        };
        let (key, before) = (current.key(), &self.key);
        let path = current.table_path();
        debug_assert!(path.is_some(), "a memtable goes from {before:02x?} to {key:02x?}");
        let detail = format!("expected keys in order, found {key:02x?} next to {before:02x?}");
        Err(Error::corruption(path.unwrap_or_default(), 0, detail))
    }

    #[inline]
    pub(super) fn prev(&mut self) -> Result<()> {
        if self.direction == Direction::Forward {
            self.turn(Direction::Backward)?;
        }
        self.note_key();
        self.advance(Source::prev)?;
        self.check_moved(Ordering::Less)
    }

    /// Moves the only source that is left one step on.
    #[inline(always)]
    fn step_alone(&mut self, only: usize, step: impl Fn(&mut Source) -> Result<()>) -> Result<()> {
        // Nothing to compare with until the next seek, which takes all heads anew.
        let source = &mut self.sources[only];
        let stepped = step(source);
        if stepped.is_err() || !source.valid() {
            self.heap.clear();
        }
        stepped
    }

    /// Moves every source that stands on the present key one step on.
    #[inline]
    fn advance(&mut self, step: impl Fn(&mut Source) -> Result<()>) -> Result<()> {
        if let &[only] = self.heap.as_slice() {
            return self.step_alone(only, step);
        }
        // Shadowed versions first: once the root has moved, its key is gone.
        while let Some(child) = self.smaller_child(0) {
            if !self.same_key(self.heap[0], self.heap[child]) {
                break;
            }
            self.step(child, &step)?;
        }
        if self.heap.is_empty() { Ok(()) } else { self.step(0, &step) }
    }

    /// Steps the source at place `at` of the heap and restores the heap.
    #[inline]
    fn step(&mut self, at: usize, step: impl Fn(&mut Source) -> Result<()>) -> Result<()> {
        let number = self.heap[at];
        let source = &mut self.sources[number];
        if let Err(e) = step(source) {
            // What lies behind the failure is unknown: no entry may be returned any more.
            self.heap.clear();
            return Err(e);
        }
        if source.valid() {
            self.heads[number] = key_head(source.key());
        } else {
            self.heap.swap_remove(at);
        }
        self.sift_down(at);
        Ok(())
    }

    /// Puts every source on its first key behind (or in front of) the present one, keeping the
    /// one that stands on it.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let Some(&current) = self.heap.first() else { return Ok(()) };
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(self.sources[current].key());
        let turned = self.turn_sources(current, &key, direction);
        self.key = key;
        if turned.is_err() {
            self.heap.clear();
            return turned;
        }
        self.rebuild(direction);
        Ok(())
    }

    fn turn_sources(&mut self, current: usize, key: &[u8], direction: Direction) -> Result<()> {
        for (at, source) in self.sources.iter_mut().enumerate() {
            if at == current {
                continue;
            }
            // A source on the same key is older than the current one: it goes past the key.
            match direction {
                Direction::Forward => {
                    source.seek(key)?;
                    if source.valid() && source.key() == key {
                        source.next()?;
                    }
                }
                Direction::Backward => source.seek_before(key)?,
            }
        }
        Ok(())
    }
}
