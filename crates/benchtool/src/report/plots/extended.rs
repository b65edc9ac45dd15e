//! The plots 17 to 28, which the original tool does not have.

use super::Plot;
use super::colors::MUTED;
use super::figure::{Kind, Line, Lines, Panel, Point, Series};
use super::view::{self, About, Measure, Sweep, View};
use crate::measure::recorder::BUCKET_MILLIS;
use crate::report::compare::throughput;
use crate::report::metrics;
use crate::report::set::{Line as Row, Summary};

const RATE: &str = "operations per second";

pub(crate) const PLOTS: [Plot; 12] = [
    Plot {
        name: "17_iteration",
        title: "Full iteration",
        says: "Rows per second of a walk over everything: as a test of its own, and as the check after \
            tests that wrote. Longer is better.",
        needs: "any test that iterates or writes",
        build: iteration,
    },
    Plot {
        name: "18_thread_scaling",
        title: "Threads",
        says: "Throughput against threads, and the rate per thread relative to the fewest threads. \
            More threads than processors share them.",
        needs: "one test at several numbers of threads (suite threads)",
        build: threads,
    },
    Plot {
        name: "19_rate_over_time",
        title: "Rate over time",
        says: "Operations in each tenth of a second, as a rate. Dips to zero are stalls.",
        needs: "phases of half a second and more",
        build: rate_over_time,
    },
    Plot {
        name: "20_latency_cdf",
        title: "Distribution of latency",
        says: "The share of calls that were at least as fast, by nines: a line further left is faster, \
            and its top is the tail.",
        needs: "any test",
        build: distribution,
    },
    Plot {
        name: "21_acknowledged_vs_sustained",
        title: "Sustained rate",
        says: "Writes per second if the clock runs until no background work is left, and which share \
            of the acknowledged rate that is. Longer is better.",
        needs: "tests that write",
        build: sustained,
    },
    Plot {
        name: "22_memory_over_time",
        title: "Memory over time",
        says: "Resident memory from before the engine was opened until it had settled, with the limit \
            where there was one. Lower is better.",
        needs: "any test",
        build: memory,
    },
    Plot {
        name: "23_throughput_per_cpu_second",
        title: "Work per processor time",
        says: "Operations per second of processor time, background work and settling included. Longer \
            is better.",
        needs: "any test",
        build: |view| {
            view.bars("", "operations per processor second", &first_operations(view), |run, _| {
                metrics::operations_per_cpu_second(run)
            })
        },
    },
    Plot {
        name: "24_size_timeline",
        title: "Size over the life of a test",
        says: "Size of all files, logs included, when the phase ended, when no work was left, and after \
            closing. Shorter is better.",
        needs: "tests that write",
        build: sizes,
    },
    Plot {
        name: "25_ycsb",
        title: "YCSB",
        says: "The six YCSB mixes; longer is better.",
        needs: "tests named ycsb_a to ycsb_f",
        build: |view| {
            let rows = view.rows(|about| about.run.spec.test.starts_with("ycsb"));
            view.bars("", RATE, &rows, throughput)
        },
    },
    Plot {
        name: "26_cf_scaling",
        title: "Column families",
        says: "Time of each step of the life of column families; shorter is better.",
        needs: "tests of column families",
        build: |view| {
            let rows = view.rows(|about| matches!(about.workload(), "families" | "cf"));
            view.bars("", "microseconds per family", &rows, |_, operation| {
                Some(operation.average_us)
            })
        },
    },
    Plot {
        name: "27_read_cost_vs_memory",
        title: "Reads against data over cache",
        says: "Microseconds per read as the data grows beyond the block cache; lower is better.",
        needs: "one read test at several sizes of data or cache (suite ltm)",
        build: read_cost,
    },
    Plot {
        name: "28_version_history",
        title: "History",
        says: "Throughput of the same test in the result sets given, oldest first, with the extremes \
            of the repetitions.",
        needs: "more than one result file (benchtool report OLD.json NEW.json)",
        build: history,
    },
];

/// Rows of the first operation of each test.
fn first_operations(view: &View<'_>) -> Vec<Row> {
    let mut rows = view.rows(|_| true);
    rows.dedup_by(|one, other| one.test == other.test);
    for row in &mut rows {
        row.label.clone_from(&row.test);
    }
    rows
}

fn writing(view: &View<'_>) -> Vec<Row> {
    let mut rows = view.rows(|about| about.run.spec.shape.workload.mutates());
    rows.dedup_by(|one, other| one.test == other.test);
    rows
}

fn iteration(view: &View<'_>) -> Vec<Panel> {
    let tests = view.rows(|about| about.operation == "ITER");
    let mut panels = view.bars("as a test", "rows per second", &tests, throughput);
    let after = view.bars("after writing", "rows per second", &writing(view), |run, _| {
        run.result.scan_per_second.filter(|rate| *rate > 0.0)
    });
    panels.extend(after);
    panels
}

fn family(about: &About<'_>) -> String {
    let shape = &about.run.spec.shape;
    let synced = if about.synced() { ", synced" } else { "" };
    format!(
        "{} {} {}, batch {}, {} B values{synced}",
        about.workload(),
        about.operation,
        about.pattern(),
        shape.batch,
        shape.value_size
    )
}

fn threads(view: &View<'_>) -> Vec<Panel> {
    let sweep = Sweep {
        x: |run| run.spec.shape.threads as f64,
        family,
        x_unit: "threads",
        x_log: false,
        unit: RATE,
    };
    let rates = view.sweep(&sweep, &view.rows(|_| true), throughput);
    let mut panels = Vec::new();
    for panel in rates {
        let efficiency = efficiency_of(&panel);
        panels.push(panel);
        panels.push(efficiency);
    }
    panels
}

fn efficiency_of(rates: &Panel) -> Panel {
    let mut panel = rates.clone();
    panel.title = format!("{}: efficiency", rates.title);
    panel.unit = "rate per thread, % of that with the fewest".to_owned();
    if let Kind::Lines(lines) = &mut panel.kind {
        for line in &mut lines.lines {
            let Some(base) = line.points.first().map(|point| point.y / point.x) else { continue };
            for point in &mut line.points {
                *point = Point::new(point.x, point.y / point.x / base * 100.0);
            }
        }
    }
    panel
}

fn over_time(x_unit: &str) -> Lines {
    Lines {
        x_unit: x_unit.to_owned(),
        x_log: false,
        markers: false,
        nines: false,
        lines: Vec::new(),
    }
}

fn rate_over_time(view: &View<'_>) -> Vec<Panel> {
    let frame = over_time("seconds");
    let seconds = BUCKET_MILLIS as f64 / 1_000.0;
    view.series(&first_operations(view), &frame, RATE, |run, _| {
        // Long phases are shown by the mean of several buckets.
        let wide = run.result.rate.len().div_ceil(300).max(1);
        if run.result.rate.len() < 5 {
            return Vec::new();
        }
        let chunks = run.result.rate.chunks(wide).enumerate();
        chunks
            .map(|(index, chunk)| {
                let time = (index * wide + chunk.len()) as f64 * seconds;
                let sum = chunk.iter().sum::<u64>() as f64;
                Point::new(time, sum / (chunk.len() as f64 * seconds))
            })
            .collect()
    })
}

fn distribution(view: &View<'_>) -> Vec<Panel> {
    let frame = Lines {
        x_unit: "microseconds per call (log axis)".to_owned(),
        x_log: true,
        markers: false,
        nines: true,
        lines: Vec::new(),
    };
    view.series(&view.rows(|_| true), &frame, "calls at least as fast", |_, operation| {
        let total: u64 = operation.histogram.iter().map(|step| step.count).sum();
        let mut below = 0;
        let points = operation.histogram.iter().map(|step| {
            below += step.count;
            Point::new(step.us.max(0.001), below as f64 / total as f64)
        });
        points.collect()
    })
}

fn sustained(view: &View<'_>) -> Vec<Panel> {
    let rows = writing(view);
    let mut panels = view.bars("sustained rate", RATE, &rows, metrics::sustained);
    let share = "% of the acknowledged rate";
    panels.extend(view.bars("share of the acknowledged rate", share, &rows, |run, operation| {
        let sustained = metrics::sustained(run, operation)?;
        (operation.per_second > 0.0).then(|| sustained / operation.per_second * 100.0)
    }));
    panels
}

fn memory(view: &View<'_>) -> Vec<Panel> {
    let frame = over_time("seconds since the process began");
    let mib = f64::from(1_u32 << 20);
    let mut panels = view.series(&first_operations(view), &frame, "MiB resident", |run, _| {
        let memory = &run.result.observed.memory;
        memory.points().map(|(time, bytes)| Point::new(time, bytes as f64 / mib)).collect()
    });
    let limits = view.set.runs.iter().filter_map(|run| run.result.observed.group_limit);
    if let Some(limit) = limits.min() {
        for panel in &mut panels {
            add_limit(panel, limit as f64 / mib);
        }
    }
    panels
}

fn add_limit(panel: &mut Panel, limit: f64) {
    let series = panel.series.len();
    panel.series.push(Series { name: "limit".to_owned(), role: MUTED });
    if let Kind::Lines(lines) = &mut panel.kind {
        let ends = lines.lines.iter().filter_map(|line| line.points.last());
        let end = ends.map(|point| point.x).fold(0.0, f64::max);
        let points = vec![Point::new(0.0, limit), Point::new(end, limit)];
        lines.lines.push(Line { series, points });
    }
}

fn sizes(view: &View<'_>) -> Vec<Panel> {
    const MIB: f64 = (1_u32 << 20) as f64;
    let stages: [(&str, Measure); 3] = [
        ("when the phase ended", |run, _| {
            let size = run.result.observed.size_phase_end;
            (size > 0).then_some(size as f64 / MIB)
        }),
        ("when settled", |run, _| Some(run.result.size_settled as f64 / MIB)),
        ("after closing", |run, _| Some(run.result.size_closed as f64 / MIB)),
    ];
    let rows = writing(view);
    let panels = stages.iter().map(|(name, measure)| view.bars(name, "MiB", &rows, *measure));
    panels.flatten().collect()
}

fn read_cost(view: &View<'_>) -> Vec<Panel> {
    let rows = view.rows(|about| matches!(about.operation, "GET" | "SEEK"));
    let sweep = Sweep {
        x: |run| {
            let data = run.spec.shape.num * metrics::record_bytes(run);
            data as f64 / run.spec.setup.cache.max(1) as f64
        },
        family: |about| {
            format!("{}, {}", family(about), view::threads(about.run.spec.shape.threads))
        },
        x_unit: "bytes of data per byte of cache (log axis)",
        x_log: true,
        unit: "microseconds per call, average",
    };
    view.sweep(&sweep, &rows, |_, operation| Some(operation.average_us))
}

fn history(view: &View<'_>) -> Vec<Panel> {
    if view.older.is_empty() {
        return Vec::new();
    }
    let sets: Vec<_> = view.older.iter().chain([view.set]).collect();
    let mut panels = Vec::new();
    for row in view.rows(|_| true) {
        let engines = [view.sides.subject.clone()];
        let engines: Vec<String> = engines.into_iter().chain(view.sides.peers.clone()).collect();
        let line = |(series, engine): (usize, &String)| {
            let points = sets.iter().enumerate().filter_map(|(index, set)| {
                let summary: Summary = set.summary(&row, engine, throughput)?;
                let range = (summary.low, summary.high);
                Some(Point { x: (index + 1) as f64, y: summary.median, range })
            });
            Line { series, points: points.collect() }
        };
        let lines: Vec<Line> = engines.iter().enumerate().map(line).collect();
        if lines.iter().any(|line| line.points.len() > 1) {
            panels.push(Panel {
                title: row.label.clone(),
                unit: RATE.to_owned(),
                series: Series::named(&engines),
                kind: Kind::Lines(Lines {
                    markers: true,
                    lines,
                    ..over_time("result set, oldest first")
                }),
            });
        }
    }
    panels
}
