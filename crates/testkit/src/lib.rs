//! The judge of the engine: an oracle that can say *wrong*, and harnesses that make things fail.
//!
//! | module | what |
//! |---|---|
//! | `values` | values that describe themselves, so that foreign and mixed ones are told apart |
//! | `oracle` | the history of transactions, and which prefix of it a database shows |
//! | `settings` | small random options, so that a few hundred operations cross every boundary |
//! | `operations` | the generator of random operations |
//! | `watch` | a scheduler that notices hangs |
//! | `planned_commit` | batches and transactions in turn |
//! | `runner` | applies operations to a database and to the oracle |
//! | `inspect` | reads a whole database and compares it with the oracle |
//! | `crash` | crash images of the simulated disk, and their verification |
//! | `faults` | the error sweep |
//! | `isolation` | histories of transactions, and the judge of isolation levels |
//! | `seeds` | seeds and volumes, from the environment |
//!
//! Environment: `TIDESDB_SEED` (first seed), `TIDESDB_RUN` (only that run of a test),
//! `TIDESDB_TEST_SCALE` (volume, 1 by default; 100 for an hour's soak).
//!
//! Nothing here panics on purpose: a finding is an `Err` with everything needed to see it again.
#![forbid(unsafe_code)]

pub mod crash;
pub mod faults;
pub mod inspect;
pub mod isolation;
pub mod operations;
pub mod oracle;
mod planned_commit;
pub mod runner;
pub mod seeds;
pub mod settings;
pub mod values;
pub mod watch;

/// What a check says: nothing, or what is wrong.
pub type Verdict<T = ()> = Result<T, String>;
