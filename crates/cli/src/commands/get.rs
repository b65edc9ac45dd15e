//! `tidesdb get`: prints the values of keys.
//!
//! The value of a single key is printed as it is, so that output can be redirected into a file;
//! only at a terminal a line break follows. With --hex or --base64 it is printed in that form, as
//! one line. Several keys are looked up together, and each that is there is a line with key and
//! value, in the order in which they were named.

use std::cmp;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb::{Family, KeyOrder, Scan, ScanOptions};

use crate::args::{EncodingArgs, GetArgs};
use crate::database::{self, Access};
use crate::encoding::Encoding;
use crate::failure::{Failure, Result, judged, note};
use crate::formats::{self, Format, RecordWriter, Row};
use crate::output::print;
use crate::progress;
use crate::table::count;

/// Keys that are looked up together.
const KEYS_AT_ONCE: usize = 1000;

/// Keys that are not there and named on standard error; the others are counted.
const MOST_NAMED: u64 = 10;

/// Runs the command.
///
/// # Errors
/// When a key is absent, and those of the engine and of standard output.
pub(crate) fn run(args: &GetArgs) -> Result<()> {
    if args.keys.is_empty() && args.keys_from.is_none() {
        return Err(Failure::usage("no key is named").hint("`tidesdb get KEY`, or --keys-from"));
    }
    let decode = |key| args.encoding.decode("key", key);
    let keys: Vec<Vec<u8>> = args.keys.iter().map(decode).collect::<Result<_>>()?;
    let db = database::open(&args.target.database.db, Access::Read)?;
    let family = database::family(&db, &args.target.family)?;
    if let ([key], None, false) = (keys.as_slice(), &args.keys_from, args.json) {
        return single(&family, key, args.encoding.encoding());
    }
    let stdout = io::stdout().lock();
    let is_terminal = stdout.is_terminal();
    let mut values = Values::new(&args.encoding, args.json, is_terminal);
    let mut output = BufWriter::new(stdout);
    let snapshot = db.snapshot();
    let mut expiries = match args.json {
        true => Some(Expiries {
            scan: family.scan(ScanOptions::new().snapshot(&snapshot))?,
            order: family.options().key_order,
        }),
        false => None,
    };
    let mut look_up = |keys: &[Vec<u8>], output: &mut dyn Write| {
        for some in keys.chunks(KEYS_AT_ONCE) {
            let found = family.multi_get_pinned_at(&snapshot, some)?;
            let found = found.iter().map(|value| value.as_ref().map(AsRef::as_ref));
            values.write((some, found), expiries.as_mut(), output)?;
        }
        Ok(())
    };
    look_up(&keys, &mut output)?;
    if let Some(path) = &args.keys_from {
        let done = AtomicU64::new(0);
        let mut work = || {
            each_some(path, &args.encoding, |keys| {
                // ORDERING: relaxed; the other thread only shows the number.
                done.fetch_add(keys.len() as u64, Ordering::Relaxed);
                look_up(keys, &mut output)
            })
        };
        // Lines at the terminal show how far it is.
        match is_terminal {
            true => work()?,
            false => {
                // ORDERING: as above.
                let so_far = || format!("{} keys", count(done.load(Ordering::Relaxed)));
                progress::during("looking up", so_far, work)?;
            }
        }
    }
    let printed = output.flush().map_err(|error| Failure::output(&error));
    judged(printed, values.end())
}

fn single(family: &Family, key: &[u8], encoding: Encoding) -> Result<()> {
    let Some(mut value) = family.get(key)? else {
        return Err(Failure::not_found());
    };
    if encoding == Encoding::Text {
        if io::stdout().is_terminal() && !value.ends_with(b"\n") {
            value.push(b'\n');
        }
    } else {
        let mut text = Vec::new();
        encoding.encode(&value, &mut text);
        text.push(b'\n');
        value = text;
    }
    print(value)
}

/// Calls `work` with the keys of a file or of standard input, one a line, some at a time.
fn each_some(
    path: &Path,
    encoding: &EncodingArgs,
    mut work: impl FnMut(&[Vec<u8>]) -> Result<()>,
) -> Result<()> {
    let failed = |error: io::Error| Failure::file("read", path, &error);
    let mut input: Box<dyn BufRead> = if path.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(path).map_err(failed)?))
    };
    let (mut keys, mut line) = (Vec::new(), Vec::new());
    for number in 1u64.. {
        line.clear();
        if input.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        let key = line.strip_suffix(b"\n").unwrap_or(&line);
        let key = key.strip_suffix(b"\r").unwrap_or(key);
        if key.is_empty() {
            continue;
        }
        let key = encoding.decode_bytes("key", key).map_err(|failure| failure.at_line(number))?;
        keys.push(key);
        if keys.len() == KEYS_AT_ONCE {
            work(&keys)?;
            keys.clear();
        }
    }
    work(&keys)
}

/// When keys expire, looked up by a scan of the state that they were read from.
pub(crate) struct Expiries {
    pub(crate) scan: Scan,
    /// The order of the family's keys.
    pub(crate) order: KeyOrder,
}

impl Expiries {
    fn of(&mut self, key: &[u8]) -> Result<Option<u64>> {
        self.scan.seek(key)?;
        if !self.scan.valid() {
            return Ok(None);
        }
        let order = self.order.compare(key, self.scan.key());
        let is_found = order.map_or(key == self.scan.key(), cmp::Ordering::is_eq);
        Ok(if is_found { self.scan.expires_at_unix_seconds() } else { None })
    }
}

/// Prints values of several keys, and which have none.
pub(crate) struct Values {
    writer: Box<dyn RecordWriter>,
    encoding: Encoding,
    json: bool,
    absent: u64,
    /// Set when the output has no reader any more: the keys are still looked up.
    closed: Option<Failure>,
}

impl Values {
    /// As lines of text, whose long values are cut if `cut` is set, or of JSON.
    pub(crate) fn new(encoding: &EncodingArgs, json: bool, cut: bool) -> Self {
        let encoding = encoding.encoding();
        let writer = if json {
            formats::writer(Format::Jsonl, encoding)
        } else {
            formats::text_writer(encoding, cut)
        };
        Self { writer, encoding, json, absent: 0, closed: None }
    }

    /// Prints the values found for some keys. As JSON a key that is not there has no value; as text
    /// it is written to standard error.
    ///
    /// # Errors
    /// When the output cannot be written; those of the scan.
    pub(crate) fn write<'v>(
        &mut self,
        (keys, values): (&[Vec<u8>], impl Iterator<Item = Option<&'v [u8]>>),
        mut expiries: Option<&mut Expiries>,
        output: &mut dyn Write,
    ) -> Result<()> {
        for (key, value) in keys.iter().zip(values) {
            if self.closed.is_none() && (value.is_some() || self.json) {
                let expires_at = match expiries.as_deref_mut().filter(|_| value.is_some()) {
                    Some(expiries) => expiries.of(key)?,
                    None => None,
                };
                let row = Row { key, value, expires_at, ..Row::default() };
                let written = self.writer.write(output, row);
                match written.map_err(|error| Failure::output(&error)) {
                    Err(failure) if failure.is_output_closed() => self.closed = Some(failure),
                    written => written?,
                }
            }
            if value.is_none() {
                self.absent += 1;
                if !self.json && self.absent <= MOST_NAMED {
                    let mut text = Vec::new();
                    self.encoding.encode(key, &mut text);
                    note(format_args!("not found: {}", String::from_utf8_lossy(&text)));
                }
            }
        }
        Ok(())
    }

    /// Whether each key had a value.
    ///
    /// # Errors
    /// When one had none, or the reader of the output has gone.
    pub(crate) fn end(self) -> Result<()> {
        match self.absent {
            0 => self.closed.map_or(Ok(()), Err),
            absent => Err(Failure::absent(absent)),
        }
    }
}
