//! What is written and asked for: keys, orders, distributions, values and what is expected back.
//!
//! Everything here is a pure function of a seed, so that a check never needs a copy of the data:
//! `keys` maps record numbers to key bytes and back, `order`, `draw` and `zipf` choose record
//! numbers, `values` makes the bytes of a record's n-th generation, `expect` knows which records
//! must be visible and in which generation.

pub(crate) mod draw;
pub(crate) mod expect;
pub(crate) mod keys;
pub(crate) mod order;
pub(crate) mod random;
pub(crate) mod values;
pub(crate) mod zipf;
