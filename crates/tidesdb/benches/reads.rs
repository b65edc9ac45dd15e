//! Times reads of both forms of tables, one key at a time and many at once.
//!
//! ```text
//! cargo bench -p tidesdb --bench reads -- \
//!     DIRECTORY [KEYS [CACHE_KIB [BLOCK_BYTES [FORM]]]]
//! ```
//!
//! 16-byte random keys, 100-byte values of which half is noise, one sorted run, LZ4, blocks of 4
//! KiB or BLOCK_BYTES, a filter of 1 %, one thread; of FORM block or btree, or both. "Cached" means
//! that the block cache holds all blocks, "warm" that it has CACHE_KIB, 64 if none are given, and
//! the operating system has the files in its page cache, "cold" that it has none of them: its cache
//! is dropped before each measurement, for which the program must be root, and each key is read
//! once. Every answer is checked. With both forms there are gets from either in turn at the end, in
//! one process: what else the machine does meets both alike, so the ratio says more than single
//! figures do.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use tidesdb::{Db, DbOptions, Family, FamilyOptions, ScanOptions};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Keys of one `multi_get`.
const AT_ONCE: usize = 100;

/// A mixing function, for keys and noise.
const fn mixed(n: u64) -> u64 {
    let z = (n ^ n >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

fn key(n: u64) -> [u8; 16] {
    (u128::from(mixed(n + 1)) << 64 | u128::from(n)).to_be_bytes()
}

fn value(n: u64) -> [u8; 100] {
    let mut value = [b'v'; 100];
    for (at, piece) in value[..48].chunks_mut(8).enumerate() {
        piece.copy_from_slice(&mixed(n * 7 + at as u64).to_le_bytes());
    }
    value
}

/// Keys in an order in which none comes twice.
fn picks(keys: u64, count: usize, salt: u64) -> Vec<u64> {
    (0..count as u64).map(|at| (at * 0x9E37_79B1 + mixed(salt) % keys) % keys).collect()
}

fn drop_page_cache() -> Outcome<()> {
    std::process::Command::new("sync").status()?;
    Ok(std::fs::write("/proc/sys/vm/drop_caches", "3")?)
}

/// Nanoseconds for each of `count` keys.
fn timed(count: usize, work: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed().as_nanos() as f64 / count as f64)
}

fn gets(family: &Family, picks: &[u64]) -> Outcome<f64> {
    timed(picks.len(), || {
        for &n in picks {
            let found = family.get(&key(n))?;
            assert_eq!(found.as_deref(), Some(&value(n)[..]));
        }
        Ok(())
    })
}

fn multi_gets(family: &Family, picks: &[u64]) -> Outcome<f64> {
    timed(picks.len(), || {
        for some in picks.chunks(AT_ONCE) {
            let found = family.multi_get(some.iter().map(|&n| key(n)))?;
            for (found, &n) in found.iter().zip(some) {
                assert_eq!(found.as_deref(), Some(&value(n)[..]));
            }
        }
        Ok(())
    })
}

fn seeks(family: &Family, picks: &[u64]) -> Outcome<f64> {
    let mut scan = family.scan(ScanOptions::new())?;
    timed(picks.len(), || {
        for &n in picks {
            scan.seek(&key(n))?;
            assert_eq!((scan.key(), scan.value()?), (&key(n)[..], &value(n)[..]));
        }
        Ok(())
    })
}

fn scans(family: &Family, keys: u64) -> Outcome<f64> {
    let mut scan = family.scan(ScanOptions::new())?;
    timed(keys as usize, || {
        scan.seek_to_first()?;
        let mut count = 0;
        while scan.valid() {
            count += 1;
            scan.next()?;
        }
        assert_eq!(count, keys);
        Ok(())
    })
}

/// What is asked for on the command line.
struct Plan {
    directory: PathBuf,
    keys: u64,
    small_cache: usize,
    block_bytes: usize,
}

const fn name_of(btree: bool) -> &'static str {
    if btree { "btree" } else { "block" }
}

impl Plan {
    fn open(&self, btree: bool, cache: usize) -> Outcome<(Db, Family)> {
        let path = self.directory.join(name_of(btree));
        let db = Db::open(path, DbOptions::default().block_cache_bytes(cache))?;
        let options = FamilyOptions::default().use_btree(btree).block_size(self.block_bytes);
        let family = db.open_family("family", options)?;
        Ok((db, family))
    }
}

/// Gets from both forms in turn: the median of the ratios, and the lowest and highest tenth.
fn measure_in_turn(plan: &Plan, what: &str, cache: usize) -> Outcome<()> {
    let (blocks, trees) = (plan.open(false, cache)?, plan.open(true, cache)?);
    for (_, family) in [&blocks, &trees] {
        gets(family, &picks(plan.keys, plan.keys as usize, 1))?;
        scans(family, plan.keys)?;
    }
    let mut times = Vec::new();
    for round in 0..25 {
        let picks = picks(plan.keys, 20_000, round + 40);
        times.push([gets(&blocks.1, &picks)?, gets(&trees.1, &picks)?]);
    }
    let spread = |figure: fn(&[f64; 2]) -> f64| {
        let mut figures: Vec<f64> = times.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        [figures.len() / 2, figures.len() / 10, figures.len() * 9 / 10].map(|at| figures[at])
    };
    let ([block, ..], [tree, ..]) = (spread(|times| times[0]), spread(|times| times[1]));
    let [ratio, low, high] = spread(|times| times[0] / times[1]);
    println!(
        "in turn, {what}: block {block:.0} ns, btree {tree:.0} ns, {ratio:.3} times as fast \
         ({low:.3}-{high:.3})"
    );
    Ok(())
}

fn measure(plan: &Plan, btree: bool) -> Outcome<()> {
    let Plan { keys, small_cache, .. } = *plan;
    let name = name_of(btree);
    let open = |cache: usize| plan.open(btree, cache);
    let (db, family) = open(small_cache)?;
    for n in 0..keys {
        family.put(&key(n), &value(n))?;
    }
    family.compact()?;
    let bytes = family.stats().levels.iter().map(|level| level.bytes).sum::<u64>();
    println!("{name}: {:.2} bytes of tables a key", bytes as f64 / keys as f64);
    drop((family, db));
    let report = |what: &str, round: u64, [get, many, seek]: [f64; 3]| {
        println!(
            "{name} {what} {round}: get {get:.0} ns, multi_get {many:.0} ns a key ({:.2} times), \
             seek {seek:.0} ns",
            get / many
        );
    };
    let (db, family) = open(2 << 30)?;
    seeks(&family, &picks(keys, keys as usize, 1))?;
    gets(&family, &picks(keys, keys as usize, 1))?;
    for round in 0..3 {
        let picks = picks(keys, 200_000, round);
        let times = [gets(&family, &picks)?, multi_gets(&family, &picks)?, seeks(&family, &picks)?];
        report("cached", round, times);
        println!("{name} cached {round}: scan {:.1} ns a key", scans(&family, keys)?);
    }
    drop((family, db));
    let (db, family) = open(small_cache)?;
    for round in 0..3 {
        let picks = picks(keys, 60_000, round + 10);
        let times = [gets(&family, &picks)?, multi_gets(&family, &picks)?, seeks(&family, &picks)?];
        report("warm", round, times);
        println!("{name} warm {round}: scan {:.1} ns a key", scans(&family, keys)?);
    }
    for round in 0..3 {
        let picks = picks(keys, 3000, round + 20);
        let cold = |reads: fn(&Family, &[u64]) -> Outcome<f64>| {
            drop_page_cache()?;
            reads(&family, &picks)
        };
        match cold(gets) {
            Ok(get) => report("cold", round, [get, cold(multi_gets)?, cold(seeks)?]),
            Err(error) => println!("{name} cold: not measured, {error}"),
        }
    }
    drop((family, db));
    Ok(())
}
/// The arguments, without the one that `cargo bench` adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}

fn main() -> Outcome<()> {
    let mut arguments = arguments();
    let directory =
        arguments.next().ok_or("usage: reads DIRECTORY [KEYS [CACHE_KIB [BLOCK_BYTES [FORM]]]]")?;
    let mut number = |usual: usize| arguments.next().map_or(Ok(usual), |text| text.parse());
    let plan = Plan {
        directory: directory.into(),
        keys: number(2_000_000)? as u64,
        small_cache: number(64)? << 10,
        block_bytes: number(4096)?,
    };
    let form = arguments.next();
    for (name, btree) in [("block", false), ("btree", true)] {
        if form.as_deref().is_none_or(|form| form == name) {
            measure(&plan, btree)?;
        }
    }
    if form.is_none() {
        measure_in_turn(&plan, "cached", 2 << 30)?;
        measure_in_turn(&plan, "warm", plan.small_cache)?;
    }
    Ok(())
}
