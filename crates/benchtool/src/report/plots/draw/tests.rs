//! Tests of drawings.

use super::super::figure::{Bar, Group, Line, Lines, Mark, Point};
use super::bars::BAR;
use super::lines::Axes;
use super::shapes::{FONT, shortened};
use super::*;
use crate::report::set::Summary;

fn summary(median: f64, low: f64, high: f64) -> Summary {
    Summary { median, low, high, count: 3 }
}

fn panel(kind: Kind) -> Panel {
    let names = ["tidesdb".to_owned(), "rocksdb".to_owned()];
    Panel { title: String::new(), unit: "ops/s".into(), series: Series::named(&names), kind }
}

fn bar(series: usize, median: f64, mark: Mark) -> Bar {
    Bar { series, summary: summary(median, median * 0.9, median * 1.1), text: "t".into(), mark }
}

#[test]
fn bars_have_lengths_in_proportion_and_name_the_unit() {
    let bars = vec![bar(0, 100.0, Mark::Plain), bar(1, 50.0, Mark::Plain)];
    let group = Group { label: "a <test>".into(), bars };
    let drawn = svg(&panel(Kind::Bars(vec![group], None))).unwrap();
    let widths: Vec<f64> = drawn
        .lines()
        .filter(|line| line.starts_with("<rect") && line.contains("height=\"11\""))
        .map(|line| {
            let start = line.find("width=\"").unwrap() + 7;
            line[start..].split('"').next().unwrap().parse().unwrap()
        })
        .collect();
    assert_eq!(widths.len(), 2, "{drawn}");
    assert!((widths[0] / widths[1] - 2.0).abs() < 0.05, "{widths:?}");
    assert!(drawn.contains("ops/s"));
    assert!(drawn.contains(&format!("font-size=\"{FONT}\"")), "{drawn}");
    assert!(drawn.contains("&lt;test&gt;") && !drawn.contains("<test>"), "{drawn}");
}

/// A test that one engine only has a figure for stands among others that all have.
#[test]
fn labels_above_the_bars_never_overlap() {
    let group = |label: &str, count: usize| Group {
        label: label.into(),
        bars: (0..count).map(|series| bar(series, 10.0, Mark::Plain)).collect(),
    };
    let groups = vec![group("one", 1), group("two", 2), group("last", 1)];
    let drawn = svg(&panel(Kind::Bars(groups, None))).unwrap();
    let lines: Vec<&str> = drawn.lines().collect();
    let height = |label: &str| -> i32 {
        let text = lines.iter().position(|line| line.trim() == label).unwrap();
        let start = lines[text - 1].find(" y=\"").unwrap() + 4;
        lines[text - 1][start..].split('"').next().unwrap().parse().unwrap()
    };
    assert!(height("two") - height("one") >= BAR + FONT, "{drawn}");
    assert!(height("last") - height("two") >= 2 * BAR + FONT, "{drawn}");
}

#[test]
fn invalid_bars_are_hatched_and_not_filled() {
    let group = Group { label: "a".into(), bars: vec![bar(0, 100.0, Mark::Invalid)] };
    let drawn = svg(&panel(Kind::Bars(vec![group], None))).unwrap();
    assert!(drawn.matches("<polyline").count() > 20, "{drawn}");
}

#[test]
fn wide_spans_say_that_the_axis_is_logarithmic() {
    let line = Line { series: 0, points: vec![Point::new(1.0, 1.0), Point::new(1_000.0, 5_000.0)] };
    let lines = Lines {
        x_unit: "batch".into(),
        x_log: true,
        markers: true,
        nines: false,
        lines: vec![line],
    };
    let drawn = svg(&panel(Kind::Lines(lines))).unwrap();
    assert!(drawn.contains("ops/s (log axis)"));
    let file = file(&drawn, "a & b");
    assert!(file.contains("<title>a &amp; b</title>"), "{file}");
    assert!(file.contains("prefers-color-scheme:dark"));
}

#[test]
fn shares_are_spread_by_nines() {
    assert!((Axes::nines_of(0.9) - 1.0).abs() < 1e-9);
    assert!((Axes::nines_of(0.999) - 3.0).abs() < 1e-9);
    assert!((Axes::nines_of(1.0) - 5.0).abs() < 1e-9);
}

#[test]
fn long_names_are_cut() {
    assert_eq!(shortened("short", 100), "short");
    assert_eq!(shortened("ööööööööööö", 32), "öööö…");
}
