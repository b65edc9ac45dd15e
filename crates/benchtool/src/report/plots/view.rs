//! What plots and tables look at: a set, who is compared with whom, and the figures of each line.

use super::figure::{Bar, Group, Kind, Line, Lines, Mark, Panel, Point, Series};
use super::scale::human;
use crate::orchestrate::Run;
use crate::report::compare::{self, Sides};
use crate::report::set::{self, Line as Row, ResultSet, Summary};
use crate::spec::{OperationResult, Status};

/// A figure of a run and one of its operations.
pub(crate) type Measure = fn(&Run, &OperationResult) -> Option<f64>;

/// A set, its older versions, and the sides of the comparison.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// The results.
    pub(crate) set: &'a ResultSet,
    /// Results of older versions, oldest first.
    pub(crate) older: &'a [ResultSet],
    /// Engines that are drawn.
    pub(crate) engines: Vec<String>,
    /// Who is judged and against whom.
    pub(crate) sides: Sides,
}

/// What a run and its operation say about a test, for choosing rows.
pub(crate) struct About<'a> {
    /// A run of the test.
    pub(crate) run: &'a Run,
    /// The operation.
    pub(crate) operation: &'a str,
}

impl About<'_> {
    /// Name of the workload.
    pub(crate) fn workload(&self) -> &'static str {
        self.run.spec.shape.workload.name()
    }

    /// Name of the pattern.
    pub(crate) fn pattern(&self) -> &'static str {
        self.run.spec.shape.pattern.name()
    }

    /// Whether every commit is synced.
    pub(crate) fn synced(&self) -> bool {
        self.run.spec.setup.sync == crate::spec::Sync::Full
    }
}

impl<'a> View<'a> {
    /// Looks at a set; the null engine is not drawn beside real ones.
    pub(crate) fn new(set: &'a ResultSet, older: &'a [ResultSet], baseline: &str) -> Self {
        let mut engines = set.engine_names();
        if engines.iter().any(|engine| engine != "null") {
            engines.retain(|engine| engine != "null");
        }
        let sides = compare::sides(&engines, baseline);
        Self { set, older, engines, sides }
    }

    /// Lines whose test and operation are wanted, loads left out.
    pub(crate) fn rows(&self, wanted: impl Fn(&About<'_>) -> bool) -> Vec<Row> {
        let mut rows = self.set.lines();
        rows.retain(|row| {
            let example = self.set.example(&row.test);
            !set::is_load(&row.test)
                && example.is_some_and(|run| wanted(&About { run, operation: &row.operation }))
        });
        rows
    }

    /// Whether the row of an engine may be believed.
    pub(crate) fn believable(&self, test: &str, engine: &str) -> bool {
        self.set.status(test, engine) == Some(Status::Valid)
    }

    /// A group of bars per row, a bar per engine.
    pub(crate) fn bars(
        &self,
        title: &str,
        unit: &str,
        rows: &[Row],
        measure: Measure,
    ) -> Vec<Panel> {
        let groups: Vec<Group> = rows
            .iter()
            .map(|row| Group { label: row.label.clone(), bars: self.bars_of(row, measure) })
            .filter(|group| !group.bars.is_empty())
            .collect();
        if groups.is_empty() {
            return Vec::new();
        }
        vec![Panel {
            title: title.to_owned(),
            unit: unit.to_owned(),
            series: Series::named(&self.engines),
            kind: Kind::Bars(groups, None),
        }]
    }

    fn bars_of(&self, row: &Row, measure: Measure) -> Vec<Bar> {
        let bar = |(series, engine): (usize, &String)| {
            let summary = self.set.summary(row, engine, measure)?;
            let believable = self.believable(&row.test, engine);
            let text = match believable {
                true => human(summary.median),
                false => format!("{} INVALID", human(summary.median)),
            };
            let mark = if believable { Mark::Plain } else { Mark::Invalid };
            Some(Bar { series, summary, text, mark })
        };
        self.engines.iter().enumerate().filter_map(bar).collect()
    }

    /// Lines over a number that differs between the rows of a family (threads, batch size, ...): a
    /// panel per family, a line per engine.
    pub(crate) fn sweep(&self, sweep: &Sweep<'_>, rows: &[Row], measure: Measure) -> Vec<Panel> {
        let mut families: Vec<(String, Vec<(f64, &Row)>)> = Vec::new();
        for row in rows {
            let Some(run) = self.set.example(&row.test) else { continue };
            let about = About { run, operation: &row.operation };
            let name = (sweep.family)(&about);
            let x = (sweep.x)(run);
            match families.iter_mut().find(|(known, _)| *known == name) {
                Some((_, members)) if members.iter().all(|(known, _)| *known != x) => {
                    members.push((x, row));
                }
                Some(_) => {}
                None => families.push((name, vec![(x, row)])),
            }
        }
        families.retain(|(_, members)| members.len() > 1);
        let panels = families.into_iter().map(|(name, mut members)| {
            members.sort_by(|one, other| one.0.total_cmp(&other.0));
            self.sweep_panel(sweep, &name, &members, measure)
        });
        panels.collect()
    }

    fn sweep_panel(
        &self,
        sweep: &Sweep<'_>,
        name: &str,
        members: &[(f64, &Row)],
        measure: Measure,
    ) -> Panel {
        let line = |(series, engine): (usize, &String)| {
            let points: Vec<Point> = members
                .iter()
                .filter(|(_, row)| self.believable(&row.test, engine))
                .filter_map(|(x, row)| {
                    let summary = self.set.summary(row, engine, measure)?;
                    Some(point(*x, summary))
                })
                .collect();
            Line { series, points }
        };
        Panel {
            title: name.to_owned(),
            unit: sweep.unit.to_owned(),
            series: Series::named(&self.engines),
            kind: Kind::Lines(Lines {
                x_unit: sweep.x_unit.to_owned(),
                x_log: sweep.x_log,
                markers: true,
                nines: false,
                lines: self.engines.iter().enumerate().map(line).collect(),
            }),
        }
    }

    /// A panel per row with a line per engine, from the first believable repetition.
    pub(crate) fn series(
        &self,
        rows: &[Row],
        frame: &Lines,
        unit: &str,
        points: impl Fn(&Run, &OperationResult) -> Vec<Point>,
    ) -> Vec<Panel> {
        let mut panels = Vec::new();
        for row in rows {
            let mut lines = Vec::new();
            for (series, engine) in self.engines.iter().enumerate() {
                let run = self
                    .set
                    .repetitions(&row.test, engine)
                    .find(|run| run.result.status == Status::Valid);
                let operation = run.and_then(|run| set::operation_of(run, &row.operation));
                if let Some((run, operation)) = run.zip(operation) {
                    lines.push(Line { series, points: points(run, operation) });
                }
            }
            lines.retain(|line| line.points.len() > 1);
            if !lines.is_empty() {
                panels.push(Panel {
                    title: row.label.clone(),
                    unit: unit.to_owned(),
                    series: Series::named(&self.engines),
                    kind: Kind::Lines(Lines { lines, ..frame.clone() }),
                });
            }
        }
        panels
    }
}

/// A number of threads in words.
pub(crate) fn threads(count: u64) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}

/// How a sweep is read and named.
pub(crate) struct Sweep<'a> {
    /// The number that varies.
    pub(crate) x: fn(&Run) -> f64,
    /// Names what is alike within a family; the title of its panel.
    pub(crate) family: fn(&About<'_>) -> String,
    /// Title of the horizontal axis.
    pub(crate) x_unit: &'a str,
    /// Whether it is logarithmic.
    pub(crate) x_log: bool,
    /// Title of the vertical axis.
    pub(crate) unit: &'a str,
}

fn point(x: f64, summary: Summary) -> Point {
    Point { x, y: summary.median, range: (summary.low, summary.high) }
}
