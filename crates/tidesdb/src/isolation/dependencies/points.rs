//! Keys that serializable transactions have read, with a limit each.

use std::collections::HashMap;

use super::{ENTRY_BYTES, FEW_ENTRIES};

/// Keys that were read.
#[derive(Debug, Default)]
pub(super) struct Points {
    /// Limits of keys, each behind its family's number.
    pub limits: HashMap<Box<[u8]>, u64>,
    /// About what they take.
    pub bytes: usize,
    /// Number of keys after the last sweep.
    kept: usize,
    scratch: Vec<u8>,
}

impl Points {
    /// The limit of a key, zero if it was not read. `scratch` is for the key as the table has it.
    pub(super) fn limit(&self, family: u32, key: &[u8], scratch: &mut Vec<u8>) -> u64 {
        set_point(scratch, family, key);
        self.limits.get(scratch.as_slice()).copied().unwrap_or(0)
    }

    /// One of the keys `written`, which are sorted, with a limit of at least `first`.
    pub(super) fn any_of<'a>(
        &self,
        first: u64,
        written: &[(u32, &'a [u8])],
    ) -> Option<(u32, &'a [u8])> {
        let concerned = self.limits.iter().filter(|(_, limit)| first <= **limit);
        concerned.into_iter().find_map(|(point, _)| {
            let (family, key) = point.split_first_chunk()?;
            let at = written.binary_search(&(u32::from_be_bytes(*family), key)).ok()?;
            written.get(at).copied()
        })
    }

    /// Raises the limit of a key to at least `limit`.
    pub(super) fn raise(&mut self, family: u32, key: &[u8], limit: u64) {
        set_point(&mut self.scratch, family, key);
        match self.limits.get_mut(self.scratch.as_slice()) {
            Some(known) => *known = limit.max(*known),
            None => {
                self.bytes += self.scratch.len() + ENTRY_BYTES;
                self.limits.insert(self.scratch.as_slice().into(), limit);
            }
        }
    }

    /// The table has doubled since the last sweep, or takes more than `most_bytes`.
    pub(super) fn wants_sweep(&self, most_bytes: usize) -> bool {
        self.limits.len() > 2 * self.kept + FEW_ENTRIES || self.bytes > most_bytes
    }

    /// Forgets limits up to `oldest`.
    pub(super) fn sweep(&mut self, oldest: u64) {
        self.limits.retain(|_, limit| *limit > oldest);
        self.count();
    }

    /// Forgets the lower half of the limits, and returns the number that stands for them: those who
    /// began lately are not concerned.
    #[cold]
    pub(super) fn halve(&mut self) -> u64 {
        let mut limits: Vec<u64> = self.limits.values().copied().collect();
        let middle = limits.len() / 2;
        let (_, &mut median, _) = limits.select_nth_unstable(middle);
        self.limits.retain(|_, limit| *limit > median);
        self.limits.shrink_to_fit();
        self.count();
        median
    }

    /// Forgets all keys, and keeps a little memory.
    pub(super) fn clear(&mut self) {
        self.limits.clear();
        self.limits.shrink_to(FEW_ENTRIES);
        (self.bytes, self.kept) = (0, 0);
    }

    fn count(&mut self) {
        self.kept = self.limits.len();
        self.bytes = self.limits.keys().map(|key| key.len() + ENTRY_BYTES).sum();
    }
}

fn set_point(point: &mut Vec<u8>, family: u32, key: &[u8]) {
    point.clear();
    point.extend_from_slice(&family.to_be_bytes());
    point.extend_from_slice(key);
}
