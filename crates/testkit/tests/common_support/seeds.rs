//! Seed and volume of random tests.
//!
//! `TIDESDB_SEED` repeats a run, `TIDESDB_TEST_SCALE` multiplies volumes: 1 (the default) is what
//! every change runs, 10 is a nightly run, 100 and more a soak. Every test that draws random
//! numbers prints its seed first.

use std::time::{SystemTime, UNIX_EPOCH};

/// The seed asked for, or one from the clock, printed either way.
pub(crate) fn seed(test: &str) -> u64 {
    let asked = std::env::var("TIDESDB_SEED").ok().and_then(|text| text.parse().ok());
    let seed = asked.unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_nanos() as u64)
    });
    println!("{test}: TIDESDB_SEED={seed}");
    seed
}

/// `volume` at scale 1, multiplied as asked for; at least 1.
pub(crate) fn scaled(volume: u64) -> u64 {
    let scale = std::env::var("TIDESDB_TEST_SCALE").ok().and_then(|text| text.parse().ok());
    ((volume as f64 * scale.unwrap_or(1.0)) as u64).max(1)
}
