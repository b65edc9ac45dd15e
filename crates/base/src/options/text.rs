//! The text form of a family's options, which is stored with the data.

use super::{FamilyOptions, FilterKind, SyncMode, refuse};
use crate::compress::Compression;
use crate::error::Result;
use crate::key_order::KeyOrder;

impl FamilyOptions {
    /// The settings as `key = value` lines, the form that is stored with the data.
    #[must_use]
    pub fn to_text(&self) -> String {
        let sync = sync_text(self.sync_mode);
        let mut text = [
            format!("write_buffer_size = {}", self.write_buffer_size),
            format!("klog_value_threshold = {}", self.klog_value_threshold),
            format!("compression = {}", self.compression.name()),
            format!("block_size = {}", self.block_size),
            format!("use_btree = {}", self.use_btree),
            format!("enable_block_indexes = {}", self.enable_block_indexes),
            format!("index_sample_ratio = {}", self.index_sample_ratio),
            format!("block_index_prefix_len = {}", self.block_index_prefix_len),
            format!("enable_bloom_filter = {}", self.enable_bloom_filter),
            format!("bloom_fpr = {}", self.bloom_fpr),
            format!("filter_kind = {}", self.filter_kind.name()),
            format!("prefix_bytes = {}", self.prefix_bytes),
            format!("l0_queue_stall_threshold = {}", self.l0_queue_stall_threshold),
            format!("l1_file_count_trigger = {}", self.l1_file_count_trigger),
            format!("level_size_ratio = {}", self.level_size_ratio),
            format!("max_space_amplification = {}", self.max_space_amplification),
            format!("tombstone_density_trigger = {}", self.tombstone_density_trigger),
            format!("tombstone_density_min_entries = {}", self.tombstone_density_min_entries),
            format!("target_table_bytes = {}", self.target_table_bytes),
            format!("sync_mode = {sync}"),
            format!("key_order = {}", self.key_order),
        ]
        .join("\n");
        if let Some(bytes) = self.min_disk_space {
            text.push_str(&format!("\nmin_disk_space = {bytes}"));
        }
        for (name, value) in &self.properties {
            // On one line, whatever is in it.
            let value = value.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
            text.push_str(&format!("\n{PROPERTY}{name} = \"{value}\""));
        }
        text
    }

    /// Those lines of the text form that differ from the default's, for places where space counts.
    /// [`FamilyOptions::from_text`] reads them.
    #[must_use]
    pub fn text_beside_default(&self) -> String {
        let (text, default) = (self.to_text(), Self::default().to_text());
        let differs = |line: &&str| !default.lines().any(|known| known == *line);
        text.lines().filter(differs).collect::<Vec<_>>().join("\n")
    }

    /// Reads the text form. Absent settings keep their default; unknown ones, which a later
    /// version may have written, are ignored.
    ///
    /// # Errors
    /// [`crate::Error::InvalidOptions`] listing all lines that do not parse and all values out of
    /// range.
    pub fn from_text(text: &str) -> Result<Self> {
        let options = Self::parsed(text)?;
        options.validate()?;
        Ok(options)
    }

    /// As [`FamilyOptions::from_text`], with values out of range as
    /// [`FamilyOptions::within_limits`] has them.
    ///
    /// # Errors
    /// As there, for what is out of range all the same.
    pub fn from_text_within_limits(text: &str) -> Result<Self> {
        let options = Self::parsed(text)?.within_limits();
        options.validate()?;
        Ok(options)
    }

    fn parsed(text: &str) -> Result<Self> {
        let mut options = Self::default();
        let mut problems = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let Some((name, value)) = line.split_once('=') else {
                problems.push(format!("'{line}' is not of the form key = value"));
                continue;
            };
            if options.set(name.trim(), value.trim()).is_none() {
                problems.push(format!("'{line}' has a value of the wrong form"));
            }
        }
        refuse(problems)?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        if let Some(name) = name.strip_prefix(PROPERTY) {
            let value = value.strip_prefix('"')?.strip_suffix('"')?;
            self.properties.insert(name.to_owned(), unescaped(value)?);
            return Some(());
        }
        match name {
            "write_buffer_size" => self.write_buffer_size = value.parse().ok()?,
            "klog_value_threshold" => self.klog_value_threshold = value.parse().ok()?,
            "compression" => self.compression = Compression::from_name(value)?,
            "block_size" => self.block_size = value.parse().ok()?,
            "use_btree" => self.use_btree = value.parse().ok()?,
            "enable_block_indexes" => self.enable_block_indexes = value.parse().ok()?,
            "index_sample_ratio" => self.index_sample_ratio = value.parse().ok()?,
            "block_index_prefix_len" => self.block_index_prefix_len = value.parse().ok()?,
            "enable_bloom_filter" => self.enable_bloom_filter = value.parse().ok()?,
            "bloom_fpr" => self.bloom_fpr = value.parse().ok()?,
            "filter_kind" => self.filter_kind = FilterKind::from_name(value)?,
            "prefix_bytes" => self.prefix_bytes = value.parse().ok()?,
            "l0_queue_stall_threshold" => self.l0_queue_stall_threshold = value.parse().ok()?,
            "l1_file_count_trigger" => self.l1_file_count_trigger = value.parse().ok()?,
            "level_size_ratio" => self.level_size_ratio = value.parse().ok()?,
            "max_space_amplification" => self.max_space_amplification = value.parse().ok()?,
            "tombstone_density_trigger" => self.tombstone_density_trigger = value.parse().ok()?,
            "tombstone_density_min_entries" => {
                self.tombstone_density_min_entries = value.parse().ok()?;
            }
            "target_table_bytes" => self.target_table_bytes = value.parse().ok()?,
            "min_disk_space" if value == "none" => self.min_disk_space = None,
            "min_disk_space" => self.min_disk_space = Some(value.parse().ok()?),
            "sync_mode" => self.sync_mode = parse_sync_mode(value)?,
            "key_order" => self.key_order = KeyOrder::from_name(value)?,
            _ => {}
        }
        Some(())
    }
}

/// What the names of properties begin with in the text form.
const PROPERTY: &str = "property.";

/// A property's value as it was before its line breaks were written out.
fn unescaped(text: &str) -> Option<String> {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        value.push(match character {
            '\\' => match characters.next()? {
                'n' => '\n',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            other => other,
        });
    }
    Some(value)
}

pub(super) fn sync_text(mode: SyncMode) -> String {
    match mode {
        SyncMode::None => "none".to_owned(),
        SyncMode::Full => "full".to_owned(),
        SyncMode::Interval { interval_us } => format!("interval:{interval_us}"),
    }
}

pub(super) fn parse_sync_mode(value: &str) -> Option<SyncMode> {
    match value {
        "none" => Some(SyncMode::None),
        "full" => Some(SyncMode::Full),
        _ => {
            let interval_us = value.strip_prefix("interval:")?.parse().ok()?;
            Some(SyncMode::Interval { interval_us })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn text_form_round_trips() {
        let options = FamilyOptions::default()
            .write_buffer_size(12345)
            .compression(Compression::Zstd)
            .bloom_fpr(0.001)
            .sync_mode(SyncMode::Interval { interval_us: 9 })
            .properties(
                [("a.b", " line\r\nand\\n \"more\" = "), ("empty", "")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
            )
            .key_order(KeyOrder::Custom("by = length".to_owned()))
            .use_btree(true)
            .enable_block_indexes(false)
            .index_sample_ratio(8)
            .block_index_prefix_len(4)
            .filter_kind(FilterKind::Ribbon)
            .prefix_bytes(12);
        assert_eq!(FamilyOptions::from_text(&options.to_text()).unwrap(), options);
    }

    /// 100 MiB stood for "nothing was said" once.
    #[test]
    fn any_number_of_free_bytes_is_taken_as_it_is() {
        let small = Some(120 << 20);
        assert_eq!(FamilyOptions::default().least_free_bytes(small), 6 << 20);
        assert_eq!(FamilyOptions::default().least_free_bytes(None), 100 << 20);
        for bytes in [0, 100 << 20] {
            let options = FamilyOptions::default().min_disk_space(bytes);
            let stored = FamilyOptions::from_text(&options.to_text()).unwrap();
            assert_eq!(stored.least_free_bytes(small), bytes);
        }
        let stored = FamilyOptions::from_text(&FamilyOptions::default().to_text()).unwrap();
        assert_eq!(stored.min_disk_space, None);
    }

    #[test]
    fn values_beyond_the_limits_can_be_brought_within() {
        let text = "write_buffer_size = 1\nlevel_size_ratio = 18446744073709551615\n\
                    bloom_fpr = 2\ntombstone_density_trigger = -1\nindex_sample_ratio = 7";
        assert!(FamilyOptions::from_text(text).is_err());
        let options = FamilyOptions::from_text_within_limits(text).unwrap();
        assert_eq!((options.write_buffer_size, options.level_size_ratio), (4096, 1000));
        assert_eq!((options.bloom_fpr, options.tombstone_density_trigger), (0.01, 0.0));
        assert_eq!(options.index_sample_ratio, 7);
        assert!(FamilyOptions::from_text_within_limits("sync_mode = interval:0").is_err());
        assert!(FamilyOptions::from_text_within_limits("tombstone_density_trigger = NaN").is_err());
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let options = FamilyOptions::default().write_buffer_size(1).block_size(1).bloom_fpr(2.0);
        match options.validate() {
            Err(Error::InvalidOptions(problems)) => assert_eq!(problems.len(), 3, "{problems:?}"),
            other => panic!("{other:?}"),
        }
        let text = "block_size = many\nnonsense\nfuture_option = 1";
        match FamilyOptions::from_text(text) {
            Err(Error::InvalidOptions(problems)) => assert_eq!(problems.len(), 2, "{problems:?}"),
            other => panic!("{other:?}"),
        }
    }
}
