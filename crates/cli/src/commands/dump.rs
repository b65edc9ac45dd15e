//! `tidesdb dump`: writes a database, or one family of it, to a file or to standard output.
//!
//! In JSON lines a dump holds all that a load needs to make the same database: a first line with
//! the families and their options, then every record with its family and the second at which it
//! expires. TSV and CSV hold keys and values of one family; the command says what they leave out
//! before it writes anything. A dump shows the database as it was when the command began.

use std::io::{self, BufWriter, Write};

use tidesdb::{Db, Family, ScanOptions, Snapshot};

use crate::args::DumpArgs;
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
}

impl Dump<'_> {
    /// Writes all records to `output` and returns it.
    fn write<W: Write>(&mut self, output: W, failed: &dyn Fn(io::Error) -> Failure) -> Result<W> {
        let mut output = Counted { inner: output, bytes: 0 };
        let mut buffered = BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, &mut output);
        let mut meter = Meter::new(self.mode, "dumped", None, 0);
        if let Some(header) = &self.header {
            header.write(&mut buffered).map_err(failed)?;
        }
        self.writer.begin(&mut buffered, true).map_err(failed)?;
        for family in self.families {
            self.write_family(family, &mut buffered, &mut meter, failed)?;
        }
        buffered.flush().map_err(failed)?;
        drop(buffered);
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
        Ok(output.inner)
    }

    fn write_family<W: Write>(
        &mut self,
        family: &Family,
        buffered: &mut BufWriter<&mut Counted<W>>,
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
            self.writer.write(buffered, row).map_err(failed)?;
            meter.record(buffered.get_ref().bytes);
            scan.next()?;
        }
        Ok(())
    }
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
