//! What another program has put into a directory, named so that the message helps.

use std::path::Path;

use tidesdb_sys::vfs::{DirEntry, Vfs};

/// Says which engine has written these entries, if that is known.
pub(super) fn known_engine(vfs: &dyn Vfs, dir: &Path, entries: &[DirEntry]) -> Option<String> {
    entries.iter().find_map(|entry| {
        let name = &entry.name;
        if entry.is_dir {
            // Each family of the C library is a folder with its options.
            let inside = vfs.list(&dir.join(name)).unwrap_or_default();
            let is_family = inside.iter().any(|file| file.name == "config.ini");
            return is_family.then(|| of_c_library(&format!("{name}/config.ini")));
        }
        let has_ending = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        let is_shared_log = name.starts_with("uwal_") && name.ends_with(".log");
        if name == "UNIMAP" || is_shared_log || is_of_version_10(name) {
            Some(of_c_library(name))
        } else if name.starts_with("OPTIONS-")
            || name == "IDENTITY"
            || has_ending(&[".sst", ".ldb"])
        {
            Some(format!("it holds '{name}', a file of RocksDB or LevelDB"))
        } else if name == "data.mdb" {
            Some(format!("it holds '{name}', a database of LMDB"))
        } else {
            None
        }
    })
}

/// Whether it is a name as version 10 of TidesDB gives them: all numbers have twelve digits, as in
/// `000000000000.000000000001.klog`, and the manifest has none.
fn is_of_version_10(name: &str) -> bool {
    let Some((numbers, ending)) = name.rsplit_once('.') else { return name == "MANIFEST" };
    let is_number = |text: &str| text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(ending, "klog" | "vlog" | "log") && numbers.split('.').all(is_number)
}

fn of_c_library(name: &str) -> String {
    format!("it holds '{name}' of TidesDB's C library (version 10 or older), another format")
}

/// The folder that a new file system has in its root, which may be where a database is to be made.
fn is_of_file_system(entry: &DirEntry) -> bool {
    entry.is_dir && entry.name == "lost+found"
}

/// As [`known_engine`], or the name of an entry; `None` when there is none.
pub(super) fn describe(vfs: &dyn Vfs, dir: &Path, entries: &[DirEntry]) -> Option<String> {
    let foreign = entries.iter().filter(|entry| !is_of_file_system(entry));
    let name = &foreign.map(|entry| &entry.name).min()?;
    let known = known_engine(vfs, dir, entries);
    Some(known.unwrap_or_else(|| format!("it holds '{name}', which is not a database's")))
}
