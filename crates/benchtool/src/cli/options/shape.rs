//! What is done, and on what: the data, the operations and their shares.

use clap::Args;

use super::super::numbers::{parse_count, parse_size};
use super::doing::{Doing, DoingParser};
use super::give;
use crate::data::keys::Layout;
use crate::spec::{Contents, Isolation, Mix, Overlap, Pattern, RowCount, Shape, Sizes};
use crate::suites::presets;

/// What is done, and on what.
// More than a dozen fields: one for each flag of the command line.
#[derive(Debug, Default, Args)]
pub(in crate::cli) struct ShapeOptions {
    /// What to do [default: write]
    #[arg(short, long, value_parser = DoingParser, alias = "benchmarks")]
    workload: Option<Doing>,
    /// In which order [default: random]
    #[arg(short, long, value_enum, alias = "requestdistribution")]
    pattern: Option<Pattern>,
    /// The same as --pattern seq
    #[arg(short, long, conflicts_with = "pattern")]
    sequential: bool,
    /// Records of the data set [default: as many as operations, or 1M]
    #[arg(short, long, value_parser = parse_count)]
    #[arg(alias = "num-keys", alias = "recordcount", alias = "populate")]
    num: Option<u64>,
    /// Operations of a test that does not write everything [default: until --seconds are over]
    #[arg(short, long, alias = "operations", alias = "operationcount", value_parser = parse_count)]
    ops: Option<u64>,
    /// Records that may be inserted on top of the data set
    #[arg(long, value_parser = parse_count)]
    spare: Option<u64>,
    /// Worker threads [default: 1]
    #[arg(short, long, alias = "threadcount")]
    threads: Option<u64>,
    /// Threads of a mixed workload that only write
    #[arg(long)]
    writers: Option<u64>,
    /// Operations per commit [default: 1]
    #[arg(short, long, alias = "batch-size")]
    batch: Option<u64>,
    /// Bytes per key [default: 16]
    #[arg(short, long)]
    key_size: Option<usize>,
    /// Bytes per value, the largest if sizes vary [default: 100]
    #[arg(short, long, alias = "value-max", value_parser = parse_length)]
    value_size: Option<usize>,
    /// Bytes of the smallest value if sizes vary
    #[arg(long, value_parser = parse_length)]
    value_min: Option<usize>,
    /// How value sizes vary
    #[arg(long, value_enum)]
    value_dist: Option<Sizes>,
    /// What values are made of
    #[arg(long, value_enum)]
    value_kind: Option<Contents>,
    /// Compressed size of values over their size [default: 0.5]
    #[arg(long, alias = "compression-ratio")]
    compress_ratio: Option<f64>,
    /// Rows per range, keys per multi-get [default: 100]
    #[arg(long, alias = "seek-nexts", alias = "multiget")]
    range_size: Option<u64>,
    /// How many rows a range has
    #[arg(long, value_enum)]
    range_size_dist: Option<RowCount>,
    /// Scan downwards
    #[arg(long, alias = "reverse-iterator")]
    reverse: bool,
    /// Whether seeks and ranges during which nothing is written keep their iterator [default: true]
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set)]
    iter_reuse: Option<bool>,
    /// Percentage of operations of a mixed workload that overwrite
    #[arg(long, alias = "write-percent")]
    update_pct: Option<u64>,
    /// Percentage that insert new records (needs --spare)
    #[arg(long)]
    insert_pct: Option<u64>,
    /// Percentage that read and write back
    #[arg(long)]
    rmw_pct: Option<u64>,
    /// Percentage that delete
    #[arg(long)]
    delete_pct: Option<u64>,
    /// Percentage that scan
    #[arg(long)]
    scan_pct: Option<u64>,
    /// Percentage that read; must agree with the others, which leave it over
    #[arg(long)]
    read_pct: Option<u64>,
    /// Percentage of gets for keys that are absent
    #[arg(long)]
    missing_pct: Option<u64>,
    /// Consecutive keys instead of scattered ones
    #[arg(long, conflicts_with = "keys_per_prefix")]
    dense_keys: bool,
    /// Consecutive keys of eight bytes and a padding, as db_bench has them
    #[arg(long, conflicts_with_all = ["keys_per_prefix", "dense_keys"])]
    binary_keys: bool,
    /// Clusters of this many consecutive keys
    #[arg(long)]
    keys_per_prefix: Option<u64>,
    /// Exponent of the Zipfian pattern, positive and not 1 [default: 0.99]
    #[arg(long, alias = "zipf-theta")]
    theta: Option<f64>,
    /// Hot records lie together instead of scattered
    #[arg(long)]
    no_zipf_scramble: bool,
    /// Share of records that is hot and share of operations that it gets [default: 0.2:0.8]
    #[arg(long, value_parser = parse_hotspot, value_name = "SET:OPS")]
    hotspot: Option<(f64, f64)>,
    /// How steep the exponential pattern is [default: 10]
    #[arg(long)]
    exp_range: Option<f64>,
    /// Families over which records are spread [default: 1]
    #[arg(long, alias = "num-column-families")]
    families: Option<u64>,
    /// Isolation level of transactions [default: read-committed]
    #[arg(long, value_enum)]
    isolation: Option<Isolation>,
    /// What the transactions of different threads share
    #[arg(long, value_enum)]
    overlap: Option<Overlap>,
    /// Gets and puts per transaction [default: 1]
    #[arg(long)]
    txn_size: Option<u64>,
    /// Commit the batches of writes and overwrites as transactions
    #[arg(long)]
    in_transactions: bool,
    /// Seed of keys, values and orders [default: 42]
    #[arg(long)]
    seed: Option<u64>,
}

fn parse_length(text: &str) -> Result<usize, String> {
    usize::try_from(parse_size(text)?).map_err(|_| format!("too large: {text}"))
}

fn parse_hotspot(text: &str) -> Result<(f64, f64), String> {
    let (set, ops) = text.split_once(':').ok_or("give two shares, as in 0.2:0.8")?;
    let share = |text: &str| {
        let number = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        number.ok_or_else(|| format!("not a share between 0 and 1: {text}"))
    };
    Ok((share(set)?, share(ops)?))
}

/// What adds up to something else than 100, and what to give.
fn shares_do_not_add_up(mix: &Mix, reads: u64) -> String {
    let Mix { update, insert, modify, delete, scan } = mix;
    let named = [("insert", insert), ("rmw", modify), ("delete", delete), ("scan", scan)];
    let others = named.iter().filter(|(_, share)| **share > 0);
    let others: String = others.map(|(name, share)| format!(", {name} {share}")).collect();
    format!(
        "the shares do not add up to 100: read {reads}, update {update}{others}; --update-pct says \
         how many overwrite, where the workload's own share does not fit"
    )
}

impl ShapeOptions {
    fn mix(&self, mix: &mut Mix) -> Result<(), String> {
        give(&mut mix.update, self.update_pct);
        give(&mut mix.insert, self.insert_pct);
        give(&mut mix.modify, self.rmw_pct);
        give(&mut mix.delete, self.delete_pct);
        give(&mut mix.scan, self.scan_pct);
        let Some(reads) = self.read_pct else { return Ok(()) };
        let only = self.update_pct.is_none()
            && self.insert_pct.is_none()
            && self.rmw_pct.is_none()
            && self.delete_pct.is_none()
            && self.scan_pct.is_none();
        if only && reads <= 100 {
            *mix = Mix::updates(100 - reads);
        }
        if mix.reads() == Some(reads) { Ok(()) } else { Err(shares_do_not_add_up(mix, reads)) }
    }

    pub(super) fn shape(&self) -> Result<Shape, String> {
        let num = self.num.or(self.ops).unwrap_or(1_000_000);
        let mut shape = match &self.workload {
            Some(Doing::Preset(name)) => presets::shape(name, num).unwrap_or_default(),
            Some(Doing::Plain(workload)) => Shape { workload: *workload, num, ..Shape::default() },
            None => Shape { num, ..Shape::default() },
        };
        give(&mut shape.pattern, self.pattern);
        if self.sequential {
            shape.pattern = Pattern::Seq;
        }
        shape.operations = self.ops;
        give(&mut shape.spare, self.spare);
        give(&mut shape.threads, self.threads);
        give(&mut shape.writers, self.writers);
        give(&mut shape.batch, self.batch);
        give(&mut shape.key_size, self.key_size);
        give(&mut shape.value_size, self.value_size);
        give(&mut shape.value_min, self.value_min);
        give(&mut shape.value_sizes, self.value_dist);
        give(&mut shape.contents, self.value_kind);
        give(&mut shape.compress_ratio, self.compress_ratio);
        give(&mut shape.range_size, self.range_size);
        give(&mut shape.range_rows, self.range_size_dist);
        shape.reverse |= self.reverse;
        give(&mut shape.iter_reuse, self.iter_reuse);
        self.mix(&mut shape.mix)?;
        give(&mut shape.missing, self.missing_pct);
        if self.dense_keys {
            shape.layout = Layout::Dense;
        }
        if self.binary_keys {
            shape.layout = Layout::Binary;
        }
        if let Some(keys) = self.keys_per_prefix {
            (shape.layout, shape.keys_per_prefix) = (Layout::Clustered, keys);
        }
        give(&mut shape.skew.theta, self.theta);
        shape.skew.scramble &= !self.no_zipf_scramble;
        if let Some((set, operations)) = self.hotspot {
            (shape.skew.hot_set, shape.skew.hot_operations) = (set, operations);
        }
        give(&mut shape.skew.exponent, self.exp_range);
        give(&mut shape.families, self.families);
        give(&mut shape.isolation, self.isolation);
        give(&mut shape.overlap, self.overlap);
        give(&mut shape.txn_size, self.txn_size);
        shape.in_transactions |= self.in_transactions;
        give(&mut shape.seed, self.seed);
        if shape.mix.insert > 0 && shape.spare == 0 {
            return Err("inserts need --spare, the number of records that may be added".to_owned());
        }
        Ok(shape)
    }

    pub(super) fn name(&self, shape: &Shape) -> String {
        match &self.workload {
            Some(Doing::Preset(name)) => (*name).to_owned(),
            _ => format!("{}_{}", shape.workload.name(), shape.pattern.name()),
        }
    }
}
