//! Compaction: what to compact (`plan`, pure, from what `state` gathers), which versions to drop
//! (`drop_rules`, pure), the order of versions (`merge`), writing those that stay (`rewrite`, also
//! for flushes), doing it in bounded steps (`job`, `steps`) of parallel parts (`step`,
//! `subcompactions`), and making the result known (`install`). `slices` cuts the key space so that
//! garbage can be collected in small steps; `expiry` finds what has expired; `drop_tables`
//! removes tables without reading them; `reclaim` writes single tables anew when the disk is full.

pub(crate) mod drop_rules;
mod drop_tables;
pub(crate) mod expiry;
mod install;
pub(crate) mod job;
mod merge;
pub(crate) mod plan;
mod reclaim;
pub(crate) mod rewrite;
pub(crate) mod slices;
pub(crate) mod state;
mod step;
mod steps;
mod subcompactions;
