//! Whether the files of tables and value logs are there, as long as they must be. None is read.

use std::collections::{BTreeMap, BTreeSet};

use tidesdb_base::error::{Error, Result};
use tidesdb_sys::vfs::DirEntry;

use crate::core::{Environment, Families};

/// What is wrong with the files that families have, each file once.
///
/// # Errors
/// [`Error::Io`] when the directory can't be listed.
pub(crate) fn check_files(env: &Environment, families: &Families) -> Result<Vec<Error>> {
    let (vfs, dir) = (env.vfs.as_ref(), env.path.as_path());
    // Before the directory is listed: the files of a view stay as long as it is held.
    let views: Vec<_> = families.all().into_iter().map(|family| family.view.load_full()).collect();
    // Values may be appended to one meanwhile.
    let least_bytes: Vec<BTreeMap<u64, u64>> = views
        .iter()
        .map(|view| {
            let logs = view.version.value_logs.values();
            logs.map(|file| (file.number, file.life().whole_bytes())).collect()
        })
        .collect();
    let listed = vfs.list(dir).map_err(|e| Error::io("list", dir, e))?;
    let found: BTreeMap<&str, &DirEntry> =
        listed.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let (mut problems, mut seen) = (Vec::new(), BTreeSet::new());
    let mut check = |path: &std::path::Path, is_right: &dyn Fn(u64) -> bool, expected: String| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let found = match found.get(name.as_str()) {
            Some(DirEntry { damage: Some(damage), .. }) => damage.clone(),
            Some(entry) if is_right(entry.len) => return,
            Some(entry) => format!("one of {} bytes", entry.len),
            None => "no file".to_owned(),
        };
        if seen.insert(name) {
            let detail = format!("expected {expected}, as the manifest says, found {found}");
            problems.push(Error::corruption(path, 0, detail));
        }
    };
    for (version, least_bytes) in views.iter().map(|view| &view.version).zip(&least_bytes) {
        for table in version.tables() {
            let bytes = table.record.bytes;
            check(table.path(), &|len| len == bytes, format!("a file of {bytes} bytes"));
        }
        for file in version.value_logs.values() {
            let least = least_bytes.get(&file.number).copied().unwrap_or(0);
            check(file.path(), &|len| len >= least, format!("a file of {least} bytes or more"));
        }
    }
    Ok(problems)
}
