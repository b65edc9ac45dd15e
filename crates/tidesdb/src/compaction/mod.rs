//! Compaction: several sorted runs become one. In the order in which a compaction meets them:
//!
//! | file | what |
//! |---|---|
//! | `state`, `expiry` | what is known of the runs, and what of them has expired |
//! | `plan` | what to compact next, if anything: a pure function |
//! | `schedule` | the plan of a family, and the claim of its runs |
//! | `run_job`, `job` | a compaction is made and performed; what its threads share |
//! | `step_bounds`, `subcompactions` | it is cut into steps, and these into parts for free threads |
//! | `step`, `merge` | a part: the versions of all inputs in order, written to tables |
//! | `install` | one manifest edit, and the view with the new tables |
//!
//! Two ways to free space do without a merge: `drop_tables` removes tables without reading them,
//! and `reclaim` writes single tables anew when the disk is full. `leave_out` ends the compaction
//! of a range: newer runs are freed of what was merged. `table_rewrite` writes one table anew, for
//! both. Which versions stay, and how they are written, is in `output`, for flushes too.

mod drop_tables;
pub(crate) mod expiry;
mod install;
mod job;
mod leave_out;
mod merge;
pub(crate) mod plan;
pub(crate) mod reclaim;
pub(crate) mod run_job;
pub(crate) mod schedule;
pub(crate) mod state;
mod step;
mod step_bounds;
mod subcompactions;
mod table_rewrite;
