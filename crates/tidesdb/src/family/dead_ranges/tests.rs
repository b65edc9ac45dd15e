//! The order of events is laid out by hand; `reserved` says which commits were under way.

use super::*;

fn run(start: &str, end: &str) -> DeadRun {
    DeadRun { start: start.into(), end: end.into(), passed: 100 }
}

fn at(snapshot: SequenceNumber) -> Reader {
    Reader { snapshot, now: 50 }
}

/// Where a scan of `reader` that comes to `key` goes on.
fn end_over(ranges: &DeadRanges, key: &str, reader: Reader) -> Option<String> {
    let mut known = ranges.known_to(reader);
    known.end_over(key.as_bytes()).map(|end| String::from_utf8(end.to_vec()).unwrap())
}

fn start_over(ranges: &DeadRanges, key: &str, reader: Reader) -> Option<String> {
    let mut known = ranges.known_to(reader);
    known.start_over(key.as_bytes()).map(|start| String::from_utf8(start.to_vec()).unwrap())
}

fn bounds(ranges: &DeadRanges) -> Vec<(String, String)> {
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    let known = ranges.ranges.load_full().unwrap_or_default();
    known.iter().map(|range| (text(&range.start), text(&range.end))).collect()
}

#[test]
fn with_no_commit_under_way_one_scan_is_enough() {
    let ranges = DeadRanges::default();
    ranges.remember(&run("b", "f"), at(10), || 10);
    assert_eq!(end_over(&ranges, "b", at(10)).as_deref(), Some("f"));
    assert_eq!(end_over(&ranges, "e", at(11)).as_deref(), Some("f"));
    assert_eq!(start_over(&ranges, "e", at(11)).as_deref(), Some("b"));
    for outside in ["a", "f", "g"] {
        assert_eq!(end_over(&ranges, outside, at(10)), None);
        assert_eq!(start_over(&ranges, outside, at(10)), None);
    }
    assert_eq!(end_over(&ranges, "c", at(9)), None, "who sees less may see something alive");
    let behind = Reader { snapshot: 10, now: 49 };
    assert_eq!(end_over(&ranges, "c", behind), None, "for that clock something may be alive");
}

/// A commit that had reserved its place before the range was registered, and never saw it.
#[test]
fn with_commits_under_way_a_scan_that_sees_them_must_confirm() {
    let ranges = DeadRanges::default();
    ranges.remember(&run("b", "f"), at(10), || 12);
    assert_eq!(end_over(&ranges, "c", at(20)), None, "12 may have put something");
    ranges.remember(&run("b", "f"), at(11), || 20);
    assert_eq!(end_over(&ranges, "c", at(20)), None, "11 has not seen it either");
    ranges.remember(&run("b", "f"), at(12), || 20);
    assert_eq!(end_over(&ranges, "c", at(12)).as_deref(), Some("f"));
    assert_eq!(end_over(&ranges, "c", at(11)), None);
}

#[test]
fn a_put_cuts_what_is_watched_as_well_as_what_is_dead() {
    for under_way in [10, 12] {
        let ranges = DeadRanges::default();
        ranges.remember(&run("b", "f"), at(10), || under_way);
        ranges.note_put(b"d");
        ranges.note_put(b"g");
        let left = [("b", "d"), ("d\0", "f")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(bounds(&ranges), left);
        // A later scan finds the key alive, and both sides dead.
        ranges.remember(&run("b", "d"), at(20), || 20);
        ranges.remember(&run("d\0", "f"), at(20), || 20);
        assert_eq!(end_over(&ranges, "c", at(20)).as_deref(), Some("d"));
        assert_eq!(end_over(&ranges, "d", at(20)), None);
        assert_eq!(end_over(&ranges, "e", at(20)).as_deref(), Some("f"));
        assert_eq!(start_over(&ranges, "e", at(20)).as_deref(), Some("d\0"));
    }
    let ranges = DeadRanges::default();
    ranges.remember(&run("b", "b\0"), at(10), || 10);
    ranges.note_put(b"b");
    assert!(bounds(&ranges).is_empty() && !ranges.any.load(Ordering::Relaxed));
}

#[test]
fn a_range_that_is_cut_again_and_again_is_given_up() {
    let ranges = DeadRanges::default();
    ranges.remember(&run("a", "z"), at(10), || 10);
    let mut cuts = 0;
    for key in b'b'..b'y' {
        let before = bounds(&ranges);
        ranges.note_put(&[key]);
        cuts += u32::from(bounds(&ranges) != before);
    }
    assert_eq!(cuts, u32::from(MOST_CUTS) + 1, "later puts find no range");
}

/// As when a queue is popped: each scan adds a piece, and the whole is jumped at once.
#[test]
fn pieces_in_a_row_are_passed_at_once_and_stay_few() {
    let ranges = DeadRanges::default();
    let key = |n: u64| format!("{n:05}");
    let mut lost = 0;
    for n in 0..1000u64 {
        let snapshot = 100 + n;
        let end = end_over(&ranges, &key(0), at(snapshot));
        assert_eq!(end, (n > 0).then(|| key(n)));
        let reached = DeadRun { start: key(0).into(), end: key(n + 1).into(), passed: 64 };
        ranges.remember(&reached, at(snapshot), || snapshot);
        assert!(bounds(&ranges).len() <= 12, "{} ranges", bounds(&ranges).len());
        assert_eq!(start_over(&ranges, &key(n), at(snapshot)), Some(key(0)));
        lost += u32::from(end_over(&ranges, &key(0), at(snapshot - 1)).is_none());
    }
    assert!(lost < 30, "who is a little older had to walk {lost} times");
}

#[test]
fn what_is_only_watched_ends_where_the_scan_that_confirms_it_began() {
    let ranges = DeadRanges::default();
    ranges.remember(&run("b", "f"), at(10), || 12);
    ranges.remember(&run("d", "h"), at(14), || 20);
    assert_eq!(end_over(&ranges, "d", at(14)).as_deref(), Some("f"));
    assert_eq!(end_over(&ranges, "c", at(30)), None);
    assert_eq!(end_over(&ranges, "g", at(30)), None, "20 may have put something");
    ranges.remember(&run("d", "h"), at(30), || 30);
    assert_eq!(end_over(&ranges, "d", at(30)).as_deref(), Some("h"));
}

#[test]
fn ranges_and_their_keys_have_a_bound() {
    let ranges = DeadRanges::default();
    for n in 0..4 * MOST_RANGES as u64 {
        let (start, end) = (format!("{n:05}a"), format!("{n:05}b"));
        ranges.remember(&run(&start, &end), at(10 + n), || 10 + n);
    }
    assert_eq!(bounds(&ranges).len(), MOST_RANGES);
    let ranges = DeadRanges::default();
    ranges.remember(&run("a", &"b".repeat(LONGEST_KEY_BYTES + 1)), at(10), || 10);
    assert!(bounds(&ranges).is_empty());
    // They count in no budget, and there may be very many families.
    let long = "x".repeat(LONGEST_KEY_BYTES - 10);
    for n in 0..MOST_RANGES as u64 {
        let (start, end) = (format!("{n:05}a{long}"), format!("{n:05}b{long}"));
        ranges.remember(&run(&start, &end), at(10 + n), || 10 + n);
        assert!(bytes_of(&ranges.ranges.load_full().unwrap()) <= MOST_BYTES);
    }
    assert!(bounds(&ranges).len() > 20);
}
