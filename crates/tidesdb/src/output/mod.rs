//! What flushes and compactions have in common: versions in order become tables.
//!
//! | file | what |
//! |---|---|
//! | `drop_rules` | which versions are dropped: a pure function |
//! | `rewrite` | takes versions in order and writes those that stay |
//! | `parts` | the parts of the database that outputs use |
//! | `table_output` | the tables that they are written to |
//! | `value_log_output` | the value logs that their large values go to |
//! | `written` | the files of an output: synced, then named by an edit or removed |
//! | `slices` | at which keys tables end |
//! | `key_partitions` | several threads do that, each a part of the keys |

pub(crate) mod drop_rules;
pub(crate) mod key_partitions;
pub(crate) mod parts;
pub(crate) mod rewrite;
pub(crate) mod slices;
pub(crate) mod table_output;
mod value_log_output;
pub(crate) mod written;
