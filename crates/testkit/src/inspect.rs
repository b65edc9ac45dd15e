//! Reading a whole database: forwards, backwards, by key, and its directory.

use std::cmp::Ordering;
use std::path::Path;

use tidesdb::{Db, Family, KeyOrder, ScanOptions, Snapshot};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sys::vfs::Vfs;

use crate::Verdict;
use crate::operations::key_bytes;
use crate::oracle::Content;
use crate::values::describe;

fn text(what: &str, error: impl std::fmt::Display) -> String {
    format!("{what}: {error}")
}

fn options_at(snapshot: Option<&Snapshot>) -> ScanOptions {
    let options = ScanOptions::new();
    snapshot.map_or(options.clone(), |snapshot| options.snapshot(snapshot))
}

/// Everything in a family, from a forward scan.
///
/// # Errors
/// Any error of the scan, and keys out of order.
pub fn read_forwards(family: &Family, snapshot: Option<&Snapshot>) -> Verdict<Content> {
    let mut scan = family.scan(options_at(snapshot)).map_err(|e| text("scan", e))?;
    let mut content = Content::new();
    scan.seek_to_first().map_err(|e| text("seek to first", e))?;
    let order = family.options().key_order;
    let mut last: Option<Vec<u8>> = None;
    while scan.valid() {
        let value = scan.value().map_err(|e| text("value of a scan", e))?.to_vec();
        let key = scan.key().to_vec();
        let behind = |last: &Vec<u8>| order.compare(last, &key).is_some_and(Ordering::is_lt);
        if !last.as_ref().is_none_or(behind) {
            return Err(format!("a scan in the order {order} went from {last:?} to {key:?}"));
        }
        last = Some(key.clone());
        content.insert(key, value);
        scan.next().map_err(|e| text("next", e))?;
    }
    Ok(content)
}

/// The value of a key in whatever spelling.
#[must_use]
pub fn look_up<'c>(order: &KeyOrder, content: &'c Content, key: &[u8]) -> Option<&'c Vec<u8>> {
    if !order.keeps_spelling() {
        return content.get(key);
    }
    let place = order.stored_key(key);
    content.iter().find(|(other, _)| order.stored_key(other) == place).map(|(_, value)| value)
}

/// Entries as a scan shows them.
fn in_order<'c>(order: &KeyOrder, content: &'c Content) -> Vec<(&'c Vec<u8>, &'c Vec<u8>)> {
    let mut entries: Vec<_> = content.iter().collect();
    entries.sort_by_cached_key(|(key, _)| order.stored_key(key).into_owned());
    entries
}

/// Checks that a backward scan and seeks agree with what a forward scan has read.
///
/// # Errors
/// What differs.
pub fn check_backwards(family: &Family, snapshot: Option<&Snapshot>, content: &Content) -> Verdict {
    let mut scan = family.scan(options_at(snapshot)).map_err(|e| text("scan", e))?;
    scan.seek_to_last().map_err(|e| text("seek to last", e))?;
    let order = family.options().key_order;
    for (key, value) in in_order(&order, content).into_iter().rev() {
        if !scan.valid() || scan.key() != key || scan.value().ok() != Some(value.as_slice()) {
            let got = if scan.valid() { format!("{:?}", scan.key()) } else { "the end".to_owned() };
            return Err(format!("a backward scan of {} met {got} for {key:?}", family.name()));
        }
        scan.prev().map_err(|e| text("prev", e))?;
    }
    if scan.valid() {
        Err("a backward scan goes on before the first key".to_owned())
    } else {
        Ok(())
    }
}

/// Checks gets of some keys, present and absent, against what a scan has read.
///
/// # Errors
/// What differs.
pub fn check_gets(
    family: &Family,
    content: &Content,
    keys: u64,
    random: &mut SplitMix64,
) -> Verdict {
    let order = family.options().key_order;
    for _ in 0..12 {
        let key = key_bytes(random.below(keys + 3));
        let got = family.get(&key).map_err(|e| text("get", e))?;
        let wanted = look_up(&order, content, &key);
        if got.as_ref() != wanted {
            let show = |value: Option<&Vec<u8>>| value.map_or("absent".to_owned(), |v| describe(v));
            return Err(format!(
                "get of {key:?} in {}: {}, a scan says {}",
                family.name(),
                show(got.as_ref()),
                show(wanted)
            ));
        }
    }
    Ok(())
}

/// Checks gets and a backward scan at a snapshot against what a forward scan has read.
///
/// # Errors
/// What differs.
pub fn check_at(
    family: &Family,
    snapshot: &Snapshot,
    content: &Content,
    keys: &[Vec<u8>],
) -> Verdict {
    let order = family.options().key_order;
    let wanted: Vec<_> = keys.iter().map(|key| look_up(&order, content, key)).collect();
    let found = family.multi_get_at(snapshot, keys).map_err(|e| text("multi_get_at", e))?;
    if !found.iter().map(Option::as_ref).eq(wanted.iter().copied()) {
        return Err(format!("multi_get_at of {keys:?} in {} differs from a scan", family.name()));
    }
    if let (Some(key), Some(wanted)) = (keys.first(), wanted.first()) {
        let found = family.get_at(snapshot, key).map_err(|e| text("get_at", e))?;
        if found.as_ref() != *wanted {
            return Err(format!("get_at of {key:?} in {} differs from a scan", family.name()));
        }
    }
    check_backwards(family, Some(snapshot), content)
}

/// Checks reads of several keys and of ranges, as iterators, both ways and page by page, against
/// what a scan has read.
///
/// # Errors
/// What differs.
pub fn check_entries(
    family: &Family,
    content: &Content,
    keys: u64,
    random: &mut SplitMix64,
) -> Verdict {
    let wanted: Vec<_> = (0..5).map(|_| key_bytes(random.below(keys + 3))).collect();
    let got = family.multi_get(&wanted).map_err(|e| text("multi_get", e))?;
    let order = family.options().key_order;
    let expected = wanted.iter().map(|key| look_up(&order, content, key));
    if !got.iter().map(Option::as_ref).eq(expected) {
        return Err(format!("multi_get of {wanted:?} in {} differs from a scan", family.name()));
    }
    let prefix = &wanted[0][..random.index(wanted[0].len() + 1)];
    let Ok(stored) = order.stored_prefix(prefix) else {
        return check_pages(family, content, 1 + random.index(40));
    };
    let scan = || family.prefix(prefix).map_err(|e| text("scan of a prefix", e));
    let inside = in_order(&order, content).into_iter();
    let inside = inside.filter(|(key, _)| order.stored_key(key).starts_with(&stored));
    let inside: Vec<_> = inside.map(|(key, value)| (key.clone(), value.clone())).collect();
    let all = |entries: Result<Vec<_>, _>| entries.map_err(|e| text("entries", e));
    let forwards = all(scan()?.entries().collect())?;
    let mut backwards = all(scan()?.entries_rev().collect())?;
    backwards.reverse();
    if forwards != inside || backwards != inside {
        let found = (inside.len(), forwards.len(), backwards.len());
        return Err(format!("of the keys under {prefix:?}, forwards and backwards: {found:?}"));
    }
    check_pages(family, content, 1 + random.index(40))
}

/// Reads a family by pages, each of which begins behind the last key of the one before. The last
/// page is empty: a seek that finds nothing leaves no entries.
fn check_pages(family: &Family, content: &Content, length: usize) -> Verdict {
    let order = family.options().key_order;
    let mut rest = in_order(&order, content).into_iter();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let mut scan = family.scan(ScanOptions::new()).map_err(|e| text("scan", e))?;
        match &after {
            None => scan.seek_to_first(),
            // The smallest key behind the last one.
            Some(last) if order == KeyOrder::Bytewise => scan.seek([last, &[0][..]].concat()),
            Some(last) => scan.seek(last).and_then(|()| scan.next()),
        }
        .map_err(|e| text("seek", e))?;
        let page: Result<Vec<_>, _> = scan.entries().take(length).collect();
        let page = page.map_err(|e| text("entries of a page", e))?;
        let expected: Vec<_> = rest.by_ref().take(length).collect();
        if !page.iter().map(|(key, value)| (key, value)).eq(expected) {
            return Err(format!("the page of {} behind {after:?} differs", family.name()));
        }
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(last.clone());
    }
}

/// Checks how many segments of the log are there after everything was flushed: those that are kept
/// for their records must have gone.
///
/// # Errors
/// When there are more than that.
pub fn check_log(vfs: &dyn Vfs, dir: &Path, most: usize) -> Verdict {
    let entries = vfs.list(dir).map_err(|e| text("list", e))?;
    let segments: Vec<_> =
        entries.iter().map(|entry| &entry.name).filter(|name| name.starts_with("wal-")).collect();
    if segments.len() <= most { Ok(()) } else { Err(format!("more than {most}: {segments:?}")) }
}

/// Runs the engine's own deep check, and compares the directory with what it counted.
///
/// # Errors
/// Every problem, and files that should not be there.
pub fn deep_check(db: &Db, vfs: &dyn Vfs, dir: &Path) -> Verdict {
    let report = db.verify().map_err(|e| text("verify", e))?;
    if !report.problems.is_empty() {
        let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        return Err(format!("verify found: {}", problems.join("; ")));
    }
    let (mut tables, mut value_logs, mut manifests) = (0, 0, 0);
    for entry in vfs.list(dir).map_err(|e| text("list", e))? {
        let name = entry.name.as_str();
        match name {
            _ if name.ends_with(".klog") => tables += 1,
            _ if name.ends_with(".vlog") => value_logs += 1,
            _ if name.starts_with("MANIFEST-") => manifests += 1,
            "CURRENT" | "CLOSED" | "LOCK" | "set-aside" => {}
            _ if name.starts_with("wal-") => {}
            _ => return Err(format!("a stray file: {name}")),
        }
    }
    let found = (tables, value_logs, manifests);
    if found != (report.tables, report.value_log_files, 1) {
        return Err(format!(
            "{tables} tables, {value_logs} value logs and {manifests} manifests lie there, {} and \
             {} are in use",
            report.tables, report.value_log_files
        ));
    }
    Ok(())
}
