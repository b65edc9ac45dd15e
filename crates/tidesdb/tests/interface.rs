//! Tests through the interface in one program: what they share is compiled once. Programs of their
//! own have those that count or bound what the process takes, and those that start processes.

mod basics;
mod compaction;
mod dead_keys;
mod habits;
mod key_orders;
mod large_values;
mod long_work;
mod options_file;
mod range_delete;
mod scans;
mod shortcuts;
mod statistics;
mod transactions;
