//! Work that takes long tells its caller how far it is, and ends when the caller wants it to.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use tidesdb::{CopyOptions, Db, DbOptions, Error, FamilyOptions, Progress, salvage};

/// Tables of both forms, and values in value logs.
fn database(path: &Path) -> Db {
    let db = Db::open(path, DbOptions::default()).unwrap();
    for (name, btree) in [("blocks", false), ("tree", true)] {
        let options = FamilyOptions::default().use_btree(btree).klog_value_threshold(1000);
        let family = db.create_family(name, options).unwrap();
        for n in 0..20_000_u32 {
            let long = if n % 100 == 0 { 3000 } else { 100 };
            let value = [n.wrapping_mul(0x9E37_79B9).to_be_bytes().as_slice(); 2].concat();
            family.put(n.to_be_bytes(), value.repeat(long / 8)).unwrap();
        }
        db.flush().unwrap();
    }
    db
}

/// Does work to its end, and then again until it is told to end after each report of some.
fn check(steps: &[&str], work: impl Fn(&mut dyn FnMut(Progress) -> tidesdb::Result<()>) -> bool) {
    let mut reported: Vec<Progress> = Vec::new();
    let finished = work(&mut |progress| {
        reported.push(progress);
        Ok(())
    });
    assert!(finished);
    let begun: Vec<_> = reported.iter().map(|progress| progress.what).collect();
    let mut seen = begun.clone();
    seen.dedup();
    assert_eq!(seen, steps);
    for pair in reported.windows(2).filter(|pair| pair[0].what == pair[1].what) {
        assert!(pair[0].done <= pair[1].done && pair[0].total == pair[1].total, "{pair:?}");
    }
    for step in steps {
        let of_step: Vec<_> = reported.iter().filter(|progress| progress.what == *step).collect();
        let last = of_step.last().unwrap();
        assert!(last.done == last.total && last.total > 0, "{last:?}");
        assert!(of_step.len() >= 4, "{step} told only {} times", of_step.len());
    }
    for end_at in [1, reported.len() / 2, reported.len()] {
        let mut count = 0;
        let finished = work(&mut |_| {
            count += 1;
            if count == end_at { Err(Error::Cancelled) } else { Ok(()) }
        });
        assert!(!finished && count == end_at, "told {count} times, ended at {end_at}");
    }
}

fn finished<T>(done: tidesdb::Result<T>) -> bool {
    assert!(matches!(done, Ok(_) | Err(Error::Cancelled)), "{:?}", done.err());
    done.is_ok()
}

#[test]
fn a_check_of_a_database_tells_how_far_it_is() {
    let place = tempfile::tempdir().unwrap();
    let db = database(&place.path().join("db"));
    check(&["checking"], |report| finished(db.verify_with_progress(report)));
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn copies_tell_how_far_they_are_and_leave_nothing_when_they_are_ended() {
    let place = tempfile::tempdir().unwrap();
    let db = database(&place.path().join("db"));
    let (copy, verified) = (place.path().join("copy"), CopyOptions::default().verify_copy(true));
    let done = |made: tidesdb::Result<()>| {
        let finished = finished(made);
        assert_eq!(copy.exists(), finished);
        if finished {
            std::fs::remove_dir_all(&copy).unwrap();
        }
        finished
    };
    check(&["copying", "checking"], |report| {
        done(db.backup_with_progress(&copy, verified, report))
    });
    check(&["copying", "checking"], |report| {
        done(db.checkpoint_with_progress(&copy, verified, report))
    });
    let backup = place.path().join("backup");
    db.backup(&backup).unwrap();
    check(&["copying", "checking"], |report| {
        done(salvage::restore(&backup, &copy, report).map(drop))
    });
}
