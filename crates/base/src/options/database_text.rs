//! The settings of a database as text, as files of options hold them. Nothing is stored with the
//! data: they are given at each open.

use super::DbOptions;
use super::text::{parse_sync_mode, sync_text};
use crate::error::{Error, Result};
use crate::event::LogLevel;

impl DbOptions {
    /// The settings as `key = value` lines: all that are plain values, so neither the event
    /// listener nor the path of the event log.
    #[must_use]
    pub fn to_text(&self) -> String {
        // What is no plain value has no text form.
        let Self {
            create_if_missing,
            read_only,
            block_cache_bytes,
            max_open_files,
            flush_threads,
            compaction_threads,
            sync_mode,
            log_segment_bytes,
            max_retained_log_bytes,
            log_without_mapping,
            max_memory_usage,
            shared_write_buffer_bytes,
            stall_timeout_ms,
            latency_sampling,
            slow_operation_us,
            event_listener_level,
            event_log,
            event_log_level,
            event_log_bytes,
            ..
        } = self;
        [
            format!("create_if_missing = {create_if_missing}"),
            format!("read_only = {read_only}"),
            format!("block_cache_bytes = {block_cache_bytes}"),
            format!("max_open_files = {max_open_files}"),
            format!("flush_threads = {flush_threads}"),
            format!("compaction_threads = {compaction_threads}"),
            format!("sync_mode = {}", sync_text(*sync_mode)),
            format!("log_segment_bytes = {log_segment_bytes}"),
            format!("max_retained_log_bytes = {max_retained_log_bytes}"),
            format!("log_without_mapping = {log_without_mapping}"),
            format!("max_memory_usage = {max_memory_usage}"),
            format!("shared_write_buffer_bytes = {shared_write_buffer_bytes}"),
            format!("stall_timeout_ms = {stall_timeout_ms}"),
            format!("latency_sampling = {latency_sampling}"),
            format!("slow_operation_us = {slow_operation_us}"),
            format!("event_listener_level = {}", event_listener_level.name()),
            format!("event_log = {event_log}"),
            format!("event_log_level = {}", event_log_level.name()),
            format!("event_log_bytes = {event_log_bytes}"),
        ]
        .join("\n")
    }

    /// These settings with those changed that the text names, in the form of
    /// [`DbOptions::to_text`]. Of two lines with one name the later counts.
    ///
    /// ```
    /// # use tidesdb_base::options::DbOptions;
    /// let options = DbOptions::default().with_text("flush_threads = 3")?;
    /// assert_eq!(options.flush_threads, 3);
    /// assert_eq!(options.with_text(&DbOptions::default().to_text())?, DbOptions::default());
    /// # Ok::<(), tidesdb_base::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] listing all lines that do not parse, that name no setting, and all
    /// values out of range.
    pub fn with_text(mut self, text: &str) -> Result<Self> {
        let mut problems = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let Some((name, value)) = line.split_once('=') else {
                problems.push(format!("'{line}' is not of the form key = value"));
                continue;
            };
            if self.set_by_name(name.trim(), value.trim()).is_none() {
                problems
                    .push(format!("'{line}' names no setting or has a value of the wrong form"));
            }
        }
        if problems.is_empty() {
            self.validate()?;
            return Ok(self);
        }
        Err(Error::InvalidOptions(problems))
    }

    fn set_by_name(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "create_if_missing" => self.create_if_missing = value.parse().ok()?,
            "read_only" => self.read_only = value.parse().ok()?,
            "block_cache_bytes" => self.block_cache_bytes = value.parse().ok()?,
            "max_open_files" => self.max_open_files = value.parse().ok()?,
            "flush_threads" => self.flush_threads = value.parse().ok()?,
            "compaction_threads" => self.compaction_threads = value.parse().ok()?,
            "sync_mode" => self.sync_mode = parse_sync_mode(value)?,
            "log_segment_bytes" => self.log_segment_bytes = value.parse().ok()?,
            "max_retained_log_bytes" => self.max_retained_log_bytes = value.parse().ok()?,
            "log_without_mapping" => self.log_without_mapping = value.parse().ok()?,
            "max_memory_usage" => self.max_memory_usage = value.parse().ok()?,
            "shared_write_buffer_bytes" => self.shared_write_buffer_bytes = value.parse().ok()?,
            "stall_timeout_ms" => self.stall_timeout_ms = value.parse().ok()?,
            "latency_sampling" => self.latency_sampling = value.parse().ok()?,
            "slow_operation_us" => self.slow_operation_us = value.parse().ok()?,
            "event_listener_level" => self.event_listener_level = LogLevel::from_name(value)?,
            "event_log" => self.event_log = value.parse().ok()?,
            "event_log_level" => self.event_log_level = LogLevel::from_name(value)?,
            "event_log_bytes" => self.event_log_bytes = value.parse().ok()?,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plain_value_is_in_the_text() {
        let options = DbOptions::default();
        let text = options.to_text();
        let shown = format!("{options:?}");
        let fields = shown.trim_start_matches("DbOptions { ").trim_end_matches(" }").split(", ");
        for (name, value) in fields.filter_map(|field| field.split_once(": ")) {
            let is_plain = value.parse::<u64>().is_ok() || value.parse::<bool>().is_ok();
            assert!(!is_plain || text.contains(&format!("{name} = {value}")), "{name} is missing");
        }
        assert_eq!(options.clone().with_text(&text).unwrap(), options);
        assert!(options.with_text("no_such_setting = 1").is_err());
    }
}
