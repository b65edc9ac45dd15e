//! Random operations: the simulated disk against the real one, and against itself.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::rng::SplitMix64;
use crate::{CrashProfile, SimVfs};
use tidesdb_sys::vfs::{OpenMode, RealVfs, SegmentMode, Vfs};

fn seed() -> u64 {
    let seed = std::env::var("TIDESDB_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or(20_240_607);
    println!("TIDESDB_SEED={seed}");
    seed
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "d/a", "d/b"];

/// Writes bytes that depend on the draw into one file, in one of the ways there are.
fn change_file(vfs: &dyn Vfs, root: &Path, random: &mut SplitMix64) -> io::Result<u64> {
    let file = vfs.open(&root.join(NAMES[random.index(6)]), OpenMode::ReadWrite)?;
    let mut bytes = vec![0; random.index(3000)];
    random.fill(&mut bytes);
    let at = random.below(6000);
    match random.below(6) {
        0 => file.set_len(at)?,
        1 => file.sync_data()?,
        2 => file.allocate(at)?,
        _ => file.write_all_at(&bytes, at)?,
    }
    file.len()
}

/// One random operation. The result says everything that callers can see of it.
fn operate(vfs: &dyn Vfs, root: &Path, random: &mut SplitMix64) -> Result<u64, io::ErrorKind> {
    let name = |random: &mut SplitMix64| root.join(NAMES[random.index(6)]);
    let result = match random.below(16) {
        0..3 => vfs.open(&name(random), OpenMode::CreateNew).map(|_| 0),
        3..9 => change_file(vfs, root, random),
        9 => vfs.rename(&name(random), &name(random)).map(|()| 0),
        10 => vfs.remove(&name(random)).map(|()| 0),
        11 => vfs.create_dir(&root.join("d")).map(|()| 0),
        12 => vfs.remove_dir(&root.join("d")).map(|()| 0),
        13 => vfs.sync_dir(root).map(|()| 0),
        14 => {
            let how = if random.chance(1, 2) { SegmentMode::Create } else { SegmentMode::Reuse };
            let size = 1 + random.below(5000);
            let segment = vfs.log_segment(&name(random), size, how);
            segment.and_then(|log| log.write(size / 3, &vec![7; (size / 2) as usize])).map(|()| 1)
        }
        _ => {
            // Drawn first: only one of the two disks opens directories.
            let (name, at) = (name(random), random.below(5000));
            let mut buffer = [0; 700];
            let file = vfs.open(&name, OpenMode::Read);
            let count = file.and_then(|file| file.read_at(&mut buffer, at));
            count
                .map(|count| count as u64 + buffer.iter().map(|byte| u64::from(*byte)).sum::<u64>())
        }
    };
    result.map_err(|error| error.kind())
}

/// Every name with its content.
fn contents(vfs: &dyn Vfs, dir: &Path, prefix: &str) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in vfs.list(dir).unwrap() {
        let name = format!("{prefix}/{}", entry.name);
        if entry.is_dir {
            all.push((name.clone(), Vec::new()));
            all.extend(contents(vfs, &dir.join(&entry.name), &name));
            continue;
        }
        let mut bytes = vec![0; entry.len as usize];
        let file = vfs.open(&dir.join(&entry.name), OpenMode::Read).unwrap();
        file.read_exact_at(&mut bytes, 0).unwrap();
        all.push((name, bytes));
    }
    all
}

/// A rename over a directory is refused by both, with kinds that differ by file system.
fn comparable(result: Result<u64, io::ErrorKind>) -> Result<u64, io::ErrorKind> {
    use io::ErrorKind::{
        AlreadyExists, DirectoryNotEmpty, InvalidInput, IsADirectory, NotADirectory,
    };
    result.map_err(|kind| match kind {
        AlreadyExists | DirectoryNotEmpty | InvalidInput | IsADirectory | NotADirectory => {
            AlreadyExists
        }
        other => other,
    })
}

#[test]
fn the_simulated_disk_answers_as_the_real_one() {
    let base = seed();
    for round in 0..30 {
        let dir = tempfile::tempdir().unwrap();
        let sim = SimVfs::new(base);
        let (mut for_real, mut for_sim) =
            (SplitMix64::new(base + round), SplitMix64::new(base + round));
        for step in 0..150 {
            let real = operate(&RealVfs::new(), dir.path(), &mut for_real);
            let simulated = operate(&*sim, Path::new("/"), &mut for_sim);
            assert_eq!(comparable(real), comparable(simulated), "round {round} step {step}");
            assert_eq!(
                contents(&RealVfs::new(), dir.path(), ""),
                contents(&*sim, Path::new("/"), ""),
                "round {round} step {step}"
            );
        }
        let real = contents(&RealVfs::new(), dir.path(), "");
        assert_eq!(real, contents(&*sim, Path::new("/"), ""), "round {round}");
    }
}

fn run(seed: u64) -> Arc<SimVfs> {
    let sim = SimVfs::new(seed);
    let mut random = SplitMix64::new(seed);
    for _ in 0..200 {
        let _ = operate(&*sim, Path::new("/"), &mut random);
    }
    sim
}

#[test]
fn equal_seeds_give_equal_runs() {
    let seed = seed();
    let (first, second, other) = (run(seed), run(seed), run(seed + 1));
    assert_eq!(first.trace_hash(), second.trace_hash());
    assert_eq!(first.dump(), second.dump());
    assert_ne!(first.trace_hash(), other.trace_hash());
    for profile in CrashProfile::ALL {
        let image = |sim: &SimVfs| sim.crash_image(profile, seed).state_hash();
        assert_eq!(image(&first), image(&second), "{profile:?}");
    }
}

#[test]
fn bytes_and_names_synced_before_a_crash_survive_every_image() {
    let base = seed();
    for round in 0..20 {
        let sim = run(base + round);
        let image = sim.crash_image(CrashProfile::Everything, 0);
        let settled = contents(&*image, Path::new("/"), "");
        // On the image everything is durable: no later crash without changes may touch it.
        let untouched = image.crash_image(CrashProfile::Random, round);
        assert_eq!(settled, contents(&*untouched, Path::new("/"), ""));
        // New files may come and go; those present before stay as they are.
        let file = image.open(Path::new("/later"), OpenMode::CreateNew).unwrap();
        file.write_all_at(&[9; 3000], 0).unwrap();
        for profile in CrashProfile::ALL {
            let crashed = image.crash_image(profile, round);
            let mut now = contents(&*crashed, Path::new("/"), "");
            now.retain(|(name, _)| name != "/later");
            assert_eq!(settled, now, "{profile:?}");
        }
    }
}
