//! Progress on standard error: a bar or a counter at a terminal, plain lines elsewhere if asked.
//!
//! Progress never mixes with output: it goes to standard error, and vanishes when the work is done.
//! A [`Meter`] may be called for every single record; it looks at the clock rarely.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use tidesdb::{Error, Progress};

use crate::failure::{Failure, Result, note};
use crate::interrupt;
use crate::table::{bytes as human_bytes, count as human_count};

/// Redrawing of a bar, and lines where there is no terminal.
const REDRAWS_PER_SECOND: u8 = 8;
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Milliseconds after which work is shown, in place of a second; with 0 all of it is, however
/// short. Tests set it.
const SHOWN_AFTER: &str = "TIDESDB_PROGRESS_AFTER_MS";

/// Records between two looks at the clock.
const RECORDS_PER_LOOK: u64 = 64;

/// When to show progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// At a terminal
    #[default]
    Auto,
    /// Also elsewhere, as plain lines
    Always,
    /// Not at all
    Never,
}

/// How long work takes before it is shown.
fn shown_after() -> Duration {
    let given = std::env::var(SHOWN_AFTER).ok().and_then(|text| text.parse().ok());
    given.map_or(LINE_INTERVAL, Duration::from_millis)
}

enum Display {
    Bar(ProgressBar),
    Lines { last: Instant },
    Nothing,
}

/// Shows how far a command has come.
pub(crate) struct Meter {
    display: Display,
    verb: &'static str,
    begun: Instant,
    total: Option<u64>,
    records: u64,
}

impl Meter {
    /// A meter of work that handles records of an input or output of `total` bytes, if known,
    /// of which `done` are behind us. `verb` is what has been done to a record.
    pub(crate) fn new(
        mode: ProgressMode,
        verb: &'static str,
        total: Option<u64>,
        done: u64,
    ) -> Self {
        let begun = Instant::now();
        let mut meter = Self { display: Display::Nothing, verb, begun, total, records: 0 };
        let bar = ProgressBar::with_draw_target(
            total,
            ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND),
        );
        if mode == ProgressMode::Never {
            return meter;
        }
        if !bar.is_hidden() {
            bar.set_style(style(total.is_some()));
            bar.set_position(done);
            bar.reset_eta();
            bar.enable_steady_tick(Duration::from_millis(250));
            meter.display = Display::Bar(bar);
        } else if mode == ProgressMode::Always {
            meter.display = Display::Lines { last: begun };
            meter.line(done);
        }
        meter
    }

    /// Takes note of one more record; `bytes` is the position in the input or output.
    pub(crate) fn record(&mut self, bytes: u64) {
        self.records += 1;
        if !self.records.is_multiple_of(RECORDS_PER_LOOK) {
            return;
        }
        match &self.display {
            Display::Bar(bar) => {
                bar.set_position(bytes);
                bar.set_message(self.message());
            }
            Display::Lines { last } if last.elapsed() >= LINE_INTERVAL => {
                self.line(bytes);
                self.display = Display::Lines { last: Instant::now() };
            }
            Display::Lines { .. } | Display::Nothing => {}
        }
    }

    /// Records noted so far.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Time since the work began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Prints a line above the bar.
    pub(crate) fn note(&self, line: &str) {
        match &self.display {
            Display::Bar(bar) => bar.suspend(|| note(line)),
            Display::Lines { .. } | Display::Nothing => note(line),
        }
    }

    fn message(&self) -> String {
        let seconds = self.begun.elapsed().as_secs_f64().max(0.001);
        let rate = self.records as f64 / seconds;
        format!(
            "{} records {}, {}/s",
            human_count(self.records),
            self.verb,
            human_count(rate as u64)
        )
    }

    fn line(&self, bytes: u64) {
        let share = match self.total {
            Some(total) if total > 0 => format!(" ({} %)", bytes.min(total) * 100 / total),
            _ => String::new(),
        };
        note(format_args!("progress: {}, {}{share}", self.message(), human_bytes(bytes)));
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}

/// Does work that tells how far it is, behind a bar at a terminal, and ends it when the user asks
/// for it. `interrupted` is what is told then.
///
/// # Errors
/// That of the work, or that it was interrupted.
pub(crate) fn with_bar<T>(
    interrupted: &str,
    work: impl FnOnce(&mut dyn FnMut(Progress) -> tidesdb::Result<()>) -> tidesdb::Result<T>,
) -> Result<T> {
    interrupt::install()?;
    let mut bar = WorkBar::new();
    let done = work(&mut |progress| {
        bar.update(progress);
        if interrupt::requested() { Err(Error::Cancelled) } else { Ok(()) }
    });
    drop(bar);
    match done {
        Err(Error::Cancelled) => Err(Failure::interrupted(interrupted)),
        done => Ok(done?),
    }
}

/// A bar for work of which bytes are known, at a terminal and once it has taken a second.
pub(crate) struct WorkBar {
    bar: Option<ProgressBar>,
    begun: Instant,
    shown_after: Duration,
}

impl WorkBar {
    /// A bar that is not shown yet.
    pub(crate) fn new() -> Self {
        Self { bar: None, begun: Instant::now(), shown_after: shown_after() }
    }

    /// Shows what is being done and how far it is.
    pub(crate) fn update(&mut self, progress: Progress) {
        if self.bar.is_none() && self.begun.elapsed() >= self.shown_after {
            let bar = ProgressBar::with_draw_target(
                Some(progress.total),
                ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND),
            );
            bar.set_style(style(true));
            self.bar = Some(bar);
        }
        if let Some(bar) = &self.bar {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
            bar.set_message(progress.what);
        }
    }
}

impl Drop for WorkBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A counter for work that reports nothing while it runs.
fn spinner(message: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(message);
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND));
    bar.set_style(template("{spinner} {msg} {elapsed}"));
    // Drawn by the caller: the thread that redraws it may begin when the work is done.
    bar.tick();
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// Does work of unknown length: once it takes more than a second, a line at the terminal shows how
/// long, and what `so_far` says of it.
pub(crate) fn during<T>(
    message: &'static str,
    so_far: impl Fn() -> String + Send,
    work: impl FnOnce() -> T,
) -> T {
    let (working, ended) = mpsc::channel::<()>();
    let goes_on = move |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    let wait = shown_after();
    let at_once = if wait.is_zero() { Some(spinner(message)) } else { None };
    thread::scope(|scope| {
        scope.spawn(move || {
            if at_once.is_none() && !goes_on(wait) {
                return;
            }
            let bar = at_once.unwrap_or_else(|| spinner(message));
            while goes_on(Duration::from_millis(250)) {
                bar.set_message(format!("{message} {}", so_far()));
            }
            bar.finish_and_clear();
        });
        let done = work();
        drop(working);
        done
    })
}

fn style(with_total: bool) -> ProgressStyle {
    let style = template(if with_total {
        "{wide_bar} {percent:>3} %  {binary_bytes}/{binary_total_bytes}  {msg}  ETA {eta}"
    } else {
        "{spinner} {binary_bytes}  {msg}  {elapsed}"
    });
    style.progress_chars("=> ")
}

fn template(text: &str) -> ProgressStyle {
    ProgressStyle::with_template(text).unwrap_or_else(|_| ProgressStyle::default_bar())
}
