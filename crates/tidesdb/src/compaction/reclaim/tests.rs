//! Where tables lie that were written anew.

use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::rng::SplitMix64;

use super::*;
use crate::db::{Components, Db};
use crate::handles::Family;

fn put(family: &Family, prefix: char, random: &mut SplitMix64) {
    for n in 0..300 {
        let mut value = vec![0; 100];
        random.fill(&mut value);
        family.put(format!("{prefix}{n:03}"), value).unwrap();
    }
}

/// A compaction moves tables that overlap nothing. What is left of them later belongs where they
/// are, not where they were written: there it would lie above what is newer.
#[test]
fn what_is_left_of_a_moved_table_stays_in_its_run() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let options = FamilyOptions::default().target_table_bytes(8 << 10);
    let family = db.create_family("family", options).unwrap();
    let mut random = SplitMix64::new(1);
    put(&family, 'a', &mut random);
    family.flush().unwrap();
    put(&family, 'a', &mut random);
    put(&family, 'z', &mut random);
    family.flush().unwrap();
    family.compact().unwrap();
    let state = family.state();
    let places = || -> Vec<_> { state.current_version().runs.iter().map(Run::place).collect() };
    let is_moved = |run: &Run| {
        let mut tables = run.tables.iter();
        tables.any(|table| (table.record.level, table.record.run) != run.place())
    };
    assert!(state.current_version().runs.iter().any(is_moved), "nothing was put to the test");
    let bytes = || state.current_version().tables().map(|table| table.record.bytes).sum::<u64>();
    // Most keys of each table, so that it is worth to be written anew.
    for n in (0..300).filter(|n| n % 10 > 0) {
        family.delete(format!("z{n:03}")).unwrap();
    }
    family.flush().unwrap();
    let (before, full) = (places(), bytes());
    db.core().reclaim_tables(state).unwrap();
    assert!(bytes() < full, "nothing was written anew");
    let places = places();
    assert!(places.iter().all(|place| before.contains(place)), "{before:?} {places:?}");
    assert_eq!(family.iter().unwrap().entries().count(), 330);
}
