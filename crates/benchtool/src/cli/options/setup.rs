//! How the engines are set up.

use clap::Args;

use super::super::numbers::parse_size;
use super::give;
use crate::spec::{Codec, Setup, Sync};

/// How the engines are set up.
// More than a dozen fields: one for each flag of the command line.
#[derive(Debug, Default, Args)]
pub(in crate::cli) struct SetupOptions {
    /// Block cache [default: 64M]
    #[arg(long, alias = "block-cache-size", alias = "cache-size", value_parser = parse_size)]
    cache: Option<u64>,
    /// One memtable [default: 64M]
    #[arg(long, alias = "memtable-size", alias = "write-buffer-size", value_parser = parse_size)]
    memtable: Option<u64>,
    /// Memtables in memory before writers wait [default: 4]
    #[arg(long, alias = "max-memtables", alias = "max-write-buffer-number")]
    memtable_count: Option<u32>,
    /// Data block [default: 4K]
    #[arg(long, alias = "block-size", value_parser = parse_size)]
    block: Option<u64>,
    /// Block codec [default: lz4]
    #[arg(long, alias = "compression-type", value_enum)]
    compression: Option<Codec>,
    /// Durability of commits [default: none]
    #[arg(long, alias = "sync-mode", value_enum, num_args = 0..=1, default_missing_value = "full")]
    sync: Option<Sync>,
    /// Period of interval syncs in microseconds [default: 128000]
    #[arg(long)]
    sync_interval_us: Option<u64>,
    /// Filter bits per key, 0 for none [default: 10]
    #[arg(long)]
    bloom_bits: Option<u32>,
    /// The same as the share of absent keys that a filter lets through, as in 0.01
    #[arg(long, value_name = "SHARE", conflicts_with = "bloom_bits", value_parser = parse_bloom_fpr)]
    bloom_fpr: Option<u32>,
    /// No filters: the same as --bloom-bits 0
    #[arg(long, conflicts_with_all = ["bloom_bits", "bloom_fpr"])]
    no_bloom_filters: bool,
    /// Background threads of the engine [default: 2]
    #[arg(long, alias = "max-background-jobs")]
    background_threads: Option<u32>,
    /// Values of this size and more are stored apart from the keys
    #[arg(long, aliases = ["klog-value-threshold", "klog_value_threshold", "min-blob-size"],
        value_parser = parse_size)]
    value_separation: Option<u64>,
    /// Tables as B+trees, where an engine has them
    #[arg(long)]
    use_btree: bool,
}

/// The bits per key with which an ideal filter lets no more than this share through.
fn parse_bloom_fpr(text: &str) -> Result<u32, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share < 1.0);
    let share = share.ok_or_else(|| format!("not a share between 0 and 1: {text}"))?;
    let bits = -share.ln() / std::f64::consts::LN_2.powi(2);
    Ok((bits - 1e-9).ceil() as u32)
}

impl SetupOptions {
    pub(super) fn setup(&self) -> Setup {
        let mut setup = Setup::default();
        give(&mut setup.cache, self.cache);
        give(&mut setup.memtable, self.memtable);
        give(&mut setup.memtable_count, self.memtable_count);
        give(&mut setup.block, self.block);
        give(&mut setup.compression, self.compression);
        give(&mut setup.sync, self.sync);
        give(&mut setup.sync_interval_us, self.sync_interval_us);
        let none = self.no_bloom_filters.then_some(0);
        give(&mut setup.bloom_bits, self.bloom_bits.or(self.bloom_fpr).or(none));
        give(&mut setup.background_threads, self.background_threads);
        setup.value_separation = self.value_separation;
        setup.tree_tables = self.use_btree;
        setup
    }
}
