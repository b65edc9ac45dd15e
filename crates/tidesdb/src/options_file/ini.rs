//! The syntax of INI files as TidesDB writes them, shared with the C interface.
//!
//! Sections of `key = value` lines. A value is taken whole to the end of its line, whatever its
//! length and whatever characters are in it; lines that begin with `;` or `#` are remarks.

/// A `key = value` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The section it stands in; empty in front of the first.
    pub section: &'a str,
    /// Its line, counted from 1.
    pub line: usize,
    /// What stands in front of the first `=`, trimmed.
    pub key: &'a str,
    /// What stands behind it, trimmed.
    pub value: &'a str,
}

/// A line that is none of section, entry, remark and empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, counted from 1.
    pub line: usize,
}

/// The entries of a text in their order.
///
/// ```
/// use tidesdb::options_file::ini;
/// let entries = ini::entries("[orders]\nuse_btree = 1\n").unwrap();
/// let first = &entries[0];
/// assert_eq!((first.section, first.key, first.value), ("orders", "use_btree", "1"));
/// assert_eq!(ini::entries("[orders\n").unwrap_err().line, 1);
/// ```
///
/// # Errors
/// The first line that can't be read.
pub fn entries(text: &str) -> Result<Vec<Entry<'_>>, BadLine> {
    let mut section = "";
    let mut entries = Vec::new();
    for (at, line) in text.lines().map(str::trim).enumerate() {
        let bad = BadLine { line: at + 1 };
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            section = name.strip_suffix(']').ok_or(bad)?;
            continue;
        }
        let (key, value) = line.split_once('=').ok_or(bad)?;
        entries.push(Entry { section, line: at + 1, key: key.trim(), value: value.trim() });
    }
    Ok(entries)
}

/// The names of codecs in INI files, by their numbers in the C interface.
pub const CODECS: [&str; 5] = ["NONE", "SNAPPY", "LZ4", "ZSTD", "LZ4_FAST"];
