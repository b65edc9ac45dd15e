//! What an open database, and the files of one, say of damage.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tidesdb::salvage::find_damage;
use tidesdb::{Db, DbOptions, Event, EventListener, FamilyOptions, LogLevel};
use tidesdb_base::Error;
use tidesdb_files::naming::FileKind;

use super::killed::*;
use super::support::Damage;

/// A table of many blocks and a value log of many records, all of it in files.
fn with_files(place: &Place) -> std::path::PathBuf {
    place.killed(DbOptions::default(), |db| {
        let options = FamilyOptions::default().block_size(512).klog_value_threshold(1000);
        let family = db.create_family("family", options).unwrap();
        put_all(&family, 0..500);
        for number in 0..50_u8 {
            family.put(&[b'z', number], &[number; 2000]).unwrap();
        }
        family.flush().unwrap();
        db.clone_family("family", "clone").unwrap();
    })
}

fn only(dir: &Path, wanted: impl Fn(FileKind) -> bool) -> std::path::PathBuf {
    let [file] = named(dir, wanted).try_into().unwrap();
    file
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn read_only(dir: &Path) -> Db {
    Db::open(dir, DbOptions::default().read_only(true)).unwrap()
}

/// Files and offsets of problems, in order.
fn places(problems: &[Error]) -> Vec<(String, u64)> {
    let place = |problem: &Error| match problem {
        Error::Corruption { file, offset, .. } => (name(file), *offset),
        other => (other.to_string(), 0),
    };
    let mut places: Vec<_> = problems.iter().map(place).collect();
    places.sort();
    places
}

/// The check of a table, and of a value log, ended at the first damage. A file that two families
/// have was reported twice.
#[test]
fn all_damage_of_a_file_is_listed_once_each() {
    let place = Place::new();
    let dir = with_files(&place);
    let table = only(&dir, |kind| matches!(kind, FileKind::Table(_)));
    let log = only(&dir, |kind| matches!(kind, FileKind::ValueLog(_)));
    for offset in [100, 1500, 3000] {
        Damage::flip_at(&dir, &name(&table), offset);
    }
    let len = std::fs::metadata(&log).unwrap().len();
    for part in 1..4 {
        Damage::flip_at(&dir, &name(&log), len / 4 * part);
    }
    let opened = read_only(&dir).verify().unwrap();
    let found = places(&opened.problems);
    let of = |path: &Path| found.iter().filter(|(file, _)| *file == name(path)).count();
    assert_eq!((of(&table), of(&log)), (3, 3), "{:#?}", opened.problems);
    let unopened = find_damage(&dir, &mut |_| Ok(())).unwrap();
    assert_eq!(places(&unopened.problems), found);
}

#[test]
fn files_that_are_missing_or_cut_are_found_without_reading() {
    let place = Place::new();
    let dir = with_files(&place);
    assert!(read_only(&dir).check_files().unwrap().is_empty());
    let log = only(&dir, |kind| matches!(kind, FileKind::ValueLog(_)));
    let table = only(&dir, |kind| matches!(kind, FileKind::Table(_)));
    let file = std::fs::File::options().write(true).open(&table).unwrap();
    let len = file.metadata().unwrap().len();
    file.set_len(len - 1).unwrap();
    std::fs::remove_file(&log).unwrap();
    let problems = read_only(&dir).check_files().unwrap();
    let [cut, missing] = &problems[..] else { panic!("{problems:?}") };
    assert!(cut.to_string().contains(&format!("one of {} bytes", len - 1)), "{cut}");
    assert!(cut.to_string().contains(&name(&table)), "{cut}");
    assert!(missing.to_string().contains("found no file"), "{missing}");
}

/// Whole records behind one that is not were passed over in silence.
#[test]
fn commits_behind_a_hole_in_the_log_are_reported_as_uncertain() {
    let place = Place::new();
    let dir = place.killed(DbOptions::default(), |db| {
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        put_all(&family, 0..10);
    });
    assert!(read_only(&dir).verify().unwrap().warnings.is_empty());
    let segment = segments(&dir).pop().unwrap();
    let (header, records) = records(&segment);
    make_hole(&segment, &header, records[4]);
    let events = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&events);
    let listener = EventListener::new(move |event| heard.lock().unwrap().push(event.clone()));
    let options = DbOptions::default().read_only(true).event_listener(listener);
    let db = Db::open(&dir, options).unwrap();
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    assert!(report.warnings[0].contains("5 commits"), "{report:?}");
    db.close().unwrap();
    let events = events.lock().unwrap();
    let reported = events.iter().find(|event| event.level() == LogLevel::Warn).unwrap();
    let Event::CommitsLeftOut { commits, bytes, position, .. } = reported else {
        panic!("{reported}")
    };
    assert_eq!((*commits, *position), (5, records[4].0));
    assert_eq!(*bytes, records[9].1 - records[5].0);
    let unopened = find_damage(&dir, &mut |_| Ok(())).unwrap();
    assert!(unopened.warnings[0].contains("5 commits"), "{unopened:?}");
}

/// The edit that is cut was passed over in silence.
#[test]
fn an_end_of_the_manifest_that_is_no_edit_is_reported_as_uncertain() {
    let place = Place::new();
    let dir = with_files(&place);
    let is_uncertain = |warnings: &[String], bytes: u64| {
        let text = format!("the last {bytes} bytes of the manifest can't be read");
        assert!(matches!(warnings, [warning] if warning.contains(&text)), "{warnings:?}");
    };
    let warnings = |dir: &Path| read_only(dir).verify().unwrap().warnings;
    assert_eq!(warnings(&dir), [""; 0]);
    let manifest = only(&dir, |kind| matches!(kind, FileKind::Manifest(_)));
    let whole = std::fs::read(&manifest).unwrap();
    let torn = [&whole[..], &[7; 20]].concat();
    std::fs::write(&manifest, torn).unwrap();
    is_uncertain(&warnings(&dir), 20);
    is_uncertain(&find_damage(&dir, &mut |_| Ok(())).unwrap().warnings, 20);
    // What an opening for writing has found is said as long as it is open.
    let db = Db::open(&dir, DbOptions::default()).unwrap();
    is_uncertain(&db.verify().unwrap().warnings, 20);
    db.close().unwrap();
    assert_eq!(warnings(&dir), [""; 0]);
}

/// After a clean close the last edit says that there is no log. Without it the opening misses the
/// log, which was all that was said.
#[test]
fn a_manifest_cut_after_a_clean_close_is_reported_beside_the_missing_log() {
    let place = Place::new();
    let dir = place.source();
    let db = Db::open(&dir, DbOptions::default()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    put_all(&family, 0..10);
    db.close().unwrap();
    let manifest = only(&dir, |kind| matches!(kind, FileKind::Manifest(_)));
    let file = std::fs::File::options().write(true).open(&manifest).unwrap();
    file.set_len(file.metadata().unwrap().len() - 10).unwrap();
    assert!(Db::open(&dir, DbOptions::default().read_only(true)).unwrap_err().is_corruption());
    let found = find_damage(&dir, &mut |_| Ok(())).unwrap();
    let is_named = |warning: &String| warning.contains("bytes of the manifest can't be read");
    assert!(found.warnings.iter().any(is_named), "{found:#?}");
}

#[test]
fn one_who_reads_a_killed_database_knows_how_much_log_there_is() {
    let place = Place::new();
    let dir = place.killed(DbOptions::default(), |db| {
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        put_all(&family, 0..1000);
    });
    let stats = read_only(&dir).stats();
    assert!(stats.log_retained_bytes > 10_000, "{}", stats.log_retained_bytes);
}
