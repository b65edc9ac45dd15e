//! Draws panels as SVG, with the plotters crate's SVG backend.
//!
//! Drawings are 460 units wide whatever they show, with text of 12 units, so that they are readable
//! on a phone (where they fill the width) and stand side by side on a wide screen. Bars lie, so
//! that names of tests have room. Nothing is drawn outside; text of users is shortened.

mod bars;
mod lines;
mod shapes;

use super::colors::{self, INK};
use super::figure::{Kind, Panel, Series};
use bars::{bars, rows_height};
use lines::{LINES_HEIGHT, lines};
use plotters::backend::SVGBackend;
use plotters::drawing::IntoDrawingArea;
use plotters::style::text_anchor::{HPos, VPos};
use shapes::{Canvas, Drawn, WIDTH, failed, line, marker, rectangle, style, text, text_width};

const LEGEND_LINE: i32 = 18;

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

#[cfg(test)]
mod tests;
