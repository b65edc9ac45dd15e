//! Panels of bars.

use super::super::colors::{GRID, INK, MUTED, Role};
use super::super::figure::{Bar, Group, Mark, Panel};
use super::super::scale::{Scale, human};
use super::shapes::{Canvas, Drawn, WIDTH, line, rectangle, shortened, style, text, text_width};
use plotters::style::text_anchor::{HPos, VPos};

pub(super) const BAR: i32 = 13;
/// Room for the text at the end of the longest bar.
const TEXT_ROOM: i32 = 62;

/// Labels are beside the bars if that does for every group; in one picture all lie alike.
fn labels_beside(groups: &[Group]) -> bool {
    groups.iter().all(|group| group.bars.len() <= 1)
}

fn group_height(group: &Group, beside: bool) -> i32 {
    if beside { BAR + 6 } else { 16 + BAR * group.bars.len() as i32 + 7 }
}

pub(super) fn rows_height(groups: &[Group]) -> i32 {
    let beside = labels_beside(groups);
    groups.iter().map(|group| group_height(group, beside)).sum()
}

pub(super) fn bars(
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
    let values = shown.flat_map(|bar| [bar.summary.median, bar.summary.low, bar.summary.high]);
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
    let tip = scale.at(bar.summary.median);
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
    let (low, high) = (scale.at(bar.summary.low), scale.at(bar.summary.high));
    let end = if bar.summary.count > 1 && high > low {
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
