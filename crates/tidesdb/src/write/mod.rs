//! The write path, in call order: a batch is built (`batch`, `batch_contents`), admitted
//! (`admission`), its largest values go to a value log (`direct_values`), its record to the log and
//! its operations to the memtables (`commit`), and a memtable that is full is frozen (`freeze`).
//! Transactions have changes looked for before it is written (`check`).
//! `disk_space` keeps puts from using up a nearly full disk, `first_commit` starts the log that an
//! opening did not.

mod admission;
pub(crate) mod batch;
mod batch_contents;
mod check;
mod commit;
mod direct_values;
mod disk_space;
mod first_commit;
mod freeze;
mod options;

pub use self::batch::WriteBatch;
pub(crate) use self::check::{CommitCheck, Unchecked};
pub(crate) use self::commit::Visible;
pub use self::options::WriteOptions;
