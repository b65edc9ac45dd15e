//! The write path. `ARCHITECTURE.md` numbers its steps, and `commit` takes them in that order:
//!
//! | step | file | what |
//! |---|---|---|
//! | | `batch`, `batch_contents`, `options` | what callers ask for |
//! | 1 | `admission` | writers are slowed down |
//! | | `memory_review` | memory that is nearly used up: memtables are flushed early |
//! | | `largest_memtables` | which of them, and one look at a time |
//! | | `shared_buffer` | memtables that together hold more than they may are written out |
//! | | `full_disk` | puts do not use up a nearly full disk |
//! | | `first_commit` | the log is begun, where the opening has not |
//! | 2 | `prepared` | a batch from its admission to its publication |
//! | | `direct_values` | the largest values go to a value log |
//! | 3, 4, 6 | `place` | the place in the log: taken, written, published |
//! | 5 | `apply` | the operations go into memtables |
//! | | `batch_counts` | what is counted for each family |
//! | 7 | `durability` | syncs |
//! | 8 | `follow_up`, `freeze` | hooks, and memtables that are full |
//! | | `retained_log` | log that families keep which are rarely written |

mod admission;
mod apply;
pub(crate) mod batch;
mod batch_contents;
mod batch_counts;
mod commit;
mod direct_values;
mod durability;
mod first_commit;
mod follow_up;
mod freeze;
mod full_disk;
mod largest_memtables;
mod memory_review;
mod options;
mod place;
mod prepared;
mod retained_log;
mod shared_buffer;

pub use self::batch::WriteBatch;
pub use self::options::WriteOptions;
pub(crate) use self::place::Visible;
pub(crate) use self::prepared::Prepared;
