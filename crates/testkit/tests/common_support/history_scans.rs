//! Open scans of a random history, and where the model says that they stand.

use std::ops::Bound;
use std::rc::Rc;

use tidesdb::{KeyOrder, Scan, ScanOptions};

use super::{Entry, Model, Place, Run};

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

impl Run {
    pub(super) fn new_scan(&mut self) {
        if self.scans.len() >= 3 {
            let at = self.random.index(self.scans.len());
            self.scans.swap_remove(at);
        }
        let (name, family) = self.family();
        let mut options = ScanOptions::new();
        let (mut lower, mut upper) = (None, None);
        match self.random.below(4) {
            0 => {
                let key = self.key();
                let prefix = key[..self.random.index(key.len() + 1)].to_vec();
                // Keys that share a prefix lie together in most orders.
                if let Ok(stored) = self.order().stored_prefix(&prefix) {
                    options = options.prefix(&prefix);
                    upper = stored.iter().rposition(|&byte| byte != 255).map(|last| {
                        let mut end = stored[..=last].to_vec();
                        end[last] += 1;
                        end
                    });
                    lower = Some(stored.into_owned());
                }
            }
            1 => {
                let bounds = [self.key(), self.key()];
                options = options.lower(&bounds[0]).upper(&bounds[1]);
                [lower, upper] = bounds.map(|key| Some(self.place(&key)));
            }
            2 => {
                let key = self.key();
                options = options.lower(&key);
                lower = Some(self.place(&key));
            }
            _ => {}
        }
        let (mut model, mut now) = (Rc::clone(&self.models[&name]), self.now());
        if !self.snapshots.is_empty() && self.random.chance(1, 3) {
            let (snapshot, models, taken_at) =
                &self.snapshots[self.random.index(self.snapshots.len())];
            if let Some(then) = models.get(&name) {
                options = options.snapshot(snapshot);
                (model, now) = (Rc::clone(then), *taken_at);
            }
        }
        let scan = family.scan(options).unwrap();
        assert!(!scan.valid());
        let order = self.order().clone();
        let open = OpenScan { scan, order, model, lower, upper, now, at: None };
        self.scans.push(open);
        if self.random.chance(1, 10) {
            self.walk_through();
        }
    }

    /// Walks the newest scan from one end to the other.
    pub(super) fn walk_through(&mut self) {
        let forward = self.random.chance(1, 2);
        let Some(open) = self.scans.last_mut() else { return };
        open.go(if forward { Move::First } else { Move::Last });
        while open.at.is_some() {
            open.go(if forward { Move::Next } else { Move::Prev });
        }
    }

    pub(super) fn move_scan(&mut self) {
        if self.scans.is_empty() {
            return;
        }
        let at = self.random.index(self.scans.len());
        for _ in 0..1 + self.random.below(12) {
            let step = match self.random.below(12) {
                0 => Move::First,
                1 => Move::Last,
                2..4 => Move::Seek(self.key()),
                4..6 => Move::SeekForPrev(self.key()),
                6..9 => Move::Next,
                _ => Move::Prev,
            };
            self.scans[at].go(step);
        }
    }
}
