//! The INI form of a family's options, with all fields of the interface's structure. The syntax is
//! that of `tidesdb::options_file::ini`; a text that a line can't hold as it is, say one with a
//! line break, is written in quotes with escapes. Values are written as they are: readers apply the
//! engine's limits. A file is bytes; those of remarks may be of any encoding.

use std::ffi::{OsString, c_char, c_int};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb::options_file::ini::{CODECS, entries};
use tidesdb_sys::descriptors::{open_above_standard, open_for_reading};

use crate::boundary::{
    Failure, Outcome, any_text, any_text_bytes, bytes_of, c_string, call, object, object_mut, path,
    refuse, set_bytes,
};
use crate::codes;
use crate::config::{USUAL_MIN_DISK_SPACE, family_defaults};
use crate::types::FamilyConfig;

/// Bytes that a file has at most.
const MOST_BYTES: u64 = 1 << 20;

/// A key of a section, and the field that it stands for.
struct Key {
    name: &'static str,
    /// The field as the value of a line; `None` for one that is left out.
    text: fn(&FamilyConfig) -> Option<String>,
    /// Sets the field; false for a value of the wrong form, which leaves it as it is.
    set: fn(&mut FamilyConfig, &str) -> bool,
}

/// Keys that say what survives a power cut: a value of the wrong form is not passed over.
const DURABILITY: [&str; 2] = ["sync_mode", "sync_interval_us"];

/// A number, written as it is.
macro_rules! number {
    ($name:literal, $field:ident) => {
        Key {
            name: $name,
            text: |config| Some(config.$field.to_string()),
            set: |config, value| parse(&mut config.$field, value),
        }
    };
}

/// A number with six digits behind the point, or as many as it takes to have it come back.
macro_rules! decimal {
    ($name:literal, $field:ident) => {
        Key {
            name: $name,
            text: |config| {
                let six = format!("{:.6}", config.$field);
                let comes_back = six.parse() == Ok(config.$field);
                Some(if comes_back { six } else { config.$field.to_string() })
            },
            set: |config, value| parse(&mut config.$field, value),
        }
    };
}

/// All keys, in the order in which they are written.
const KEYS: [Key; 26] = [
    number!("write_buffer_size", write_buffer_size),
    number!("level_size_ratio", level_size_ratio),
    number!("min_levels", min_levels),
    number!("dividing_level_offset", dividing_level_offset),
    number!("value_threshold", klog_value_threshold),
    Key { name: "compression_algorithm", text: codec_text, set: set_codec },
    number!("enable_bloom_filter", enable_bloom_filter),
    decimal!("bloom_fpr", bloom_fpr),
    number!("enable_block_indexes", enable_block_indexes),
    number!("index_sample_ratio", index_sample_ratio),
    number!("block_index_prefix_len", block_index_prefix_len),
    number!("sync_mode", sync_mode),
    number!("sync_interval_us", sync_interval_us),
    number!("skip_list_max_level", skip_list_max_level),
    decimal!("skip_list_probability", skip_list_probability),
    Key {
        name: "default_isolation_level",
        text: |config| Some(config.default_isolation_level.to_string()),
        set: |config, value| {
            let Ok(level @ 0..=4) = value.parse() else { return false };
            config.default_isolation_level = level;
            true
        },
    },
    number!("l1_file_count_trigger", l1_file_count_trigger),
    number!("l0_queue_stall_threshold", l0_queue_stall_threshold),
    decimal!("tombstone_density_trigger", tombstone_density_trigger),
    number!("tombstone_density_min_entries", tombstone_density_min_entries),
    Key {
        name: "min_disk_space",
        // In C the default stands for what is right for the volume, and elsewhere for itself.
        text: |config| {
            let least = config.min_disk_space;
            (least != USUAL_MIN_DISK_SPACE).then(|| least.to_string())
        },
        set: |config, value| parse(&mut config.min_disk_space, value),
    },
    number!("use_btree", use_btree),
    number!("object_lazy_compaction", object_lazy_compaction),
    number!("object_prefetch_compaction", object_prefetch_compaction),
    Key {
        name: "comparator_name",
        text: |config| Some(in_one_line(&bytes_of(&config.comparator_name))),
        set: |config, value| {
            set_bytes(&mut config.comparator_name, &from_one_line(value));
            true
        },
    },
    Key {
        name: "comparator_ctx_str",
        text: |config| {
            let context = bytes_of(&config.comparator_ctx_str);
            (!context.is_empty()).then(|| in_one_line(&context))
        },
        set: |config, value| {
            set_bytes(&mut config.comparator_ctx_str, &from_one_line(value));
            true
        },
    },
];

fn parse<T: std::str::FromStr>(field: &mut T, value: &str) -> bool {
    value.parse().map(|value| *field = value).is_ok()
}

fn codec_text(config: &FamilyConfig) -> Option<String> {
    let codec = usize::try_from(config.compression_algorithm).unwrap_or(0);
    Some((*CODECS.get(codec).unwrap_or(&"NONE")).to_owned())
}

fn set_codec(config: &mut FamilyConfig, value: &str) -> bool {
    let codec = CODECS.iter().position(|codec| *codec == value);
    let codec = codec.and_then(|codec| c_int::try_from(codec).ok());
    codec.map(|codec| config.compression_algorithm = codec).is_some()
}

/// The lines of a config, with its values as they are.
pub fn lines(config: &FamilyConfig) -> String {
    let line = |key: &Key| (key.text)(config).map(|text| format!("{} = {text}\n", key.name));
    KEYS.iter().filter_map(line).collect()
}

/// The section of a config as a file.
///
/// # Errors
/// `TDB_ERR_INVALID_ARGS` for a section's name that would not be read as it is, or that is too
/// long.
pub fn to_ini(section: &[u8], config: &FamilyConfig) -> Outcome<Vec<u8>> {
    let out = [b"[", section, b"]\n", lines(config).as_bytes()].concat();
    let (text, name) = (any_text(&out), any_text(section));
    let is_read = entries(&text).is_ok_and(|all| all.iter().all(|entry| entry.section == name));
    if is_read && out.len() as u64 <= MOST_BYTES { Ok(out) } else { refuse(codes::INVALID) }
}

/// A text as the value of a line: as it is, or in quotes with escapes when it would not come back.
fn in_one_line(bytes: &[u8]) -> String {
    let plain = str::from_utf8(bytes).ok().filter(|text| {
        !text.contains(char::is_control) && text.trim() == *text && !text.starts_with('"')
    });
    if let Some(text) = plain {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
    out
}

/// What [`in_one_line`] was given. What it can't have written is taken as it is.
fn from_one_line(value: &str) -> Vec<u8> {
    let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    quoted.and_then(unescaped).unwrap_or_else(|| any_text_bytes(value))
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let text = any_text_bytes(text);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (&escaped, behind) = rest.split_first()?;
        rest = behind;
        if escaped == b'x' {
            let (digits, behind) = rest.split_at_checked(2)?;
            out.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?);
            rest = behind;
        } else {
            out.push(escaped);
        }
    }
    Some(out)
}

/// The defaults with what a section says.
///
/// # Errors
/// `TDB_ERR_CORRUPTION` for a line that is none of section, assignment, remark and empty, and for
/// a value of [`DURABILITY`] that has the wrong form.
pub fn from_ini(file: &[u8], section: &[u8]) -> Outcome<FamilyConfig> {
    let mut config = family_defaults();
    let file = any_text(file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file));
    let section = any_text(section);
    let Ok(entries) = entries(&file) else { return refuse(codes::CORRUPTION) };
    for entry in entries.iter().filter(|entry| entry.section == section) {
        // What is unknown is passed over, and most that is of the wrong form.
        let key = KEYS.iter().find(|key| key.name == entry.key);
        let is_set = key.is_none_or(|key| (key.set)(&mut config, entry.value));
        if !is_set && DURABILITY.contains(&entry.key) {
            return refuse(codes::CORRUPTION);
        }
    }
    Ok(config)
}

/// See `tidesdb_cf_config_load_from_ini` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_cf_config_load_from_ini(
    ini_file: *const c_char,
    section_name: *const c_char,
    config: *mut FamilyConfig,
) -> c_int {
    call("tidesdb_cf_config_load_from_ini", || {
        // SAFETY: the caller's strings and structure, by the interface.
        let (file, section, config) =
            unsafe { (path(ini_file)?, c_string(section_name)?, object_mut(config)?) };
        let mut bytes = Vec::new();
        let read = open_for_reading(file)
            .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
        read.map_err(|_| Failure::Code(codes::IO))?;
        // Nothing that could be options.
        if bytes.len() as u64 > MOST_BYTES {
            return refuse(codes::CORRUPTION);
        }
        *config = from_ini(&bytes, section)?;
        Ok(())
    })
}

/// See `tidesdb_cf_config_save_to_ini` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_cf_config_save_to_ini(
    ini_file: *const c_char,
    section_name: *const c_char,
    config: *const FamilyConfig,
) -> c_int {
    call("tidesdb_cf_config_save_to_ini", || {
        // SAFETY: the caller's strings and structure, by the interface.
        let (place, section, config) =
            unsafe { (path(ini_file)?, c_string(section_name)?, object(config)?) };
        if section.iter().any(u8::is_ascii_control) {
            return refuse(codes::INVALID);
        }
        let text = to_ini(section, config)?;
        replace(place, &text).map_err(|_| Failure::Code(codes::IO))
    })
}

/// Replaces the content of a file by these bytes, or leaves it as it was: they are written beside
/// it first. Only when the folder can't be synced the file is there all the same. Who may read it
/// stays as it was.
fn replace(place: &Path, bytes: &[u8]) -> io::Result<()> {
    // A link stays one: the file that it leads to is meant.
    let place = &*fs::canonicalize(place).unwrap_or_else(|_| place.to_path_buf());
    let present = fs::metadata(place).ok();
    if present.as_ref().is_some_and(|present| !present.is_file() && !present.is_dir()) {
        // A device or a pipe has no content, and must not become a file.
        let mut options = OpenOptions::new();
        options.write(true);
        return File::from(open_above_standard(|| options.open(place))?).write_all(bytes);
    }
    let (mut file, beside) = create_beside(place)?;
    let permissions = present.map_or(Ok(()), |present| file.set_permissions(present.permissions()));
    let written = permissions.and_then(|()| file.write_all(bytes)).and_then(|()| file.sync_all());
    let renamed = written.and_then(|()| fs::rename(&beside, place));
    renamed.inspect_err(|_| drop(fs::remove_file(&beside)))?;
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
    open_for_reading(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// A new file of this call alone (I-278), in the folder of another one.
fn create_beside(place: &Path) -> io::Result<(File, OsString)> {
    static CREATED: AtomicU64 = AtomicU64::new(0);
    loop {
        // ORDERING: relaxed; only each number once.
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let mut beside = place.as_os_str().to_owned();
        beside.push(format!(".{}.{number}.new", std::process::id()));
        match open_above_standard(|| File::create_new(&beside)) {
            // Of a process of the same number that died.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return Ok((created?.into(), beside)),
        }
    }
}
