//! Families in each order of keys: random operations beside an ordered map in the same order,
//! conflicts over ranges, and what happens to a family whose order is not registered.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

mod conflicts;
mod model;
mod unregistered;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common_support::seeds::{scaled, seed};
use model::{Bench, orders};
use tidesdb_sim::rng::mix64;

const OPERATIONS: u64 = 800;

#[test]
fn every_order_is_that_of_an_ordered_map() {
    let seed = seed("key_orders");
    for (number, order) in orders().into_iter().enumerate() {
        for run in 0..scaled(2) {
            let own = mix64(seed ^ mix64(run * 100 + number as u64));
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let mut bench = Bench::new(&order, run % 2 == 1, own);
                for _ in 0..OPERATIONS {
                    bench.step();
                }
                bench.finish();
            }));
            assert!(outcome.is_ok(), "TIDESDB_SEED={seed}, order {order}, run {run}");
        }
    }
}
