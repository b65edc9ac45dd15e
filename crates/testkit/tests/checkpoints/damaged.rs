//! Copies with a damaged file: refused and removed where they are verified.

use tidesdb_sim::Corruption;

use super::*;

/// Inverts a bit in the oldest file of that kind, where no opening looks.
fn damage(sim: &SimVfs, directory: &str, ending: &str) {
    let directory = Path::new(directory);
    let entries = sim.list(directory).unwrap();
    let oldest =
        entries.iter().filter(|entry| entry.name.ends_with(ending)).min_by_key(|e| &e.name);
    let oldest = oldest.unwrap();
    let at = if ending == ".klog" { 10 } else { oldest.len / 2 };
    assert!(sim.corrupt(&directory.join(&oldest.name), at, Corruption::Flip(3)).unwrap());
}

#[test]
fn a_copy_of_a_damaged_file_is_refused_when_it_is_verified() {
    for copy in WAYS {
        for ending in [".klog", ".vlog"] {
            let (sim, before) = golden();
            damage(&sim, SOURCE, ending);
            let db = open(&sim, SOURCE);
            let error = copy(&db, COPY, verified()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{ending}: {error}");
            assert!(error.to_string().contains(COPY), "{ending}: {error}");
            assert!(sim.list(Path::new(COPY)).is_err(), "{ending}");
            // Not looked at, it passes.
            copy(&db, COPY, CopyOptions::default()).unwrap();
            db.close().unwrap();
            // What is not damaged is there.
            let db = open(&sim, SOURCE);
            assert_eq!(read_forwards(&db.family("b").unwrap(), None).unwrap(), before[1]);
        }
    }
}

/// It is written when all other files are there.
fn has_manifest(copy: &SimVfs) -> bool {
    let entries = copy.list(Path::new(COPY)).unwrap_or_default();
    entries.iter().any(|entry| entry.name.starts_with("MANIFEST"))
}

#[test]
fn a_backup_that_was_damaged_on_its_way_is_refused_and_its_source_is_whole() {
    for ending in [".klog", ".vlog"] {
        let (sim, before) = golden();
        let faults = FaultVfs::new(Arc::clone(&sim) as _);
        let db = open_at(Arc::clone(&faults) as _, SOURCE, false).unwrap();
        let (disk, damaged) = (Arc::clone(&sim), AtomicBool::new(false));
        faults.before_calls(Some(Arc::new(move |op, path| {
            let begins = op == Op::List && path == Path::new(COPY) && has_manifest(&disk);
            if begins && !damaged.swap(true, Ordering::SeqCst) {
                damage(&disk, COPY, ending);
            }
        })));
        let error = db.backup_with(COPY, verified()).unwrap_err();
        faults.before_calls(None);
        assert_eq!(error.kind(), ErrorKind::Corruption, "{ending}: {error}");
        assert!(sim.list(Path::new(COPY)).is_err(), "{ending}");
        check(&sim, SOURCE, &before);
        db.backup_with(COPY, verified()).unwrap();
        check(&sim, COPY, &before);
    }
}
