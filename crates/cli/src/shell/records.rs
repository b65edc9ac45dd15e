//! Commands of the shell that read and write records: in the transaction, if there is one, or at
//! the snapshot.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use tidesdb::{Scan, ScanOptions, WriteOptions};

use super::line::{CountArgs, DeleteArgs, GetArgs, PutArgs, ScanArgs};
use super::session::{Outcome, Session, print};
use crate::args::{EncodingArgs, RangeArgs};
use crate::commands::{self, CountedState, Expiries, Values};
use crate::failure::{Failure, Result};
use crate::formats::{self, Format, Row};
use crate::interrupt;

fn begin(scan: &mut Scan, reverse: bool) -> Result<()> {
    let done = if reverse { scan.seek_to_last() } else { scan.seek_to_first() };
    done.map_err(Failure::from)
}

fn step(scan: &mut Scan, reverse: bool) -> Result<()> {
    let done = if reverse { scan.prev() } else { scan.next() };
    done.map_err(Failure::from)
}

fn decode(encoding: &EncodingArgs, what: &str, argument: &OsString) -> Result<Vec<u8>> {
    encoding.decode(what, argument)
}

impl Session {
    /// Prints a value as text that `put` takes, or several as lines with their keys.
    pub(super) fn get(&mut self, args: &GetArgs, output: &mut dyn Write) -> Result<Outcome> {
        let decode = |key| decode(&args.encoding, "key", key);
        let keys: Vec<Vec<u8>> = args.keys.iter().map(decode).collect::<Result<_>>()?;
        let family = self.family()?;
        let newest = self.db.snapshot();
        let snapshot = self.snapshot.as_ref().unwrap_or(&newest);
        let values = match &self.transaction {
            Some(transaction) => transaction.multi_get(&family, &keys)?,
            None => family.multi_get_at(snapshot, &keys)?,
        };
        let failed = |error: io::Error| Failure::output(&error);
        if let ([value], false) = (values.as_slice(), args.json) {
            let Some(value) = value else { return Ok(Outcome::NotFound) };
            let mut text = Vec::new();
            args.encoding.encoding().encode(value, &mut text);
            text.push(b'\n');
            output.write_all(&text).and_then(|()| output.flush()).map_err(failed)?;
            return Ok(Outcome::Done);
        }
        let mut lines = Values::new(&args.encoding, args.json, false);
        let mut buffer = BufWriter::new(output);
        let found = values.iter().map(Option::as_deref);
        let mut expiries = match (args.json, &self.transaction) {
            (false, _) => None,
            (true, Some(transaction)) => Some(transaction.scan(&family, ScanOptions::new())?),
            (true, None) => Some(family.scan(ScanOptions::new().snapshot(snapshot))?),
        }
        .map(|scan| Expiries { scan, order: family.options().key_order });
        lines.write((&keys, found), expiries.as_mut(), &mut buffer)?;
        match buffer.flush().map_err(failed) {
            Err(failure) if !failure.is_output_closed() => Err(failure),
            // That a key is not there counts, whether it was read or not.
            _ if values.iter().any(Option::is_none) => Ok(Outcome::NotFound),
            printed => printed.map(|()| Outcome::Done),
        }
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
        let end =
            args.deleted.to.as_ref().map(|end| decode(&args.encoding, "end of the range", end));
        let end = end.transpose()?;
        let family = self.family_to_write()?;
        if let Some(transaction) = &mut self.transaction {
            if args.deleted.prefix || end.is_some() {
                return Err(Failure::usage("a range is not deleted in a transaction"));
            }
            return Ok(transaction.delete(&family, &key)?);
        }
        let mut batch = tidesdb::WriteBatch::new();
        match end {
            Some(end) => batch.delete_range(&family, &key, &end)?,
            None if args.deleted.prefix => batch.delete_prefix(&family, &key)?,
            None => batch.delete(&family, &key)?,
        }
        let options = WriteOptions::new();
        Ok(self.db.write_with(&batch, if args.sync { options.sync(true) } else { options })?)
    }

    /// A scan, in the transaction if there is one.
    fn open_scan(&self, range: &RangeArgs, encoding: &EncodingArgs) -> Result<Scan> {
        let family = self.family()?;
        let options = range.range(encoding)?.options(&family, ScanOptions::new())?;
        Ok(match (&self.transaction, &self.snapshot) {
            (Some(transaction), _) => transaction.scan(&family, options)?,
            (None, Some(snapshot)) => family.scan(options.snapshot(snapshot))?,
            (None, None) => family.scan(options)?,
        })
    }

    pub(super) fn scan(&mut self, args: &ScanArgs, output: &mut dyn Write) -> Result<()> {
        let mut scan = self.open_scan(&args.range, &args.encoding)?;
        begin(&mut scan, args.shown.reverse)?;
        let mut writer = if args.json {
            formats::writer(Format::Jsonl, args.encoding.encoding())
        } else {
            formats::text_writer(args.encoding.encoding(), false)
        };
        let failed = |error: io::Error| Failure::output(&error);
        let mut output = BufWriter::new(output);
        let mut remaining = args.shown.limit.unwrap_or(u64::MAX);
        while remaining > 0 && scan.valid() {
            check_interrupt()?;
            remaining -= 1;
            let value = if args.shown.keys_only { None } else { Some(scan.value()?) };
            let expires_at = if args.expiry { scan.expires_at_unix_seconds() } else { None };
            let row = Row { key: scan.key(), value, expires_at, ..Row::default() };
            writer.write(&mut output, row).map_err(failed)?;
            step(&mut scan, args.shown.reverse)?;
        }
        output.flush().map_err(failed)
    }

    pub(super) fn count(&mut self, args: &CountArgs, output: &mut dyn Write) -> Result<()> {
        let family = self.family()?;
        let state = match (&self.transaction, &self.snapshot) {
            (None, None) => CountedState::Newest,
            _ => CountedState::Earlier,
        };
        let open = || self.open_scan(&args.what.range, &args.what.encoding);
        print(output, &commands::counted(&args.what, (&family, state), open, args.json)?)
    }
}

fn check_interrupt() -> Result<()> {
    if interrupt::requested() {
        return Err(Failure::interrupted("the command was given up"));
    }
    Ok(())
}
