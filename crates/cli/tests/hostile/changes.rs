//! Changes of bytes as users and damage make them, for every reader of what users give: shared with
//! the C interface.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and helpers count as production code to the lint"
)]

use std::path::{Path, PathBuf};

use tidesdb_sim::rng::SplitMix64;

/// Changes of each first bytes.
const CHANGES: u64 = 2000;

/// What means something to one of the readers.
const WORDS: [&[u8]; 26] = [
    b"\"",
    b"\\",
    b"\\x",
    b"\\ud800",
    b"\n",
    b"\r\n",
    b"\t",
    b",",
    b"{",
    b"[",
    b"]",
    b"=",
    b"#",
    b";",
    b"\"\"\"",
    b"\xef\xbb\xbf",
    b"\xff",
    b"1e999",
    b"-0",
    b"family.",
    b"'",
    b" ",
    b"\\x00",
    b"18446744073709551615",
    b"-1",
    b"null",
];

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

fn change(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut SplitMix64) {
    for _ in 0..1 + random.index(4) {
        let at = random.index(bytes.len() + 1);
        match random.index(6) {
            0 => bytes.truncate(at),
            1 | 2 => drop(bytes.splice(at..at, WORDS[random.index(WORDS.len())].iter().copied())),
            3 => {
                let end = (at + random.index(20)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let other = &others[random.index(others.len())];
                bytes.truncate(at);
                bytes.extend_from_slice(&other[random.index(other.len() + 1)..]);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.index(8);
                }
            }
        }
    }
    bytes.truncate(16 << 10);
}

/// A reader of bytes from outside.
type Reader = fn(&[u8]);

/// Gives each reader the first bytes of its fuzz target, and thousands of changes of them.
pub(crate) fn try_on_changes(readers: &[(&str, Reader)]) {
    let (seed, scale) = (number("TIDESDB_SEED", 1), number("TIDESDB_TEST_SCALE", 1));
    println!("TIDESDB_SEED={seed}");
    for (target, read) in readers {
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
