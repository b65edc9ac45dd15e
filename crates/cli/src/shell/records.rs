//! Commands of the shell that read and write records: in the transaction, if there is one, or at
//! the snapshot.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use tidesdb::{Family, Scan, ScanOptions, TransactionScan, WriteOptions};

use super::line::{CountArgs, DeleteArgs, KeyArgs, PutArgs, ScanArgs};
use super::session::{Outcome, Session, print};
use crate::args::{EncodingArgs, RangeArgs};
use crate::failure::{Failure, Result};
use crate::formats::{self, Row};
use crate::interrupt;

/// A scan, in a transaction or not.
enum Cursor {
    Plain(Scan),
    Own(TransactionScan),
}

impl Cursor {
    fn first(&mut self, reverse: bool) -> Result<()> {
        let done = match (self, reverse) {
            (Self::Plain(scan), false) => scan.seek_to_first(),
            (Self::Plain(scan), true) => scan.seek_to_last(),
            (Self::Own(scan), false) => scan.seek_to_first(),
            (Self::Own(scan), true) => scan.seek_to_last(),
        };
        done.map_err(Failure::from)
    }

    fn valid(&self) -> bool {
        match self {
            Self::Plain(scan) => scan.valid(),
            Self::Own(scan) => scan.valid(),
        }
    }

    fn step(&mut self, reverse: bool) -> Result<()> {
        let done = match (self, reverse) {
            (Self::Plain(scan), false) => scan.next(),
            (Self::Plain(scan), true) => scan.prev(),
            (Self::Own(scan), false) => scan.next(),
            (Self::Own(scan), true) => scan.prev(),
        };
        done.map_err(Failure::from)
    }

    fn row(&self, keys_only: bool) -> Result<Row<'_>> {
        let (key, value) = match self {
            Self::Plain(scan) if keys_only => (scan.key(), None),
            Self::Own(scan) if keys_only => (scan.key(), None),
            Self::Plain(scan) => (scan.key(), Some(scan.value()?)),
            Self::Own(scan) => (scan.key(), Some(scan.value()?)),
        };
        Ok(Row { key, value, ..Row::default() })
    }
}

fn decode(encoding: &EncodingArgs, what: &str, argument: &OsString) -> Result<Vec<u8>> {
    encoding.decode(what, argument)
}

impl Session {
    /// Prints a value as text that `put` takes.
    pub(super) fn get(&mut self, args: &KeyArgs, output: &mut dyn Write) -> Result<Outcome> {
        let key = decode(&args.encoding, "key", &args.key)?;
        let family = self.family()?;
        let value = match (&self.transaction, &self.snapshot) {
            (Some(transaction), _) => transaction.get(&family, &key)?,
            (None, Some(snapshot)) => family.get_at(snapshot, &key)?,
            (None, None) => family.get(&key)?,
        };
        let Some(value) = value else { return Ok(Outcome::NotFound) };
        let mut text = Vec::new();
        args.encoding.encoding().encode(&value, &mut text);
        text.push(b'\n');
        let failed = |error: io::Error| Failure::output(&error);
        output.write_all(&text).and_then(|()| output.flush()).map_err(failed)?;
        Ok(Outcome::Done)
    }

    pub(super) fn put(&mut self, args: &PutArgs) -> Result<()> {
        let key = decode(&args.encoding, "key", &args.key)?;
        let value = decode(&args.encoding, "value", &args.value)?;
        let family = self.family_to_write()?;
        let ttl = args.ttl.map(Duration::from_secs);
        let Some(transaction) = &mut self.transaction else {
            let options = WriteOptions::new();
            let options = if args.sync { options.sync(true) } else { options };
            let options = ttl.map_or(options, |ttl| options.ttl(ttl));
            return Ok(family.put_with(&key, &value, options)?);
        };
        let done = match ttl {
            Some(ttl) => transaction.put_with_ttl(&family, &key, &value, ttl),
            None => transaction.put(&family, &key, &value),
        };
        done.map_err(Failure::from)
    }

    pub(super) fn delete(&mut self, args: &DeleteArgs) -> Result<()> {
        let key = decode(&args.encoding, "key", &args.key)?;
        let end = args.to.as_ref().map(|end| decode(&args.encoding, "end of the range", end));
        let end = end.transpose()?;
        let family = self.family_to_write()?;
        if let Some(transaction) = &mut self.transaction {
            if args.prefix || end.is_some() {
                return Err(Failure::usage("a range is not deleted in a transaction"));
            }
            return Ok(transaction.delete(&family, &key)?);
        }
        let mut batch = tidesdb::WriteBatch::new();
        match end {
            Some(end) => batch.delete_range(&family, &key, &end)?,
            None if args.prefix => batch.delete_prefix(&family, &key)?,
            None => batch.delete(&family, &key)?,
        }
        let options = WriteOptions::new();
        Ok(self.db.write_with(&batch, if args.sync { options.sync(true) } else { options })?)
    }

    fn cursor(
        &self,
        family: &Family,
        range: &RangeArgs,
        encoding: &EncodingArgs,
    ) -> Result<Cursor> {
        let options = range.range(encoding)?.options(ScanOptions::new());
        Ok(match (&self.transaction, &self.snapshot) {
            (Some(transaction), _) => Cursor::Own(transaction.scan(family, options)?),
            (None, Some(snapshot)) => Cursor::Plain(family.scan(options.snapshot(snapshot))?),
            (None, None) => Cursor::Plain(family.scan(options)?),
        })
    }

    pub(super) fn scan(&mut self, args: &ScanArgs, output: &mut dyn Write) -> Result<()> {
        let mut cursor = self.cursor(&self.family()?, &args.range, &args.encoding)?;
        cursor.first(args.reverse)?;
        let mut writer = formats::text_writer(args.encoding.encoding(), false);
        let failed = |error: io::Error| Failure::output(&error);
        let mut output = BufWriter::new(output);
        let mut remaining = args.limit.unwrap_or(u64::MAX);
        while remaining > 0 && cursor.valid() {
            check_interrupt()?;
            remaining -= 1;
            writer.write(&mut output, cursor.row(args.keys_only)?).map_err(failed)?;
            cursor.step(args.reverse)?;
        }
        output.flush().map_err(failed)
    }

    pub(super) fn count(&mut self, args: &CountArgs, output: &mut dyn Write) -> Result<()> {
        let mut cursor = self.cursor(&self.family()?, &args.range, &args.encoding)?;
        cursor.first(false)?;
        let mut count = 0u64;
        while cursor.valid() {
            check_interrupt()?;
            count += 1;
            cursor.step(false)?;
        }
        print(output, &format!("{count}\n"))
    }
}

fn check_interrupt() -> Result<()> {
    if interrupt::requested() {
        return Err(Failure::interrupted("the command was given up"));
    }
    Ok(())
}
