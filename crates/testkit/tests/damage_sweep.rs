//! H5: every bit, every truncation, and blocks that are zeroed, misplaced or stale, in one small
//! database per file format. Whatever is damaged, every answer is right or an error of kind
//! `Corruption` that names the damaged file (P3): never a panic, a wrong value, a skipped row, or
//! "not found" for a key that is there. A damaged table or value log stops neither the open nor
//! the rest of the data, and no merge retires it.
//!
//! What nothing can tell from a power cut is allowed, and no more than that:
//! * the manifest's last record, cut or damaged: the state before that edit, if everything in it
//!   is still there (otherwise the missing file is the error);
//! * in a log that was never synced, the records from the damage on: a prefix of the commits;
//! * in a log that is cut within its header and sync mark, a prefix as well: a segment whose length
//!   never reached the disk looks the same. The loss of its first sector alone, or of the file, is
//!   missed.
//!
//! Scale 1 draws a part of the bits, all others at higher scales: the stride is printed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers fail by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::common_support::golden::{Golden, Shape};
use crate::common_support::seeds::{scaled, seed};
use tidesdb::{Error, ErrorKind};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{Corruption, SimVfs};
use tidesdb_sys::vfs::{OpenMode, Vfs};

/// What may become of a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tolerance {
    /// Right answers, or errors that name the file.
    Exact,
    /// Also a prefix of the commits.
    Prefix,
}

/// What one sweep saw.
#[derive(Debug, Default)]
struct Tally {
    damages: u64,
    refused_opens: u64,
    served_in_part: u64,
    noticed_by_check: u64,
    unharmed: u64,
    earlier_states: u64,
}

struct Sweep<'g> {
    golden: &'g Golden,
    path: PathBuf,
    tolerance: Tolerance,
    /// The damage is that bytes can't be read.
    unreadable: bool,
    tally: Tally,
}

impl<'g> Sweep<'g> {
    fn new(golden: &'g Golden, path: PathBuf, tolerance: Tolerance) -> Self {
        Self { golden, path, tolerance, unreadable: false, tally: Tally::default() }
    }

    /// Damages a copy of the database and judges what it returns.
    fn judge(&mut self, about: &str, damage: impl FnOnce(&SimVfs, &Path) -> bool) {
        self.judge_within(self.tolerance, about, damage);
    }

    fn judge_within(
        &mut self,
        tolerance: Tolerance,
        about: &str,
        damage: impl FnOnce(&SimVfs, &Path) -> bool,
    ) {
        let disk = self.golden.disk.fork();
        if !damage(&disk, &self.path) {
            return;
        }
        self.tally.damages += 1;
        let judged = catch_unwind(AssertUnwindSafe(|| self.judge_disk(&disk, tolerance)));
        if judged.is_err() {
            panic!("{} with {about}", self.path.display());
        }
    }

    fn judge_disk(&mut self, disk: &Arc<SimVfs>, tolerance: Tolerance) {
        let name = self.path.file_name().unwrap().to_string_lossy().into_owned();
        let is_data = name.ends_with(".klog") || name.ends_with(".vlog");
        let db = match self.golden.open(disk) {
            Ok(db) => db,
            Err(error) => {
                assert!(!is_data, "a damaged table stops the open: {error}");
                self.judge_error(&error, &name);
                self.tally.refused_opens += 1;
                return;
            }
        };
        let outcome = self.golden.compare(&db);
        for error in &outcome.errors {
            self.judge_error(error, &name);
        }
        if !outcome.wrong.is_empty() {
            let prefix = tolerance == Tolerance::Prefix && outcome.errors.is_empty();
            let wrong = &outcome.wrong;
            assert!(prefix && self.golden.is_prefix(&db), "wrong answers for {wrong:?}");
            self.tally.earlier_states += 1;
            return;
        }
        let problems = db.verify().unwrap().problems;
        assert!(
            outcome.errors.is_empty() || !problems.is_empty(),
            "a deep check finds nothing although reads fail: {:?}",
            outcome.errors
        );
        for problem in &problems {
            self.judge_error(problem, &name);
        }
        if is_data && !outcome.errors.is_empty() {
            assert!(outcome.served > 0, "nothing is served any more");
            self.tally.served_in_part += 1;
            let was_there = disk.content(&self.path).is_ok();
            let merged = db.compact();
            // A merge of tables carries pointers into value logs along and does not follow them.
            assert!(merged.is_err() || name.ends_with(".vlog"), "a merge passed over damage");
            assert_eq!(disk.content(&self.path).is_ok(), was_there, "a merge retired damage");
            let again = self.golden.compare(&db);
            assert!(again.wrong.is_empty(), "wrong answers after a merge: {:?}", again.wrong);
        } else if problems.is_empty() {
            self.tally.unharmed += 1;
        } else {
            self.tally.noticed_by_check += 1;
        }
    }

    /// An error must be of kind `Corruption`, or of kind `Io` for bytes that can't be read, and
    /// name the damaged file. When the manifest or `CURRENT` is damaged it may name the file that
    /// contradicts them instead.
    fn judge_error(&self, error: &Error, name: &str) {
        let unknown_format = matches!(error, Error::NotADatabase { .. });
        let unreadable = self.unreadable && error.kind() == ErrorKind::Io;
        let explained = error.kind() == ErrorKind::Corruption || unknown_format || unreadable;
        assert!(explained, "{error}");
        let text = error.to_string();
        let of_manifest = name.starts_with("MANIFEST") || name == "CURRENT";
        let named = text.contains(name) || (of_manifest && text.contains("/db/"));
        assert!(named, "does not name {name}: {text}");
    }

    /// Flips bits, every `stride`-th of the first `length` bytes, beginning at a random one.
    fn flip_bits(&mut self, length: u64, stride: u64, random: &mut SplitMix64) {
        let mut bit = random.below(stride);
        while bit < length * 8 {
            self.judge(&format!("bit {bit} flipped"), |disk, path| {
                disk.corrupt(path, bit / 8, Corruption::Flip((bit % 8) as u8)).unwrap()
            });
            bit += stride;
        }
    }

    /// Cuts the file to every `stride`-th of its lengths below `length`.
    fn truncate(&mut self, length: u64, stride: u64, random: &mut SplitMix64) {
        let mut kept = random.below(stride);
        while kept < length {
            let is_log = self.path.extension().is_some_and(|extension| extension == "log");
            let headless = is_log && kept < LOG_START_BYTES;
            let tolerance = if headless { Tolerance::Prefix } else { self.tolerance };
            self.judge_within(tolerance, &format!("a cut to {kept} bytes"), |disk, path| {
                disk.open(path, OpenMode::ReadWrite).unwrap().set_len(kept).unwrap();
                true
            });
            kept += stride;
        }
    }

    /// Zeroes, exchanges, and ages sectors, and makes them unreadable.
    fn damage_sectors(&mut self, length: u64) {
        for at in (0..length).step_by(512) {
            self.unreadable = true;
            self.judge(&format!("sector {at} unreadable"), |disk, path| {
                disk.corrupt(path, at, Corruption::ReadError).unwrap()
            });
            self.unreadable = false;
            self.judge(&format!("sector {at} zeroed"), |disk, path| {
                disk.corrupt(path, at, Corruption::Zero).unwrap()
            });
            self.judge(&format!("sector {at} stale"), |disk, path| {
                disk.corrupt(path, at, Corruption::Stale).unwrap()
            });
            for from in (0..length).step_by(512) {
                let about = format!("sector {from} in place of {at}");
                self.judge(&about, |disk, path| {
                    let damage = Corruption::Misplaced { from: path.to_path_buf(), at: from };
                    disk.corrupt(path, at, damage).unwrap()
                });
            }
        }
    }

    /// Puts the content of another file of the same kind in this one's place.
    fn exchange(&mut self, other: &Path) {
        self.judge(&format!("the content of {}", other.display()), |disk, path| {
            let bytes = disk.content(other).unwrap();
            disk.remove(path).unwrap();
            let file = disk.open(path, OpenMode::CreateNew).unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            true
        });
    }

    /// Removes the file. Of the log's the error names the segment: what its file was called is
    /// nowhere known.
    fn remove(&mut self) {
        let is_log = self.path.extension().is_some_and(|extension| extension == "log");
        if !is_log {
            self.judge("the file removed", |disk, path| {
                disk.remove(path).unwrap();
                true
            });
            return;
        }
        let disk = self.golden.disk.fork();
        disk.remove(&self.path).unwrap();
        self.tally.damages += 1;
        match self.golden.open(&disk) {
            Ok(db) => {
                let allowed = self.tolerance == Tolerance::Prefix && self.golden.is_prefix(&db);
                assert!(allowed, "{} was removed and is not missed", self.path.display());
                self.tally.earlier_states += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                assert!(error.to_string().contains("/db/wal-"), "{error}");
                self.tally.refused_opens += 1;
            }
        }
    }
}

/// Bytes in front of a log segment's first record: header and sync mark.
const LOG_START_BYTES: u64 = 128;

/// Sweeps one kind of file of a database; `budget` is how many damaged copies it may take.
fn sweep(shape: Shape, start: &str, end: &str, tolerance: Tolerance, budget: u64) {
    let seed = seed("damage_sweep");
    let mut random = SplitMix64::new(seed);
    let began = Instant::now();
    let golden = Golden::make(shape);
    let files = golden.files(start, end);
    assert!(!files.is_empty(), "nothing to damage");
    let budget = scaled(budget) / files.len() as u64;
    for path in &files {
        let length = golden.used_length(path);
        let bit_stride = (length * 8).div_ceil(budget).max(1);
        let cut_stride = length.div_ceil(budget / 3 + 1).max(1);
        let mut sweep = Sweep::new(&golden, path.clone(), tolerance);
        sweep.flip_bits(length, bit_stride, &mut random);
        sweep.truncate(length, cut_stride, &mut random);
        sweep.damage_sectors(length.min(8 << 10));
        sweep.remove();
        for other in files.iter().filter(|other| *other != path).take(3) {
            sweep.exchange(other);
        }
        println!(
            "{}: {length} bytes, 1 in {bit_stride} bits, 1 in {cut_stride} cuts: {:?}, {:?}",
            path.display(),
            sweep.tally,
            began.elapsed()
        );
        let harmed = sweep.tally.damages - sweep.tally.unharmed;
        assert!(harmed * 2 > sweep.tally.damages, "most damages did nothing: not a test");
    }
}

#[test]
fn tables() {
    sweep(Shape::Closed, "", ".klog", Tolerance::Exact, 2_000);
}

/// B+trees with filters of the other kind and of prefixes, some of which two families share.
#[test]
fn shared_trees() {
    sweep(Shape::Trees, "", ".klog", Tolerance::Exact, 1_000);
}

#[test]
fn value_logs() {
    sweep(Shape::Closed, "", ".vlog", Tolerance::Exact, 2_500);
}

#[test]
fn the_manifest() {
    sweep(Shape::Closed, "MANIFEST", "", Tolerance::Exact, 4_000);
}

#[test]
fn the_manifest_beside_a_log() {
    sweep(Shape::Synced, "MANIFEST", "", Tolerance::Exact, 2_500);
}

#[test]
fn current() {
    sweep(Shape::Closed, "CURRENT", "", Tolerance::Exact, 1_000);
}

#[test]
fn a_synced_log() {
    sweep(Shape::Synced, "wal-", ".log", Tolerance::Exact, 4_000);
}

#[test]
fn a_log_that_was_never_synced() {
    sweep(Shape::Unsynced, "wal-", ".log", Tolerance::Prefix, 2_500);
}

/// Values of 1 MiB and more, which commits write to a value log of their own at once.
#[test]
fn value_logs_of_large_values() {
    sweep(Shape::Large, "", ".vlog", Tolerance::Exact, 200);
}

#[test]
fn a_synced_log_that_points_to_large_values() {
    sweep(Shape::Large, "wal-", ".log", Tolerance::Exact, 400);
}
