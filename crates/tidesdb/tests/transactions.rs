//! Transactions through the public interface, on a real directory.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "transactions/common.rs"]
mod common;
#[path = "transactions/hooks.rs"]
mod hooks;
#[path = "transactions/itself.rs"]
mod itself;
#[path = "transactions/levels.rs"]
mod levels;
#[path = "transactions/misuse.rs"]
mod misuse;
#[path = "transactions/own_writes.rs"]
mod own_writes;
#[path = "transactions/threads.rs"]
mod threads;
