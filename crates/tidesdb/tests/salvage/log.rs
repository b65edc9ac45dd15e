//! Logs with holes, damaged records and lost headers.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidesdb::salvage::salvage;
use tidesdb::{Db, DbOptions, FamilyOptions, SyncMode};
use tidesdb_base::Error;
use tidesdb_files::naming::FileKind;
use tidesdb_files::wal::{RECORDS_OFFSET, SegmentHeader};

use super::killed::*;
use super::support::content_of;

/// Ten commits, of which the fifth is not there any more.
fn with_a_hole(sync_mode: SyncMode, flushed: Option<u32>) -> (Place, PathBuf) {
    let place = Place::new();
    let dir = place.killed(DbOptions::default().sync_mode(sync_mode), |db| {
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        let other = db.create_family("other", FamilyOptions::default()).unwrap();
        for number in 0..10 {
            put_all(&family, number..number + 1);
            if flushed == Some(number) {
                put_all(&other, 0..1);
                other.flush().unwrap();
            }
        }
    });
    let segment = segments(&dir).pop().unwrap();
    let (header, places) = records(&segment);
    make_hole(&segment, &header, places[4]);
    (place, segment)
}

#[test]
fn commits_behind_a_hole_in_the_log_do_not_come_back() {
    let (place, _) = with_a_hole(SyncMode::None, None);
    let (report, found) = place.salvaged();
    assert_eq!(keys_of(&found, "family"), keys(0..4));
    assert!(report.warnings.iter().any(|text| text.contains("5 commits")), "{report:?}");
    // As an opening does.
    let db = Db::open(place.source(), DbOptions::default().read_only(true)).unwrap();
    assert_eq!(content_of(&db), found);
}

#[test]
fn commits_behind_a_damaged_record_that_was_on_disk_are_taken() {
    let (place, segment) = with_a_hole(SyncMode::Full, None);
    let (report, found) = place.salvaged();
    assert_eq!(keys_of(&found, "family"), keys((0..4).chain(5..10)));
    assert_eq!(report.losses.len(), 1, "{report:?}");
    assert_eq!(report.losses[0].file, segment);
}

#[test]
fn commits_in_front_of_one_that_is_in_a_table_are_taken() {
    let (place, _) = with_a_hole(SyncMode::None, Some(7));
    let (report, found) = place.salvaged();
    assert_eq!(keys_of(&found, "family"), keys((0..4).chain(5..10)));
    assert_eq!(report.losses.len(), 1, "{report:?}");
}

/// A repair of the log has begun its segment, and crashed in front of its edit.
#[test]
fn the_segment_of_a_repair_proves_nothing_of_what_was_refused() {
    let (place, segment) = with_a_hole(SyncMode::None, None);
    let (header, _) = records(&segment);
    let end = open_segment(&segment).unwrap().end().position + 4096;
    let next =
        SegmentHeader { number: header.number + 50, base: end, previous_end: end, synced: 0 };
    make_segment(&place.source(), next, &[]);
    let (_, found) = place.salvaged();
    assert_eq!(keys_of(&found, "family"), keys(0..4));
}

/// An opening has gone on at the hole, in front of a segment that followed then.
#[test]
fn segments_that_an_opening_has_passed_over_stay_discarded() {
    let (place, segment) = with_a_hole(SyncMode::None, None);
    let (header, places) = records(&segment);
    let hole = places.last().unwrap().1;
    let base = hole + 100_000;
    let discarded =
        SegmentHeader { number: header.number + 50, base, previous_end: base, synced: 0 };
    make_segment(&place.source(), discarded, &[put_of(0, b"discarded")]);
    let base = base + 100_000;
    let live = SegmentHeader { number: header.number + 60, base, previous_end: hole, synced: 0 };
    make_segment(&place.source(), live, &[put_of(0, b"live")]);
    let (report, found) = place.salvaged();
    let mut wanted = keys(0..4);
    wanted.push(b"live".to_vec());
    assert_eq!(keys_of(&found, "family"), wanted, "{report:?}");
}

#[test]
fn a_commit_that_decodes_in_part_is_left_out_whole() {
    let place = Place::new();
    let dir = place.killed(DbOptions::default(), |db| {
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        put_all(&family, 0..3);
    });
    let segment = segments(&dir).pop().unwrap();
    let (header, places) = records(&segment);
    let end = places.last().unwrap().1;
    let mut payload = put_of(0, b"half");
    payload.extend_from_slice(&[0x7f, 0, 9]);
    write_at(&segment, RECORDS_OFFSET + end - header.base, &sealed(&payload, header.number, end));
    let (report, found) = place.salvaged();
    assert_eq!(keys_of(&found, "family"), keys(0..3));
    assert_eq!(report.losses.len(), 1, "{report:?}");
    assert!(report.losses[0].reason.contains("left out whole"), "{report:?}");
}

/// The header of the first of several segments with many records is gone.
fn headless() -> (Place, u32) {
    const RECORDS: u32 = 300_000;
    let place = Place::new();
    let options = DbOptions::default().log_segment_bytes(8 << 20);
    let dir = place.killed(options, |db| {
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        put_all(&family, 0..RECORDS);
    });
    let all = segments(&dir);
    assert!(all.len() > 1, "{all:?}");
    let first = all.iter().min_by_key(|path| records(path).0.number).unwrap();
    write_at(first, 0, &[0xa5; 64]);
    (place, RECORDS)
}

#[test]
fn a_segment_without_its_header_is_placed_in_little_time() {
    let (place, records) = headless();
    let started = Instant::now();
    let (report, found) = place.salvaged();
    assert_eq!(found["family"].len(), records as usize, "{report:?}");
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
}

/// No guess is right: number and first position of the records are of another place.
#[test]
fn a_search_in_vain_ends_when_it_is_to() {
    let (place, _) = headless();
    let dir = place.source();
    let foreign = dir.join(FileKind::LogSegment(999).name());
    let header = SegmentHeader { number: 5, base: 1 << 50, previous_end: 1 << 50, synced: 0 };
    let payloads: Vec<_> = (0..100_000).map(|number| put_of(0, &key(number))).collect();
    make_segment(&dir, header, &payloads);
    std::fs::rename(dir.join(FileKind::LogSegment(5).name()), &foreign).unwrap();
    write_at(&foreign, 0, &[0xa5; 64]);
    let started = Instant::now();
    let mut calls = 0_u32;
    let error = salvage(&dir, &place.copy(), &mut |_| {
        calls += 1;
        if calls > 5 { Err(Error::Cancelled) } else { Ok(()) }
    });
    assert!(matches!(error, Err(Error::Cancelled)), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(12), "{:?}", started.elapsed());
    let (report, _) = place.salvaged();
    assert!(report.losses.iter().any(|loss| loss.file == foreign), "{report:?}");
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}
