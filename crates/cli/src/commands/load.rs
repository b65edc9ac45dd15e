//! `tidesdb load`: stores the records of a file or of standard input, in atomic batches.
//!
//! Every batch carries a checkpoint (see [`crate::resume`]), so a load that was interrupted by
//! anything, SIGKILL and power cuts included, goes on where it stopped. On Ctrl-C the batch at
//! hand is committed and the log synced before the command ends.
//!
//! A record that makes no sense stops the load: everything before it is stored, nothing behind
//! it, and once the line is repaired the same command goes on there. With --skip-bad such records
//! are counted and left out. A key that appears twice keeps its last value.
//!
//! The first line of a dump says that it is one: its families are created with their options, and
//! its records get back the times at which they expire.
//!
//! Programs are told what was stored by --json-report: --json is the form of the input, as in scan
//! and dump it is that of the output.

use std::io;
use std::rc::Rc;

use serde_json::{Value, json};
use tidesdb::{Db, WriteBatch, WriteOptions};

use crate::args::LoadArgs;
use crate::database::{self, Access};
use crate::encoding::Encoding;
use crate::failure::{Failure, Result, judged, note};
use crate::formats::{self, Format, Position, ReaderOptions, Record, RecordReader, Step};
use crate::interrupt;
use crate::output::print;
use crate::progress::{self, Meter};
use crate::resume::{self, Bookmark, Checkpoint};
use crate::source::{Source, Tap};
use crate::table::{bytes as human_bytes, count as human_count};
use crate::targets::{self, Targets};

/// A batch ends here even if it has fewer records than asked for.
const BATCH_BYTES: u64 = 8 << 20;

/// Bad records that are shown; the others are only counted.
const BAD_RECORDS_SHOWN: u64 = 10;

/// Runs the command.
///
/// # Errors
/// When the input cannot be read or makes no sense, when interrupted, and those of the engine.
pub(crate) fn run(args: &LoadArgs) -> Result<()> {
    let mut options = reader_options(args)?;
    let mut source = Source::open(&args.file, args.max_record_mib << 20)?;
    let header = match options.format {
        Format::Jsonl => targets::header(&mut source)?,
        Format::Tsv | Format::Csv => None,
    };
    if header.is_some() {
        options = dump_options(options);
    }
    interrupt::install()?;
    let db = database::open(&args.database.db, Access::Create)?;
    let targets = Targets::open(&db, header.as_ref(), args.family.as_deref())?;
    let bookmark = Bookmark::open(&db, &targets.label(), &source, args.resume_key.as_deref())?;
    let checkpoint = match &bookmark {
        Some(bookmark) => find_start(bookmark, &mut source, &options, args.restart)?,
        None => Checkpoint::start(&source, settings(&options)),
    };

    let (name, size, tap) = (source.name().to_owned(), source.size(), source.tap());
    let meter = Meter::new(args.progress, "loaded", size, checkpoint.position.offset);
    let mut reader = formats::reader(source, &options, checkpoint.position, checkpoint.columns)
        .map_err(|error| Failure::file("read", &name, &error))
        .inspect_err(|_| drop(resume::drop_if_empty(&db)))?;
    let mut loader = Loader {
        db: &db,
        targets,
        bookmark,
        before: Done::by(&checkpoint),
        done: Done::by(&checkpoint),
        bad_line: false,
        checkpoint,
        batch: WriteBatch::new(),
        bad_shown: 0,
        tap,
        meter,
        is_stream: size.is_none(),
        name,
        args,
    };
    let outcome = loader.run(reader.as_mut());
    let report = args.json_report.then(|| loader.report(outcome.is_ok()));
    drop(loader);
    // Whatever happened, what was committed is to survive a power cut from here on.
    let closed = progress::during("closing", String::new, || {
        db.sync_log()?;
        let dropped = resume::drop_if_empty(&db);
        db.close().and(dropped)
    });
    let verdict = outcome.and_then(|summary| {
        closed?;
        note(summary);
        Ok(())
    });
    match report {
        Some(mut report) => {
            // What is not on disk, or not closed, is not complete.
            if let Some(complete) = report.get_mut("complete") {
                *complete = Value::Bool(verdict.is_ok());
            }
            judged(print(format!("{report}\n")), verdict)
        }
        None => verdict,
    }
}

fn reader_options(args: &LoadArgs) -> Result<ReaderOptions> {
    let format = args.format().ok_or_else(|| {
        Failure::usage(format!("the format of {} is not clear", args.file.display()))
            .hint("add --format jsonl, --format tsv or --format csv")
    })?;
    if args.key_field == args.value_field {
        return Err(Failure::usage("--key-field and --value-field name the same field"));
    }
    Ok(ReaderOptions {
        format,
        encoding: args.encoding.encoding(),
        key_field: args.key_field.clone(),
        value_field: args.value_field.clone(),
        header: !args.no_header,
        is_dump: false,
    })
}

/// As the tool writes dumps, whatever names and encoding a user gave to fields: a dump says of each
/// field how it is written, and its fields `key` and `value` are always text.
fn dump_options(options: ReaderOptions) -> ReaderOptions {
    ReaderOptions {
        encoding: Encoding::Text,
        key_field: "key".to_owned(),
        value_field: "value".to_owned(),
        is_dump: true,
        ..options
    }
}

/// Everything that decides what a place in the input means.
fn settings(options: &ReaderOptions) -> String {
    let ReaderOptions { format, encoding, key_field, value_field, header, is_dump } = options;
    let encoding = encoding.name();
    match format {
        Format::Tsv => format!("tsv, {encoding}"),
        Format::Csv if !header => format!("csv without header, {encoding}"),
        Format::Csv => format!("csv, {encoding}, columns {key_field} and {value_field}"),
        Format::Jsonl if *is_dump => format!("a dump, {encoding}"),
        Format::Jsonl => format!("jsonl, {encoding}, fields {key_field} and {value_field}"),
    }
}

/// The checkpoint to begin at; moves the source there.
fn find_start(
    bookmark: &Bookmark,
    source: &mut Source,
    options: &ReaderOptions,
    restart: bool,
) -> Result<Checkpoint> {
    let start = Checkpoint::start(source, settings(options));
    if restart {
        return Ok(start);
    }
    let Some(found) = bookmark.read()? else { return Ok(start) };
    if found.resume(source, &start)? {
        note(format_args!(
            "warning: {} was changed since; --restart loads from the beginning",
            source.name()
        ));
    }
    let are = if found.records == 1 { "is" } else { "are" };
    note(format_args!(
        "resuming at line {}: {} {are} stored already",
        found.position.line,
        records_in_words(found.records)
    ));
    Ok(found.continued_with(&start))
}

/// What is committed, of this run and those before it.
#[derive(Clone, Copy)]
struct Done {
    records: u64,
    skipped: u64,
    position: Position,
}

impl Done {
    const fn by(checkpoint: &Checkpoint) -> Self {
        let Checkpoint { records, skipped, position, .. } = checkpoint;
        Self { records: *records, skipped: *skipped, position: *position }
    }
}

// More than a dozen fields: all that a run knows between two records, and its summary asks.
struct Loader<'a> {
    db: &'a Db,
    targets: Targets,
    bookmark: Option<Bookmark>,
    /// What is committed, then what will be with the batch at hand.
    checkpoint: Checkpoint,
    batch: WriteBatch,
    bad_shown: u64,
    /// The load ends at a record that makes no sense.
    bad_line: bool,
    /// What earlier runs have done, and what is done by now.
    before: Done,
    done: Done,
    tap: Rc<Tap>,
    meter: Meter,
    is_stream: bool,
    name: String,
    args: &'a LoadArgs,
}

impl Loader<'_> {
    /// Loads all records and returns a summary.
    fn run(&mut self, reader: &mut dyn RecordReader) -> Result<String> {
        let mut record = Record::default();
        self.checkpoint.columns = reader.columns();
        let mut position = reader.position();
        self.tap.advance(position.offset);
        loop {
            let step = self.next(reader, &mut record);
            let full = self.batch.len() as u64 >= self.args.batch
                || self.batch.size_bytes() >= BATCH_BYTES;
            let stop = match step {
                // Ctrl-C ends the other side of a pipe, too, which must not look like the end.
                Ok(Next::End) if self.is_stream && interrupt::requested() => {
                    Some(self.interrupted())
                }
                Ok(Next::End) => {
                    self.checkpoint.advance(reader.position(), &self.tap);
                    self.commit(true)?;
                    return Ok(self.summary());
                }
                Ok(Next::Stored | Next::Skipped) => {
                    position = reader.position();
                    self.tap.advance(position.offset);
                    self.meter.record(position.offset);
                    interrupt::requested().then(|| self.interrupted())
                }
                Err(failure) => Some(failure),
            };
            if full || stop.is_some() {
                self.checkpoint.advance(position, &self.tap);
                self.commit(false)?;
            }
            if let Some(failure) = stop {
                return Err(self.explain(failure));
            }
        }
    }

    fn next(&mut self, reader: &mut dyn RecordReader, record: &mut Record) -> Result<Next> {
        let begin = reader.position().line;
        let step = reader.next(record).map_err(|error: io::Error| {
            Failure::new(format!("line {begin} of {}: {error}", self.name))
        })?;
        let (line, reason) = match step {
            Step::End => return Ok(Next::End),
            Step::Bad { line, reason } => (line, reason),
            Step::Record { line } => match self.targets.put(&mut self.batch, record)? {
                Ok(()) => {
                    self.checkpoint.records += 1;
                    return Ok(Next::Stored);
                }
                Err(reason) => (line, reason),
            },
        };
        let message = format!("line {line} of {}: {reason}", self.name);
        if !self.args.skip_bad {
            self.bad_line = true;
            return Err(Failure::new(message));
        }
        self.checkpoint.skipped += 1;
        if self.bad_shown < BAD_RECORDS_SHOWN {
            self.bad_shown += 1;
            self.meter.note(&format!("skipped: {message}"));
        }
        Ok(Next::Skipped)
    }

    /// Commits the batch together with the checkpoint, or with its removal.
    fn commit(&mut self, complete: bool) -> Result<()> {
        match &self.bookmark {
            Some(bookmark) if complete => bookmark.remove(&mut self.batch)?,
            Some(bookmark) => bookmark.put(&mut self.batch, &self.checkpoint)?,
            None => {}
        }
        if !self.batch.is_empty() {
            let options = WriteOptions::new();
            let options = if self.args.sync { options.sync(true) } else { options };
            self.db.write_with(&self.batch, options)?;
            self.batch.clear();
        }
        self.done = Done::by(&self.checkpoint);
        Ok(())
    }

    fn interrupted(&self) -> Failure {
        Failure::interrupted(format!("the load of {} is incomplete", self.name))
    }

    /// Adds what is stored and how to go on.
    fn explain(&self, failure: Failure) -> Failure {
        let are = if self.checkpoint.records == 1 { "is" } else { "are" };
        let stored = format!("{} {are} stored", records_in_words(self.checkpoint.records));
        let line = self.checkpoint.position.line;
        failure.hint(match &self.bookmark {
            Some(_) if self.bad_line => format!(
                "{stored}; repair the line, and the same command goes on at line {line}; or \
                 --skip-bad leaves such records out"
            ),
            Some(_) => format!("{stored}; the same command goes on at line {line}"),
            None if self.bad_line => format!(
                "{stored}; --skip-bad leaves such records out, and with a --resume-key a load of \
                 standard input can go on"
            ),
            None => format!(
                "{stored}; a load of standard input is resumed only if it has a --resume-key"
            ),
        })
    }

    fn summary(&self) -> String {
        let Checkpoint { records, skipped, position, .. } = &self.checkpoint;
        let seconds = self.meter.elapsed().as_secs_f64();
        let mut text = format!(
            "loaded {} ({}) into {} in {seconds:.1} s",
            records_in_words(*records),
            human_bytes(position.offset),
            self.targets.description(),
        );
        if self.before.records > 0 {
            let this_run = records.saturating_sub(self.before.records);
            text.push_str(&format!(", {} of them in this run", human_count(this_run)));
        }
        match *skipped {
            0 => {}
            1 => text.push_str("; skipped 1 bad one"),
            many => text.push_str(&format!("; skipped {} bad ones", human_count(many))),
        }
        text
    }

    /// What is committed, for programs.
    fn report(&self, complete: bool) -> Value {
        let (before, done) = (&self.before, &self.done);
        let resumed = before.position != Position::START;
        json!({
            "loaded": self.name,
            "families": self.targets.names(),
            "complete": complete,
            "stored": done.records.saturating_sub(before.records),
            "stored_before": before.records,
            "skipped": done.skipped.saturating_sub(before.skipped),
            "skipped_before": before.skipped,
            "resumed_at_line": resumed.then_some(before.position.line),
            "next_line": done.position.line,
            "bytes": done.position.offset,
        })
    }
}

fn records_in_words(records: u64) -> String {
    match records {
        1 => "1 record".to_owned(),
        many => format!("{} records", human_count(many)),
    }
}

/// What became of the next record.
enum Next {
    Stored,
    Skipped,
    End,
}
