//! Directories of files as archives.

use std::path::{Path, PathBuf};

use tidesdb_base::compress::Compression;

/// Longest archive, unpacked.
const MOST_BYTES: usize = 256 << 20;

/// Where the archives of version 1 lie.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/v1")
}

/// The files of a directory in the order of their names, without the lock.
pub(crate) fn files_of(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<(String, Vec<u8>)> = entries
        .filter(|path| path.is_file() && path.file_name().unwrap() != "LOCK")
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// The files one behind the other, each with its name and length, compressed with Zstandard: length
/// of the raw form u64, and its compressed form.
pub(crate) fn pack(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut raw = Vec::new();
    for (name, bytes) in files {
        raw.extend_from_slice(&(name.len() as u32).to_le_bytes());
        raw.extend_from_slice(name.as_bytes());
        raw.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        raw.extend_from_slice(bytes);
    }
    let mut packed = Vec::new();
    assert!(Compression::Zstd.compress(&raw, &mut packed));
    [&(raw.len() as u64).to_le_bytes()[..], &packed].concat()
}

/// Makes a directory of an archive.
pub(crate) fn unpack(archive: &[u8], dir: &Path) {
    let (len, packed) = archive.split_first_chunk().unwrap();
    let len = u64::from_le_bytes(*len) as usize;
    assert!(len <= MOST_BYTES);
    let mut raw = vec![0; len];
    Compression::Zstd.decompress(packed, &mut raw).unwrap();
    let mut rest = raw.as_slice();
    let mut take = |count: usize| {
        let (taken, behind) = rest.split_at(count);
        rest = behind;
        (taken.to_vec(), behind.is_empty())
    };
    std::fs::create_dir(dir).unwrap();
    let mut done = false;
    while !done {
        let name_len = u32::from_le_bytes(take(4).0.try_into().unwrap());
        let name = String::from_utf8(take(name_len as usize).0).unwrap();
        let len = u64::from_le_bytes(take(8).0.try_into().unwrap());
        let (bytes, last) = take(len as usize);
        std::fs::write(dir.join(name), bytes).unwrap();
        done = last;
    }
}

/// Copies what lies in the directory of a database that is open, as if its process had died.
pub(crate) fn copy_alive(alive: &Path, dir: &Path) {
    std::fs::create_dir(dir).unwrap();
    for (name, bytes) in files_of(alive) {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
}
