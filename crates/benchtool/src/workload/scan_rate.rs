//! How fast what a test left behind can be scanned.
//!
//! Apart from the check of the same rows, whose own cost would blur the difference between engines,
//! and for long enough that a moment of noise does not decide: a million rows take a quarter of a
//! second.

use bench_compare::engine::{Direction, Engine, ScanRequest, Session, SessionMode};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Passes are begun for so long, and so many of them: a small set needs no more.
const LONG_ENOUGH: Duration = Duration::from_millis(500);
const MOST_PASSES: u32 = 10;
/// A pass is broken off after so long.
const TOO_LONG: Duration = Duration::from_secs(5);
/// Rows between two looks at the clock.
const ROWS_PER_LOOK: u64 = 4096;

/// Rows a second of scans over all families, forward, with key and value of each row looked at.
///
/// # Errors
/// The engine's.
pub(crate) fn scan_rate(engine: &dyn Engine, families: u32) -> Result<f64, String> {
    let mut session = engine.session(SessionMode::ReadOnly).map_err(|error| error.to_string())?;
    let start = Instant::now();
    let mut rows = 0;
    for _ in 0..MOST_PASSES {
        for family in 0..families {
            session.use_family(family).map_err(|error| error.to_string())?;
            scan_family(session.as_mut(), start, &mut rows)?;
        }
        if start.elapsed() >= LONG_ENOUGH {
            break;
        }
    }
    Ok(rows as f64 / start.elapsed().as_secs_f64().max(1e-9))
}

fn scan_family(session: &mut dyn Session, start: Instant, rows: &mut u64) -> Result<(), String> {
    let request = ScanRequest { start: None, direction: Direction::Forward };
    let scanned = session.scan(request, &mut |key, value| {
        black_box((key.first(), value.first()));
        *rows += 1;
        !rows.is_multiple_of(ROWS_PER_LOOK) || start.elapsed() < TOO_LONG
    });
    scanned.map_err(|error| error.to_string())
}
