//! Open scans of a random history, and where the model says that they stand.

use std::ops::Bound;
use std::rc::Rc;

use tidesdb::{KeyOrder, Scan};

use super::{Entry, Model, Place};

/// An open scan, where the model says it stands, and what it may see.
pub(super) struct OpenScan {
    pub(super) scan: Scan,
    pub(super) order: KeyOrder,
    pub(super) model: Rc<Model>,
    pub(super) lower: Option<Place>,
    pub(super) upper: Option<Place>,
    pub(super) now: u64,
    pub(super) at: Option<Place>,
}

#[derive(Debug)]
pub(super) enum Move {
    First,
    Last,
    Seek(Vec<u8>),
    SeekForPrev(Vec<u8>),
    Next,
    Prev,
}

impl OpenScan {
    /// Moves the scan and the model's position, and compares them.
    pub(super) fn go(&mut self, step: Move) {
        let scan = &mut self.scan;
        match &step {
            Move::First => scan.seek_to_first(),
            Move::Last => scan.seek_to_last(),
            Move::Seek(key) => scan.seek(key),
            Move::SeekForPrev(key) => scan.seek_for_prev(key),
            Move::Next => scan.next(),
            Move::Prev => scan.prev(),
        }
        .unwrap();
        let from = self.at.clone();
        self.at = match (&step, &from) {
            (Move::First, _) => self.first(Bound::Unbounded),
            (Move::Last, _) => self.last(Bound::Unbounded),
            (Move::Seek(key), _) => self.first(Bound::Included(&self.place(key))),
            (Move::SeekForPrev(key), _) => self.last(Bound::Included(&self.place(key))),
            (Move::Next, Some(key)) => self.first(Bound::Excluded(key)),
            (Move::Prev, Some(key)) => self.last(Bound::Excluded(key)),
            (Move::Next | Move::Prev, None) => None,
        };
        let scan = &self.scan;
        let entry = self.at.as_ref().and_then(|place| self.model.get(place));
        let (key, value) = entry.map_or((&[][..], &[][..]), |(key, value, _)| (key, value));
        let about = || format!("{step:?} from {from:?} in {:?}..{:?}", self.lower, self.upper);
        assert_eq!(scan.valid(), self.at.is_some(), "valid after {}, wanted {key:?}", about());
        assert_eq!(scan.key(), key, "key after {}", about());
        assert_eq!(scan.value().unwrap(), value, "value of {key:?} after {}", about());
    }

    fn place(&self, key: &[u8]) -> Place {
        self.order.stored_key(key).into_owned()
    }

    fn sees(&self, place: &Place, entry: &Entry) -> bool {
        self.lower.as_ref().is_none_or(|lower| place >= lower)
            && self.upper.as_ref().is_none_or(|upper| place < upper)
            && (entry.2 == 0 || entry.2 > self.now)
    }

    fn first(&self, from: Bound<&Place>) -> Option<Place> {
        let mut range = self.model.range((from.cloned(), Bound::Unbounded));
        range.find(|(key, entry)| self.sees(key, entry)).map(|(key, _)| key.clone())
    }

    fn last(&self, to: Bound<&Place>) -> Option<Place> {
        let range = self.model.range((Bound::Unbounded, to.cloned()));
        let mut range = range.rev();
        range.find(|(key, entry)| self.sees(key, entry)).map(|(key, _)| key.clone())
    }
}
