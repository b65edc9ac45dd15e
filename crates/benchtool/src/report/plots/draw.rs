//! Draws panels as SVG, with the plotters crate's SVG backend.
//!
//! Drawings are 460 units wide whatever they show, with text of 12 units, so that they are readable
//! on a phone (where they fill the width) and stand side by side on a wide screen. Bars lie, so
//! that names of tests have room. Nothing is drawn outside; text of users is shortened.

use super::colors::{self, GRID, INK, MUTED, Role};
use super::figure::{Bar, Group, Kind, Lines, Mark, Panel, Series};
use super::scale::{Scale, human};
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, ShapeStyle, TextStyle};

/// Width of every drawing.
const WIDTH: i32 = 460;
const FONT: i32 = 12;
/// The SVG backend divides sizes by this, which turns the size of a font's box into that of its
/// letters.
const BACKEND_FONT: f64 = 1.24;
/// Width of an average letter.
const LETTER: f64 = 6.4;
const BAR: i32 = 13;
/// Room for the text at the end of the longest bar.
const TEXT_ROOM: i32 = 62;
const LINES_HEIGHT: i32 = 190;
const LEGEND_LINE: i32 = 18;
/// At most so many points have a tick of their own.
const MARKED_TICKS: usize = 8;

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), String>;

fn failed(error: impl std::fmt::Display) -> String {
    format!("drawing: {error}")
}

fn style(role: Role, left: HPos, middle: VPos) -> TextStyle<'static> {
    let font = ("sans-serif", f64::from(FONT) * BACKEND_FONT).into_font();
    TextStyle { font, color: role.color().to_backend_color(), pos: Pos::new(left, middle) }
}

fn text(canvas: &Canvas<'_>, content: &str, at: (i32, i32), style: TextStyle<'static>) -> Drawn {
    canvas.draw(&Text::new(content.to_owned(), at, style)).map_err(failed)
}

fn line(canvas: &Canvas<'_>, points: Vec<(i32, i32)>, role: Role, width: u32) -> Drawn {
    let style = ShapeStyle::from(&role.color()).stroke_width(width);
    canvas.draw(&PathElement::new(points, style)).map_err(failed)
}

fn rectangle(canvas: &Canvas<'_>, corners: [(i32, i32); 2], role: Role, filled: bool) -> Drawn {
    let style = if filled { role.color().filled() } else { ShapeStyle::from(&role.color()) };
    canvas.draw(&Rectangle::new(corners, style)).map_err(failed)
}

/// A text cut to a width in units.
fn shortened(content: &str, width: i32) -> String {
    let letters = (f64::from(width) / LETTER).max(1.0) as usize;
    if content.chars().count() <= letters {
        return content.to_owned();
    }
    let kept: String = content.chars().take(letters.saturating_sub(1)).collect();
    format!("{kept}…")
}

fn text_width(content: &str) -> i32 {
    (content.chars().count() as f64 * LETTER) as i32
}

/// Where the entries of a legend lie.
fn legend_places(series: &[Series]) -> Vec<(i32, i32)> {
    let (mut x, mut row) = (4, 0);
    let mut places = Vec::new();
    for entry in series {
        let width = 22 + text_width(&entry.name) + 12;
        if x > 4 && x + width > WIDTH {
            (x, row) = (4, row + 1);
        }
        places.push((x, row * LEGEND_LINE));
        x += width;
    }
    places
}

fn legend_height(series: &[Series]) -> i32 {
    let last = legend_places(series).last().map_or(0, |place| place.1);
    if series.len() > 1 { last + LEGEND_LINE + 4 } else { 2 }
}

fn legend(canvas: &Canvas<'_>, panel: &Panel) -> Drawn {
    if panel.series.len() < 2 {
        return Ok(());
    }
    for (index, (entry, (x, y))) in
        panel.series.iter().zip(legend_places(&panel.series)).enumerate()
    {
        if matches!(&panel.kind, Kind::Lines(lines) if lines.markers) {
            line(canvas, vec![(x, y + 9), (x + 16, y + 9)], entry.role, 2)?;
            marker(canvas, (x + 8, y + 9), index, entry.role)?;
        } else {
            rectangle(canvas, [(x, y + 4), (x + 14, y + 14)], entry.role, true)?;
        }
        text(canvas, &entry.name, (x + 21, y + 9), style(INK, HPos::Left, VPos::Center))?;
    }
    Ok(())
}

/// A picture as SVG text.
pub(crate) fn svg(panel: &Panel) -> Result<String, String> {
    let top = legend_height(&panel.series);
    let height = match &panel.kind {
        Kind::Bars(groups, _) => top + rows_height(groups) + 38,
        Kind::Lines(_) => top + LINES_HEIGHT + 58,
    };
    let mut out = String::new();
    {
        let size = (WIDTH as u32, height as u32);
        let canvas = SVGBackend::with_string(&mut out, size).into_drawing_area();
        legend(&canvas, panel)?;
        match &panel.kind {
            Kind::Bars(groups, reference) => bars(&canvas, panel, groups, *reference, top)?,
            Kind::Lines(drawn) => lines(&canvas, panel, drawn, top)?,
        }
        canvas.present().map_err(failed)?;
    }
    Ok(out)
}

/// A picture as a file of its own: it carries its colours for dark surroundings and its meaning.
pub(crate) fn file(svg: &str, title: &str) -> String {
    let rules = colors::dark_rules("");
    let style = format!("<style>@media(prefers-color-scheme:dark){{{rules}}}</style>");
    let title = super::super::html::escape(title);
    let head = format!("<title>{title}</title>\n{style}\n");
    match svg.find('>') {
        Some(end) => format!("{}\n{head}{}", &svg[..=end], svg[end + 1..].trim_start()),
        None => svg.to_owned(),
    }
}

/// Labels are beside the bars if that does for every group; in one picture all lie alike.
fn labels_beside(groups: &[Group]) -> bool {
    groups.iter().all(|group| group.bars.len() <= 1)
}

fn group_height(group: &Group, beside: bool) -> i32 {
    if beside { BAR + 6 } else { 16 + BAR * group.bars.len() as i32 + 7 }
}

fn rows_height(groups: &[Group]) -> i32 {
    let beside = labels_beside(groups);
    groups.iter().map(|group| group_height(group, beside)).sum()
}

fn bars(
    canvas: &Canvas<'_>,
    panel: &Panel,
    groups: &[Group],
    reference: Option<f64>,
    top: i32,
) -> Drawn {
    let beside = labels_beside(groups);
    let longest = groups.iter().map(|group| text_width(&group.label)).max().unwrap_or(0);
    let left = if beside { (longest + 8).clamp(40, 190) } else { 4 };
    let shown = groups.iter().flat_map(|group| &group.bars);
    let values = shown.flat_map(|bar| [bar.figure.median, bar.figure.low, bar.figure.high]);
    let values = values.filter(|value| value.is_finite());
    let scale = match reference {
        Some(_) => Scale::ratios(values, left, WIDTH - TEXT_ROOM),
        None => Scale::of(values, left, WIDTH - TEXT_ROOM),
    };
    let origin = reference.map_or(scale.origin(), |reference| scale.at(reference));
    let bottom = top + rows_height(groups);
    for tick in scale.ticks() {
        let x = scale.at(tick);
        line(canvas, vec![(x, top), (x, bottom)], GRID, 1)?;
        // The first label would be cut at the edge if it were centred.
        let anchor = if x < 16 { HPos::Left } else { HPos::Center };
        text(canvas, &human(tick), (x, bottom + 4), style(MUTED, anchor, VPos::Top))?;
    }
    let mut y = top;
    for group in groups {
        let mut row = y + 2;
        if beside {
            let label = shortened(&group.label, left - 6);
            let at = (left - 6, row + BAR / 2 + 1);
            text(canvas, &label, at, style(INK, HPos::Right, VPos::Center))?;
        } else {
            let label = shortened(&group.label, WIDTH - 8);
            text(canvas, &label, (left, row + 7), style(INK, HPos::Left, VPos::Center))?;
            row += 15;
        }
        for bar in &group.bars {
            let role = panel.series.get(bar.series).map_or(MUTED, |series| series.role);
            one_bar(canvas, bar, role, &Along { scale: &scale, origin }, row)?;
            row += BAR;
        }
        y += group_height(group, beside);
    }
    if let Some(reference) = reference {
        let x = scale.at(reference);
        line(canvas, vec![(x, top), (x, bottom)], INK, 1)?;
    }
    let unit = if scale.log { format!("{} (log axis)", panel.unit) } else { panel.unit.clone() };
    let at = (WIDTH - 2, bottom + 20);
    text(canvas, &shortened(&unit, WIDTH), at, style(MUTED, HPos::Right, VPos::Top))
}

/// The axis of bars and the pixel where they begin.
struct Along<'a> {
    scale: &'a Scale,
    origin: i32,
}

fn one_bar(canvas: &Canvas<'_>, bar: &Bar, role: Role, along: &Along<'_>, y: i32) -> Drawn {
    let (scale, origin) = (along.scale, along.origin);
    let tip = scale.at(bar.figure.median);
    let (x0, x1) = (origin.min(tip), origin.max(tip).max(origin.min(tip) + 1));
    let (upper, lower) = (y + 1, y + BAR - 1);
    match bar.mark {
        Mark::Plain => rectangle(canvas, [(x0, upper), (x1, lower)], role, true)?,
        Mark::Judged(judged) => rectangle(canvas, [(x0, upper), (x1, lower)], judged, true)?,
        Mark::Invalid => {
            rectangle(canvas, [(x0, upper), (x1, lower)], role, false)?;
            let mut x = x0 - (lower - upper);
            while x < x1 {
                // A stroke of 45 degrees, cut to the bar.
                let start = (x.max(x0), lower - (x.max(x0) - x));
                let end_x = (x + lower - upper).min(x1);
                line(canvas, vec![start, (end_x, lower - (end_x - x))], role, 1)?;
                x += 6;
            }
        }
    }
    let (low, high) = (scale.at(bar.figure.low), scale.at(bar.figure.high));
    let end = if bar.figure.count > 1 && high > low {
        let middle = y + BAR / 2;
        line(canvas, vec![(low, middle), (high, middle)], INK, 1)?;
        for x in [low, high] {
            line(canvas, vec![(x, middle - 3), (x, middle + 3)], INK, 1)?;
        }
        x1.max(high)
    } else {
        x1
    };
    let at = (end + 5, y + BAR / 2 + 1);
    text(canvas, &bar.text, at, style(INK, HPos::Left, VPos::Center))
}

fn marker(canvas: &Canvas<'_>, at: (i32, i32), series: usize, role: Role) -> Drawn {
    let (x, y) = at;
    match series % 3 {
        0 => canvas.draw(&Circle::new(at, 3, role.color().filled())).map_err(failed),
        1 => rectangle(canvas, [(x - 3, y - 3), (x + 3, y + 3)], role, true),
        _ => {
            line(canvas, vec![(x - 4, y - 4), (x + 4, y + 4)], role, 2)?;
            line(canvas, vec![(x - 4, y + 4), (x + 4, y - 4)], role, 2)
        }
    }
}

/// Both axes of a panel of lines.
struct Axes {
    x: Scale,
    y: Scale,
    nines: bool,
}

impl Axes {
    /// Height of a share on an axis of nines: 0, 90 %, 99 %, 99.9 %, 99.99 % at equal distances.
    fn nines_of(share: f64) -> f64 {
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

fn lines(canvas: &Canvas<'_>, panel: &Panel, drawn: &Lines, top: i32) -> Drawn {
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

#[cfg(test)]
mod tests {
    use super::super::figure::{Line, Point};
    use super::*;
    use crate::report::set::Figure;

    fn figure(median: f64, low: f64, high: f64) -> Figure {
        Figure { median, low, high, count: 3 }
    }

    fn panel(kind: Kind) -> Panel {
        let names = ["tidesdb".to_owned(), "rocksdb".to_owned()];
        Panel { title: String::new(), unit: "ops/s".into(), series: Series::named(&names), kind }
    }

    fn bar(series: usize, median: f64, mark: Mark) -> Bar {
        Bar { series, figure: figure(median, median * 0.9, median * 1.1), text: "t".into(), mark }
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
        let line =
            Line { series: 0, points: vec![Point::new(1.0, 1.0), Point::new(1_000.0, 5_000.0)] };
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
}
