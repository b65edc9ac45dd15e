//! benchtool: runs the same workloads on several key-value engines and compares them.
//!
//! The command line (`cli`) turns options or a named suite (`suites`) into tests; `orchestrate`
//! runs each engine, test and repetition in a child process of its own (`child`), alternating the
//! order of the engines; `report` prints tables and writes CSV and JSON. What a child does lies in
//! `workload` (threads and operations), `data` (keys, values, what must be there), `measure` (time,
//! memory, bytes), `machine` (limits of memory and processors, free space) and `engines` (ours and
//! the adapters of crate `bench-compare`); `terminal` is what a person sees.
//!
//! Every result of every engine is checked; a wrong, lost or missing one makes its row INVALID and
//! the exit code 1. `docs/benchmarks.md` lists all exit codes.

mod child;
mod cli;
mod data;
mod engines;
mod machine;
mod measure;
mod orchestrate;
mod ours;
mod report;
mod spec;
mod suites;
mod terminal;
mod workload;

use std::process::ExitCode;

#[cfg(not(feature = "system-allocator"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the tool, and the engines in Rust, allocate with.
const ALLOCATED_BY: &str =
    if cfg!(feature = "system-allocator") { "the C library's malloc" } else { "mimalloc" };

fn main() -> ExitCode {
    match cli::main() {
        Ok(code) => code,
        Err(problem) => {
            terminal::warn(format!("benchtool: {problem}"));
            ExitCode::from(2)
        }
    }
}
