//! A picture of a directory's bytes, to show that a refused call changed nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Every file below `path` with its bytes; directories have none and end in a slash.
pub(crate) fn picture(path: &Path) -> BTreeMap<String, Vec<u8>> {
    fn add(path: &Path, prefix: &str, picture: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                add(&entry.path(), &format!("{name}/"), picture);
                picture.insert(format!("{name}/"), Vec::new());
            } else {
                picture.insert(name, fs::read(entry.path()).unwrap());
            }
        }
    }
    let mut all = BTreeMap::new();
    add(path, "", &mut all);
    all
}

/// Fails when the directory is not as it was, naming the files that differ.
pub(crate) fn assert_unchanged(path: &Path, before: &BTreeMap<String, Vec<u8>>) {
    let now = picture(path);
    let names = before.keys().chain(now.keys());
    let changed: Vec<_> = names.filter(|name| before.get(*name) != now.get(*name)).collect();
    assert!(changed.is_empty(), "changed on disk: {changed:?}");
}

/// The files in `path` whose names start and end like this, in order of their names.
pub(crate) fn files(path: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with(start) && name.ends_with(end)
        })
        .collect();
    found.sort();
    found
}
