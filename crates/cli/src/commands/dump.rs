//! `tidesdb dump`: writes the records of a family to a file or to standard output.
//!
//! A file is written under its name with `.partial` added, synced, and renamed when it is
//! complete: under its own name there is either the old file or all of the new one. What an
//! interrupted or failed dump wrote is removed. The dump shows the database as it was when the
//! command began. Expiry times are not part of it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tidesdb::Family;

use crate::args::DumpArgs;
use crate::database::{self, Access, KeyRange};
use crate::failure::{Failure, Result, note};
use crate::formats::{self, Format, RecordWriter};
use crate::interrupt;
use crate::progress::{Meter, ProgressMode};
use crate::table;

const OUTPUT_BUFFER_BYTES: usize = 256 << 10;

/// Runs the command.
///
/// # Errors
/// When the file cannot be written, when interrupted, and those of the engine.
pub(crate) fn run(args: &DumpArgs) -> Result<()> {
    let range = args.range.range(&args.encoding)?;
    let db = database::open(&args.target.database.db, Access::Read)?;
    let family = database::family(&db, &args.target.family)?;
    let format = args.format.or_else(|| Format::of_path(&args.file)).unwrap_or(Format::Jsonl);
    let mut writer = formats::writer(format, args.encoding.encoding());
    interrupt::install()?;
    let mut dump =
        Dump { family: &family, range: &range, writer: writer.as_mut(), mode: args.progress };
    if args.file.as_os_str() == "-" {
        let failed = |error: io::Error| Failure::output(&error);
        return dump.write(io::stdout().lock(), &failed).map(drop);
    }
    dump.write_file(&args.file)
}

struct Dump<'a> {
    family: &'a Family,
    range: &'a KeyRange,
    writer: &'a mut dyn RecordWriter,
    mode: ProgressMode,
}

impl Dump<'_> {
    /// Writes all records to `output` and answers it.
    fn write<W: Write>(&mut self, output: W, failed: &dyn Fn(io::Error) -> Failure) -> Result<W> {
        let mut output = Counted { inner: output, bytes: 0 };
        let mut buffered = BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, &mut output);
        let mut meter = Meter::new(self.mode, "dumped", None, 0);
        let mut scan = self.range.scan(self.family)?;
        scan.seek_to_first()?;
        self.writer.begin(&mut buffered, true).map_err(failed)?;
        let mut key = Vec::new();
        while scan.valid() {
            if interrupt::requested() {
                return Err(Failure::interrupted("the dump is incomplete"));
            }
            key.clear();
            key.extend_from_slice(scan.key());
            self.writer.write(&mut buffered, &key, Some(scan.value()?)).map_err(failed)?;
            meter.record(buffered.get_ref().bytes);
            scan.next()?;
        }
        buffered.flush().map_err(failed)?;
        drop(buffered);
        let (records, elapsed) = (meter.records(), meter.elapsed());
        drop(meter);
        note(format_args!(
            "dumped {} records ({}) of family '{}' in {:.1} s",
            table::count(records),
            table::bytes(output.bytes),
            self.family.name(),
            elapsed.as_secs_f64()
        ));
        Ok(output.inner)
    }

    fn write_file(&mut self, path: &Path) -> Result<()> {
        // Through a link to the file behind it, which the rename would otherwise not replace.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let partial = &partial_path(path);
        let special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        let written = if special { path } else { partial };
        let failed = |error: io::Error| Failure::file("write", written, &error);
        if special {
            // A device or a pipe: there is nothing to complete or to rename.
            let output = File::options().write(true).open(path).map_err(failed)?;
            return self.write(output, &failed).map(drop);
        }
        let output = File::create(partial).map_err(failed)?;
        let complete = self
            .write(output, &failed)
            .and_then(|output| output.sync_all().map_err(failed))
            .and_then(|()| fs::rename(partial, path).map_err(failed));
        if complete.is_err() {
            // The reason for the failure is what the user needs to hear.
            let _already_failing = fs::remove_file(partial);
            return complete;
        }
        sync_directory_of(path)
            .map_err(|error| Failure::file("sync the directory of", path, &error))
    }
}

fn partial_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
    PathBuf::from(name)
}

/// Makes the new name survive a power cut.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

/// Counts what is written.
struct Counted<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let length = self.inner.write(buffer)?;
        self.bytes += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
