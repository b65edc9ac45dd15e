//! Families that come, go, get other names and options, and are copied.

use tidesdb::{Compression, Db, Error, ErrorKind, Family};

use super::{Runner, family_name, locked};
use crate::Verdict;
use crate::settings::{Mix, SLOTS, Settings};

impl Runner {
    /// Learns which families are there, where that was undecided.
    pub(super) fn take_handles(&mut self) -> Verdict {
        let Some(db) = self.db.clone() else { return Ok(()) };
        // What a full disk shows may be in the kernel's cache only.
        let faults = self.machine.faults.as_ref();
        let decides = !faults.is_some_and(|faults| faults.disk_is_full());
        let there = |slot| db.family(&family_name(slot)).ok();
        let mut promises = locked(&self.promises);
        // Both slots or neither: what has got another name has lost the old one.
        if let Some((from, to)) = promises.moving.take() {
            let moved = there(from).is_none() && there(to).is_some();
            if moved {
                promises.families[to] = promises.families[from].take();
            }
            if !decides {
                promises.moving = Some(if moved { (to, from) } else { (from, to) });
            }
        }
        for slot in 0..SLOTS {
            let family = there(slot);
            let known = promises.families[slot];
            let mut undecided = promises.undecided[slot];
            if family.is_some() != known.is_some() {
                match promises.undecided[slot] {
                    Some(other) if other.is_some() == family.is_some() => {
                        promises.families[slot] = other;
                        undecided = Some(known);
                        self.returning.extend(known);
                    }
                    _ => {
                        return Err(format!(
                            "family {slot} is {}, promised: {known:?}",
                            if family.is_some() { "there" } else { "missing" }
                        ));
                    }
                }
            }
            promises.undecided[slot] = undecided.filter(|_| !decides);
            if let (Some(id), Some(family)) = (promises.families[slot], &family) {
                promises.check_options(id, family)?;
                if decides {
                    promises.options.insert(id, vec![family.options()]);
                }
            }
            self.handles[slot] = family;
        }
        drop(promises);
        self.call_back_from_now_on();
        Ok(())
    }

    /// Takes the handle of a slot after its family has come, gone or moved.
    fn take_handle(&mut self, db: &Db, slot: usize) -> Verdict {
        self.handles[slot] = db.family(&family_name(slot)).ok();
        self.call_back_from_now_on();
        let promises = locked(&self.promises);
        match (promises.families[slot], &self.handles[slot]) {
            (Some(id), Some(family)) => promises.check_options(id, family),
            _ => Ok(()),
        }
    }

    /// Whether the families of slots can be changed: no earlier change of theirs is undecided.
    fn are_decided(&self, slots: [usize; 2]) -> bool {
        let promises = locked(&self.promises);
        promises.moving.is_none() && slots.iter().all(|slot| promises.undecided[*slot].is_none())
    }

    /// Whether a family with something in it may be in a slot, or not. A family that is created
    /// there beside it would leave two outcomes with different contents, of which only one can be
    /// promised.
    fn has_undecided_contents(&self, slot: usize) -> bool {
        let undecided = locked(&self.promises).undecided[slot].flatten();
        undecided.is_some_and(|family| self.returning.contains(&family))
    }

    pub(super) fn create_or_drop(&mut self, db: &Db, slot: usize) -> Verdict {
        let name = family_name(slot);
        if locked(&self.promises).moving.is_some() || self.has_undecided_contents(slot) {
            return Ok(());
        }
        let before = locked(&self.promises).families[slot];
        let after = match before {
            Some(_) => None,
            None => {
                self.next_family += 1;
                Some(self.next_family)
            }
        };
        let options = self.machine.settings.families[slot].clone();
        {
            let mut promises = locked(&self.promises);
            promises.undecided[slot] = Some(after);
            if let Some(id) = after {
                promises.options.insert(id, vec![options.clone()]);
            }
        }
        let result = match after {
            None => db.drop_family(&name),
            Some(_) => db.create_family(&name, options).map(drop),
        };
        let worked = result.is_ok();
        self.excuse("create or drop a family", result)?;
        let there = db.family(&name).is_ok();
        if there != if worked { after.is_some() } else { before.is_some() } {
            return Err(format!("family {slot} is there: {there}, the call worked: {worked}"));
        }
        if worked {
            let mut promises = locked(&self.promises);
            promises.families[slot] = after;
            promises.undecided[slot] = None;
        }
        self.take_handle(db, slot)
    }

    /// Gives the family of one slot the name of another, if there is one and the name is free.
    pub(super) fn rename(&mut self, db: &Db, from: usize, to: usize) -> Verdict {
        let families = locked(&self.promises).families;
        if families[from].is_none() || families[to].is_some() || !self.are_decided([from, to]) {
            return Ok(());
        }
        locked(&self.promises).moving = Some((from, to));
        let result = db.rename_family(&family_name(from), &family_name(to));
        let worked = result.is_ok();
        self.excuse("rename a family", result)?;
        let there = [from, to].map(|slot| db.family(&family_name(slot)).is_ok());
        if there != [!worked, worked] {
            return Err(format!("families {from} and {to}: {there:?}, the call worked: {worked}"));
        }
        if worked {
            let mut promises = locked(&self.promises);
            promises.families[to] = promises.families[from].take();
            promises.moving = None;
            drop(promises);
            // The old handle is one of the same family.
            self.handles[to] = self.handles[from].take();
            let name = self.handles[to].as_ref().map(Family::name);
            if name.as_deref() != Some(family_name(to).as_str()) {
                return Err(format!("a renamed family goes by {name:?}"));
            }
            self.call_back_from_now_on();
        }
        Ok(())
    }

    /// Makes a copy of one slot's family in another slot, in place of what was there.
    pub(super) fn copy_family(&mut self, db: &Db, from: usize, to: usize) -> Verdict {
        if from == to || !self.are_decided([from, to]) {
            return Ok(());
        }
        if self.handles[to].is_some() {
            self.create_or_drop(db, to)?;
        }
        let Some(source) = locked(&self.promises).families[from] else { return Ok(()) };
        if self.handles[to].is_some() || !self.are_decided([from, to]) {
            return Ok(());
        }
        self.next_family += 1;
        let id = self.next_family;
        self.history.copy_family(source, id);
        self.returning.push(id);
        {
            let mut promises = locked(&self.promises);
            promises.undecided[to] = Some(Some(id));
            let options = promises.options.get(&source).cloned().unwrap_or_default();
            promises.options.insert(id, options);
        }
        let result = db.clone_family(&family_name(from), &family_name(to)).map(drop);
        let worked = result.is_ok();
        self.excuse("copy a family", result)?;
        let there = db.family(&family_name(to)).is_ok();
        if there != worked {
            return Err(format!("the copy in {to} is there: {there}, the call worked: {worked}"));
        }
        if worked {
            let mut promises = locked(&self.promises);
            promises.families[to] = Some(id);
            promises.undecided[to] = None;
        }
        self.take_handle(db, to)
    }

    /// Gives a family other options: the files that it has keep their form.
    pub(super) fn change_options(&mut self, slot: usize) -> Verdict {
        let Some(family) = self.handles[slot].clone() else { return Ok(()) };
        let Some(id) = locked(&self.promises).families[slot] else { return Ok(()) };
        let before = family.options();
        let mut options = before.clone();
        if self.machine.settings.mix == Mix::Everything {
            let write_buffer_size = options.write_buffer_size;
            let key_order = options.key_order;
            options = Settings::family(&mut self.random)
                .write_buffer_size(write_buffer_size)
                .key_order(key_order);
        }
        let compression = [Compression::None, Compression::Lz4][self.random.index(2)];
        let options = options.use_btree(self.random.chance(1, 2)).compression(compression);
        locked(&self.promises).options.entry(id).or_default().push(options.clone());
        let result = family.set_options(options.clone());
        let failed = result.as_ref().err().map(Error::kind);
        self.excuse("change options", result)?;
        if family.options() != *if failed.is_none() { &options } else { &before } {
            return Err(format!("options of family {slot} after the call: {failed:?}"));
        }
        let mut promises = locked(&self.promises);
        let wanted = promises.options.entry(id).or_default();
        match failed {
            None => *wanted = vec![options],
            Some(ErrorKind::ChangeUncertain) => {}
            // Nothing has changed.
            Some(_) => drop(wanted.pop()),
        }
        Ok(())
    }
}
