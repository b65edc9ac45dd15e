//! Several threads of which one runs at a time, from one named place to the next.
//!
//! Each thread is a *party*. At a sync point (`tidesdb_sys::sync_points`) it stops, and goes on
//! when it is its turn again. [`Stepper::conduct`] gives the turns, in an order that a seed
//! decides. A party that waits for another one, for a lock say, does not come to its next step;
//! then others go on, and it stops at the step that it comes to once it has what it waited for.
//! Whether a thread waits is asked of the operating system, so a busy machine changes nothing.
//!
//! The same seed gives the same turns as long as no thread waits. After a wait two threads may run
//! side by side up to their next steps, so that a run may differ from the last one.
#![expect(clippy::disallowed_methods, reason = "asks the system whether threads sleep")]

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidesdb_sys::sync::lock;
use tidesdb_sys::sync_points::on_sync_points;

use crate::rng::SplitMix64;

/// How long a party may take to its next step before it is asked for whether it waits.
const GLANCE: Duration = Duration::from_micros(100);

/// A thread that sleeps at so many glances in a row waits for something: a lock that is held for a
/// moment only makes it sleep for less.
const WAITING_GLANCES: u32 = 3;

/// A thread that has been awake for so long without a step waits without sleeping.
const LONGEST_STRETCH: Duration = Duration::from_millis(500);

/// When all wait for so long, each waits for another.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// One in so many turns a party is set aside, for this many turns at most.
const SET_ASIDE: u64 = 20;
const MOST_ASIDE: u64 = 100;

/// Turns that are remembered.
const TURNS: usize = 200;

/// What a party is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// It has not come to its first step.
    Expected,
    /// It is on its way to the next step.
    Running,
    /// It waits for another party.
    Waiting,
    /// It has come to a step.
    Stopped(&'static str),
    /// It is over.
    Ended,
}

struct Party {
    doing: Doing,
    /// Its number in the operating system.
    thread: u32,
    /// Glances in a row at which it slept.
    asleep: u32,
    since: Instant,
}

struct State {
    parties: Vec<Party>,
    random: SplitMix64,
    /// One in so many turns goes to another party than the last one.
    stretch: u64,
    last: usize,
    /// A party that gets no turn for a while, and for how many turns: what goes wrong when a whole
    /// flush comes in between two steps is met by that.
    aside: (usize, u64),
    /// The last turns: the party, and the place that it went on from.
    turns: Vec<(usize, &'static str)>,
}

/// Gives the threads that take part their turns.
pub struct Stepper {
    state: Mutex<State>,
    changed: Condvar,
    /// Parties that have something to say and may sleep until they get the lock for it: they wait
    /// for no other party.
    speaking: Vec<AtomicBool>,
}

/// Ends a party, also when it panics.
struct Ending<'a>(&'a Stepper, usize);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        on_sync_points(None);
        drop(self.0.speak(self.1, Doing::Ended));
    }
}

impl Stepper {
    /// For so many parties, in an order of turns that is drawn from `seed`.
    #[must_use]
    pub fn new(parties: usize, seed: u64) -> Arc<Self> {
        let mut random = SplitMix64::new(seed);
        let party =
            || Party { doing: Doing::Expected, thread: 0, asleep: 0, since: Instant::now() };
        let speaking = (0..parties).map(|_| AtomicBool::new(false)).collect();
        let parties = std::iter::repeat_with(party).take(parties).collect();
        // Some bugs need many changes of the turn, others few in the right places.
        let stretch = 1 + random.below(12);
        let state = State { parties, random, stretch, last: 0, aside: (0, 0), turns: Vec::new() };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), speaking })
    }

    /// Does `work` as one of the parties, on the calling thread. Returns when it is done, which
    /// takes a thread that conducts.
    pub fn take_part<R>(self: &Arc<Self>, party: usize, work: impl FnOnce() -> R) -> R {
        let stepper = Arc::clone(self);
        on_sync_points(Some(std::rc::Rc::new(move |place| stepper.stop(party, place))));
        let _ending = Ending(self, party);
        lock(&self.state).parties[party].thread = this_thread();
        self.stop(party, "begin");
        work()
    }

    /// Gives turns to the parties, once all are there, until all have ended.
    ///
    /// # Panics
    /// When all wait for each other.
    pub fn conduct(&self) {
        let mut state = lock(&self.state);
        let mut idle_since = Instant::now();
        loop {
            state = self.until_none_runs(state);
            if state.parties.iter().all(|party| party.doing == Doing::Ended) {
                return;
            }
            if let Some((party, place)) = state.draw() {
                state.go_on(party, place);
                self.changed.notify_all();
                idle_since = Instant::now();
                continue;
            }
            assert!(idle_since.elapsed() < LONGEST_WAIT, "all wait for each other: {state:?}");
            state = self.glance(state);
        }
    }

    /// The last turns, oldest first.
    #[must_use]
    pub fn turns(&self) -> Vec<(usize, &'static str)> {
        lock(&self.state).turns.clone()
    }

    /// The state, for a party that says what it does.
    fn speak(&self, party: usize, doing: Doing) -> MutexGuard<'_, State> {
        // ORDERING: SeqCst, though any would do: only a look by chance in the wrong moment matters.
        self.speaking[party].store(true, Ordering::SeqCst);
        let mut state = lock(&self.state);
        self.speaking[party].store(false, Ordering::SeqCst);
        state.parties[party].doing = doing;
        self.changed.notify_all();
        state
    }

    /// A party has come to a step, and waits for its turn.
    fn stop(&self, party: usize, place: &'static str) {
        let mut state = self.speak(party, Doing::Stopped(place));
        while matches!(state.parties[party].doing, Doing::Stopped(_)) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until each party has come to a step, waits, or has ended.
    fn until_none_runs<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        // Those that waited may have got what they waited for.
        for party in state.parties.iter_mut().filter(|party| party.doing == Doing::Waiting) {
            (party.doing, party.asleep, party.since) = (Doing::Running, 0, Instant::now());
        }
        let runs = |party: &Party| matches!(party.doing, Doing::Expected | Doing::Running);
        while state.parties.iter().any(runs) {
            state = self.glance(state);
        }
        state
    }

    /// Waits for a moment, and looks whether those that run wait.
    fn glance<'s>(&'s self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let waited = self.changed.wait_timeout(state, GLANCE);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            let parties = state.parties.iter_mut().zip(&self.speaking);
            for (party, speaking) in parties.filter(|(party, _)| party.doing == Doing::Running) {
                // ORDERING: see `speak`.
                let waits = !speaking.load(Ordering::SeqCst) && sleeps(party.thread);
                party.asleep = if waits { party.asleep + 1 } else { 0 };
                let stretches = party.since.elapsed() > LONGEST_STRETCH;
                if party.asleep >= WAITING_GLANCES || stretches {
                    party.doing = Doing::Waiting;
                }
            }
        }
        state
    }
}

impl State {
    /// The party whose turn it is, and where it has stopped.
    fn draw(&mut self) -> Option<(usize, &'static str)> {
        let (aside, left) = self.aside;
        let mut stopped: Vec<_> = self
            .parties
            .iter()
            .enumerate()
            .filter_map(|(at, party)| match party.doing {
                Doing::Stopped(place) => Some((at, place)),
                _ => None,
            })
            .collect();
        if left > 0 && stopped.len() > 1 {
            stopped.retain(|(at, _)| *at != aside);
            self.aside.1 -= 1;
        } else if self.random.chance(1, SET_ASIDE) {
            self.aside = (self.random.index(self.parties.len()), self.random.below(MOST_ASIDE));
        }
        let same = stopped.iter().find(|(at, _)| *at == self.last);
        match same {
            Some(same) if self.random.below(self.stretch) > 0 => Some(*same),
            _ if stopped.is_empty() => None,
            _ => Some(stopped[self.random.index(stopped.len())]),
        }
    }

    fn go_on(&mut self, party: usize, place: &'static str) {
        if self.turns.len() == TURNS {
            self.turns.remove(0);
        }
        self.turns.push((party, place));
        self.last = party;
        let party = &mut self.parties[party];
        (party.doing, party.asleep, party.since) = (Doing::Running, 0, Instant::now());
    }
}

/// The number of the calling thread in the operating system.
fn this_thread() -> u32 {
    let link = fs::read_link("/proc/thread-self").unwrap_or_default();
    let name = link.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or_default()
}

/// Whether a thread of this process sleeps.
fn sleeps(thread: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    // The name in front, in parentheses, may have any character.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['S', 'D']))
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doing: Vec<_> = self.parties.iter().map(|party| party.doing).collect();
        f.debug_struct("State").field("doing", &doing).field("turns", &self.turns).finish()
    }
}

impl fmt::Debug for Stepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stepper").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use tidesdb_sys::sync_points::sync_point;

    use super::*;

    fn run(seed: u64, work: impl Fn(usize) + Sync) -> Vec<(usize, &'static str)> {
        let stepper = Stepper::new(3, seed);
        thread::scope(|scope| {
            for party in 0..3 {
                let (stepper, work) = (&stepper, &work);
                scope.spawn(move || stepper.take_part(party, || work(party)));
            }
            stepper.conduct();
        });
        stepper.turns()
    }

    /// A counter that is read, and written a step later.
    fn lost(seed: u64) -> (u64, Vec<(usize, &'static str)>) {
        let counter = AtomicU64::new(0);
        let turns = run(seed, |_| {
            for _ in 0..5 {
                let seen = counter.load(Ordering::SeqCst);
                sync_point("read");
                counter.store(seen + 1, Ordering::SeqCst);
                sync_point("written");
            }
        });
        (15 - counter.into_inner(), turns)
    }

    /// On a busy machine a party may be taken for one that waits, so not all runs are repeated.
    #[test]
    fn one_party_runs_at_a_time_in_an_order_that_the_seed_decides() {
        let first: Vec<_> = (0..20).map(lost).collect();
        assert!(first.iter().any(|(lost, _)| *lost > 0));
        assert!(first.iter().all(|(_, turns)| turns.len() == 33));
        let repeated = (0..20).zip(&first).filter(|(seed, first)| lost(*seed) == **first).count();
        assert!(repeated >= 10, "{repeated} of 20 runs were repeated");
        let others = first.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(others >= 10, "the seed decides nothing");
    }

    /// A party that has the lock stops, and the others have to wait for it.
    #[test]
    fn parties_that_wait_let_others_go_on() {
        let counter = Mutex::new(0);
        for seed in 0..10 {
            run(seed, |_| {
                for _ in 0..3 {
                    let mut held = lock(&counter);
                    sync_point("held");
                    *held += 1;
                    drop(held);
                    sync_point("free");
                }
            });
        }
        assert_eq!(counter.into_inner().unwrap(), 90);
    }
}
