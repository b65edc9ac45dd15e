//! SHA-256 sums of result files, in the form that `sha256sum -c` reads.

use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the file of sums.
pub(crate) const FILE: &str = "SHA256SUMS";

/// The sum of some bytes in hexadecimal.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Writes `SHA256SUMS` into a folder, for files in it (named relative to it where possible).
pub(crate) fn write(folder: &Path, files: &[PathBuf]) -> Result<(), String> {
    let mut lines = String::new();
    for file in files {
        let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.strip_prefix(folder).unwrap_or(file);
        lines.push_str(&format!("{}  {}\n", of_bytes(&bytes), name.display()));
    }
    let path = folder.join(FILE);
    fs::write(&path, lines).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_known_bytes() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_bytes(b"abc"), abc);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.json");
        fs::write(&file, b"abc").unwrap();
        write(directory.path(), &[file]).unwrap();
        let text = fs::read_to_string(directory.path().join(FILE)).unwrap();
        assert_eq!(text, format!("{abc}  a.json\n"));
        assert!(write(directory.path(), &[directory.path().join("missing")]).is_err());
    }
}
