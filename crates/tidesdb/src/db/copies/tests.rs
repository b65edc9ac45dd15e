//! Copies on a disk that is nearly full.

use tidesdb_base::compress::Compression;
use tidesdb_base::error::ErrorKind;
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::{FaultError, FaultKind, FaultVfs, MutationKind, Op, OpSet, Phase, SimVfs};
use tidesdb_sys::vfs::File;

use super::*;
use crate::Db;
use crate::handles::Family;

/// What copies of the database below take, and some more.
const COPY_BYTES: u64 = 2200 << 10;

/// A database of two megabytes on a disk of 64 MiB, and a file that takes the space beside it.
struct Bench {
    sim: Arc<SimVfs>,
    faults: Arc<FaultVfs>,
    db: Db,
    family: Family,
    filler: Arc<dyn File>,
}

fn bench() -> Bench {
    let sim = SimVfs::new(1);
    sim.set_capacity(Some(64 << 20));
    let faults = FaultVfs::new(Arc::clone(&sim) as _);
    let components = Components { vfs: Arc::clone(&faults) as _, ..Components::simulated() };
    let options = DbOptions::default().log_segment_bytes(64 << 10);
    let db = Db::open_with("/db", options, components).unwrap();
    let options = FamilyOptions::default().compression(Compression::None).min_disk_space(0);
    let family = db.create_family("family", options).unwrap();
    (0..2000_u32).for_each(|n| family.put(n.to_be_bytes(), [7; 1000]).unwrap());
    family.flush().unwrap();
    let filler = sim.open(Path::new("/filler"), OpenMode::CreateNew).unwrap();
    Bench { sim, faults, db, family, filler }
}

fn free(sim: &SimVfs) -> u64 {
    sim.free_bytes(Path::new("/")).unwrap()
}

/// Leaves `left` bytes of the disk free.
fn fill(sim: &SimVfs, filler: &dyn File, left: u64) {
    filler.set_len(filler.len().unwrap() + free(sim) - left).unwrap();
}

impl Bench {
    /// The copy is refused, and nothing is left of it.
    fn check_refused(&self, made: Result<()>) {
        let error = made.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert!(error.to_string().contains("reserve space for a copy"), "{error}");
        assert!(self.sim.list(Path::new("/copy")).is_err(), "something is left");
    }
}

/// It took the last byte, and no put or flush found space meanwhile.
#[test]
fn a_copy_leaves_what_its_database_needs() {
    let bench = bench();
    // Some 2 MiB of that are for puts and for deletions.
    fill(&bench.sim, bench.filler.as_ref(), COPY_BYTES + (1 << 20));
    bench.check_refused(bench.db.backup("/copy"));
    bench.faults.count_only(OpSet::of(&[Op::Link]));
    bench.faults.reset();
    bench.faults.fail_call(0, FaultKind::Forever, FaultError::Raw(18));
    bench.check_refused(bench.db.checkpoint("/copy"));
    bench.family.put(b"key", b"value").unwrap();
    bench.faults.clear_faults();
    bench.db.checkpoint("/linked").unwrap();
    bench.filler.set_len(0).unwrap();
    fill(&bench.sim, bench.filler.as_ref(), COPY_BYTES + (4 << 20));
    bench.db.backup("/copy").unwrap();
    bench.family.put(b"key", b"value").unwrap();
}

#[test]
fn a_copy_ends_when_its_database_needs_the_space() {
    let bench = bench();
    fill(&bench.sim, bench.filler.as_ref(), COPY_BYTES + (4 << 20));
    let filler = Arc::clone(&bench.filler);
    bench.sim.on_mutation(Some(Arc::new(move |sim, mutation| {
        let begins = mutation.kind == MutationKind::Allocate && mutation.phase == Phase::After;
        if begins && mutation.path.starts_with("/copy") {
            fill(sim, filler.as_ref(), 1 << 20);
        }
    })));
    let made = bench.db.backup("/copy");
    bench.sim.on_mutation(None);
    bench.check_refused(made);
}
