//! The plots 00 to 16, which the original tool's scripts draw too.

use super::Plot;
use super::colors::{LOSS, MUTED, Role, TIE, WIN};
use super::figure::{Bar, Group, Kind, Mark, Panel, Series};
use super::scale::times;
use super::view::{About, Measure, Sweep, View, threads};
use crate::report::compare::{self, Verdict};
use crate::report::metrics;
use crate::report::set::{Figure, Line as Row};

const RATE: &str = "operations per second";

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

fn judged(verdict: Verdict) -> Mark {
    let role: Role = match verdict {
        Verdict::Win => WIN,
        Verdict::Tie => TIE,
        Verdict::Loss => LOSS,
        Verdict::Noisy => MUTED,
        Verdict::Invalid => return Mark::Invalid,
    };
    Mark::Judged(role)
}

fn speedup(view: &View<'_>) -> Vec<Panel> {
    let comparisons = compare::all(view.set, &view.sides);
    let nothing = Figure { median: 0.0, low: 0.0, high: 0.0, count: 0 };
    let groups: Vec<Group> = comparisons
        .into_iter()
        .map(|comparison| {
            let text = match comparison.ratio {
                Some(ratio) if comparison.verdict == Verdict::Noisy => {
                    format!("{} noisy", times(ratio.median))
                }
                Some(ratio) => times(ratio.median),
                None => "INVALID".to_owned(),
            };
            let figure = comparison.ratio.unwrap_or(nothing);
            let bar = Bar { series: 0, figure, text, mark: judged(comparison.verdict) };
            Group { label: comparison.line.label, bars: vec![bar] }
        })
        .collect();
    if groups.is_empty() {
        return Vec::new();
    }
    let name = format!("{} ÷ {}", view.sides.subject, view.sides.peers.join(" or "));
    vec![Panel {
        title: name.clone(),
        unit: format!("throughput, {name}"),
        series: Series::named(std::slice::from_ref(&view.sides.subject)),
        kind: Kind::Bars(groups, Some(1.0)),
    }]
}

fn rate(run: &crate::orchestrate::Run, operation: &crate::spec::OperationResult) -> Option<f64> {
    compare::throughput(run, operation)
}

fn rates(view: &View<'_>, wanted: fn(&About<'_>) -> bool) -> Vec<Panel> {
    view.bars("", RATE, &view.rows(wanted), rate)
}

fn writes(about: &About<'_>) -> bool {
    about.workload() == "write" && about.operation == "PUT"
}

fn write_throughput(view: &View<'_>) -> Vec<Panel> {
    let rows = view.rows(|about| writes(about) && !about.synced());
    let threads_of = |row: &Row| view.set.example(&row.test).map(|run| run.spec.shape.threads);
    let mut counts: Vec<u64> = rows.iter().filter_map(threads_of).collect();
    counts.sort_unstable();
    counts.dedup();
    let mut panels = Vec::new();
    for count in counts {
        let rows: Vec<Row> =
            rows.iter().filter(|row| threads_of(row) == Some(count)).cloned().collect();
        panels.extend(view.bars(&threads(count), RATE, &rows, rate));
    }
    panels
}

fn batch_sizes(view: &View<'_>) -> Vec<Panel> {
    let rows = view.rows(|about| matches!(about.operation, "PUT" | "DELETE") && !about.synced());
    let sweep = Sweep {
        x: |run| run.spec.shape.batch as f64,
        family: |about| {
            let shape = &about.run.spec.shape;
            format!(
                "{} {}, {} B values, {}",
                about.workload(),
                about.pattern(),
                shape.value_size,
                threads(shape.threads)
            )
        },
        x_unit: "operations per commit (log axis)",
        x_log: true,
        unit: RATE,
    };
    view.sweep(&sweep, &rows, rate)
}

fn value_sizes(view: &View<'_>) -> Vec<Panel> {
    let rows = view.rows(|about| !about.synced() && about.operation != "ITER");
    let sweep = Sweep {
        x: |run| run.spec.shape.value_size as f64,
        family: |about| {
            let shape = &about.run.spec.shape;
            format!(
                "{} {} {}, batch {}, {}",
                about.workload(),
                about.operation,
                about.pattern(),
                shape.batch,
                threads(shape.threads)
            )
        },
        x_unit: "bytes per value (log axis)",
        x_log: true,
        unit: RATE,
    };
    view.sweep(&sweep, &rows, rate)
}

/// A kind of lines: its name, and which belong to it.
type Kinds = (&'static str, fn(&About<'_>) -> bool);

/// The kinds of operations that have panels of their own.
const KINDS: [Kinds; 5] = [
    ("writes", |about| about.operation == "PUT"),
    ("reads", |about| about.operation == "GET"),
    ("seeks", |about| about.operation == "SEEK"),
    ("ranges", |about| matches!(about.operation, "RANGE" | "SCAN")),
    ("deletes", |about| about.operation == "DELETE"),
];

fn by_kind(view: &View<'_>, unit: &str, measure: Measure) -> Vec<Panel> {
    let panels =
        KINDS.iter().map(|(name, wanted)| view.bars(name, unit, &view.rows(wanted), measure));
    panels.flatten().collect()
}

fn average_latency(view: &View<'_>) -> Vec<Panel> {
    by_kind(view, "microseconds per call", |_, operation| Some(operation.average_us))
}

fn percentiles(view: &View<'_>) -> Vec<Panel> {
    let kinds: [Kinds; 6] = [
        ("sequential write", |about| writes(about) && about.pattern() == "seq"),
        ("random write", |about| writes(about) && about.pattern() == "random"),
        ("read", |about| about.operation == "GET" && about.workload() == "read"),
        ("seek", |about| about.operation == "SEEK"),
        ("range", |about| about.operation == "RANGE"),
        ("delete", |about| about.operation == "DELETE"),
    ];
    let measures: [(&str, Measure); 3] = [
        ("p50", |_, operation| Some(operation.p50_us)),
        ("p95", |_, operation| Some(operation.p95_us)),
        ("p99", |_, operation| Some(operation.p99_us)),
    ];
    let mut panels = Vec::new();
    for (name, wanted) in kinds {
        let Some(row) = view.rows(wanted).into_iter().next() else { continue };
        let mut all: Option<Panel> = None;
        for (percentile, measure) in measures {
            let row = Row { label: percentile.to_owned(), ..row.clone() };
            let title = format!("{name} ({})", row.test);
            for panel in view.bars(&title, "microseconds per call", &[row], measure) {
                all = Some(match all.take() {
                    None => panel,
                    Some(before) => joined(before, panel),
                });
            }
        }
        panels.extend(all);
    }
    panels
}

/// The groups of two panels of bars in one.
fn joined(mut first: Panel, second: Panel) -> Panel {
    if let (Kind::Bars(groups, _), Kind::Bars(more, _)) = (&mut first.kind, second.kind) {
        groups.extend(more);
    }
    first
}

/// Rows of the first operation of each test, for figures that belong to the whole process.
fn tests(view: &View<'_>) -> Vec<Row> {
    let mut rows = view.rows(|_| true);
    rows.dedup_by(|one, other| one.test == other.test);
    for row in &mut rows {
        row.label.clone_from(&row.test);
    }
    rows
}

fn per_test(view: &View<'_>, unit: &str, measure: Measure) -> Vec<Panel> {
    view.bars("", unit, &tests(view), measure)
}

fn titled(mut panels: Vec<Panel>, title: &str) -> Vec<Panel> {
    for panel in &mut panels {
        panel.title = title.to_owned();
    }
    panels
}

const MIB: f64 = (1_u32 << 20) as f64;

fn space(view: &View<'_>) -> Vec<Panel> {
    let size: Measure = |run, _| {
        let wrote = run.spec.shape.workload.mutates() && run.result.size_settled > 0;
        wrote.then(|| metrics::settled_data(run) as f64 / MIB)
    };
    let amplification: Measure = |run, _| {
        let wrote = run.spec.shape.workload.mutates();
        wrote.then(|| metrics::space_amplification(run)).flatten()
    };
    let mut panels = titled(per_test(view, "MiB", size), "size of data files");
    let unit = "bytes stored per live byte";
    panels.extend(titled(per_test(view, unit, amplification), "space amplification"));
    panels
}

fn resources(view: &View<'_>) -> Vec<Panel> {
    let resident: Measure = |run, _| Some(run.result.peak_rss as f64 / MIB);
    let written: Measure =
        |run, _| (run.result.written_bytes > 0).then_some(run.result.written_bytes as f64 / MIB);
    let virtual_size: Measure = |run, _| Some(run.result.peak_virtual as f64 / MIB);
    let mut panels = titled(per_test(view, "MiB", resident), "peak resident memory");
    panels.extend(titled(per_test(view, "MiB", written), "bytes written to storage"));
    let processor: Measure = |run, _| metrics::cpu_percent(run);
    let unit = "% of one processor";
    panels.extend(titled(per_test(view, unit, processor), "processor use"));
    panels.extend(titled(per_test(view, "MiB", virtual_size), "address space"));
    panels
}

fn tail(view: &View<'_>) -> Vec<Panel> {
    let all = view.rows(|_| true);
    let mut panels = view.bars(
        "99 % of the calls are faster than",
        "microseconds per call",
        &all,
        |_, operation| Some(operation.p99_us),
    );
    panels.extend(view.bars("p99 over average", "times the average", &all, |_, operation| {
        (operation.average_us > 0.0).then(|| operation.p99_us / operation.average_us)
    }));
    panels
}

fn variability(view: &View<'_>) -> Vec<Panel> {
    by_kind(view, "% of the average", |_, operation| metrics::variation(operation))
}

fn synced(view: &View<'_>) -> Vec<Panel> {
    let rows = view.rows(|about| about.synced() && matches!(about.operation, "PUT" | "DELETE"));
    let mut sweep = Sweep {
        x: |run| run.spec.shape.threads as f64,
        family: |about| {
            format!(
                "{} {}, batch {}",
                about.workload(),
                about.pattern(),
                about.run.spec.shape.batch
            )
        },
        x_unit: "threads",
        x_log: false,
        unit: RATE,
    };
    let mut panels = view.sweep(&sweep, &rows, rate);
    sweep.unit = "microseconds per commit, average";
    panels.extend(view.sweep(&sweep, &rows, |_, operation| Some(operation.average_us)));
    panels.extend(view.bars("all synced tests", RATE, &rows, rate));
    panels.extend(
        view.bars("commits per sync", "commits", &rows, |run, _| run.result.commits_per_sync),
    );
    panels
}
