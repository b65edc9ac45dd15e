//! What RocksDB says of its work, read out of the texts of its properties.

use crate::engine::EngineStats;

/// Reads the counters out of the text of property `rocksdb.stats`.
pub(super) fn parse_stats(text: &str) -> EngineStats {
    // RocksDB prints gibibytes with two decimals.
    let mut stats = EngineStats { resolution_bytes: gibibytes(0.01), ..EngineStats::default() };
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Cumulative WAL:") {
            stats.log_syncs = field_before(rest, "syncs").map(|count| count as u64);
            stats.log_bytes = field_after(rest, "written:").map(gibibytes);
        } else if let Some(rest) = line.strip_prefix("Flush(GB):") {
            stats.flush_bytes = field_after(rest, "cumulative").map(gibibytes);
        } else if let Some(rest) = line.strip_prefix("Cumulative compaction:") {
            // RocksDB counts flushes as compactions into level 0.
            let all = field_before(rest, "GB").map(gibibytes);
            stats.compaction_bytes = match (all, stats.flush_bytes) {
                (Some(all), Some(flushed)) => Some(all.saturating_sub(flushed)),
                (all, _) => all,
            };
        }
    }
    stats
}

/// Reads sorted runs out of the text of property `rocksdb.levelstats`, a line "level files bytes"
/// per level: each file of level 0 is a run, and so is every other level that has any.
pub(super) fn sorted_runs(text: &str) -> Option<u64> {
    let mut levels = None;
    for line in text.lines() {
        let mut words = line.split_whitespace().map(str::parse::<u64>);
        if let (Some(Ok(level)), Some(Ok(files))) = (words.next(), words.next()) {
            *levels.get_or_insert(0) += if level == 0 { files } else { files.min(1) };
        }
    }
    levels
}

fn gibibytes(value: f64) -> u64 {
    (value * f64::from(1_u32 << 30)) as u64
}

fn number(text: &str) -> Option<f64> {
    let text = text.trim_end_matches(',');
    let (digits, factor) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    digits.parse::<f64>().ok().map(|value| value * factor)
}

fn field_before(text: &str, label: &str) -> Option<f64> {
    let mut previous = None;
    for word in text.split_whitespace() {
        if word.trim_end_matches(',') == label {
            return number(previous?);
        }
        previous = Some(word);
    }
    None
}

fn field_after(text: &str, label: &str) -> Option<f64> {
    let mut words = text.split_whitespace().skip_while(|word| *word != label);
    words.next()?;
    number(words.next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_as_runs() {
        let text = "Level Files Size(MB)\n--------------------\n  0        3       12\n  \
            1        0        0\n  2       40      900\n";
        assert_eq!(sorted_runs(text), Some(4));
        assert_eq!(sorted_runs("nothing"), None);
    }

    #[test]
    fn stats_text_is_read() {
        let text = "Flush(GB): cumulative 0.500, interval 0.500\n\
            Cumulative compaction: 1.50 GB write, 10.00 MB/s write, 0.00 GB read\n\
            Cumulative WAL: 2000K writes, 12 syncs, 1000.00 writes per sync, written: 0.25 GB, x\n";
        let stats = parse_stats(text);
        assert_eq!(stats.flush_bytes, Some(1 << 29));
        assert_eq!(stats.compaction_bytes, Some(1 << 30));
        assert_eq!(stats.log_syncs, Some(12));
        assert_eq!(stats.log_bytes, Some(1 << 28));
        assert_eq!(parse_stats("nothing").log_bytes, None);
    }
}
