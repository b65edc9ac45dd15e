//! Open scans of a random history, and where the model says that they stand.

use std::ops::Bound;
use std::rc::Rc;

use tidesdb::Scan;

use super::{Entry, Model};

/// An open scan, where the model says it stands, and what it may see.
pub(super) struct OpenScan {
    pub(super) scan: Scan,
    pub(super) model: Rc<Model>,
    pub(super) lower: Option<Vec<u8>>,
    pub(super) upper: Option<Vec<u8>>,
    pub(super) now: u64,
    pub(super) at: Option<Vec<u8>>,
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
            (Move::Seek(key), _) => self.first(Bound::Included(key)),
            (Move::SeekForPrev(key), _) => self.last(Bound::Included(key)),
            (Move::Next, Some(key)) => self.first(Bound::Excluded(key)),
            (Move::Prev, Some(key)) => self.last(Bound::Excluded(key)),
            (Move::Next | Move::Prev, None) => None,
        };
        let scan = &self.scan;
        let key = self.at.clone().unwrap_or_default();
        let about = || format!("{step:?} from {from:?} in {:?}..{:?}", self.lower, self.upper);
        assert_eq!(scan.valid(), self.at.is_some(), "valid after {}, wanted {key:?}", about());
        assert_eq!(scan.key(), key, "key after {}", about());
        let value = self.model.get(&key).map_or(&[][..], |(value, _)| value);
        assert_eq!(scan.value().unwrap(), value, "value of {key:?} after {}", about());
    }

    fn sees(&self, key: &Vec<u8>, entry: &Entry) -> bool {
        self.lower.as_ref().is_none_or(|lower| key >= lower)
            && self.upper.as_ref().is_none_or(|upper| key < upper)
            && (entry.1 == 0 || entry.1 > self.now)
    }

    fn first(&self, from: Bound<&Vec<u8>>) -> Option<Vec<u8>> {
        let mut range = self.model.range((from.cloned(), Bound::Unbounded));
        range.find(|(key, entry)| self.sees(key, entry)).map(|(key, _)| key.clone())
    }

    fn last(&self, to: Bound<&Vec<u8>>) -> Option<Vec<u8>> {
        let range = self.model.range((Bound::Unbounded, to.cloned()));
        let mut range = range.rev();
        range.find(|(key, entry)| self.sees(key, entry)).map(|(key, _)| key.clone())
    }
}
