//! What is chosen while other threads claim runs, and what a look for a compaction costs.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};
use tidesdb_sys::sync_points::on_sync_points;

use super::*;
use crate::db::{Components, Db};
use crate::testing::with_runs;

fn open() -> (Db, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(1_000));
    let components = Components {
        vfs: SimVfs::new(1),
        scheduler: Arc::new(ManualScheduler::new(1)),
        clock: Arc::clone(&clock) as _,
    };
    (Db::open_with("/db", DbOptions::default(), components).unwrap(), clock)
}

/// Runs `act` with a hook that is called while a compaction is chosen.
fn while_choosing<R>(hook: impl Fn() + 'static, act: impl FnOnce() -> R) -> R {
    on_sync_points(Some(Rc::new(move |place| {
        if place == "compaction chosen" {
            hook();
        }
    })));
    let result = act();
    on_sync_points(None);
    result
}

/// All who began, ended or looked at a compaction of the family waited for a look at its tables.
#[test]
fn no_lock_is_held_while_a_compaction_is_chosen() {
    let (db, _clock) = open();
    let family = with_runs(&db, 8);
    let (core, state) = (db.core(), family.state());
    let looks = Rc::new(RefCell::new(0));
    let hook = {
        let (looks, state) = (Rc::clone(&looks), Arc::clone(state));
        move || {
            *looks.borrow_mut() += 1;
            assert!(!state.compactions.is_locked());
        }
    };
    let claimed = while_choosing(hook, || {
        assert!(core.next_compaction(state, Activity::RESTING, 0).bytes.is_some());
        core.claim_next(state, Activity::RESTING, u64::MAX).unwrap()
    });
    assert_eq!(*looks.borrow(), 2);
    assert_eq!(claimed.map(|claimed| claimed.planned.plan.count), Some(8));
}

#[test]
fn runs_that_are_claimed_while_a_compaction_is_chosen_are_left_to_their_claim() {
    let (db, _clock) = open();
    let family = with_runs(&db, 8);
    let (core, state) = (db.core(), family.state());
    let other = Rc::new(RefCell::new(None));
    let hook = {
        let (other, state) = (Rc::clone(&other), Arc::clone(state));
        move || {
            let newest = state.current_version().runs[0].place();
            let claim = |_| state.compactions.lock().claim(&state, vec![newest], true);
            let claims = other.borrow().is_none().then_some(()).map(claim);
            if claims.is_some() {
                *other.borrow_mut() = claims;
            }
        }
    };
    let claimed =
        while_choosing(hook, || core.claim_next(state, Activity::RESTING, u64::MAX).unwrap());
    assert!(claimed.is_none() && other.borrow().is_some());
    *other.borrow_mut() = None;
    let claimed = core.claim_next(state, Activity::RESTING, u64::MAX).unwrap();
    assert_eq!(claimed.map(|claimed| claimed.planned.plan.count), Some(8));
}

/// With a lock that flushes wait for it comes to an end.
#[test]
fn a_compaction_is_chosen_however_often_the_version_changes() {
    let (db, _clock) = open();
    let family = with_runs(&db, 8);
    let (core, state) = (db.core(), Arc::clone(family.state()));
    let choices = Rc::new(RefCell::new(0));
    let hook = {
        let (choices, family, db) = (Rc::clone(&choices), family.clone(), db.clone());
        let is_flushing = RefCell::new(());
        move || {
            // The put may have to wait, and run the look that the last flush has queued.
            let Ok(_one_at_a_time) = is_flushing.try_borrow_mut() else { return };
            *choices.borrow_mut() += 1;
            if *choices.borrow() < 100 && !family.state().compactions.is_locked() {
                family.put(b"key", b"more").unwrap();
                db.core().freeze(family.state(), 0);
                assert!(db.core().flush_oldest(family.state()).unwrap());
            }
        }
    };
    let claimed =
        while_choosing(hook, || core.claim_next(&state, Activity::RESTING, u64::MAX).unwrap());
    assert!(claimed.is_some());
    assert_eq!(*choices.borrow(), MOST_UNLOCKED_TRIES + 1);
}

/// They were ordered by key again for each question of each look.
#[test]
fn looks_at_a_family_with_values_that_expire_order_its_tables_once() {
    let (db, clock) = open();
    let options = FamilyOptions::default().min_disk_space(0);
    let family = db.create_family("family", options).unwrap();
    for n in 0..800_u64 {
        let seconds = if n < 110 { 100 } else { 100_000 };
        family.put_with_ttl(n.to_be_bytes(), [7; 100], Duration::from_secs(seconds)).unwrap();
    }
    family.flush().unwrap();
    clock.advance(Duration::from_secs(200));
    let (core, state) = (db.core(), family.state());
    let made = || state.compactions.expiry.made();
    let before = made();
    for _ in 0..5 {
        core.schedule_compaction(state);
    }
    assert!(state.current_version().runs[0].totals.counts.first_expiry <= Some(1_200));
    assert_eq!(made() - before, 1);
}
