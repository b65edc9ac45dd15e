//! Merging tables: what to merge (`plan`, pure), which versions to drop (`drop_rules`, pure), and
//! doing it (`job`, with `merge` for the order of versions).

pub(crate) mod drop_rules;
pub(crate) mod job;
mod merge;
pub(crate) mod plan;
