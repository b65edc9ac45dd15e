//! Merging tables: what to merge (`plan`, pure, from what `state` gathers), which versions to drop
//! (`drop_rules`, pure), the order of versions (`merge`), writing those that stay (`rewrite`, also
//! for flushes), doing it in parallel parts (`job`), and making the result known (`install`).
//! `slices` cuts the key space so that garbage can be collected in small steps; `range_deletes` removes
//! whole tables.

pub(crate) mod drop_rules;
mod install;
pub(crate) mod job;
mod merge;
mod parts;
pub(crate) mod plan;
mod range_deletes;
pub(crate) mod rewrite;
pub(crate) mod slices;
pub(crate) mod state;
