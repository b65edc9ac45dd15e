//! How many runs a family may have before its writers make room for compactions.
//!
//! Each run costs a reader. Compactions keep runs few, and where they fall behind, writers are
//! slowed between two numbers of runs. `pace` says by how much.

/// Bounds as multiples of `l1_file_count_trigger`, for a family that is not read: its runs cost
/// no reader yet. A large load has compactions that each take many runs away at once; the wide way
/// between the bounds keeps its writers from going fast and slow by turns.
const SLOWING_PER_TRIGGER: f64 = 8.0;
const SLOWEST_PER_TRIGGER: f64 = 24.0;

/// The same for a family that is read, by the bytes of its runs: each run costs its readers, and
/// the more the less of it lies in memory. Between two sizes the bounds go from one to the other.
const READ_PER_TRIGGER: [(u64, f64, f64); 4] =
    [(256 << 20, 8.0, 16.0), (1 << 30, 3.0, 6.0), (32 << 30, 3.0, 6.0), (256 << 30, 1.5, 4.0)];

/// Numbers of runs between which writers are slowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunBounds {
    pub slowing: u64,
    pub slowest: u64,
}

impl RunBounds {
    /// Those of a family whose runs have `run_bytes`. In a small family the compactions that keep
    /// runs few are soon done. In a large one they take long, and writers that nothing slows go on
    /// until readers have three times as many runs to look into.
    pub(crate) fn of(run_bytes: u64, favours_readers: bool, trigger: u64) -> Self {
        let mut bounds = (SLOWING_PER_TRIGGER, SLOWEST_PER_TRIGGER);
        if favours_readers {
            let [(_, slowing, slowest), ..] = READ_PER_TRIGGER;
            bounds = (slowing, slowest);
            for pair in READ_PER_TRIGGER.windows(2) {
                let [(small, slowing, slowest), (large, next_slowing, next_slowest)] = *pair else {
                    continue;
                };
                if run_bytes > small {
                    let doublings = |bytes: u64| (bytes as f64 / small as f64).log2();
                    let way = (doublings(run_bytes) / doublings(large)).min(1.0);
                    let between = |from: f64, to: f64| from + (to - from) * way;
                    bounds = (between(slowing, next_slowing), between(slowest, next_slowest));
                }
            }
        }
        let of_trigger = |runs: f64| (runs * trigger as f64) as u64;
        Self { slowing: of_trigger(bounds.0), slowest: of_trigger(bounds.1) }
    }

    /// These bounds for a family that had `runs` before its bounds became so low: what is there
    /// already slows no writer, only what comes on top.
    pub(crate) fn on_top_of(self, runs: u64) -> Self {
        let more = runs.saturating_sub(self.slowing);
        Self { slowing: self.slowing + more, slowest: self.slowest + more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_family_that_is_read_has_its_writers_slowed_by_fewer_runs() {
        let bounds = |gib: u64, favours_readers| {
            let bounds = RunBounds::of(gib << 30, favours_readers, 4);
            (bounds.slowing, bounds.slowest)
        };
        assert_eq!(bounds(0, true), (32, 64));
        assert_eq!(bounds(1, true), (12, 24));
        assert_eq!([2, 10, 32].map(|gib| bounds(gib, true)), [(12, 24); 3]);
        assert_eq!(bounds(64, true), (10, 21));
        assert_eq!(bounds(256, true), (6, 16));
        assert_eq!(bounds(10_000, true), (6, 16));
        assert_eq!([0, 10_000].map(|gib| bounds(gib, false)), [(32, 96); 2]);
    }
}
