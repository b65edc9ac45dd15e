//! Commit hooks and event listeners that use the database, and that panic.
//!
//! A panic is raised without the process's panic hook, so that tests stay quiet.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, Weak};

use tidesdb::{CommitHook, CommittedBatch, CommittedKind, Db, Event, EventListener, Family};

use super::{Runner, locked};
use crate::Verdict;
use crate::operations::{NUMBER_KEY, key_bytes};
use crate::settings::SLOTS;

/// What they use, and what they have found. Hooks hold it weakly: they would keep the database
/// open.
#[derive(Debug, Default)]
pub(super) struct Shared {
    db: Option<Db>,
    families: [Option<Family>; SLOTS],
    /// Reads may fail.
    lenient: bool,
    calls: u64,
    findings: Vec<String>,
}

/// Makes one in so many calls panic.
fn panic_at_times(call: u64) {
    if call.is_multiple_of(5) {
        resume_unwind(Box::new("a panic of the test"));
    }
}

pub(super) fn listener(shared: &Arc<Mutex<Shared>>) -> EventListener {
    let shared = Arc::downgrade(shared);
    EventListener::new(move |event| {
        if let Some(shared) = Weak::upgrade(&shared) {
            listen(&shared, event);
        }
    })
}

fn listen(shared: &Mutex<Shared>, event: &Event) {
    let (db, families, call) = {
        let mut shared = locked(shared);
        shared.calls += 1;
        (shared.db.clone(), shared.families.clone(), shared.calls)
    };
    let text = event.to_string();
    if let Some(db) = db {
        let stats = db.stats();
        drop((stats, text));
        // A read may fail, when calls are made to.
        families.iter().flatten().for_each(|family| drop(family.get(&key_bytes(NUMBER_KEY))));
    }
    panic_at_times(call);
}

fn hook(shared: &Arc<Mutex<Shared>>, slot: usize) -> CommitHook {
    let shared = Arc::downgrade(shared);
    Arc::new(move |batch| {
        if let Some(shared) = Weak::upgrade(&shared) {
            look_at_commit(&shared, slot, batch);
        }
    })
}

/// A commit is visible when its hook is called.
fn look_at_commit(shared: &Mutex<Shared>, slot: usize, batch: &CommittedBatch<'_>) {
    let (family, call, lenient) = {
        let mut shared = locked(shared);
        shared.calls += 1;
        (shared.families[slot].clone(), shared.calls, shared.lenient)
    };
    let Some(family) = family else { return };
    let mut findings = Vec::new();
    if let Some(last) = batch.operations.last() {
        let expected = (last.kind == CommittedKind::Put).then_some(last.value);
        match family.get(last.key) {
            _ if last.expires_at_unix_seconds != 0 => {}
            Ok(shown) if shown.as_deref() == expected => {}
            Err(_) if lenient => {}
            shown => findings.push(format!(
                "in the hook of commit {}, {:?} of {} is {shown:?}",
                batch.sequence,
                last.key,
                family.name()
            )),
        }
    }
    if call.is_multiple_of(16)
        && let Err(e) = family.flush()
        && !lenient
    {
        findings.push(format!("a flush in a hook: {e}"));
    }
    locked(shared).findings.append(&mut findings);
    panic_at_times(call);
}

impl Runner {
    /// Registers hooks on the families that are there now, if the run has any.
    pub(super) fn call_back_from_now_on(&self) {
        if !self.machine.settings.callbacks {
            return;
        }
        let mut shared = locked(&self.callbacks);
        shared.db.clone_from(&self.db);
        shared.families.clone_from(&self.handles);
        shared.lenient = self.machine.faults.is_some();
        drop(shared);
        for (slot, family) in self.handles.iter().enumerate() {
            let Some(family) = family else { continue };
            family.set_commit_hook(Some(hook(&self.callbacks, slot)));
        }
    }

    /// Lets go of the database.
    pub(super) fn stop_calling_back(&self) {
        let mut shared = locked(&self.callbacks);
        let handles = (shared.db.take(), std::mem::take(&mut shared.families));
        drop(shared);
        drop(handles);
    }

    /// What hooks have found.
    pub(super) fn findings_of_hooks(&self) -> Verdict {
        let findings = std::mem::take(&mut locked(&self.callbacks).findings);
        findings.into_iter().next().map_or(Ok(()), Err)
    }
}
