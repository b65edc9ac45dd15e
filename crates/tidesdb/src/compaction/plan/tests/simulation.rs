//! The planner at sizes that no test machine holds: the rules by which the engine plans merges,
//! cuts them into steps and paces writers, on tables that are nothing but ranges and counts of
//! keys.
//!
//! Time passes in parts of a flush. Writers put at a fixed rate, or as much slower as the engine
//! asks them to be; two threads merge at a fixed rate each, and a step of a merge has its effect
//! when it ends. The process may begin anew every so often, which loses the steps under way. Keys
//! are spread evenly, and over classes of which each takes a share of the puts, so that how many
//! keys two tables have in common follows from their sizes. Other policies (`policies`) run on the
//! same model for comparison, each of their merges in one step.
//!
//! What is not modelled: value logs, snapshots, range tombstones, expiry, pauses. Nothing is left
//! to chance, so there is no seed.
//!
//! ```text
//! cargo test --release -p tidesdb --lib simulation -- --ignored --nocapture
//! ```

mod merging;
mod policies;
mod tables;
mod world;

use self::policies::{Leveled, Policy, Spooky, TidesDb};
use self::world::{Load, Report, World};

const GB: f64 = 1e9;

/// The process begins anew this often where it does, in seconds.
const RESTARTS: f64 = 600.0;

/// The loads of the table.
fn loads() -> Vec<Load> {
    vec![
        Load::unique("unique"),
        Load::overwrite("overwrite", &[(1.0, 1.0)]),
        // Of Zipfian keys a fiftieth takes two thirds of the puts, and half of them a tenth.
        Load::overwrite("skewed", &[(0.02, 0.65), (0.48, 0.25), (0.5, 0.1)]),
    ]
}

fn simulate(policy: &dyn Policy, load: &Load, bytes: f64, restarts: Option<f64>) -> Report {
    let mut world = World::new(load.clone(), bytes, restarts);
    world.run(policy);
    world.report()
}

fn show(policy: &dyn Policy, load: &Load, bytes: f64, restarts: Option<f64>) -> Report {
    let report = simulate(policy, load, bytes, restarts);
    let name = if restarts.is_some() { "restarted" } else { policy.name() };
    println!("{:>4} GB  {:<9} {:<9} {report}", bytes / GB, load.name, name);
    report
}

#[test]
#[ignore = "takes a minute; docs/design/0001-merges-at-scale.md shows it"]
fn table_of_all_sizes() {
    println!("{:>7}  {:<9} {:<9} {}", "data", "load", "policy", Report::HEAD);
    for load in loads() {
        for size in [1.0, 10.0, 100.0, 1_000.0] {
            let read = TidesDb { is_read: true };
            let policies: [&dyn Policy; 4] =
                [&read, &TidesDb { is_read: false }, &Leveled, &Spooky];
            for policy in policies {
                show(policy, &load, size * GB, None);
            }
            show(&read, &load, size * GB, Some(RESTARTS));
        }
    }
}

/// The small form of the table: a bound for each figure.
#[test]
fn ten_times_the_data_costs_one_more_rewrite() {
    for load in loads() {
        for (size, most_rewrites, most_runs, most_space) in
            [(1.0, 1.9, 13, 2.0), (10.0, 3.2, 24, 1.5)]
        {
            let report = show(&TidesDb { is_read: true }, &load, size * GB, None);
            assert!(report.rewrites < most_rewrites, "{}: {report}", load.name);
            assert!(report.most_runs <= most_runs, "{}: {report}", load.name);
            assert!(report.most_space < most_space, "{}: {report}", load.name);
            assert!(report.largest_step < 1.0 * GB, "{}: {report}", load.name);
        }
    }
}

/// A process that lives for some steps only gets its merges done.
#[test]
fn restarts_keep_the_steps_that_are_done() {
    for load in loads() {
        let usual = show(&TidesDb { is_read: true }, &load, 20.0 * GB, None);
        let restarted = show(&TidesDb { is_read: true }, &load, 20.0 * GB, Some(20.0));
        assert!(restarted.rewrites < usual.rewrites * 1.5, "{}: {restarted}", load.name);
        assert!(restarted.largest_step < 4.0 * GB, "{}: {restarted}", load.name);
        assert!(restarted.most_runs <= usual.most_runs + 16, "{}: {restarted}", load.name);
    }
}

/// Large families are merged by fewer runs, and their writers make room for readers.
#[test]
fn a_large_family_that_is_read_has_few_runs() {
    let load = Load::overwrite("overwrite", &[(1.0, 1.0)]);
    let report = show(&TidesDb { is_read: true }, &load, 280.0 * GB, None);
    assert!(report.met < 12.5 && report.most_runs <= 24, "{report}");
    assert!(report.rewrites < 8.0 && report.most_extra < 0.05, "{report}");
    assert!(report.largest_step < 4.0 * GB, "{report}");
}
