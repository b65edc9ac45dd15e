//! The sequence numbers that are held, and how often each is held.
//!
//! A database keeps those of its snapshots, and the rules of serializable transactions those of the
//! live ones. Numbers are taken in ascending order, apart from rare repetitions, and given back in
//! any order, so they lie in a queue: adding is appending, giving back is a binary search that
//! leaves a gap, and gaps are swept out when they are half of the queue. Nothing is allocated while
//! the number of holders stays within what it was before.
//!
//! Plain data: an owner that shares it puts a lock around it.
//!
//! A single holder, which is the usual case, is stored outside the queue and costs next to nothing.
//!
//! Invariants: numbers ascend strictly, and the first one is held. With one holder, the queue is
//! empty or has that one; with none it is empty.

use crate::entry::SequenceNumber;
use std::collections::VecDeque;

/// Gaps that are not worth a sweep.
const FEW_GAPS: usize = 16;

/// Places that are kept without being used.
const FEW_PLACES: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Held {
    sequence: SequenceNumber,
    /// Zero is a gap.
    times: usize,
}

/// A sorted multiset of sequence numbers.
///
/// ```
/// use tidesdb_base::live_sequences::LiveSequences;
/// let mut live = LiveSequences::default();
/// for sequence in [3, 5, 5] {
///     live.add(sequence);
/// }
/// assert!(live.remove(3)); // it was the oldest
/// assert!(!live.remove(5)); // held once more
/// assert_eq!((live.oldest(), live.len()), (Some(5), 1));
/// ```
#[derive(Debug, Default)]
pub struct LiveSequences {
    /// The number of the only holder, when the queue is empty and there is one.
    lone: SequenceNumber,
    queue: VecDeque<Held>,
    gaps: usize,
    len: usize,
}

impl LiveSequences {
    /// Notes a holder of `sequence`.
    #[inline]
    pub fn add(&mut self, sequence: SequenceNumber) {
        self.len += 1;
        if self.len == 1 {
            self.lone = sequence;
        } else {
            self.add_to_others(sequence);
        }
    }

    #[inline(never)]
    fn add_to_others(&mut self, sequence: SequenceNumber) {
        if self.queue.is_empty() {
            self.queue.push_back(Held { sequence: self.lone, times: 1 });
        }
        match self.queue.back_mut() {
            Some(newest) if newest.sequence >= sequence => self.add_inside(sequence),
            _ => self.queue.push_back(Held { sequence, times: 1 }),
        }
    }

    fn add_inside(&mut self, sequence: SequenceNumber) {
        match self.place_of(sequence) {
            Ok(at) => {
                if let Some(held) = self.queue.get_mut(at) {
                    self.gaps -= usize::from(held.times == 0);
                    held.times += 1;
                }
            }
            Err(at) => self.queue.insert(at, Held { sequence, times: 1 }),
        }
    }

    /// Notes that one holder of `sequence` has given it back. True when it was the oldest number
    /// and has no holder any more.
    #[inline]
    pub fn remove(&mut self, sequence: SequenceNumber) -> bool {
        if self.len == 1 && self.queue.is_empty() && self.lone == sequence {
            self.len = 0;
            return true;
        }
        self.remove_among(sequence)
    }

    #[inline(never)]
    fn remove_among(&mut self, sequence: SequenceNumber) -> bool {
        let Ok(at) = self.place_of(sequence) else { return false };
        let Some(held) = self.queue.get_mut(at).filter(|held| held.times > 0) else { return false };
        held.times -= 1;
        self.len -= 1;
        if held.times > 0 {
            return false;
        }
        if at > 0 {
            self.gaps += 1;
            if self.gaps > FEW_GAPS && self.gaps * 2 > self.queue.len() {
                self.sweep();
            }
            return false;
        }
        self.queue.pop_front();
        while self.queue.front().is_some_and(|held| held.times == 0) {
            self.queue.pop_front();
            self.gaps -= 1;
        }
        self.shrink();
        true
    }

    #[cold]
    fn sweep(&mut self) {
        self.queue.retain(|held| held.times > 0);
        self.gaps = 0;
        let ascend = |before: &Held, after: &Held| before.sequence < after.sequence;
        debug_assert!(self.queue.iter().is_sorted_by(|a, b| ascend(a, b)), "out of order");
        self.shrink();
    }

    fn shrink(&mut self) {
        if self.queue.capacity() > FEW_PLACES && self.queue.len() * 4 < self.queue.capacity() {
            self.queue.shrink_to((self.queue.len() * 2).max(FEW_PLACES));
        }
    }

    #[inline]
    fn place_of(&self, sequence: SequenceNumber) -> Result<usize, usize> {
        // Who comes and goes alone is the newest and the oldest.
        match self.queue.back() {
            Some(newest) if newest.sequence == sequence => Ok(self.queue.len() - 1),
            _ => self.queue.binary_search_by_key(&sequence, |held| held.sequence),
        }
    }

    /// True when there is a holder of `sequence`.
    #[must_use]
    pub fn holds(&self, sequence: SequenceNumber) -> bool {
        let held = self.place_of(sequence).ok().and_then(|at| self.queue.get(at));
        self.lone() == Some(sequence) || held.is_some_and(|held| held.times > 0)
    }

    /// The lowest number held.
    #[inline]
    #[must_use]
    pub fn oldest(&self) -> Option<SequenceNumber> {
        self.queue.front().map(|held| held.sequence).or_else(|| self.lone())
    }

    fn lone(&self) -> Option<SequenceNumber> {
        (self.len == 1 && self.queue.is_empty()).then_some(self.lone)
    }

    /// All numbers held, ascending, each once.
    pub fn iter(&self) -> impl Iterator<Item = SequenceNumber> {
        let queued = self.queue.iter().filter(|held| held.times > 0).map(|held| held.sequence);
        self.lone().into_iter().chain(queued)
    }

    /// How many holders there are.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True when no number is held.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_an_ordered_map_of_counts(steps: Vec<(bool, u8)>) {
            let mut model: BTreeMap<u64, usize> = BTreeMap::new();
            let mut live = LiveSequences::default();
            for (adds, number) in steps {
                let number = u64::from(number % 64);
                if adds {
                    *model.entry(number).or_insert(0) += 1;
                    live.add(number);
                } else {
                    let oldest = model.keys().next() == Some(&number);
                    let times = model.get(&number).copied().unwrap_or(0);
                    match times {
                        0 => {}
                        1 => { model.remove(&number); }
                        _ => { model.insert(number, times - 1); }
                    }
                    prop_assert_eq!(live.remove(number), oldest && times == 1);
                }
                prop_assert!(live.iter().eq(model.keys().copied()));
                prop_assert_eq!(live.oldest(), model.keys().next().copied());
                prop_assert!((0..64).all(|n| live.holds(n) == model.contains_key(&n)));
                prop_assert_eq!(live.len(), model.values().sum::<usize>());
            }
        }
    }

    #[test]
    fn a_hundred_thousand_take_little_memory_and_give_it_back() {
        let mut live = LiveSequences::default();
        (0..100_000).for_each(|n| live.add(n));
        assert!(live.queue.capacity() * size_of::<Held>() <= 40 * 100_000);
        // The oldest stays; the gaps behind it must not.
        for n in (1..100_000).rev() {
            assert!(!live.remove(n));
        }
        assert!(live.queue.len() <= 2 * FEW_GAPS, "{} places", live.queue.len());
        assert!(live.queue.capacity() <= 4 * FEW_PLACES, "{}", live.queue.capacity());
        assert!(live.remove(0) && live.is_empty());
    }
}
