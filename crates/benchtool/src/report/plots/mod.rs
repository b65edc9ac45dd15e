//! The plots 00 to 28: which there are (`classic`, `extended`), what they show (`figure`), and how
//! that is drawn (`draw`, `scale`, `colors`).
//!
//! A plot is a row of a table: name, title, what it says, what it needs, and a pure function from
//! the results to panels. A set that lacks what a plot needs gives no panels, and the page says so.

mod classic;
pub(crate) mod colors;
pub(crate) mod draw;
mod extended;
pub(crate) mod figure;
pub(crate) mod scale;
pub(crate) mod view;

use figure::Panel;
use view::View;

/// One plot of the catalogue.
pub(crate) struct Plot {
    /// Number and name, as the original tool's plot files are called.
    pub(crate) name: &'static str,
    /// Heading.
    pub(crate) title: &'static str,
    /// What it shows and which way is better.
    pub(crate) says: &'static str,
    /// What a set must have for it.
    pub(crate) needs: &'static str,
    /// Makes the pictures.
    pub(crate) build: fn(&View<'_>) -> Vec<Panel>,
}

/// All plots in order.
pub(crate) fn catalogue() -> impl Iterator<Item = &'static Plot> {
    classic::PLOTS.iter().chain(&extended::PLOTS)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::figure::{Kind, Mark};
    use super::*;
    use crate::spec::Status;

    fn panels(name: &str, view: &View<'_>) -> Vec<Panel> {
        (catalogue().find(|plot| plot.name == name).unwrap().build)(view)
    }

    #[test]
    fn plots_are_numbered_without_gaps() {
        for (index, plot) in catalogue().enumerate() {
            assert!(plot.name.starts_with(&format!("{index:02}_")), "{}", plot.name);
            assert!(!plot.says.is_empty() && !plot.needs.is_empty());
        }
        assert_eq!(catalogue().count(), 29);
    }

    #[test]
    fn the_sample_gives_most_plots_and_none_without_a_unit() {
        let set = sample::set();
        let older = [sample::set(), sample::set()];
        let view = View::new(&set, &older, "rocksdb");
        let mut empty = Vec::new();
        for plot in catalogue() {
            let panels = (plot.build)(&view);
            if panels.is_empty() {
                empty.push(plot.name);
            }
            for panel in panels {
                assert!(!panel.unit.is_empty(), "{}", plot.name);
                let svg = draw::svg(&panel).unwrap();
                assert!(svg.starts_with("<svg") && !svg.contains("NaN"), "{}", plot.name);
            }
        }
        // The sample has one value size, one data size, and neither YCSB nor column families.
        let expected =
            ["07_value_size_impact", "25_ycsb", "26_cf_scaling", "27_read_cost_vs_memory"];
        assert_eq!(empty, expected);
    }

    #[test]
    fn the_summary_has_every_row_losses_included() {
        let set = sample::set();
        let view = View::new(&set, &[], "rocksdb");
        let summary = panels("00_speedup_summary", &view);
        let Kind::Bars(groups, reference) = &summary[0].kind else { panic!("no bars") };
        assert_eq!(*reference, Some(1.0));
        assert_eq!(groups.len(), set.lines().len());
        let delete = groups.iter().find(|group| group.label == "delete_b1").unwrap();
        assert_eq!(delete.bars[0].mark, Mark::Judged(colors::LOSS));
        assert_eq!(delete.bars[0].text, "0.58x");
        assert!(delete.bars[0].summary.low < 0.58 && delete.bars[0].summary.high > 0.58);
    }

    #[test]
    fn invalid_rows_are_marked_in_every_bar() {
        let mut set = sample::set();
        for run in &mut set.runs {
            if run.spec.engine == "tidesdb" && run.spec.test == "read_random" {
                run.result.status = Status::Invalid;
            }
        }
        let view = View::new(&set, &[], "rocksdb");
        let reads = panels("02_read_mixed_throughput", &view);
        let Kind::Bars(groups, _) = &reads[0].kind else { panic!("no bars") };
        let read = groups.iter().find(|group| group.label == "read_random").unwrap();
        assert_eq!(read.bars[0].mark, Mark::Invalid);
        assert!(read.bars[0].text.contains("INVALID"));
        assert_eq!(read.bars[1].mark, Mark::Plain);
    }

    #[test]
    fn sweeps_sort_by_their_number_and_need_two() {
        let set = sample::set();
        let view = View::new(&set, &[], "rocksdb");
        let batches = panels("06_batch_size_scaling", &view);
        let Kind::Lines(lines) = &batches[0].kind else { panic!("no lines") };
        let xs: Vec<f64> = lines.lines[0].points.iter().map(|point| point.x).collect();
        assert_eq!(xs, [1.0, 10.0, 100.0, 1_000.0]);
        assert_eq!(lines.lines[0].points[0].y, 952_000.0);
        assert_eq!(batches.len(), 1, "one size of batch alone is no sweep");
    }

    #[test]
    fn efficiency_is_the_rate_per_thread_over_that_of_the_fewest() {
        let set = sample::set();
        let view = View::new(&set, &[], "rocksdb");
        let threads = panels("18_thread_scaling", &view);
        let efficiency = threads.iter().find(|panel| panel.unit.contains('%')).unwrap();
        let Kind::Lines(lines) = &efficiency.kind else { panic!("no lines") };
        let points = &lines.lines[0].points;
        assert_eq!(points[0].y, 100.0);
        let expected = (1_200.0 / 4.0) / (952.0 / 2.0) * 100.0;
        assert!((points[1].y - expected).abs() < 1e-6, "{points:?}");
    }

    #[test]
    fn the_distribution_ends_at_all_calls() {
        let set = sample::set();
        let view = View::new(&set, &[], "rocksdb");
        let distributions = panels("20_latency_cdf", &view);
        let Kind::Lines(lines) = &distributions[0].kind else { panic!("no lines") };
        let ys: Vec<f64> = lines.lines[0].points.iter().map(|point| point.y).collect();
        assert_eq!(ys, [0.5, 0.99, 0.999, 1.0]);
    }
}
