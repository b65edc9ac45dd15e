//! Every reader of bytes from outside on bytes that were made up: small real ones, and thousands of
//! changes of them. The same functions, and the same first bytes, are the targets in `fuzz/`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and helpers count as production code to the lint"
)]

use std::path::{Path, PathBuf};

use tidesdb_files::hostile::READERS;
use tidesdb_sim::rng::SplitMix64;

/// Changes of each first bytes.
const CHANGES: u64 = 400;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{target} has no first bytes");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

/// Changes some bytes the way that damage and malice do.
fn change(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut SplitMix64) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => {
                let len = random.below(9) as usize;
                let added: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
                bytes.splice(at..at, added);
            }
            2 => {
                let end = (at + random.below(40) as usize).min(bytes.len());
                bytes.drain(at..end);
            }
            3 => {
                // Numbers at the bounds of what fits.
                let bounds = [0, 1, 0x7f, 0x80, 0xff, u64::MAX, 1 << 32, 1 << 31];
                let value = bounds[random.below(8) as usize];
                for (to, from) in bytes.iter_mut().skip(at).zip(value.to_le_bytes()) {
                    *to = from;
                }
            }
            4 => {
                let other = &others[random.below(others.len() as u64) as usize];
                let from = random.below(other.len() as u64 + 1) as usize;
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
    bytes.truncate(64 << 10);
}

#[test]
fn readers_survive_whatever_they_are_given() {
    let (seed, scale) = (number("TIDESDB_SEED", 1), number("TIDESDB_TEST_SCALE", 1));
    println!("TIDESDB_SEED={seed}");
    for (target, read) in READERS {
        let first = corpus(target);
        let mut random = SplitMix64::new(seed);
        for bytes in &first {
            read(bytes);
            for _ in 0..CHANGES * scale {
                let mut changed = bytes.clone();
                change(&mut changed, &first, &mut random);
                read(&changed);
            }
        }
    }
}
