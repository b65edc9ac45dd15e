//! Each rule of the simulated disk has a test here that fails when the rule is broken.

mod damage;
mod durability;
mod hooks;
mod images;
mod random;
mod segments;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{CrashProfile, SimVfs};
use tidesdb_sys::vfs::{OpenMode, Vfs};

fn path(name: &str) -> PathBuf {
    Path::new("/").join(name)
}

/// Creates a file with `bytes` in it, nothing synced.
fn create(sim: &SimVfs, name: &str, bytes: &[u8]) -> Arc<dyn tidesdb_sys::vfs::File> {
    let file = sim.open(&path(name), OpenMode::CreateNew).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

/// Creates a file whose name and content are durable.
fn create_durable(sim: &SimVfs, name: &str, bytes: &[u8]) -> Arc<dyn tidesdb_sys::vfs::File> {
    let file = create(sim, name, bytes);
    file.sync_data().unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
    file
}

/// The names in the root directory of the image that `profile` and `seed` give.
fn names_after(sim: &SimVfs, profile: CrashProfile, seed: u64) -> Vec<String> {
    let image = sim.crash_image(profile, seed);
    image.list(Path::new("/")).unwrap().into_iter().map(|entry| entry.name).collect()
}

/// A file's content after a crash; `None` when its name is gone.
fn content_after(sim: &SimVfs, name: &str, profile: CrashProfile, seed: u64) -> Option<Vec<u8>> {
    sim.crash_image(profile, seed).content(&path(name)).ok()
}
