//! Times copies: `clone_family`, checkpoints, backups, and writers during a backup.
//!
//! `cargo bench -p tidesdb --bench copies -- DIRECTORY [MIB [TABLE_MIB [WHAT]]]`
//!
//! A family of MIB mebibytes (1024 if none are given) of 16-byte random keys and values of 400
//! bytes of noise, in tables of TABLE_MIB (64): what links cost follows from the number of files. A
//! copy is compared with the same bytes copied by plain reads and writes of a mebibyte, synced file
//! by file as a backup does; both read what the page cache has. Clones and checkpoints are reported
//! with the time that one sync of a small file takes there, before and behind each. One writer is
//! measured during a backup, during such a plain copy, with a thread that only computes, and
//! alone for as long after each of these: with WHAT of `writers` one that puts as much as it can,
//! with `modest` one of 50,000 puts a second; with `copies` only copies are timed.

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidesdb::{Db, DbOptions, Family, FamilyOptions};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Rounds of each measurement.
const ROUNDS: u32 = 3;

/// How long the thread computes with which a writer is measured.
const COMPUTING: Duration = Duration::from_secs(2);

/// Puts a second of the writer that does not write as much as it can.
const MODEST: f64 = 50_000.0;

const VALUE_BYTES: usize = 400;

/// A mixing function, for keys and noise.
const fn mixed(n: u64) -> u64 {
    let z = (n ^ n >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

fn key(n: u64) -> [u8; 16] {
    (u128::from(mixed(n + 1)) << 64 | u128::from(n)).to_be_bytes()
}

fn value(n: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    for (at, piece) in value.chunks_mut(8).enumerate() {
        piece.copy_from_slice(&mixed(n * 61 + at as u64).to_le_bytes());
    }
    value
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// What one sync of a new small file takes.
fn one_sync(directory: &Path) -> Outcome<Duration> {
    let path = directory.join("one-sync");
    let mut file = File::create(&path)?;
    file.write_all(b"sync")?;
    let started = Instant::now();
    file.sync_all()?;
    let took = started.elapsed();
    fs::remove_file(path)?;
    Ok(took)
}

fn files_of(directory: &Path) -> Outcome<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(directory)? {
        files += 1;
        bytes += entry?.metadata()?.len();
    }
    Ok((files, bytes))
}

fn shared_copies(db: &Db, directory: &Path) -> Outcome<()> {
    for round in 0..ROUNDS {
        let before = one_sync(directory)?;
        let started = Instant::now();
        drop(db.clone_family("family", "copy")?);
        let cloned = started.elapsed();
        db.drop_family("copy")?;
        let to = directory.join("checkpoint");
        let started = Instant::now();
        db.checkpoint(&to)?;
        let checkpoint = started.elapsed();
        let (files, _) = files_of(&to)?;
        fs::remove_dir_all(&to)?;
        println!(
            "round {round}: clone {:.1} ms, checkpoint of {files} files {:.1} ms, one sync {:.1} \
             and {:.1} ms",
            millis(cloned),
            millis(checkpoint),
            millis(before),
            millis(one_sync(directory)?)
        );
    }
    Ok(())
}

/// Copies all files as a backup does, and returns how many bytes.
fn plain_copy(from: &Path, to: &Path) -> Outcome<u64> {
    fs::create_dir(to)?;
    let (mut piece, mut bytes) = (vec![0; 1 << 20], 0);
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (mut source, mut copy) =
            (File::open(entry.path())?, File::create(to.join(entry.file_name()))?);
        loop {
            let count = source.read(&mut piece)?;
            if count == 0 {
                break;
            }
            copy.write_all(&piece[..count])?;
            bytes += count as u64;
        }
        copy.sync_data()?;
    }
    File::open(to)?.sync_all()?;
    Ok(bytes)
}

fn backups(db: &Db, directory: &Path) -> Outcome<()> {
    let (backup, plain) = (directory.join("backup"), directory.join("plain"));
    for round in 0..ROUNDS {
        let started = Instant::now();
        db.backup(&backup)?;
        let took = started.elapsed();
        let started = Instant::now();
        // The same files: the database's own directory has a log besides.
        let bytes = plain_copy(&backup, &plain)?;
        let plainly = started.elapsed();
        fs::remove_dir_all(&backup)?;
        fs::remove_dir_all(&plain)?;
        let rate = |took: Duration| bytes as f64 / 1e6 / took.as_secs_f64();
        println!(
            "round {round}: backup of {:.0} MB at {:.0} MB/s, plain copy at {:.0} MB/s: {:.2}",
            bytes as f64 / 1e6,
            rate(took),
            rate(plainly),
            plainly.as_secs_f64() / took.as_secs_f64()
        );
    }
    Ok(())
}

/// Overwrites keys in one thread while `work` is done, as many as it can or `wanted` a second; puts
/// a second, and how long the work took.
fn with_writer(
    (family, keys): (&Family, u64),
    wanted: Option<f64>,
    work: impl FnOnce() -> Outcome<()>,
) -> Outcome<(f64, Duration)> {
    let (stop, puts) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> tidesdb::Result<()> {
            let (mut n, begun) = (0, Instant::now());
            // ORDERING: relaxed here and below; a count, and a flag that guards nothing.
            while !stop.load(Ordering::Relaxed) {
                let is_early = |wanted| n as f64 > begun.elapsed().as_secs_f64() * wanted;
                if n % 64 == 0 && wanted.is_some_and(is_early) {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                family.put(key(mixed(n) % keys), value(n))?;
                puts.fetch_add(1, Ordering::Relaxed);
                n += 1;
            }
            Ok(())
        });
        let started = Instant::now();
        let done = work();
        let took = started.elapsed();
        let rate = puts.load(Ordering::Relaxed) as f64 / took.as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        writer.join().map_err(|_| "the writer panicked")??;
        done.map(|()| (rate, took))
    })
}

/// Puts a second of a writer during each kind of copy, and alone for as long, each time from a
/// database at rest on a disk that has nothing to write.
fn writers(db: &Db, family: (&Family, u64), wanted: Option<f64>, directory: &Path) -> Outcome<()> {
    let (backup, plain) = (directory.join("backup"), directory.join("plain"));
    let source = directory.join("source");
    db.backup(&source)?;
    let (_, bytes) = files_of(&source)?;
    let settle = || -> Outcome<()> {
        for copy in [&backup, &plain].into_iter().filter(|copy| copy.exists()) {
            fs::remove_dir_all(copy)?;
        }
        db.wait_idle()?;
        std::process::Command::new("sync").status()?;
        Ok(())
    };
    for round in 0..ROUNDS {
        for what in ["backup", "plain copy", "computing"] {
            settle()?;
            let (beside, took) = with_writer(family, wanted, || match what {
                "backup" => Ok(db.backup(&backup)?),
                "plain copy" => plain_copy(&source, &plain).map(drop),
                _ => compute(),
            })?;
            settle()?;
            let alone = with_writer(family, wanted, || {
                std::thread::sleep(took);
                Ok(())
            })?;
            println!(
                "round {round}: {beside:.0} puts a second during {what} of {:.1} s ({:.0} MB/s), \
                 {:.0} alone: {:.2}",
                took.as_secs_f64(),
                if what == "computing" { 0.0 } else { bytes as f64 / 1e6 / took.as_secs_f64() },
                alone.0,
                beside / alone.0
            );
        }
    }
    settle()?;
    Ok(fs::remove_dir_all(&source)?)
}

/// Keeps a processor busy.
fn compute() -> Outcome<()> {
    let (started, mut n) = (Instant::now(), 0);
    while started.elapsed() < COMPUTING {
        n = (0..10_000).fold(n, |n, _| mixed(n + 1));
    }
    if std::hint::black_box(n) == 1 { Err("unlikely".into()) } else { Ok(()) }
}
/// The arguments, without the one that `cargo bench` adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}

fn main() -> Outcome<()> {
    let mut arguments = arguments();
    let directory = arguments.next().ok_or("usage: copies DIRECTORY [MIB [TABLE_MIB [WHAT]]]")?;
    let directory = Path::new(&directory);
    let mut number = |usual: u64| arguments.next().map_or(Ok(usual), |text| text.parse());
    let (mib, table_mib) = (number(1024)?, number(64)?);
    let what = arguments.next();
    fs::create_dir_all(directory)?;
    let db = Db::open(directory.join("db"), DbOptions::default())?;
    let options = FamilyOptions::default().target_table_bytes(table_mib << 20);
    let family = db.open_family("family", options)?;
    let keys = (mib << 20) / (VALUE_BYTES + 16) as u64;
    for n in 0..keys {
        family.put(key(n), value(n))?;
    }
    family.compact()?;
    db.wait_idle()?;
    let (files, bytes) = files_of(db.path())?;
    println!("{files} files of {:.0} MB", bytes as f64 / 1e6);
    let is_wanted = |part: &str| what.as_deref().is_none_or(|what| what == part);
    if is_wanted("copies") {
        shared_copies(&db, directory)?;
        backups(&db, directory)?;
    }
    if is_wanted("writers") {
        writers(&db, (&family, keys), None, directory)?;
    }
    if is_wanted("modest") {
        writers(&db, (&family, keys), Some(MODEST), directory)?;
    }
    drop(family);
    Ok(db.close()?)
}
