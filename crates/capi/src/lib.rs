//! The C interface of TidesDB: `libtidesdb.so` and `libtidesdb.a`.
//!
//! Programs that were written for TidesDB 9.3 and use its `db.h` or `tidesdb.h` compile against the
//! headers in `include/tidesdb`, link and run unmodified; the crate's README says what is missing.
//! Each exported function checks its arguments, calls the Rust API and turns the outcome into a
//! code; there is no logic of an engine here.
//!
//! | file | what |
//! |---|---|
//! | `types`, `layout` | the structures, with assertions of their layout |
//! | `codes` | return codes |
//! | `boundary` | panics stop here; raw arguments become checked ones |
//! | `allocator` | what is handed out comes from the caller's allocator |
//! | `engine_log` | lines to stderr or `LOG` |
//! | `config`, `ini` | options, their defaults, and their INI form |
//! | `database`, `families`, `transactions`, `savepoints`, `iterators` | the functions of each handle |
//! | `transaction_reads` | gets in a transaction |
//! | `family_handles` | which handles of families were given out, and when they are freed |
//! | `family_work` | flushes and compactions of a family |
//! | `handle_map` | handles by name, which lookups read without a lock |
//! | `hooks`, `comparators` | callbacks in C |
//! | `spellings` | which keys are the same key, in an order of the program's |
//! | `held_spellings` | what a transaction knows of that |
//! | `statistics` | statistics |
//! | `object_store` | the connector to a directory |
//! | `repair` | an opening that finds the manifest destroyed |
//! | `hostile` | readers of files, for fuzzing: with the feature `testing` |
//!
//! Handles are boxes whose pointers the caller holds. As the interface says, a handle may not be
//! used after it was freed; everything else is checked.
#![expect(unsafe_code, reason = "the functions take and give raw pointers")]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one contract, that of a function of the interface, covers all of its raw arguments"
)]
#![allow(unreachable_pub, reason = "what C reaches, Rust does not")]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod allocator;
mod boundary;
mod codes;
mod comparators;
mod config;
mod database;
mod engine_log;
mod families;
mod family_handles;
mod family_work;
mod handle_map;
mod held_spellings;
mod hooks;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod hostile;
mod ini;
mod iterators;
#[cfg(target_pointer_width = "64")]
mod layout;
mod object_store;
mod repair;
mod savepoints;
mod spellings;
mod statistics;
mod transaction_reads;
mod transactions;
mod types;
