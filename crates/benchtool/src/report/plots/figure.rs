//! What a plot shows, as plain data; `draw` turns it into SVG.

use super::colors::{self, Role};
use crate::report::set::Summary;

/// One picture of a plot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Panel {
    /// Heading; empty if the plot's own says enough.
    pub(crate) title: String,
    /// Title of the axis of values, with the unit.
    pub(crate) unit: String,
    /// Colours and names in the order of their numbers.
    pub(crate) series: Vec<Series>,
    /// The shape.
    pub(crate) kind: Kind,
}

/// A name and its colour.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// Name in the legend.
    pub(crate) name: String,
    /// Colour.
    pub(crate) role: Role,
}

impl Series {
    /// Series for names of engines, or others.
    pub(crate) fn named(names: &[String]) -> Vec<Self> {
        let series = |(index, name): (usize, &String)| Self {
            name: name.clone(),
            role: colors::of_series(name, index),
        };
        names.iter().enumerate().map(series).collect()
    }
}

/// Bars or lines.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// Horizontal bars in groups.
    Bars(Vec<Group>, Option<f64>),
    /// Lines over a common axis.
    Lines(Lines),
}

/// Bars that belong together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    /// What they are bars of.
    pub(crate) label: String,
    /// The bars.
    pub(crate) bars: Vec<Bar>,
}

/// How a bar is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// In the colour of its series.
    Plain,
    /// Hatched: the row may not be believed.
    Invalid,
    /// In the colour of this role.
    Judged(Role),
}

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    /// Number of the series.
    pub(crate) series: usize,
    /// Length, and the ends of its whisker.
    pub(crate) summary: Summary,
    /// Text at its end.
    pub(crate) text: String,
    /// How it is drawn.
    pub(crate) mark: Mark,
}

/// Lines over a common axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lines {
    /// Title of the horizontal axis, with the unit.
    pub(crate) x_unit: String,
    /// Whether the horizontal axis is logarithmic.
    pub(crate) x_log: bool,
    /// Whether points are marked.
    pub(crate) markers: bool,
    /// Whether the vertical axis shows shares, from "none" up to 1 by nines.
    pub(crate) nines: bool,
    /// The lines.
    pub(crate) lines: Vec<Line>,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// Number of the series.
    pub(crate) series: usize,
    /// Points in order.
    pub(crate) points: Vec<Point>,
}

/// A point with its whisker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    /// Horizontal.
    pub(crate) x: f64,
    /// Vertical.
    pub(crate) y: f64,
    /// Ends of the whisker, equal to `y` if there is none.
    pub(crate) range: (f64, f64),
}

impl Point {
    /// A point without a whisker.
    pub(crate) fn new(x: f64, y: f64) -> Self {
        Self { x, y, range: (y, y) }
    }
}
