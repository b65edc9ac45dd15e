//! What flushes and compactions have in common: versions in order become tables.
//!
//! | file | what |
//! |---|---|
//! | `drop_rules` | which versions are dropped: a pure function |
//! | `rewrite` | takes versions in order and writes those that stay |
//! | `table_output` | the tables, and the value log, that they are written to |
//! | `slices` | at which keys tables end |
//! | `key_partitions` | several threads do that, each a part of the keys |

pub(crate) mod drop_rules;
pub(crate) mod key_partitions;
pub(crate) mod rewrite;
pub(crate) mod slices;
pub(crate) mod table_output;
