//! Which versions of the formats the files of a directory have.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a table's footer.
const FOOTER_BYTES: u64 = 96;

/// Files whose heads are read; more would take long on a slow disk.
const MOST_FILES: usize = 20_000;

/// Formats of the files of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Formats {
    /// How many files there are of each kind and version, by description.
    pub(crate) files: BTreeMap<String, u64>,
    /// Files that were not looked at, since there are too many.
    pub(crate) not_read: u64,
}

impl Formats {
    /// Those of the files with these names.
    pub(crate) fn of(directory: &Path, names: impl Iterator<Item = String>) -> Self {
        Self::of_some(directory, names, MOST_FILES)
    }

    fn of_some(directory: &Path, mut names: impl Iterator<Item = String>, most: usize) -> Self {
        let mut files = BTreeMap::new();
        for name in names.by_ref().take(most) {
            if let Some(format) = format_of(directory, &name) {
                *files.entry(format).or_default() += 1;
            }
        }
        Self { files, not_read: names.count() as u64 }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beyond_the_most_that_are_read_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let names = || (0..5).map(|number| format!("MANIFEST-{number}"));
        for name in names() {
            std::fs::write(directory.path().join(name), b"TDBMANI\n\x04\0\0\0").unwrap();
        }
        let found = |most| {
            let formats = Formats::of_some(directory.path(), names(), most);
            (formats.files.into_values().sum::<u64>(), formats.not_read)
        };
        assert_eq!([found(3), found(5), found(6)], [(3, 2), (5, 0), (5, 0)]);
    }
}
