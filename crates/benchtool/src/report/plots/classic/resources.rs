//! What a test takes: plots of space, memory, processor time and bytes written.

use super::super::figure::Panel;
use super::super::view::{Measure, View};
use crate::report::metrics;
use crate::report::set::Line as Row;

/// Rows of the first operation of each test, for figures that belong to the whole process.
fn tests(view: &View<'_>) -> Vec<Row> {
    let mut rows = view.rows(|_| true);
    rows.dedup_by(|one, other| one.test == other.test);
    for row in &mut rows {
        row.label.clone_from(&row.test);
    }
    rows
}

pub(super) fn per_test(view: &View<'_>, unit: &str, measure: Measure) -> Vec<Panel> {
    view.bars("", unit, &tests(view), measure)
}

fn titled(mut panels: Vec<Panel>, title: &str) -> Vec<Panel> {
    for panel in &mut panels {
        panel.title = title.to_owned();
    }
    panels
}

const MIB: f64 = (1_u32 << 20) as f64;

pub(super) fn space(view: &View<'_>) -> Vec<Panel> {
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

pub(super) fn resources(view: &View<'_>) -> Vec<Panel> {
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
