//! Which versions of the formats the files of a directory have.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a table's footer.
const FOOTER_BYTES: u64 = 96;

/// Files whose heads are read; more would take long on a slow disk.
const MOST_FILES: usize = 20_000;

/// How many files there are of each kind and version, by description.
pub(crate) fn of(directory: &Path, names: impl Iterator<Item = String>) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for name in names.take(MOST_FILES) {
        if let Some(format) = format_of(directory, &name) {
            *found.entry(format).or_default() += 1;
        }
    }
    found
}

/// The format of one file; `None` for files that are none of ours, or have not begun.
fn format_of(directory: &Path, name: &str) -> Option<String> {
    let file = File::open(directory.join(name)).ok()?;
    let is_table = name.ends_with(".klog");
    let start = if is_table { file.metadata().ok()?.len().checked_sub(FOOTER_BYTES)? } else { 0 };
    let mut head = [0; 12];
    file.read_exact_at(&mut head, start).ok()?;
    let (magic, rest) = head.split_at_checked(8)?;
    let version = u32::from_le_bytes(rest.try_into().ok()?);
    match magic {
        b"TDBTABLE" => {
            let [version, index, ..] = version.to_le_bytes();
            let kind = if index == 0 { "table" } else { "B+tree table" };
            Some(format!("{kind}, version {version}"))
        }
        b"TDBVALUE" => Some(format!("value log, version {}", version & 0xff)),
        b"TDBWAL\r\n" => Some(format!("log segment, version {version}")),
        b"TDBMANI\n" => Some(format!("manifest, version {version}")),
        _ => None,
    }
}
