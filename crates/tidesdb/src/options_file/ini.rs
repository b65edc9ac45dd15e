//! The syntax of INI files as TidesDB writes them, shared with the C interface.
//!
//! Sections of `key = value` lines. A remark is what begins with `;` or `#` at the begin of a line,
//! or behind a blank that follows a section's `]` or stands in a value. The keys `comparator_*` and
//! `property.*` stand for texts, which are taken whole to the end of their line. A byte order mark
//! in front of all is passed over.

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
/// assert_eq!(ini::entries("[orders] ; sales\nsync_mode = 1 ; full\n").unwrap()[0].value, "1");
/// assert_eq!(ini::entries("[orders\n").unwrap_err().line, 1);
/// ```
///
/// # Errors
/// The first line that can't be read.
pub fn entries(text: &str) -> Result<Vec<Entry<'_>>, BadLine> {
    let mut section = "";
    let mut entries = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (at, line) in text.lines().map(str::trim_ascii).enumerate() {
        let bad = BadLine { line: at + 1 };
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            section = section_of(name).ok_or(bad)?;
            continue;
        }
        let (key, value) = line.split_once('=').ok_or(bad)?;
        let key = key.trim_ascii();
        let is_text = TEXTS.iter().any(|begin| key.starts_with(begin));
        let value = if is_text { value } else { before_remark(value) };
        entries.push(Entry { section, line: at + 1, key, value: value.trim_ascii() });
    }
    Ok(entries)
}

/// What the keys begin with whose values are texts.
const TEXTS: [&str; 2] = ["comparator_", "property."];

/// What stands in front of the first `]` with nothing behind it but a remark: names may have both
/// in them.
fn section_of(text: &str) -> Option<&str> {
    let mut ends = text.match_indices(']').map(|(at, _)| text.split_at(at));
    let is_end = |(_, rest): &(&str, &str)| {
        let behind = rest.get(1..).unwrap_or_default();
        let remark = behind.trim_ascii_start();
        remark.is_empty() || (remark.len() < behind.len() && remark.starts_with([';', '#']))
    };
    ends.find(is_end).map(|(name, _)| name)
}

/// What stands in front of the first blank with a `;` or `#` behind it.
fn before_remark(text: &str) -> &str {
    let bytes = text.as_bytes();
    let begins = |pair: &[u8]| matches!(pair, [blank, b';' | b'#'] if blank.is_ascii_whitespace());
    let end = bytes.windows(2).position(begins);
    // A blank is a character of one byte, so the text can be cut there.
    end.and_then(|end| text.get(..end)).unwrap_or(text).trim_ascii_end()
}

/// The names of codecs in INI files, by their numbers in the C interface.
pub const CODECS: [&str; 5] = ["NONE", "SNAPPY", "LZ4", "ZSTD", "LZ4_FAST"];
