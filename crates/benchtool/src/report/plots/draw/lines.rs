//! Panels of lines.

use super::super::colors::{GRID, MUTED};
use super::super::figure::{Lines, Panel};
use super::super::scale::{Scale, human};
use super::shapes::{Canvas, Drawn, WIDTH, line, marker, shortened, style, text};
use plotters::style::text_anchor::{HPos, VPos};

pub(super) const LINES_HEIGHT: i32 = 190;
/// At most so many points have a tick of their own.
const MARKED_TICKS: usize = 8;

/// Both axes of a panel of lines.
pub(super) struct Axes {
    x: Scale,
    y: Scale,
    nines: bool,
}

impl Axes {
    /// Height of a share on an axis of nines: 0, 90 %, 99 %, 99.9 %, 99.99 % at equal distances.
    pub(super) fn nines_of(share: f64) -> f64 {
        -(1.0 - share).max(1e-5).log10()
    }

    fn at(&self, x: f64, y: f64) -> (i32, i32) {
        let y = if self.nines { Self::nines_of(y) } else { y };
        (self.x.at(x), self.y.at(y))
    }

    fn y_ticks(&self) -> Vec<(i32, String)> {
        if !self.nines {
            return self.y.ticks().iter().map(|tick| (self.y.at(*tick), human(*tick))).collect();
        }
        let shares = [(0.0, "0"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %")];
        let last = [(0.9999, "99.99 %"), (1.0, "all")];
        let shares = shares.into_iter().chain(last);
        shares.map(|(share, name)| (self.at(0.0, share).1, name.to_owned())).collect()
    }
}

fn axes(drawn: &Lines, top: i32) -> Axes {
    let points = || drawn.lines.iter().flat_map(|line| &line.points);
    let (left, right) = (52, WIDTH - 14);
    let (upper, lower) = (top + 22, top + 22 + LINES_HEIGHT);
    let xs = points().map(|point| point.x);
    let least = xs.clone().filter(|x| *x > 0.0).fold(f64::INFINITY, f64::min);
    let most = xs.fold(0.0, f64::max);
    let x = if drawn.x_log && most > 0.0 {
        Scale::log_between(least, most, left, right)
    } else {
        Scale::linear(0.0, most, left, right)
    };
    let y = if drawn.nines {
        Scale::linear(0.0, 5.0, lower, upper)
    } else {
        Scale::of(points().flat_map(|point| [point.y, point.range.0, point.range.1]), lower, upper)
    };
    Axes { x, y, nines: drawn.nines }
}

/// Few marked points have a tick each; else the axis chooses.
fn x_ticks(drawn: &Lines, axes: &Axes) -> Vec<f64> {
    let mut ticks: Vec<f64> =
        drawn.lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    if drawn.markers && ticks.len() <= MARKED_TICKS { ticks } else { axes.x.ticks() }
}

pub(super) fn lines(canvas: &Canvas<'_>, panel: &Panel, drawn: &Lines, top: i32) -> Drawn {
    let axes = axes(drawn, top);
    let (left, right) = (52, WIDTH - 14);
    let (upper, lower) = (top + 22, top + 22 + LINES_HEIGHT);
    let unit = match axes.y.log {
        true => format!("{} (log axis)", panel.unit),
        false => panel.unit.clone(),
    };
    let at = (2, top + 2);
    text(canvas, &shortened(&unit, WIDTH), at, style(MUTED, HPos::Left, VPos::Top))?;
    for (y, name) in axes.y_ticks() {
        line(canvas, vec![(left, y), (right, y)], GRID, 1)?;
        text(canvas, &name, (left - 5, y), style(MUTED, HPos::Right, VPos::Center))?;
    }
    for tick in x_ticks(drawn, &axes) {
        let x = axes.x.at(tick);
        line(canvas, vec![(x, lower), (x, lower + 4)], MUTED, 1)?;
        text(canvas, &human(tick), (x, lower + 5), style(MUTED, HPos::Center, VPos::Top))?;
    }
    line(canvas, vec![(left, upper), (left, lower), (right, lower)], MUTED, 1)?;
    for one in &drawn.lines {
        let role = panel.series.get(one.series).map_or(MUTED, |series| series.role);
        let points: Vec<(i32, i32)> =
            one.points.iter().map(|point| axes.at(point.x, point.y)).collect();
        line(canvas, points.clone(), role, 2)?;
        for (point, at) in one.points.iter().zip(points) {
            if point.range.0 < point.range.1 {
                let low = axes.at(point.x, point.range.0);
                let high = axes.at(point.x, point.range.1);
                line(canvas, vec![low, high], role, 1)?;
            }
            if drawn.markers {
                marker(canvas, at, one.series, role)?;
            }
        }
    }
    let at = (right, lower + 22);
    text(canvas, &drawn.x_unit, at, style(MUTED, HPos::Right, VPos::Top))
}
