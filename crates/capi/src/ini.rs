//! The INI form of a family's options, with all fields of the interface's structure. The syntax is
//! that of `tidesdb::options_file::ini`; a text that a line can't hold as it is, say one with a
//! line break, is written in quotes with escapes.

use std::ffi::{c_char, c_int};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;

use tidesdb::options_file::ini::{CODECS, entries};

use crate::boundary::{
    Failure, Outcome, bytes_of, call, object, object_mut, path, refuse, set_bytes, text,
};
use crate::codes;
use crate::config::family_defaults;
use crate::types::FamilyConfig;

/// The section of a config as text.
pub fn to_ini(section: &str, config: &FamilyConfig) -> String {
    let mut out = format!("[{section}]\n");
    let mut line = |key: &str, value: &dyn std::fmt::Display| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{key} = {value}");
    };
    line("write_buffer_size", &config.write_buffer_size);
    line("level_size_ratio", &config.level_size_ratio);
    line("min_levels", &config.min_levels);
    line("dividing_level_offset", &config.dividing_level_offset);
    line("value_threshold", &config.klog_value_threshold);
    let codec = usize::try_from(config.compression_algorithm).unwrap_or(0);
    line("compression_algorithm", &CODECS.get(codec).copied().unwrap_or("NONE"));
    line("enable_bloom_filter", &config.enable_bloom_filter);
    line("bloom_fpr", &format_args!("{:.6}", config.bloom_fpr));
    line("enable_block_indexes", &config.enable_block_indexes);
    line("index_sample_ratio", &config.index_sample_ratio);
    line("block_index_prefix_len", &config.block_index_prefix_len);
    line("sync_mode", &config.sync_mode);
    line("sync_interval_us", &config.sync_interval_us);
    line("skip_list_max_level", &config.skip_list_max_level);
    line("skip_list_probability", &format_args!("{:.6}", config.skip_list_probability));
    line("default_isolation_level", &config.default_isolation_level);
    line("l1_file_count_trigger", &config.l1_file_count_trigger);
    line("l0_queue_stall_threshold", &config.l0_queue_stall_threshold);
    line("tombstone_density_trigger", &format_args!("{:.6}", config.tombstone_density_trigger));
    line("tombstone_density_min_entries", &config.tombstone_density_min_entries);
    line("min_disk_space", &config.min_disk_space);
    line("use_btree", &config.use_btree);
    line("object_lazy_compaction", &config.object_lazy_compaction);
    line("object_prefetch_compaction", &config.object_prefetch_compaction);
    line("comparator_name", &in_one_line(&bytes_of(&config.comparator_name)));
    let context = bytes_of(&config.comparator_ctx_str);
    if !context.is_empty() {
        line("comparator_ctx_str", &in_one_line(&context));
    }
    out
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
    quoted.and_then(unescaped).unwrap_or_else(|| value.as_bytes().to_vec())
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
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
/// `TDB_ERR_CORRUPTION` for a line that is none of section, assignment, remark and empty.
pub fn from_ini(text: &str, section: &str) -> Outcome<FamilyConfig> {
    let mut config = family_defaults();
    let Ok(entries) = entries(text) else { return refuse(codes::CORRUPTION) };
    for entry in entries.iter().filter(|entry| entry.section == section) {
        set(&mut config, entry.key, entry.value);
    }
    Ok(config)
}

/// Sets one field. Unknown keys and values of the wrong form leave everything as it is.
fn set(config: &mut FamilyConfig, key: &str, value: &str) {
    fn parse<T: std::str::FromStr>(place: &mut T, value: &str) {
        if let Ok(value) = value.parse() {
            *place = value;
        }
    }
    match key {
        "write_buffer_size" => parse(&mut config.write_buffer_size, value),
        "level_size_ratio" => parse(&mut config.level_size_ratio, value),
        "min_levels" => parse(&mut config.min_levels, value),
        "dividing_level_offset" => parse(&mut config.dividing_level_offset, value),
        "value_threshold" => parse(&mut config.klog_value_threshold, value),
        "compression_algorithm" => {
            if let Some(codec) = CODECS.iter().position(|codec| *codec == value) {
                config.compression_algorithm = codec as c_int;
            }
        }
        "enable_bloom_filter" => parse(&mut config.enable_bloom_filter, value),
        "bloom_fpr" => parse(&mut config.bloom_fpr, value),
        "enable_block_indexes" => parse(&mut config.enable_block_indexes, value),
        "index_sample_ratio" => parse(&mut config.index_sample_ratio, value),
        "block_index_prefix_len" => parse(&mut config.block_index_prefix_len, value),
        "sync_mode" => parse(&mut config.sync_mode, value),
        "sync_interval_us" => parse(&mut config.sync_interval_us, value),
        "skip_list_max_level" => parse(&mut config.skip_list_max_level, value),
        "skip_list_probability" => parse(&mut config.skip_list_probability, value),
        "default_isolation_level" => {
            if let Ok(level @ 0..=4) = value.parse::<c_int>() {
                config.default_isolation_level = level;
            }
        }
        "l1_file_count_trigger" => parse(&mut config.l1_file_count_trigger, value),
        "l0_queue_stall_threshold" => parse(&mut config.l0_queue_stall_threshold, value),
        "tombstone_density_trigger" => parse(&mut config.tombstone_density_trigger, value),
        "tombstone_density_min_entries" => parse(&mut config.tombstone_density_min_entries, value),
        "min_disk_space" => parse(&mut config.min_disk_space, value),
        "use_btree" => parse(&mut config.use_btree, value),
        "object_lazy_compaction" => parse(&mut config.object_lazy_compaction, value),
        "object_prefetch_compaction" => parse(&mut config.object_prefetch_compaction, value),
        "comparator_name" => set_bytes(&mut config.comparator_name, &from_one_line(value)),
        "comparator_ctx_str" => set_bytes(&mut config.comparator_ctx_str, &from_one_line(value)),
        _ => {}
    }
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
            unsafe { (path(ini_file)?, text(section_name)?, object_mut(config)?) };
        let bytes = fs::read(file).map_err(|_| Failure::Code(codes::IO))?;
        let text = String::from_utf8(bytes).map_err(|_| Failure::Code(codes::CORRUPTION))?;
        *config = from_ini(&text, section)?;
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
            unsafe { (path(ini_file)?, text(section_name)?, object(config)?) };
        if section.contains(char::is_control) {
            return refuse(codes::INVALID);
        }
        // Beside it first, so that a disk that is full leaves what was there.
        let mut beside = place.as_os_str().to_owned();
        beside.push(format!(".{}.new", std::process::id()));
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(to_ini(section, config).as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&beside, place)
        };
        let write = || write().inspect_err(|_| drop(std::fs::remove_file(&beside)));
        write().map_err(|_: std::io::Error| Failure::Code(codes::IO))
    })
}
