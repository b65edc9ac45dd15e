//! The ways of scanning a range in a transaction of the engine.

use tidesdb::{Scan, ScanOptions};

use super::{EngineTransaction, key_bytes, number_of, said};
use crate::Verdict;
use crate::isolation::store::{Entries, KeyRange, Level, ScanRequest};

/// The bytes that all keys of a range begin with and no others, if there are such.
fn common_prefix(range: KeyRange) -> Option<Vec<u8>> {
    let length = match range.to - range.from {
        1 => 4,
        2 if range.from.is_multiple_of(2) => 3,
        4 if range.from.is_multiple_of(4) => 2,
        _ => return None,
    };
    Some(key_bytes(range.from)[..length].to_vec())
}

/// What is behind the bounds of a scan that has not both of them.
fn is_outside(range: KeyRange, number: u16) -> bool {
    !(range.from..range.to).contains(&number)
}

impl EngineTransaction {
    /// A scan that covers the range or more, and whether it covers no more. One without bounds
    /// reads a key behind the range, which must not be remembered.
    fn open_scan(&self, request: ScanRequest) -> Verdict<(Scan, bool)> {
        let ScanRequest { range, forward, .. } = request;
        let family = self.family(range.family);
        let (from, to) = (key_bytes(range.from), key_bytes(range.to));
        let options = ScanOptions::new();
        let with = |options| self.inner.scan(family, options);
        let remembers = [Level::RepeatableRead, Level::Serializable].contains(&self.level);
        let scan = match (self.next_way(16), common_prefix(range)) {
            (0, _) if !remembers => return Ok((said(self.inner.iter(family))?, false)),
            (1..6, _) if forward => return Ok((said(with(options.upper(to)))?, false)),
            (1..6, _) => return Ok((said(with(options.lower(from)))?, false)),
            (6..8, Some(prefix)) => self.inner.prefix(family, prefix),
            (8..11, Some(prefix)) => with(options.prefix(prefix)),
            (0..11, _) => self.inner.range(family, &from[..]..&to[..]),
            (11..13, _) => with(options.range(&from[..]..&to[..])),
            _ => with(options.lower(from).upper(to)),
        };
        Ok((said(scan)?, true))
    }

    fn position(&self, scan: &mut Scan, request: ScanRequest, bounded: bool) -> Verdict {
        let ScanRequest { range, forward, .. } = request;
        said(match (bounded && self.next_way(2) == 0, forward) {
            (true, true) => scan.seek_to_first(),
            (true, false) => scan.seek_to_last(),
            (false, true) => scan.seek(key_bytes(range.from)),
            (false, false) => scan.seek_for_prev(key_bytes(range.to.saturating_sub(1))),
        })
    }

    /// One scan, step by step or as an iterator.
    pub(super) fn scan_once(
        &self,
        request: ScanRequest,
        between: &mut dyn FnMut(),
    ) -> Verdict<Entries> {
        let ScanRequest { range, forward, most } = request;
        let (mut scan, bounded) = self.open_scan(request)?;
        match self.next_way(8) {
            0 => said(scan.refresh())?,
            1 => {
                self.position(&mut scan, request, bounded)?;
                said(scan.refresh())?;
            }
            _ => {}
        }
        let as_iterator = (forward || bounded) && self.next_way(3) == 0;
        if !(as_iterator && bounded && self.next_way(2) == 0) {
            self.position(&mut scan, request, bounded)?;
        }
        let mut found = Vec::new();
        if as_iterator {
            // From where the scan stands, which may be nowhere, or from the end that is meant.
            let entries = match (forward, self.next_way(2)) {
                (true, _) => scan.entries(),
                (false, 0) => scan.entries_rev(),
                (false, _) => scan.entries().rev(),
            };
            for entry in entries.take(most) {
                let (key, value) = said(entry)?;
                let number = number_of(&key)?;
                if !bounded && is_outside(range, number) {
                    break;
                }
                found.push((number, value));
                between();
            }
            return Ok(found);
        }
        while scan.valid() && found.len() < most {
            let number = number_of(scan.key())?;
            if !bounded && is_outside(range, number) {
                break;
            }
            found.push((number, said(scan.value())?.to_vec()));
            between();
            if found.len() < most {
                said(if forward { scan.next() } else { scan.prev() })?;
            }
        }
        Ok(found)
    }

    /// A scan for each two entries, each of which begins behind the last entry of the one before.
    /// It is over when a page is empty.
    pub(super) fn scan_by_pages(
        &self,
        request: ScanRequest,
        between: &mut dyn FnMut(),
    ) -> Verdict<Entries> {
        let ScanRequest { range, most, .. } = request;
        let mut found = Entries::new();
        let mut from = range.from;
        loop {
            let options = ScanOptions::new().upper(key_bytes(range.to));
            let mut scan = said(self.inner.scan(self.family(range.family), options))?;
            said(scan.seek(key_bytes(from)))?;
            let before = found.len();
            for entry in scan.entries().take(most.saturating_sub(before).min(2)) {
                let (key, value) = said(entry)?;
                let number = number_of(&key)?;
                if number < from {
                    return Err(format!("a page from {from} on shows {number}"));
                }
                from = number + 1;
                found.push((number, value));
                between();
            }
            if found.len() == before || found.len() >= most {
                return Ok(found);
            }
        }
    }
}
