//! Lists everything that is damaged in a directory, whether or not the database opens.
//!
//! What [`crate::Db::verify`] compares of families, runs and files needs a manifest. This is the
//! part that needs none: every checksum of every file, and what tables say of themselves.

use std::path::Path;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::progress::Progress;
use tidesdb_files::naming::FileKind;
use tidesdb_files::vlog::{SalvagedRecord, VlogReader};

use crate::salvage::catalog::Catalog;
use crate::salvage::findings::Findings;
use crate::salvage::log::{Known, Log};
use crate::salvage::source::Source;
use crate::salvage::tables::Tables;

/// Records of a value log between two looks at whether the work is to end.
const RECORDS_BETWEEN_LOOKS: u64 = 4096;

/// What was found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DamageReport {
    /// Tables read.
    pub tables: u64,
    /// Value logs read.
    pub value_logs: u64,
    /// Log segments read.
    pub log_segments: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Everything that is wrong.
    pub problems: Vec<Error>,
    /// What may be lost, or may never have been there, such as commits behind a record of the log
    /// that is not whole.
    pub warnings: Vec<String>,
}

/// Reads all files of the database in `directory` and lists what is wrong with them. `progress` is
/// called with how far the work is; an error that it returns ends the work.
///
/// # Errors
/// [`Error::NotADatabase`], [`Error::Locked`], [`Error::Io`]. Damage is no error.
pub fn find_damage(
    directory: &Path,
    progress: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<DamageReport> {
    let source = Source::open(directory)?;
    let catalog = Catalog::read(&source)?;
    let mut found = DamageReport { problems: catalog.problems.clone(), ..DamageReport::default() };
    found.warnings.extend(catalog.torn_warning());
    let total = source.files.iter().map(|(_, len)| len).sum();
    let mut done = 0;
    let mut read = |bytes: u64| {
        done += bytes;
        progress(Progress::at("checking", done, total))
    };
    let mut findings = Findings::default();
    let tables = Tables::survey(&source, &catalog, &mut findings, &mut read)?;
    let known = Known {
        catalog: &catalog,
        published: &tables.published,
        tables_are_whole: tables.are_whole(),
    };
    Log::read(&source, &known, &mut findings, &mut read)?;
    let lost = findings.losses();
    found.problems.extend(lost.map(|l| Error::corruption(&l.file, l.offset, l.reason.clone())));
    let mut report = findings.report;
    found.tables = report.tables;
    found.log_segments = report.log_segments;
    found.bytes = report.bytes_read;
    found.problems.append(&mut report.harmless);
    found.warnings.append(&mut report.warnings);
    for &(kind, len) in &source.files {
        if let FileKind::ValueLog(number) = kind {
            check_value_log(&source, number, &mut found.problems, &mut read)?;
            found.value_logs += 1;
            found.bytes += len;
            read(len)?;
        }
    }
    Ok(found)
}

fn check_value_log(
    source: &Source,
    number: u64,
    problems: &mut Vec<Error>,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let kind = FileKind::ValueLog(number);
    let path = source.path(kind);
    let file = match source.file(kind) {
        Err(problem) if problem.is_corruption() => {
            problems.push(problem);
            return Ok(());
        }
        other => other?,
    };
    match VlogReader::open(file.clone(), &path, number) {
        Err(other @ Error::Io { .. }) => return Err(other),
        Err(problem) => problems.push(problem),
        Ok(_) => {}
    }
    let mut records = 0_u64;
    VlogReader::without_header(file, &path, number).survey(&mut |record| {
        records += 1;
        if records.is_multiple_of(RECORDS_BETWEEN_LOOKS) {
            progress(0)?;
        }
        if let SalvagedRecord::Lost { reason, .. } = record {
            problems.push(reason);
        }
        Ok(())
    })
}
