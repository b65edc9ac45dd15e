//! Runs the real `tidesdb` binary: what it prints, what it stores, how it fails, and what is left
//! when it is interrupted or killed.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and helpers count as production code to the lint"
)]

mod commands;
mod copies;
mod doctor;
mod errors;
mod generated;
mod interruption;
mod load;
mod options_files;
mod round_trip;
mod salvage;
mod shell;
mod support;
