//! Where random tests get their seeds and volumes from, and how they say which one failed.
//!
//! Every test calls [`run_all`] or [`from_environment`] and prints its seed through them. The
//! same seed and the same commit give the same run.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidesdb_sim::rng::mix64;

use crate::Verdict;

/// The first seed: `TIDESDB_SEED`, or `default`.
#[must_use]
pub fn from_environment(default: u64) -> u64 {
    number("TIDESDB_SEED").unwrap_or(default)
}

/// The volume of a test as a multiple of what each change runs: `TIDESDB_TEST_SCALE`, or 1.
#[must_use]
pub fn scale() -> u64 {
    number("TIDESDB_TEST_SCALE").unwrap_or(1).max(1)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Calls `run` with one seed after the other until it says that enough was done, and stops at the
/// first finding. `TIDESDB_RUN` picks a single run out.
///
/// # Errors
/// The first finding, a panic included, with how to see it again.
pub fn run_all(name: &str, mut run: impl FnMut(u64) -> Verdict<bool>) -> Verdict {
    let first = from_environment(1);
    println!("{name}: TIDESDB_SEED={first}, scale {}", scale());
    let only = number("TIDESDB_RUN");
    let mut index = only.unwrap_or(0);
    loop {
        let seed = mix64(first.wrapping_mul(1_000_003).wrapping_add(index));
        let verdict = catch_unwind(AssertUnwindSafe(|| run(seed)))
            .unwrap_or_else(|panic| Err(format!("panic: {}", panic_text(panic.as_ref()))));
        let enough = verdict.map_err(|e| {
            format!("{name}: again with TIDESDB_SEED={first} TIDESDB_RUN={index}\n{e}")
        })?;
        if enough || only.is_some() {
            println!("{name}: {} runs", index + 1);
            return Ok(());
        }
        index += 1;
    }
}

/// The message of a caught panic.
#[must_use]
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "without a message".to_owned())
}
