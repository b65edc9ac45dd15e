//! The options of single tests, with the names that people know from other tools as aliases.
//!
//! Everything is optional: what is not given comes from the preset of the workload's name, or from
//! the defaults of [`Shape`] and [`Setup`]. Sizes take the suffixes K, M and G (powers of 1024),
//! counts K and M (powers of 1000).

mod doing;
mod machine;
mod setup;
mod shape;

use clap::Args;

use super::numbers::parse_count;
use crate::orchestrate::Test;
use crate::spec::{PageCache, Settle, Verify, Workload};

pub(super) use self::machine::MachineOptions;
pub(super) use self::setup::SetupOptions;
pub(super) use self::shape::ShapeOptions;

/// How long, how fast, and from which state.
#[derive(Debug, Default, Args)]
pub(super) struct PaceOptions {
    /// Time limit of the measured phase [default: none for writes, 10 for the rest]
    #[arg(long, alias = "duration", alias = "maxexecutiontime")]
    seconds: Option<f64>,
    /// Operations per second of all threads together
    #[arg(long, alias = "target", alias = "benchmark-write-rate-limit")]
    rate: Option<f64>,
    /// With --rate: measure from when an operation was due
    #[arg(long, requires = "rate")]
    open_loop: bool,
    /// Seconds at the beginning that are not measured
    #[arg(long, default_value_t = 0.0)]
    warmup_sec: f64,
    /// Operations per thread at the beginning that are not measured
    #[arg(long, value_parser = parse_count, default_value = "0")]
    warmup_ops: u64,
    /// Touch the whole data set before measuring reads
    #[arg(long)]
    warm: bool,
    /// State before the next phase [default: idle]
    #[arg(long, value_enum)]
    settle: Option<Settle>,
    /// The page cache when reads begin [default: keep]
    #[arg(long, value_enum)]
    page_cache: Option<PageCache>,
    /// Count what the device under the database reads and writes, for all processes: syncs the file
    /// system before and after, and means something only on a machine that does nothing else
    #[arg(long)]
    device_counters: bool,
    /// How results are checked [default: full]
    #[arg(long, value_enum)]
    verify: Option<Verify>,
}

/// Overwrites a field where an option was given.
fn give<T>(field: &mut T, option: Option<T>) {
    if let Some(value) = option {
        *field = value;
    }
}

/// The test that a set of options describes.
pub(super) fn test(
    shape_options: &ShapeOptions,
    pace: &PaceOptions,
    setup: &SetupOptions,
    name: Option<&String>,
) -> Result<Test, String> {
    let mut shape = shape_options.shape()?;
    let bounded = shape.operations.is_some()
        || matches!(
            shape.workload,
            Workload::Write
                | Workload::WriteThenRead
                | Workload::Delete
                | Workload::DeleteRange
                | Workload::Ttl
                | Workload::Replay
        );
    shape.seconds = pace.seconds.or((!bounded).then_some(10.0));
    shape.pace.rate = pace.rate;
    shape.pace.open_loop = pace.open_loop;
    shape.pace.warmup_seconds = pace.warmup_sec;
    shape.pace.warmup_operations = pace.warmup_ops;
    shape.warm = pace.warm;
    give(&mut shape.settle, pace.settle);
    give(&mut shape.page_cache, pace.page_cache);
    shape.device_counters = pace.device_counters;
    give(&mut shape.verify, pace.verify);
    if shape.seconds.is_some_and(|seconds| seconds.is_nan() || seconds <= 0.0) {
        return Err("--seconds must be positive".to_owned());
    }
    let name = name.cloned().unwrap_or_else(|| shape_options.name(&shape));
    Ok(Test { name, shape, setup: setup.setup(), repeat: 1, allocator: None })
}
