//! What flushes and compactions have in common: tables written part by part, by several threads.

pub(crate) mod key_partitions;
pub(crate) mod table_output;
