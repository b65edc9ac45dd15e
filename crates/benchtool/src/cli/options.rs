//! The options of single tests, with the names that people know from other tools as aliases.
//!
//! Everything is optional: what is not given comes from the preset of the workload's name, or from
//! the defaults of [`Shape`] and [`Setup`]. Sizes take the suffixes K, M and G (powers of 1024),
//! counts K and M (powers of 1000).

use super::numbers::{parse_count, parse_size};
use crate::data::keys::Layout;
use crate::orchestrate::Test;
use crate::spec::{
    Codec, Contents, Isolation, Mix, Overlap, PageCache, Pattern, RowCount, Settle, Setup, Shape,
    Sizes, Sync, Verify, Workload,
};
use crate::suites::presets;
use clap::builder::PossibleValue;
use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// A workload of our own, or a preset by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doing {
    /// One of ours.
    Plain(Workload),
    /// One that another tool named.
    Preset(&'static str),
}

/// Reads a workload's name; clap suggests similar ones.
#[derive(Clone)]
struct DoingParser;

impl TypedValueParser for DoingParser {
    type Value = Doing;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Doing, clap::Error> {
        let names: Vec<PossibleValue> = self.names().collect();
        let parser = clap::builder::PossibleValuesParser::new(names);
        let name = parser.parse_ref(command, argument, value)?;
        let preset = presets::PRESETS.iter().find(|preset| preset.0 == name);
        match (Workload::from_str(&name, true), preset) {
            (Ok(workload), _) => Ok(Doing::Plain(workload)),
            (Err(_), Some(preset)) => Ok(Doing::Preset(preset.0)),
            (Err(_), None) => {
                Err(command.clone().error(clap::error::ErrorKind::InvalidValue, name))
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names()))
    }
}

impl DoingParser {
    fn names(&self) -> impl Iterator<Item = PossibleValue> + use<> {
        let own = Workload::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let presets = presets::PRESETS
            .iter()
            .map(|(name, _, origin)| PossibleValue::new(*name).help(format!("from {origin}")));
        own.chain(presets)
    }
}

/// What is done, and on what.
// More than a dozen fields: one for each flag of the command line.
#[derive(Debug, Default, Args)]
pub(super) struct ShapeOptions {
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
    /// Whether seeks and ranges that nothing writes beside keep their iterator [default: true]
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

/// How long, how fast, and from which state.
#[derive(Debug, Default, Args)]
pub(super) struct PaceOptions {
    /// Time limit of the measured phase [default: none for writes, 10 for the rest]
    #[arg(long, alias = "duration", alias = "maxexecutiontime")]
    seconds: Option<f64>,
    /// Operations per second of all threads together
    #[arg(long, alias = "target", alias = "benchmark-write-rate-limit")]
    rate: Option<f64>,
    /// With --rate: measure from when an operation was due
    #[arg(long, requires = "rate")]
    open_loop: bool,
    /// Seconds at the beginning that are not measured
    #[arg(long, default_value_t = 0.0)]
    warmup_sec: f64,
    /// Operations per thread at the beginning that are not measured
    #[arg(long, value_parser = parse_count, default_value = "0")]
    warmup_ops: u64,
    /// Touch the whole data set before measuring reads
    #[arg(long)]
    warm: bool,
    /// State before the next phase [default: idle]
    #[arg(long, value_enum)]
    settle: Option<Settle>,
    /// The page cache when reads begin [default: keep]
    #[arg(long, value_enum)]
    page_cache: Option<PageCache>,
    /// Count what the device under the database reads and writes, for all processes: syncs the file
    /// system before and after, and means something only on a machine that does nothing else
    #[arg(long)]
    device_counters: bool,
    /// How results are checked [default: full]
    #[arg(long, value_enum)]
    verify: Option<Verify>,
}

/// How the engines are set up.
// More than a dozen fields: one for each flag of the command line.
#[derive(Debug, Default, Args)]
pub(super) struct SetupOptions {
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

fn parse_length(text: &str) -> Result<usize, String> {
    usize::try_from(parse_size(text)?).map_err(|_| format!("too large: {text}"))
}

/// The bits per key with which an ideal filter lets no more than this share through.
fn parse_bloom_fpr(text: &str) -> Result<u32, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share < 1.0);
    let share = share.ok_or_else(|| format!("not a share between 0 and 1: {text}"))?;
    let bits = -share.ln() / std::f64::consts::LN_2.powi(2);
    Ok((bits - 1e-9).ceil() as u32)
}

fn parse_hotspot(text: &str) -> Result<(f64, f64), String> {
    let (set, ops) = text.split_once(':').ok_or("give two shares, as in 0.2:0.8")?;
    let share = |text: &str| {
        let number = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        number.ok_or_else(|| format!("not a share between 0 and 1: {text}"))
    };
    Ok((share(set)?, share(ops)?))
}

/// Overwrites a field where an option was given.
fn give<T>(field: &mut T, option: Option<T>) {
    if let Some(value) = option {
        *field = value;
    }
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

    fn shape(&self) -> Result<Shape, String> {
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

    fn name(&self, shape: &Shape) -> String {
        match &self.workload {
            Some(Doing::Preset(name)) => (*name).to_owned(),
            _ => format!("{}_{}", shape.workload.name(), shape.pattern.name()),
        }
    }
}

impl SetupOptions {
    fn setup(&self) -> Setup {
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

/// The test that a set of options describes.
pub(super) fn test(
    shape_options: &ShapeOptions,
    pace: &PaceOptions,
    setup: &SetupOptions,
    name: Option<&String>,
) -> Result<Test, String> {
    let mut shape = shape_options.shape()?;
    let bounded = shape.operations.is_some()
        || matches!(
            shape.workload,
            Workload::Write
                | Workload::WriteThenRead
                | Workload::Delete
                | Workload::DeleteRange
                | Workload::Ttl
                | Workload::Replay
        );
    shape.seconds = pace.seconds.or((!bounded).then_some(10.0));
    shape.pace.rate = pace.rate;
    shape.pace.open_loop = pace.open_loop;
    shape.pace.warmup_seconds = pace.warmup_sec;
    shape.pace.warmup_operations = pace.warmup_ops;
    shape.warm = pace.warm;
    give(&mut shape.settle, pace.settle);
    give(&mut shape.page_cache, pace.page_cache);
    shape.device_counters = pace.device_counters;
    give(&mut shape.verify, pace.verify);
    if shape.seconds.is_some_and(|seconds| seconds.is_nan() || seconds <= 0.0) {
        return Err("--seconds must be positive".to_owned());
    }
    let name = name.cloned().unwrap_or_else(|| shape_options.name(&shape));
    Ok(Test { name, shape, setup: setup.setup(), repeat: 1 })
}

/// A setting in an engine's own words: `ENGINE:NAME=VALUE`.
pub(super) fn parse_engine_option(text: &str) -> Result<(String, String, String), String> {
    let form = "give ENGINE:NAME=VALUE";
    let (engine, rest) = text.split_once(':').ok_or(form)?;
    let (name, value) = rest.split_once('=').ok_or(form)?;
    Ok((engine.to_owned(), name.to_owned(), value.to_owned()))
}

/// Libraries, limits and settings that concern the machine.
#[derive(Debug, Default, Args)]
pub(super) struct MachineOptions {
    /// RocksDB library to load
    #[arg(long, value_name = "PATH")]
    pub(super) rocksdb_lib: Option<PathBuf>,
    /// Library with TidesDB's C interface, for the engine tidesdb-c
    #[arg(long, value_name = "PATH")]
    pub(super) lib: Option<PathBuf>,
    /// Memory of each child, page cache included (a control group)
    #[arg(long, value_parser = parse_size)]
    pub(super) mem_limit: Option<u64>,
    /// Processors of each child, as in 0,1 or 0-3
    #[arg(long, value_name = "LIST")]
    pub(super) cpus: Option<String>,
    /// A setting in an engine's own words; may be given several times
    #[arg(long, value_name = "ENGINE:NAME=VALUE", value_parser = parse_engine_option)]
    pub(super) engine_opt: Vec<(String, String, String)>,
}

impl MachineOptions {
    /// Enters the options into the settings of a test.
    pub(super) fn enter(&self, setup: &mut Setup) {
        setup.rocksdb_library.clone_from(&self.rocksdb_lib);
        setup.tidesdb_library.clone_from(&self.lib);
        setup.memory_limit = self.mem_limit.or(setup.memory_limit);
        setup.processors.clone_from(&self.cpus);
        setup.engine_options.extend(self.engine_opt.iter().cloned());
    }
}
