//! Commit hooks and an event listener that use the database, and panic now and then.
//!
//! A panic is raised without the process's panic hook, so that tests stay quiet; findings are
//! asked for after each operation. What is used is held weakly by hooks and listener: they would
//! keep the database open.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tidesdb::{
    CommitHook, CommittedBatch, CommittedKind, Db, Event, EventListener, Family, ScanOptions,
};

/// Of so many calls one panics.
const PANICS: u64 = 5;

#[derive(Default)]
struct State {
    db: Option<Db>,
    families: Vec<Family>,
    calls: u64,
    findings: Vec<String>,
}

/// The hooks and the listener of one history.
#[derive(Default)]
pub(super) struct Callbacks(Arc<Mutex<State>>);

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn panic_at_times(call: u64) {
    if call.is_multiple_of(PANICS) {
        resume_unwind(Box::new("a panic of the test"));
    }
}

impl Callbacks {
    pub(super) fn listener(&self) -> EventListener {
        let state = Arc::downgrade(&self.0);
        EventListener::new(move |event: &Event| {
            let Some(state) = Weak::upgrade(&state) else { return };
            let (db, families, call) = {
                let mut state = locked(&state);
                state.calls += 1;
                (state.db.clone(), state.families.clone(), state.calls)
            };
            drop((db.map(|db| db.stats()), event.to_string()));
            // One that is gone meanwhile refuses.
            families.iter().for_each(|family| drop(family.get(b"k1")));
            panic_at_times(call);
        })
    }

    fn hook(&self, at: usize) -> CommitHook {
        let state = Arc::downgrade(&self.0);
        Arc::new(move |batch| {
            let Some(state) = Weak::upgrade(&state) else { return };
            let (family, call) = {
                let mut state = locked(&state);
                state.calls += 1;
                (state.families.get(at).cloned(), state.calls)
            };
            if let Some(family) = family {
                let mut findings = look(&family, batch, call);
                locked(&state).findings.append(&mut findings);
            }
            panic_at_times(call);
        })
    }

    /// Has commits to all families of an open database reported, or lets go of the database.
    pub(super) fn watch(&self, db: Option<&Db>) {
        let names = db.map(Db::family_names).unwrap_or_default();
        let families: Vec<_> =
            db.iter().flat_map(|db| names.iter().map(|name| db.family(name).unwrap())).collect();
        for (at, family) in families.iter().enumerate() {
            family.set_commit_hook(Some(self.hook(at)));
        }
        let mut state = locked(&self.0);
        let old = std::mem::replace(&mut state.db, db.cloned());
        let old = (old, std::mem::replace(&mut state.families, families));
        drop(state);
        drop(old);
    }

    /// Fails if a hook has found something.
    pub(super) fn check(&self) {
        let findings = std::mem::take(&mut locked(&self.0).findings);
        assert!(findings.is_empty(), "{findings:?}");
    }
}

/// A commit is visible when its hook is called, and all calls work there.
fn look(family: &Family, batch: &CommittedBatch<'_>, call: u64) -> Vec<String> {
    let mut findings = Vec::new();
    let Some(last) = batch.operations.last() else { return findings };
    let expected = (last.kind == CommittedKind::Put).then_some(last.value);
    let is_range = [CommittedKind::DeleteRange, CommittedKind::DeletePrefix].contains(&last.kind);
    if last.expires_at_unix_seconds == 0 && !(is_range && last.key.is_empty()) {
        let shown = family.get(last.key);
        if !matches!(&shown, Ok(shown) if shown.as_deref() == expected) {
            findings.push(format!("in the hook of {}: {:?} is {shown:?}", family.name(), last.key));
        }
    }
    if call.is_multiple_of(128)
        && let Err(e) = family.flush()
    {
        findings.push(format!("a flush in a hook: {e}"));
    }
    if call.is_multiple_of(8) {
        let scan = family.scan(ScanOptions::new()).and_then(|mut scan| scan.seek_to_first());
        findings.extend(scan.err().map(|e| format!("a scan in a hook: {e}")));
    }
    findings
}
