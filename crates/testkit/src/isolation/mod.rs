//! Evidence for isolation levels: histories of transactions, and a judge that names what is wrong.
//!
//! | module | what |
//! |---|---|
//! | `store` | what a transactional store must offer to be tried: two small traits |
//! | `model` | a store in memory that is right, or wrong in one chosen way |
//! | `engine_store` | the engine behind those traits |
//! | `history` | what was seen and done, with real-time intervals |
//! | `recorder` | transactions that write their history while they run |
//! | `checker` | finds forbidden phenomena and names the smallest cycle |
//! | `program` | programs of three transactions of four steps; the named anomalies |
//! | `interleave` | runs a program in any of its 34,650 orders, in one thread |
//! | `threads` | eight threads on few hot keys |
//! | `invariants` | sums, counters and bounds that hold at every moment |
//! | `evidence` | the searches that model and engine have to pass |
//!
//! A history says which version each read saw, because every written value carries a number of
//! its own. The checker never asks the store how it came to its results.
pub mod checker;
pub mod engine_store;
pub mod evidence;
pub mod history;
pub mod interleave;
pub mod invariants;
pub mod model;
pub mod program;
pub mod recorder;
pub mod store;
pub mod threads;
