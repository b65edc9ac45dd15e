//! The tests of this crate in one program: what they share is compiled once, and the long ones run
//! beside each other. Programs of their own have those that start and kill processes, and `turns`,
//! which asks the system whether its threads sleep.

#[expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]
mod common_support {
    pub(crate) mod copies;
    pub(crate) mod directory;
    pub(crate) mod golden;
    pub(crate) mod history;
    pub(crate) mod overwrites;
    pub(crate) mod seeds;
    pub(crate) mod small;
}

mod bad_input;
mod checkpoints;
mod clean_openings;
mod commit_checks;
mod compaction_space;
mod compaction_steps;
mod concurrency;
mod crash_images;
mod damage_sweep;
mod error_sweep;
mod expiry;
mod families_gone;
mod family_copies;
mod flow_control;
mod foreign_directories;
mod format_fixtures;
mod full_disk;
mod full_disk_reclaim;
mod growing_value_logs;
mod interleavings;
mod interrupted_compactions;
mod isolation;
mod isolation_model;
mod key_orders;
mod log_failures;
mod metamorphic;
mod opening;
mod single_deletions;
mod slices;
mod small_memory;
mod value_logs;
