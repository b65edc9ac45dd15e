//! Salvages of damaged databases.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and helpers count as production code to the lint"
)]

mod killed;
mod laid_out;
mod leftovers;
mod log;
mod random;
mod support;
mod verified;
