//! The look of a commit that has read at what came in since its first look.
//!
//! Others wait for its place in the log, and for the lock of the dependencies under which a
//! serializable one looks. So it looks at few keys, or else the other way round: it reads back what
//! was logged since its first look, and searches its reads for the keys of that. Where neither will
//! do the commit gives its place back, looks again with nothing held, and takes another place. It
//! does so a few times and is then refused: others would wait for a look without a bound (I-251).

use tidesdb_base::entry::{SequenceNumber, ValueKind};
use tidesdb_base::key_ranges::ends_behind;
use tidesdb_files::wal::BatchReader;
use tidesdb_lockfree::snapshot_registry::ReadPoint;

use super::window::Window;
use crate::family::dead_ranges::{KnownRanges, Reader};
use crate::transaction::read_set::RangeIndex;
use crate::transaction::read_set::ReadSet;
use crate::wal::Wal;

/// Keys that are looked at while others wait, some hundred microseconds.
pub(in crate::transaction) const MOST_KEYS: u64 = 1000;

/// Bytes of log that are read back while others wait.
pub(super) const MOST_WAITED_FOR_BYTES: u64 = 128 << 10;

/// How often a commit gives its place back to look again; then it is refused.
pub(super) const MOST_TRIES: u32 = 4;

/// What a look may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Keys and ranges of the reads that are looked at, and keys that are found in the ranges.
    pub keys: u64,
    /// Bytes of log that are read back.
    pub logged_bytes: u64,
}

impl Bounds {
    /// While others wait.
    pub(super) const WAITED_FOR: Self =
        Self { keys: MOST_KEYS, logged_bytes: MOST_WAITED_FOR_BYTES };
    /// While no other thread does.
    pub(super) const ALONE: Self = Self { keys: u64::MAX, logged_bytes: 16 << 20 };
}

/// A change in the window of something that was read.
#[derive(Clone, Copy)]
pub(super) struct LoggedChange<'a> {
    pub family: u32,
    /// The key; of a range deletion over a range that was read, where that begins.
    pub key: &'a [u8],
    pub sequence: SequenceNumber,
    /// A range deletion meets a range that was read.
    pub of_range: bool,
}

/// Calls `found` with each change in the window of something that was read. False when the log does
/// not have them all.
pub(super) fn logged_changes(
    log: &Wal,
    (reads, ranges): (&ReadSet, &RangeIndex),
    (window, bounds): (Window, Bounds),
    snapshot: ReadPoint,
    mut found: impl FnMut(LoggedChange<'_>),
) -> bool {
    // Where nothing lived when the window began. All commits in the window are complete.
    let reader = Reader { snapshot: window.since, now: snapshot.now };
    let families = reads.families();
    let dead = families.iter().map(|family| family.reads.dead_ranges.known_to(reader));
    let dead: Vec<KnownRanges> = dead.collect();
    let is_dead = |family: u32, key: &[u8]| {
        let known = families.position(family).and_then(|at| dead.get(at));
        // A copy begins at the first range again: keys come in no order.
        known.is_some_and(|known| known.clone().end_over(key).is_some())
    };
    let (mut whole, mut points_left) = (true, bounds.keys);
    let places = (window.since, window.through);
    let read = log.read_back(places, bounds.logged_bytes, |payload, sequence| {
        for operation in BatchReader::new(payload) {
            let Ok(operation) = operation else {
                whole = false;
                return;
            };
            let (family, key) = (operation.family, operation.key);
            if operation.kind == ValueKind::RangeTombstone {
                if let Some(key) = ranges.met(family, key, operation.value) {
                    found(LoggedChange { family, key, sequence, of_range: true });
                }
                let deleted = |(of, point): &(u32, &[u8])| {
                    *of == family && key <= *point && ends_behind(operation.value, point)
                };
                // Rare, and as dear as the look at all keys that were read.
                for point in reads.points() {
                    let Some(left) = points_left.checked_sub(1) else {
                        whole = false;
                        return;
                    };
                    points_left = left;
                    if deleted(&point) {
                        found(LoggedChange { family, key: point.1, sequence, of_range: false });
                        break;
                    }
                }
            } else if reads.has_point(family, key)
                || (ranges.holds(family, key) && !is_dead(family, key))
            {
                found(LoggedChange { family, key, sequence, of_range: false });
            }
        }
    });
    read && whole
}
