//! Compaction: what to compact (`plan`, pure, from what `state` gathers) and the claim of its runs
//! (`schedule`), the order of versions (`merge`), doing it in bounded steps (`job`, `run_job`,
//! `step_bounds`) of parallel parts (`step`, `subcompactions`), and making the result known
//! (`install`). `expiry` finds what has expired; `drop_tables` removes tables without reading them;
//! `reclaim` writes single tables anew when the disk is full. Which versions stay, and how they are
//! written, is in `output`, for flushes too.

mod drop_tables;
pub(crate) mod expiry;
mod install;
mod job;
mod merge;
pub(crate) mod plan;
mod reclaim;
pub(crate) mod run_job;
pub(crate) mod schedule;
pub(crate) mod state;
mod step;
mod step_bounds;
mod subcompactions;
