//! `tidesdb dump`: writes a database, or one family of it, to a file or to standard output.
//!
//! In JSON lines a dump holds all that a load needs to make the same database: a first line with
//! the families and their options, then every record with its family and the second at which it
//! expires. TSV and CSV hold keys and values of one family; the command says what they leave out
//! before it writes anything. A dump shows the database as it was when the command began.

use std::io::{self, BufWriter, Write};

use tidesdb::{Db, Family, ScanOptions, Snapshot};

use crate::args::{DEFAULT_MAX_RECORD_MIB, DumpArgs};
use crate::database::{self, Access, KeyRange};
use crate::failure::{Failure, Result, note};
use crate::formats::{self, DumpHeader, DumpedFamily, Format, RecordWriter, Row};
use crate::interrupt;
use crate::output_file;
use crate::progress::{Meter, ProgressMode};
use crate::table;

const OUTPUT_BUFFER_BYTES: usize = 256 << 10;

/// The family of dumps that can hold only one.
const DEFAULT_FAMILY: &str = "default";

/// Runs the command.
///
/// # Errors
/// When the file cannot be written, when interrupted, and those of the engine.
pub(crate) fn run(args: &DumpArgs) -> Result<()> {
    let range = args.range.range(&args.encoding)?;
    let db = database::open(&args.database.db, Access::Read)?;
    let format = args.format();
    let families = families(&db, format, args.family.as_deref())?;
    let mut writer = formats::writer(format, args.encoding.encoding());
    interrupt::install()?;
    let mut dump = Dump {
        families: &families,
        snapshot: db.snapshot(),
        range: &range,
        header: (format == Format::Jsonl).then(|| header(&families)),
        writer: writer.as_mut(),
        mode: args.progress,
        longest: 0,
    };
    if output_file::is_standard_output(&args.file) {
        let failed = |error: io::Error| Failure::output(&error);
        return dump.write(io::stdout().lock(), &failed).map(drop);
    }
    output_file::write(&args.file, |output, path| {
        dump.write(output, &|error| Failure::file("write", path, &error))
    })
}

/// The families to dump. Prints what the dump leaves out.
fn families(db: &Db, format: Format, chosen: Option<&str>) -> Result<Vec<Family>> {
    let all = database::visible_families(db);
    let one = match (chosen, format) {
        (Some(name), _) => name,
        (None, Format::Jsonl) => {
            return all.iter().map(|name| database::family(db, name)).collect();
        }
        (None, Format::Tsv | Format::Csv) => DEFAULT_FAMILY,
    };
    let family = database::family(db, one)?;
    let others: Vec<&str> = all.iter().map(String::as_str).filter(|&name| name != one).collect();
    if !others.is_empty() {
        let others = database::shortened(&others);
        note(format_args!("warning: only family '{one}' is dumped, not {others}"));
    }
    if format != Format::Jsonl {
        note(format_args!(
            "warning: expiry times and the family's options are not dumped; --format jsonl dumps \
             them"
        ));
    }
    Ok(vec![family])
}

fn header(families: &[Family]) -> DumpHeader {
    let dumped = |family: &Family| DumpedFamily::new(&family.name(), &family.options());
    DumpHeader::new(families.iter().map(dumped).collect())
}

struct Dump<'a> {
    families: &'a [Family],
    snapshot: Snapshot,
    range: &'a KeyRange,
    header: Option<DumpHeader>,
    writer: &'a mut dyn RecordWriter,
    mode: ProgressMode,
    /// Bytes of the longest record as it was written.
    longest: u64,
}

impl Dump<'_> {
    /// Writes all records to `output` and returns it.
    fn write<W: Write>(&mut self, output: W, failed: &dyn Fn(io::Error) -> Failure) -> Result<W> {
        let buffer = BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, output);
        let mut output = Counted { inner: buffer, bytes: 0 };
        let mut meter = Meter::new(self.mode, "dumped", None, 0);
        if let Some(header) = &self.header {
            header.write(&mut output).map_err(failed)?;
        }
        self.writer.begin(&mut output, true).map_err(failed)?;
        for family in self.families {
            self.write_family(family, &mut output, &mut meter, failed)?;
        }
        output.flush().map_err(failed)?;
        let (records, elapsed) = (meter.records(), meter.elapsed());
        drop(meter);
        note(format_args!(
            "dumped {} {} ({}) of {} in {:.1} s",
            table::count(records),
            if records == 1 { "record" } else { "records" },
            table::bytes(output.bytes),
            match self.families {
                [one] => format!("family '{}'", one.name()),
                several => format!("{} families", several.len()),
            },
            elapsed.as_secs_f64()
        ));
        if let Some(limit) = limit_for(self.longest, DEFAULT_MAX_RECORD_MIB) {
            note(format_args!(
                "warning: the longest record takes {}, and a load refuses it by default: load this \
                 dump with --max-record-mib {limit}",
                table::bytes(self.longest)
            ));
        }
        output.inner.into_inner().map_err(|error| failed(error.into_error()))
    }

    fn write_family<W: Write>(
        &mut self,
        family: &Family,
        output: &mut Counted<BufWriter<W>>,
        meter: &mut Meter,
        failed: &dyn Fn(io::Error) -> Failure,
    ) -> Result<()> {
        let named = (self.families.len() > 1).then(|| family.name());
        let options = self.range.options(family, ScanOptions::new().snapshot(&self.snapshot))?;
        let mut scan = family.scan(options)?;
        scan.seek_to_first()?;
        while scan.valid() {
            if interrupt::requested() {
                return Err(Failure::interrupted("the dump is incomplete"));
            }
            let row = Row {
                key: scan.key(),
                value: Some(scan.value()?),
                family: named.as_deref(),
                expires_at: scan.expires_at_unix_seconds(),
            };
            let begin = output.bytes;
            self.writer.write(output, row).map_err(failed)?;
            self.longest = self.longest.max(output.bytes - begin);
            meter.record(output.bytes);
            scan.next()?;
        }
        Ok(())
    }
}

/// The `--max-record-mib` that a load of records of up to `longest` bytes needs, if it is more than
/// the default.
const fn limit_for(longest: u64, default_mib: u64) -> Option<u64> {
    if longest > default_mib << 20 { Some(longest.div_ceil(1 << 20)) } else { None }
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

#[cfg(test)]
mod tests {
    use tidesdb::{DbOptions, FamilyOptions};

    use super::*;
    use crate::encoding::Encoding;

    /// Such a dump was written without a word, and no load took it.
    #[test]
    fn the_longest_record_says_which_limit_a_load_needs() {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), DbOptions::default()).unwrap();
        let family = db.create_family("default", FamilyOptions::default()).unwrap();
        family.put(b"a", b"short").unwrap();
        // Six bytes each in JSON.
        family.put(b"b", &vec![0; 500_000]).unwrap();
        family.put(b"c", b"short").unwrap();
        let mut writer = formats::writer(Format::Jsonl, Encoding::Text);
        let mut dump = Dump {
            families: std::slice::from_ref(&family),
            snapshot: db.snapshot(),
            range: &KeyRange::default(),
            header: None,
            writer: writer.as_mut(),
            mode: ProgressMode::Never,
            longest: 0,
        };
        let text = dump.write(Vec::new(), &|error| Failure::output(&error)).unwrap();
        let lines = text.split_inclusive(|&byte| byte == b'\n').map(|line| line.len() as u64);
        assert_eq!(dump.longest, lines.max().unwrap());
        assert_eq!(limit_for(dump.longest, DEFAULT_MAX_RECORD_MIB), None);
        assert_eq!(limit_for(dump.longest, 2), Some(3));
        assert_eq!((limit_for(2 << 20, 2), limit_for((3 << 20) + 1, 2)), (None, Some(4)));
    }
}
