//! Texts, lines and rectangles on a canvas.

use super::super::colors::Role;
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, ShapeStyle, TextStyle};

/// Width of every drawing.
pub(super) const WIDTH: i32 = 460;
pub(super) const FONT: i32 = 12;
/// The SVG backend divides sizes by this, which turns the size of a font's box into that of its
/// letters.
pub(super) const BACKEND_FONT: f64 = 1.24;
/// Width of an average letter.
pub(super) const LETTER: f64 = 6.4;

pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Drawn = Result<(), String>;

pub(super) fn failed(error: impl std::fmt::Display) -> String {
    format!("drawing: {error}")
}

pub(super) fn style(role: Role, left: HPos, middle: VPos) -> TextStyle<'static> {
    let font = ("sans-serif", f64::from(FONT) * BACKEND_FONT).into_font();
    TextStyle { font, color: role.color().to_backend_color(), pos: Pos::new(left, middle) }
}

pub(super) fn text(
    canvas: &Canvas<'_>,
    content: &str,
    at: (i32, i32),
    style: TextStyle<'static>,
) -> Drawn {
    canvas.draw(&Text::new(content.to_owned(), at, style)).map_err(failed)
}

pub(super) fn line(canvas: &Canvas<'_>, points: Vec<(i32, i32)>, role: Role, width: u32) -> Drawn {
    let style = ShapeStyle::from(&role.color()).stroke_width(width);
    canvas.draw(&PathElement::new(points, style)).map_err(failed)
}

pub(super) fn rectangle(
    canvas: &Canvas<'_>,
    corners: [(i32, i32); 2],
    role: Role,
    filled: bool,
) -> Drawn {
    let style = if filled { role.color().filled() } else { ShapeStyle::from(&role.color()) };
    canvas.draw(&Rectangle::new(corners, style)).map_err(failed)
}

/// A text cut to a width in units.
pub(super) fn shortened(content: &str, width: i32) -> String {
    let letters = (f64::from(width) / LETTER).max(1.0) as usize;
    if content.chars().count() <= letters {
        return content.to_owned();
    }
    let kept: String = content.chars().take(letters.saturating_sub(1)).collect();
    format!("{kept}…")
}

pub(super) fn text_width(content: &str) -> i32 {
    (content.chars().count() as f64 * LETTER) as i32
}

pub(super) fn marker(canvas: &Canvas<'_>, at: (i32, i32), series: usize, role: Role) -> Drawn {
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
