//! How long operations took.

use std::fmt::{Display, Formatter, Result};

use tidesdb_base::latency::{LatencyHistogram, TimedOperation};

use super::display::Nanos;
use crate::core::Core;

/// How long operations took since the open, or the last [`crate::Db::reset_latencies`].
///
/// Flushes, compactions, syncs and openings are all in it. Of gets, commits, seeks and steps those
/// are that were timed, see `DbOptions::latency_sampling`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyStats([LatencyHistogram; TimedOperation::ALL.len()]);

impl Core {
    /// The times of an operation since the last reset.
    fn latencies(&self, operation: TimedOperation) -> LatencyHistogram {
        match operation {
            TimedOperation::Sync => self.storage.log.counters.sync_times.histogram(),
            other => self.telemetry.latencies.histogram(other),
        }
    }

    /// Clears all histograms.
    pub(crate) fn reset_latencies(&self) {
        self.telemetry.latencies.reset();
        self.storage.log.counters.sync_times.reset();
    }
}

impl LatencyStats {
    pub(crate) fn of(core: &Core) -> Self {
        Self(TimedOperation::ALL.map(|operation| core.latencies(operation)))
    }

    /// The times of one kind of operation.
    #[must_use]
    pub const fn of_operation(&self, operation: TimedOperation) -> &LatencyHistogram {
        // Operations are numbered as they are listed.
        &self.0[operation as usize]
    }

    /// All kinds with their times.
    pub fn iter(&self) -> impl Iterator<Item = (TimedOperation, &LatencyHistogram)> {
        TimedOperation::ALL.into_iter().zip(&self.0)
    }

    /// Adds all times of another database, or of the same one from before a reset.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(to, from)| to.merge(from));
    }
}

impl Display for LatencyStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let heads = ["operation", "times", "mean", "p50", "p95", "p99", "p99.9", "max"];
        let [name, rest @ ..] = heads;
        write!(f, "{name:<9}")?;
        for head in rest {
            write!(f, " {head:>10}")?;
        }
        writeln!(f)?;
        for (operation, times) in self.iter().filter(|(_, times)| times.count() > 0) {
            write!(f, "{:<9} {:>10} {:>10}", operation.name(), times.count(), mean(times))?;
            for per_cent in [50.0, 95.0, 99.0, 99.9] {
                write!(f, " {:>10}", Nanos(times.percentile(per_cent)).to_string())?;
            }
            writeln!(f, " {:>10}", Nanos(times.max_nanos()).to_string())?;
        }
        Ok(())
    }
}

fn mean(times: &LatencyHistogram) -> String {
    Nanos(times.mean_nanos()).to_string()
}
