//! What flushes and compactions have in common.
//!
//! `drop_rules` says which versions to drop (pure), and `rewrite` takes versions in order and
//! writes those that stay to tables (`table_output`). `key_partitions` has several threads do that,
//! each a part of the keys; `slices` says at which keys tables end.

pub(crate) mod drop_rules;
pub(crate) mod key_partitions;
pub(crate) mod rewrite;
pub(crate) mod slices;
pub(crate) mod table_output;
