//! The engine at sizes that no test machine holds: the rules by which it plans compactions, cuts
//! them into steps, drops versions, collects what has expired and paces writers, on tables that
//! hold nothing but a sample of their entries.
//!
//! An entry of the sample stands for as many others, of keys that were put alike often and lie
//! nearby. So sizes, garbage, snapshots, expiry and references to value logs follow from what is in
//! the tables, as in the engine. The sample has about a million entries, whatever the size.
//!
//! Time passes in parts of a flush. Writers put at a fixed rate, or as much slower as the engine
//! asks them to be; two threads merge at a fixed rate each, and a step of a compaction has its
//! effect when it ends. Other policies (`policies`) run on the same model for comparison, each of
//! their compactions in one step.
//!
//! Not modelled: memtables that wait for a flush, the processor, compression, range tombstones,
//! damage, several families. Random numbers are seeded, so each run is the same.
//!
//! ```text
//! cargo test --release -p tidesdb --lib simulation -- --ignored --nocapture
//! ```
//!
//! Only the load that `SIMULATED_LOAD` names, if it is set.
//!
//! | file | what |
//! |---|---|
//! | `load` | what writers put |
//! | `policies` | which compactions are begun, and how fast writers may go |
//! | `world`, `threads` | the database in time |
//! | `merging`, `tables`, `value_logs` | what a compaction does to the files |
//! | `estimate` | what is known of garbage |
//! | `report` | what is found |

mod estimate;
mod load;
mod merging;
mod policies;
mod report;
mod tables;
mod threads;
mod value_logs;
mod world;

use self::load::Load;
use self::policies::{Leveled, Policy, Spooky, TidesDb, Universal};
use self::report::Report;
use self::world::World;

const GB: f64 = 1e9;
const READ: TidesDb = TidesDb { is_read: true };

fn simulate(policy: &dyn Policy, load: &Load, gigabytes: f64) -> Report {
    let mut world = World::new(*load, gigabytes * GB, policy);
    world.run(policy);
    let report = world.measures.report();
    println!("{gigabytes:>5} {:<9} {:<9}{report}", load.name, policy.name());
    report
}

#[test]
#[ignore = "takes an hour; docs/design/0004-simulated-scale.md shows it"]
fn table_of_all_sizes() {
    println!("{:>5} {:<9} {:<9}{}", "GB", "load", "policy", Report::HEAD);
    let wanted = std::env::var("SIMULATED_LOAD").ok();
    let is_wanted = |load: &Load| wanted.as_ref().is_none_or(|name| name == load.name);
    for load in Load::all().into_iter().filter(is_wanted) {
        for gigabytes in [1.0, 10.0, 100.0, 1_000.0, 10_000.0] {
            simulate(&READ, &load, gigabytes);
        }
    }
    for load in Load::all().into_iter().filter(is_wanted) {
        let others: [&dyn Policy; 4] =
            [&TidesDb { is_read: false }, &Leveled::default(), &Universal, &Spooky];
        for policy in others {
            simulate(policy, &load, 1_000.0);
        }
    }
}

/// What the measures of a load must stay below at 10 GB.
struct Bounds {
    load: &'static str,
    rewrites: f64,
    runs: usize,
    space: f64,
    slowed: f64,
}

const fn bounds(load: &'static str, rewrites: f64, runs: usize, space: f64, slowed: f64) -> Bounds {
    Bounds { load, rewrites, runs, space, slowed }
}

/// The small form of the table.
#[test]
fn ten_times_the_data_costs_two_more_rewrites() {
    let all = [
        bounds("unique", 2.7, 26, 1.3, 0.09),
        bounds("overwrite", 3.3, 25, 1.5, 0.05),
        bounds("Zipfian", 0.9, 26, 1.4, 0.03),
        bounds("series", 4.1, 27, 1.5, 0.3),
        // A tenth is left at the end.
        bounds("deletes", 3.0, 43, 6.2, 0.15),
        bounds("queue", 0.3, 15, 1.5, 0.01),
        bounds("trickle", 3.2, 13, 1.1, 0.01),
        // The snapshot holds what was there at first.
        bounds("snapshot", 2.4, 26, 2.0, 0.08),
        bounds("values", 1.4, 18, 1.9, 0.01),
        bounds("restarts", 2.7, 26, 1.3, 0.09),
    ];
    for load in Load::all() {
        let bounds = all.iter().find(|bounds| bounds.load == load.name).unwrap();
        let (small, large) = (simulate(&READ, &load, 1.0), simulate(&READ, &load, 10.0));
        assert!(large.rewrites < bounds.rewrites, "{}: {large}", load.name);
        assert!(large.rewrites < small.rewrites + 2.0, "{}: {large}", load.name);
        assert!(large.most_runs <= bounds.runs, "{}: {large}", load.name);
        assert!(large.space < bounds.space, "{}: {large}", load.name);
        assert!(large.slowed < bounds.slowed, "{}: {large}", load.name);
        assert!(large.step < 1.3 * GB, "{}: {large}", load.name);
        assert!(large.memory < large.peak / 1_000.0, "{}: {large}", load.name);
        assert!(large.opening < 2.0, "{}: {large}", load.name);
    }
}

/// A process that lives for some steps only gets its compactions done. They must be more than a
/// few: where runs pile up, small compactions interrupt the steps of a large one, and what these
/// have not ended is lost.
#[test]
fn restarts_keep_the_steps_that_are_done() {
    for load in [Load::UNIQUE, Load::OVERWRITE] {
        let usual = simulate(&READ, &load, 20.0);
        let restarting = Load { restart_seconds: Some(40.0), ..load };
        let restarted = simulate(&READ, &restarting, 20.0);
        assert!(restarted.rewrites < usual.rewrites * 1.5, "{}: {restarted}", load.name);
        assert!(restarted.step < 4.0 * GB, "{}: {restarted}", load.name);
        assert!(restarted.most_runs <= usual.most_runs + 16, "{}: {restarted}", load.name);
    }
}

/// Compactions that share the processors with readers and writers are slow. Those of all runs held
/// so many of them that what was flushed meanwhile reached the bound, and writers stood almost
/// still until the end: for 25 seconds on average over these sizes.
#[test]
fn writers_go_on_while_slow_compactions_hold_many_runs() {
    let sizes = [4.0, 7.0, 10.0, 14.0, 20.0];
    let reports = sizes.map(|gigabytes| simulate(&READ, &Load::SHARED, gigabytes));
    let crawl = reports.iter().map(|report| report.crawl).sum::<f64>() / sizes.len() as f64;
    assert!(crawl < 16.0, "{crawl} seconds");
    assert!(reports.iter().all(|report| report.most_runs <= 25), "{reports:?}");
}

/// Large families are merged by fewer runs, and their writers make room for readers.
#[test]
fn a_large_family_that_is_read_has_few_runs() {
    let report = simulate(&READ, &Load::OVERWRITE, 280.0);
    assert!(report.scan < 12.5 && report.most_runs <= 24, "{report}");
    assert!(report.rewrites < 8.0 && report.space < 1.5, "{report}");
    assert!(report.step < 4.0 * GB, "{report}");
}

/// What is sampled does not decide what is found.
#[test]
fn a_large_load_is_as_a_small_one_while_it_is_small() {
    let whole = simulate(&READ, &Load::UNIQUE, 10.0);
    let beginning = Load { put: 0.1, ..Load::UNIQUE };
    let sampled = simulate(&READ, &beginning, 100.0);
    assert!((whole.rewrites - sampled.rewrites).abs() < 0.3, "{whole} and {sampled}");
    assert!(whole.most_runs.abs_diff(sampled.most_runs) < 4, "{whole} and {sampled}");
}
