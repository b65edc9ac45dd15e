//! What a database shows, against the oracle.

use tidesdb_sys::clock::Clock;

use super::{Runner, locked};
use crate::Verdict;
use crate::inspect;
use crate::operations::key_bytes;
use crate::oracle::{Contents, PrefixBounds, contents_hash};

impl Runner {
    /// Reads all families.
    ///
    /// # Errors
    /// What the engine says.
    pub fn read(&self) -> Verdict<Contents> {
        let families = locked(&self.promises).families;
        let mut contents = Contents::new();
        for (slot, id) in families.iter().enumerate() {
            let (Some(id), Some(family)) = (id, &self.handles[slot]) else { continue };
            contents.insert(*id, inspect::read_forwards(family, None)?);
        }
        Ok(contents)
    }

    /// Compares everything with the oracle.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self) -> Verdict {
        let _quiet = self.machine.faults.as_ref().map(|faults| faults.suspend());
        let found = self.read()?;
        let expected =
            self.history.contents(&self.live(), u64::MAX, self.machine.clock.unix_seconds());
        if found != expected {
            let differences = self.history.differences(&expected, &found);
            return Err(format!("the database differs from the oracle: {differences}"));
        }
        Ok(())
    }

    /// Finds out which prefix of the history the database shows.
    ///
    /// # Errors
    /// When it shows none within the bounds.
    pub fn find_prefix(&self, lower: u64, upper: u64) -> Verdict<(u64, Contents)> {
        let found = self.read()?;
        let (live, now) = (self.live(), self.machine.clock.unix_seconds());
        let hash = contents_hash(&found);
        let find = |lower, upper| {
            self.history.find_prefix(&live, hash, PrefixBounds { lower, upper, now })
        };
        if let Some(number) = find(lower, upper) {
            return Ok((number, found));
        }
        if let Some(number) = find(0, u64::MAX) {
            return Err(format!("recovered transactions 1..={number}, allowed {lower}..={upper}"));
        }
        let lowest = self.history.contents(&live, lower, now);
        let highest = self.history.contents(&live, upper, now);
        Err(format!(
            "no prefix of the history; against {lower}: {}\nagainst {upper}: {}",
            self.history.differences(&lowest, &found),
            self.history.differences(&highest, &found)
        ))
    }

    /// Compares what each snapshot shows with what it showed when it was taken.
    pub(super) fn check_snapshots(&mut self) -> Verdict {
        let _quiet = self.machine.faults.as_ref().map(|faults| faults.suspend());
        let families = locked(&self.promises).families;
        for held in &self.snapshots {
            let context = |e| format!("a snapshot at {}: {e}", held.number);
            for (slot, id) in families.iter().enumerate() {
                let (Some(id), Some(family)) = (id, &self.handles[slot]) else { continue };
                let found = inspect::read_forwards(family, Some(&held.snapshot));
                let found = Contents::from([(*id, found.map_err(context)?)]);
                let expected = self.history.contents(&[*id], held.number, held.now);
                if found != expected {
                    let differences = self.history.differences(&expected, &found);
                    return Err(context(format!("changed: {differences}")));
                }
                let keys = self.machine.settings.keys;
                let keys = [(); 4].map(|()| key_bytes(1 + self.random.below(keys)));
                inspect::check_at(family, &held.snapshot, &expected[id], &keys).map_err(context)?;
            }
        }
        Ok(())
    }

    /// Compares everything with the oracle, in every way of reading.
    pub(super) fn check_in_any_way(&mut self) -> Verdict {
        self.check()?;
        let faults = self.machine.faults.clone();
        let _quiet = faults.as_ref().map(|faults| faults.suspend());
        let contents = self.read()?;
        self.check_all_ways(&contents)
    }

    /// Reads everything in every way.
    ///
    /// # Errors
    /// What differs.
    pub fn check_all_ways(&mut self, contents: &Contents) -> Verdict {
        let families = locked(&self.promises).families;
        for (slot, id) in families.iter().enumerate() {
            let (Some(id), Some(family)) = (id, &self.handles[slot]) else { continue };
            let Some(content) = contents.get(id) else { continue };
            inspect::check_backwards(family, None, content)?;
            inspect::check_entries(family, content, self.machine.settings.keys, &mut self.random)?;
            inspect::check_gets(family, content, self.machine.settings.keys, &mut self.random)?;
        }
        Ok(())
    }
}
