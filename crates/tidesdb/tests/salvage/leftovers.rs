//! What jobs leave that were killed, and names that belong to nothing.

use std::path::PathBuf;

use tidesdb::salvage::{find_damage, salvage};
use tidesdb::{DbOptions, FamilyOptions};
use tidesdb_base::Error;
use tidesdb_files::naming::FileKind;

use super::killed::*;

/// A database of these families, and a table that a flush of the first has written whose edit the
/// manifest does not have.
fn with_killed_flush(families: &[&str]) -> (Place, PathBuf) {
    let place = Place::new();
    let dir = place.killed(DbOptions::default(), |db| {
        for name in families {
            let family = db.create_family(name, FamilyOptions::default()).unwrap();
            put_all(&family, 0..10);
            family.flush().unwrap();
        }
        put_all(&db.family(families[0]).unwrap(), 10..5000);
    });
    // That of the close, behind the copy.
    let mut written = tables(&place.dir.path().join("alive"));
    written.retain(|path| !dir.join(path.file_name().unwrap()).exists());
    let [table] = written.try_into().unwrap();
    let copied = dir.join(table.file_name().unwrap());
    std::fs::copy(table, &copied).unwrap();
    (place, copied)
}

/// The log of it may be gone, or have lost its end to the power cut that ended the flush.
#[test]
fn the_half_of_a_table_that_a_killed_flush_left_counts_where_one_family_can_have_it() {
    let (place, table) = with_killed_flush(&["one"]);
    let bytes = std::fs::read(&table).unwrap();
    std::fs::write(&table, &bytes[..bytes.len() * 4 / 5]).unwrap();
    let (report, found) = place.salvaged();
    assert_eq!(keys_of(&found, "one"), keys(0..5000), "{report:?}");
    assert!(report.losses.is_empty() && report.harmless.is_empty(), "{report:?}");
    let damage = find_damage(&place.source(), &mut |_| Ok(())).unwrap();
    assert!(damage.problems.is_empty(), "{damage:?}");
    std::fs::remove_dir_all(place.copy()).unwrap();
    segments(&place.source()).iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let (report, found) = place.salvaged();
    assert!(keys_of(&found, "one").len() > 1000, "{report:?}");
    assert!(report.warnings.iter().any(|text| text.contains("was used")), "{report:?}");
}

#[test]
fn the_half_of_a_table_that_a_killed_flush_left_is_no_loss() {
    let (place, table) = with_killed_flush(&["one", "other"]);
    let bytes = std::fs::read(&table).unwrap();
    for len in [bytes.len() * 4 / 5, 0] {
        std::fs::write(&table, &bytes[..len]).unwrap();
        let (report, found) = place.salvaged();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["one", "other"], "{report:?}");
        assert_eq!(keys_of(&found, "one"), keys(0..5000));
        assert!(report.is_complete() && report.harmless.is_empty(), "{report:?}");
        let unused = report.unused.iter().filter(|(path, _)| *path == table);
        assert!(unused.clone().count() == 1, "{report:?}");
        assert!(unused.into_iter().all(|(_, reason)| reason.contains("killed")), "{report:?}");
        let damage = find_damage(&place.source(), &mut |_| Ok(())).unwrap();
        assert!(damage.problems.is_empty() && damage.warnings.is_empty(), "{damage:?}");
        std::fs::remove_dir_all(place.copy()).unwrap();
    }
}

#[test]
fn damage_of_a_table_that_no_edit_named_costs_nothing_and_the_rest_of_it_counts() {
    let (place, table) = with_killed_flush(&["one", "other"]);
    write_at(&table, 100, &[0; 8]);
    let (report, found) = place.salvaged();
    assert_eq!(keys_of(&found, "one"), keys(0..5000), "{report:?}");
    assert!(report.losses.is_empty(), "{report:?}");
    let of_table =
        |error: &Error| matches!(error, Error::Corruption { file, .. } if *file == table);
    assert!(report.harmless.iter().any(of_table), "{report:?}");
    assert!(report.warnings.iter().any(|text| text.contains("was used")), "{report:?}");
    // Without the log it has what nothing else has.
    std::fs::remove_dir_all(place.copy()).unwrap();
    segments(&place.source()).iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let (report, found) = place.salvaged();
    assert!(keys_of(&found, "one").len() > 4000, "{report:?}");
}

#[test]
fn a_place_for_what_was_set_aside_that_can_not_be_listed_is_told_and_no_more() {
    let place = Place::new();
    let dir = place.killed(DbOptions::default(), |db| {
        put_all(&db.create_family("family", FamilyOptions::default()).unwrap(), 0..10);
    });
    let foreign = dir.join("set-aside");
    std::fs::write(&foreign, "mine").unwrap();
    let (report, found) = place.salvaged();
    assert_eq!(keys_of(&found, "family"), keys(0..10), "{report:?}");
    let [(path, reason)] = &report.unused[..] else { panic!("{report:?}") };
    assert!(*path == foreign && reason.contains("listed"), "{report:?}");
}

/// A file of that length with a hole takes no space.
#[test]
fn a_manifest_whose_length_is_damaged_counts_as_damaged() {
    let place = Place::new();
    let dir = place.killed(DbOptions::default(), |db| {
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        put_all(&family, 0..10);
        family.flush().unwrap();
    });
    let manifest = named(&dir, |kind| matches!(kind, FileKind::Manifest(_))).pop().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&manifest).unwrap();
    file.set_len(1 << 43).unwrap();
    let (report, found) = place.salvaged();
    assert_eq!(keys_of(&found, "family"), keys(0..10), "{report:?}");
    assert!(report.warnings.iter().any(|text| text.contains("too many")), "{report:?}");
}

/// With a hole of a terabyte it would take hours.
#[test]
fn the_search_of_a_table_without_a_footer_ends_when_it_is_to() {
    const BYTES: u64 = 100 << 20;
    let place = Place::new();
    let dir = place.killed(DbOptions::default(), |db| {
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        put_all(&family, 0..10);
        family.flush().unwrap();
    });
    let table = tables(&dir).pop().unwrap();
    std::fs::OpenOptions::new().write(true).open(&table).unwrap().set_len(BYTES).unwrap();
    let mut reached = 0;
    let ended = salvage(&dir, &place.copy(), &mut |progress| {
        reached = progress.done;
        Err(Error::Cancelled)
    });
    assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    assert!((1..BYTES / 2).contains(&reached), "{reached}");
}
