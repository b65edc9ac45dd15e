//! Transactions through the public interface, on a real directory.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;
mod hooks;
mod itself;
mod levels;
mod misuse;
mod own_writes;
mod range_deletions;
mod threads;
