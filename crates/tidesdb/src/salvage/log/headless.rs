//! Finds out which segment a file without a readable header is.
//!
//! A record's checksum holds only for its segment's number and its position. So numbers and first
//! positions that are likely are tried on a few short records of the file. Work is bounded, and
//! ends when the caller wants it to.

use std::path::Path;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::naming::{self, FileKind};
use tidesdb_files::wal::segment::{SYNC_MARK_BYTES, decode_sync_mark};
use tidesdb_files::wal::{
    RECORD_HEADER_BYTES, RECORDS_OFFSET, SYNC_MARK_OFFSET, SegmentHeader, record,
};
use tidesdb_sys::vfs::File;

use super::segments::{Segment, read_if_there};

/// Bytes of the file that are looked at.
const SEARCHED_BYTES: u64 = 64 << 20;
/// Bytes at the front in which records are looked for at every place.
const BLIND_BYTES: usize = 1 << 20;
/// Places that are looked at for records.
const MOST_PLACES: usize = 4096;
/// Records on which a guess is tried.
const MOST_PROBES: usize = 8;
/// The same of guesses that are many.
const FEW_PROBES: usize = 2;
/// Bytes whose checksums are calculated for a file.
const BUDGET_BYTES: u64 = 8 << 30;
/// Numbers that a segment may have, above the highest that is known.
const NUMBERS_AHEAD: u64 = 1000;
/// Numbers that are tried on a sync mark.
const MOST_NUMBERS: usize = 100_000;
/// A segment gets its number when it is begun, and its file one before: numbers behind that of the
/// name that are tried.
const NUMBERS_BEHIND_NAME: u64 = 32;
/// Guesses between two looks at whether the work is to end.
const GUESSES_BETWEEN_LOOKS: u64 = 1024;

/// What may be a record: offset behind [`RECORDS_OFFSET`], and length.
type Probe = (usize, usize);

/// The header of the segment in `file`, as far as it can be found out: its number and first
/// position. `highest` is the highest number of any file that is known, `bases` are positions at
/// which segments may have begun.
///
/// # Errors
/// [`Error::Io`]; what `progress` returns.
pub(super) fn recover_header(
    (path, file): (&Path, &Arc<dyn File>),
    segments: &[Segment],
    (highest, bases): (u64, &[u64]),
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Option<SegmentHeader>> {
    let io = |e| Error::io("read", path, e);
    let len = file.len().map_err(io)?.saturating_sub(RECORDS_OFFSET).min(SEARCHED_BYTES);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    if !bytes.is_empty() {
        file.read_exact_at(&mut bytes, RECORDS_OFFSET).map_err(io)?;
    }
    let chain = chain(&bytes);
    let mut search = Search { probes: probes(&bytes, &chain), bytes: &bytes, spent: 0, guesses: 0 };
    if search.probes.is_empty() {
        return Ok(None);
    }
    let numbers = numbers(path, file.as_ref(), highest, segments)?;
    let header = |number, base| SegmentHeader { number, base, previous_end: base, synced: 0 };
    for &number in &numbers {
        for &base in bases {
            if search.fits(number, base, MOST_PROBES, progress)? {
                return Ok(Some(header(number, base)));
            }
        }
    }
    for &number in &numbers {
        let with_header =
            segments.iter().filter(|segment| segment.header_read).map(|segment| segment.header);
        let later = with_header.filter(|header| header.number > number);
        let Some(next) = later.min_by_key(|header| header.number) else { continue };
        // It may end, going by the lengths of its records alone, where the next one says that the
        // log ended.
        for &(at, length) in &chain {
            let Some(base) = next.previous_end.checked_sub((at + length) as u64) else { break };
            if search.fits(number, base, FEW_PROBES, progress)? {
                return Ok(Some(header(number, base)));
            }
        }
    }
    Ok(None)
}

struct Search<'a> {
    bytes: &'a [u8],
    probes: Vec<Probe>,
    spent: u64,
    guesses: u64,
}

impl Search<'_> {
    /// Whether any probe is a record of a segment with this number and first position.
    fn fits(
        &mut self,
        number: u64,
        base: u64,
        probes: usize,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<bool> {
        self.guesses += 1;
        if self.guesses.is_multiple_of(GUESSES_BETWEEN_LOOKS) {
            progress(0)?;
        }
        for &(at, length) in self.probes.iter().take(probes) {
            if self.spent > BUDGET_BYTES {
                return Ok(false);
            }
            self.spent += length as u64;
            let record = self.bytes.get(at..at + length).unwrap_or_default();
            if record::open(record, number, base.saturating_add(at as u64)).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn claimed_length(bytes: &[u8], at: usize) -> Option<usize> {
    let header = bytes.get(at..at + RECORD_HEADER_BYTES)?;
    record::claimed_length(header, u64::MAX)
}

/// The records from the first on, going by their lengths alone.
fn chain(bytes: &[u8]) -> Vec<Probe> {
    let (mut chain, mut at) = (Vec::new(), 0);
    while let Some(length) = claimed_length(bytes, at) {
        chain.push((at, length));
        at += length;
    }
    chain
}

/// The shortest of what may be records: the first ones by their lengths, and such as are found in
/// front of the file in case that one of those is damaged.
fn probes(bytes: &[u8], chain: &[Probe]) -> Vec<Probe> {
    let mut probes: Vec<Probe> = chain.iter().take(MOST_PLACES).copied().collect();
    let blind = (0..bytes.len().min(BLIND_BYTES)).step_by(8);
    let found = blind.filter_map(|at| claimed_length(bytes, at).map(|length| (at, length)));
    probes.extend(found.take(MOST_PLACES));
    probes.retain(|&(at, length)| at + length <= bytes.len());
    probes.sort_unstable_by_key(|&(at, length)| (length, at));
    probes.dedup();
    // Not of the short ones alone: those may be what a value looks like.
    let step = probes.len().div_ceil(MOST_PROBES).max(1);
    let spread = probes.iter().step_by(step).copied();
    let first = chain.first().copied().filter(|&(at, length)| at + length <= bytes.len());
    let mut chosen: Vec<Probe> = first.into_iter().chain(spread).collect();
    chosen.dedup();
    chosen
}

/// The numbers that the segment may have: the one whose sync mark it has, or those about that of
/// its name.
fn numbers(path: &Path, file: &dyn File, highest: u64, segments: &[Segment]) -> Result<Vec<u64>> {
    if let Some(mark) = read_if_there::<SYNC_MARK_BYTES>((path, file), SYNC_MARK_OFFSET)? {
        let mut possible = (1..=highest.saturating_add(NUMBERS_AHEAD)).rev().take(MOST_NUMBERS);
        if let Some(number) = possible.find(|&number| decode_sync_mark(number, &mark).is_some()) {
            return Ok(vec![number]);
        }
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(FileKind::LogSegment(named)) = name.and_then(naming::parse) else {
        return Ok(Vec::new());
    };
    let is_known = |number: &u64| segments.iter().any(|known| known.header.number == *number);
    let about = named..=named.saturating_add(NUMBERS_BEHIND_NAME);
    Ok(about.filter(|number| !is_known(number)).collect())
}
