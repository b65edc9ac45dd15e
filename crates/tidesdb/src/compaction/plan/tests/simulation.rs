//! The planner at sizes that no test machine holds: the rules that the engine follows, on runs that
//! are nothing but counts of keys.
//!
//! Time passes flush by flush. Writers put at a fixed rate; two threads merge at a fixed rate each,
//! and a merge has its effect when it ends. Keys are spread evenly over eight slices, and over
//! classes of which each takes a share of the puts, so that how many keys two runs have in common
//! follows from their sizes. Other policies (`policies`) run on the same model for comparison.
//!
//! Writers wait while there are too many runs.
//!
//! What is not modelled: value logs, snapshots, range tombstones, expiry, pauses.
//!
//! ```text
//! cargo test --release -p tidesdb --lib simulation -- --ignored --nocapture
//! ```

mod policies;
mod world;

use self::policies::{Leveled, Policy, Spooky, TidesDb};
use self::world::{Load, Report, World};

const GB: f64 = 1e9;

/// The loads of the table.
fn loads() -> Vec<Load> {
    vec![
        Load::unique("unique"),
        Load::overwrite("overwrite", &[(1.0, 1.0)]),
        // Of Zipfian keys a fiftieth takes two thirds of the puts, and half of them a tenth.
        Load::overwrite("skewed", &[(0.02, 0.65), (0.48, 0.25), (0.5, 0.1)]),
    ]
}

fn simulate(policy: &dyn Policy, load: &Load, bytes: f64) -> Report {
    let mut world = World::new(load.clone(), bytes);
    world.run(policy);
    world.report()
}

fn show(policy: &dyn Policy, load: &Load, bytes: f64) -> Report {
    let report = simulate(policy, load, bytes);
    println!("{:>6} GB  {:<10} {:<10} {report}", bytes / GB, load.name, policy.name());
    report
}

#[test]
#[ignore = "takes half a minute; docs/design/0001-merges-at-scale.md shows it"]
fn table_of_all_sizes() {
    println!("{:>9}  {:<10} {:<10} {}", "data", "load", "policy", Report::HEAD);
    for load in loads() {
        for size in [1.0, 10.0, 100.0, 1_000.0] {
            let policies: [&dyn Policy; 4] =
                [&TidesDb { is_read: true }, &TidesDb { is_read: false }, &Leveled, &Spooky];
            for policy in policies {
                show(policy, &load, size * GB);
            }
        }
    }
}

#[test]
fn ten_times_the_data_costs_one_more_rewrite() {
    for load in loads() {
        for (size, most_rewrites, most_space) in [(1.0, 1.5, 1.8), (10.0, 2.7, 1.8)] {
            let report = show(&TidesDb { is_read: true }, &load, size * GB);
            assert!(report.rewrites < most_rewrites, "{}: {report}", load.name);
            assert!(report.most_runs <= 36, "{}: {report}", load.name);
            assert!(report.most_space < most_space, "{}: {report}", load.name);
        }
    }
}
