//! What power cuts leave of commits to a log that fails.

use super::*;

/// Cuts the power in three ways. Nothing that was refused is there. With a sync in each commit all
/// that was acknowledged is; one that is not durable is there as a whole or not at all, if some are
/// `in_doubt`, and there once the disk has taken a later one.
pub(super) fn check_power_cuts(
    sim: &SimVfs,
    sync_mode: SyncMode,
    outcomes: &[Outcome],
    in_doubt: bool,
    when: &str,
) {
    for profile in [CrashProfile::Nothing, CrashProfile::Random, CrashProfile::Torn] {
        let seed = outcomes.iter().map(|outcome| outcome.acknowledged.len() as u64).sum();
        let db = open_on(sim.crash_image(profile, seed), sync_mode).unwrap();
        let found = families(&db).map(|family| content(&family).into_iter().collect());
        let left = Left { found, when: format!("{when}, {profile:?} with seed {seed}") };
        for outcome in outcomes {
            left.check(outcome, sync_mode == SyncMode::Full, in_doubt);
        }
    }
}

/// The content of both families after a power cut.
struct Left {
    found: [BTreeMap<Vec<u8>, Vec<u8>>; 2],
    when: String,
}

impl Left {
    /// Whether the commit of key `n` is there, in all families that it wrote to or in none.
    fn has(&self, n: u64, into: [bool; 2]) -> bool {
        let found = [0, 1].map(|at| self.found[at].get(n.to_be_bytes().as_slice()));
        let there = found.map(|value| value.is_some());
        let when = &self.when;
        assert!(there == into || there == [false; 2], "{when}: half of key {n}: {there:?}");
        assert!(found.iter().flatten().all(|found| **found == value(n)), "{when}: key {n}");
        there == into
    }

    fn check(&self, outcome: &Outcome, synced: bool, in_doubt: bool) {
        let when = &self.when;
        for &(n, into) in &outcome.acknowledged {
            assert!(self.has(n, into) || !synced, "{when}: key {n} is lost");
        }
        for (n, into, error) in &outcome.refused {
            let there = self.has(*n, *into);
            if error.kind() == ErrorKind::NotDurable {
                assert!(
                    there || in_doubt || !synced,
                    "{when}: key {n} is lost, which had its sync"
                );
            } else {
                assert!(!there, "{when}: key {n} was refused: {error}");
            }
        }
    }
}
