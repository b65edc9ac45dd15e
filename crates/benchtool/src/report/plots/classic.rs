//! The plots 00 to 16, which the original tool's scripts draw too.

mod latency;
mod resources;
mod throughput;

use super::Plot;
use latency::{average_latency, percentiles, tail, variability};
use resources::{per_test, resources, space};
use throughput::{batch_sizes, rates, speedup, synced, value_sizes, write_throughput};

pub(crate) const PLOTS: [Plot; 17] = [
    Plot {
        name: "00_speedup_summary",
        title: "Throughput ratio, every row",
        says: "Throughput of the first engine over the better profile of its peer. Right of the \
            line at 1 is faster. Green is a win, grey a tie (within 5 %) or too noisy to tell, red a \
            loss; whiskers span the extremes of the repetitions.",
        needs: "two engines with a common test",
        build: speedup,
    },
    Plot {
        name: "01_write_throughput",
        title: "Write throughput",
        says: "Acknowledged puts; longer is better. How much work was left behind is in plot 21.",
        needs: "tests that write",
        build: write_throughput,
    },
    Plot {
        name: "02_read_mixed_throughput",
        title: "Read and mixed throughput",
        says: "Gets, and both sides of mixed tests; longer is better.",
        needs: "tests that read",
        build: |view| {
            rates(view, |about| {
                matches!(about.operation, "GET" | "MULTIGET" | "RMW")
                    || matches!(about.workload(), "mixed" | "write_then_read")
            })
        },
    },
    Plot {
        name: "03_delete_throughput",
        title: "Delete throughput",
        says: "Deletions of existing keys, proven by a scan; longer is better.",
        needs: "tests that delete",
        build: |view| rates(view, |about| about.operation == "DELETE"),
    },
    Plot {
        name: "04_seek_throughput",
        title: "Seek throughput",
        says: "Positioning on a key and reading its row; longer is better.",
        needs: "tests that seek",
        build: |view| rates(view, |about| about.operation == "SEEK"),
    },
    Plot {
        name: "05_range_scan_throughput",
        title: "Range scan throughput",
        says: "Ranges per second, every row checked; longer is better.",
        needs: "tests that scan ranges",
        build: |view| rates(view, |about| matches!(about.operation, "RANGE" | "SCAN")),
    },
    Plot {
        name: "06_batch_size_scaling",
        title: "Batch size",
        says: "Throughput against the number of operations per commit; higher is better.",
        needs: "one write test at several batch sizes",
        build: batch_sizes,
    },
    Plot {
        name: "07_value_size_impact",
        title: "Value size",
        says: "Throughput against the size of the values; higher is better.",
        needs: "one test at several value sizes",
        build: value_sizes,
    },
    Plot {
        name: "08_latency_overview",
        title: "Average latency",
        says: "Microseconds per call, where a call of a batched test is one commit; shorter is better.",
        needs: "any test",
        build: average_latency,
    },
    Plot {
        name: "09_latency_percentiles",
        title: "Latency percentiles",
        says: "Median, 95 % and 99 % of the latency of one call; shorter is better. All lines have \
            the whole distribution in plot 20.",
        needs: "any test",
        build: percentiles,
    },
    Plot {
        name: "10_write_amplification",
        title: "Write amplification",
        says: "Bytes written to storage until no work was left, over bytes of keys and values \
            accepted; shorter is better.",
        needs: "tests that write",
        build: |view| {
            per_test(view, "bytes written per byte accepted", |run, _| {
                run.result.write_amplification
            })
        },
    },
    Plot {
        name: "11_space_efficiency",
        title: "Space",
        says: "Size of the data files when all work was done, without the log; and the same over the \
            bytes of live keys and values. Shorter is better.",
        needs: "tests that write",
        build: space,
    },
    Plot {
        name: "12_resource_usage",
        title: "Resources",
        says: "Peak resident memory, bytes written, processor use and address space of the process. \
            Shorter is better, but address space costs nothing and is not judged.",
        needs: "any test",
        build: resources,
    },
    Plot {
        name: "13_tail_latency",
        title: "Tail latency",
        says: "The 99 % latency, and how far it is from the average; shorter is better.",
        needs: "any test",
        build: tail,
    },
    Plot {
        name: "14_duration_comparison",
        title: "Duration",
        says: "Seconds of the measured phase. Tests that end after a time have equal bars.",
        needs: "any test",
        build: |view| per_test(view, "seconds", |run, _| Some(run.result.duration)),
    },
    Plot {
        name: "15_latency_variability",
        title: "Variability of latency",
        says: "Standard deviation over average of the latency; shorter is steadier.",
        needs: "any test",
        build: variability,
    },
    Plot {
        name: "16_sync_write_performance",
        title: "Synced writes",
        says: "Commits that are on stable storage before they return, against threads.",
        needs: "tests with --sync full",
        build: synced,
    },
];
