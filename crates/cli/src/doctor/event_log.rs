//! What the file `LOG` of a database tells of writers that were held up. The counters of a process
//! end with it; its lines stay, where `DbOptions::event_log` had them written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use tidesdb::StallReason;

/// Names of the files in a directory, the older one first.
const NAMES: [&str; 2] = ["LOG.old", "LOG"];
/// As much of a file is read, from its end back: it may have no bound.
const MOST_BYTES: u64 = 16 << 20;

/// The lines of both files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventLog {
    /// Lines that were read.
    pub(crate) lines: u64,
    /// Times of the first and the last of them, in UTC; empty where there is none.
    pub(crate) first: String,
    pub(crate) last: String,
    /// What held writers up, by reason; only reasons that occur.
    pub(crate) held_up: Vec<HeldUp>,
}

/// The lines about writers that were held up for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldUp {
    pub(crate) reason: StallReason,
    /// Lines about writers that had waited.
    pub(crate) waited: u64,
    pub(crate) milliseconds: u64,
    pub(crate) longest_milliseconds: u64,
    /// Lines about writers that were held to a rate.
    pub(crate) slowed: u64,
    /// The family and the time of the last of these lines.
    pub(crate) family: String,
    pub(crate) last: String,
}

/// What one line says.
struct Told<'a> {
    reason: StallReason,
    family: &'a str,
    /// How long the writer waited; none where it was slowed.
    milliseconds: Option<u64>,
}

impl EventLog {
    /// What lies in a directory; none where there is no such file, or it can't be read.
    pub(crate) fn of(directory: &Path) -> Option<Self> {
        let texts = NAMES.map(|name| end_of(&directory.join(name)).ok());
        if texts.iter().all(Option::is_none) {
            return None;
        }
        let mut log = Self::default();
        texts.iter().flatten().flat_map(|text| text.lines()).for_each(|line| log.add(line));
        Some(log)
    }

    /// Takes a line `[TIME] [LEVEL] TEXT`. What is none, since a crash or an editor cut it, is
    /// passed over.
    fn add(&mut self, line: &str) {
        let parts = line.strip_prefix('[').and_then(|line| line.split_once("] ["));
        let Some((time, text)) =
            parts.and_then(|(time, rest)| Some((time, rest.split_once("] ")?.1)))
        else {
            return;
        };
        self.lines += 1;
        if self.first.is_empty() {
            time.clone_into(&mut self.first);
        }
        time.clone_into(&mut self.last);
        let Some(told) = waited(text).or_else(|| slowed(text)) else { return };
        let held_up = self.of_reason(told.reason);
        match told.milliseconds {
            Some(milliseconds) => {
                held_up.waited += 1;
                held_up.milliseconds = held_up.milliseconds.saturating_add(milliseconds);
                held_up.longest_milliseconds = held_up.longest_milliseconds.max(milliseconds);
            }
            None => held_up.slowed += 1,
        }
        told.family.clone_into(&mut held_up.family);
        time.clone_into(&mut held_up.last);
    }

    fn of_reason(&mut self, reason: StallReason) -> &mut HeldUp {
        let at = self.held_up.iter().position(|held_up| held_up.reason == reason);
        let at = at.unwrap_or_else(|| {
            self.held_up.push(HeldUp {
                reason,
                waited: 0,
                milliseconds: 0,
                longest_milliseconds: 0,
                slowed: 0,
                family: String::new(),
                last: String::new(),
            });
            self.held_up.len() - 1
        });
        &mut self.held_up[at]
    }
}

/// Reads `a writer of 'FAMILY' waited N ms: REASON`.
fn waited(text: &str) -> Option<Told<'_>> {
    let (family, rest) = text.strip_prefix("a writer of '")?.rsplit_once("' waited ")?;
    let (milliseconds, reason) = rest.split_once(" ms: ")?;
    Some(Told { reason: named(reason)?, family, milliseconds: Some(milliseconds.parse().ok()?) })
}

/// Reads `writes to 'FAMILY' are held to N B/s: REASON`.
fn slowed(text: &str) -> Option<Told<'_>> {
    let (family, rest) = text.strip_prefix("writes to '")?.rsplit_once("' are held to ")?;
    let (_, reason) = rest.split_once(" B/s: ")?;
    Some(Told { reason: named(reason)?, family, milliseconds: None })
}

fn named(reason: &str) -> Option<StallReason> {
    StallReason::ALL.into_iter().find(|known| known.name() == reason)
}

/// The end of a file, from the beginning of a line on.
fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let skipped = file.metadata()?.len().saturating_sub(MOST_BYTES);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let begin = if skipped > 0 { text.find('\n').map_or(text.len(), |at| at + 1) } else { 0 };
    Ok(text.get(begin..).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use tidesdb::Event;

    use super::*;

    fn line(second: u32, event: &Event) -> String {
        format!("[2026-11-28T10:00:{second:02}.000Z] [WARN] {event}\n")
    }

    /// The lines are those of the engine: other words there would be passed over here.
    #[test]
    fn the_lines_of_the_engine_are_understood() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(EventLog::of(directory.path()), None);
        let family = "it's' waited 7 ms: flush queue".to_owned();
        let waited = |milliseconds, reason| {
            let family = family.clone();
            Event::WriterWaited { family, reason, milliseconds }
        };
        let (queue, debt) = (StallReason::FlushQueue, StallReason::CompactionDebt);
        let slowed =
            Event::WritesSlowed { family: "b".to_owned(), reason: debt, bytes_per_second: 9 };
        std::fs::write(directory.path().join("LOG.old"), line(1, &waited(30, queue))).unwrap();
        let text = [
            line(2, &Event::Closed),
            line(3, &slowed),
            "no line of the engine\n[\n[a] [b\n".to_owned(),
            line(4, &waited(12, debt)),
            line(5, &waited(20, queue)),
            "[2026-11-28T10:00:06.000Z] [WARN] a writer of 'x' wai".to_owned(),
        ];
        std::fs::write(directory.path().join("LOG"), text.concat()).unwrap();
        let log = EventLog::of(directory.path()).unwrap();
        assert_eq!(log.lines, 6);
        assert_eq!(
            (&*log.first, &*log.last),
            ("2026-11-28T10:00:01.000Z", "2026-11-28T10:00:06.000Z")
        );
        let [of_queue, of_debt] = log.held_up.as_slice() else { panic!("{log:?}") };
        let expected = HeldUp {
            reason: queue,
            waited: 2,
            milliseconds: 50,
            longest_milliseconds: 30,
            slowed: 0,
            family,
            last: "2026-11-28T10:00:05.000Z".to_owned(),
        };
        assert_eq!(of_queue, &expected);
        assert_eq!((of_debt.waited, of_debt.slowed, of_debt.milliseconds), (1, 1, 12));
    }
}
