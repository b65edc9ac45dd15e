//! The views of families that a commit looks at.

use std::sync::Arc;

use arc_swap::Guard;
use tidesdb_lockfree::snapshot_registry::ReadPoint;

use super::window::Window;
use crate::family::dead_ranges::{KnownRanges, Reader};
use crate::family::{FamilyList, FamilyState, View};
#[cfg(test)]
use crate::transaction::tests::steps;

/// A family with its view, loaded after what is looked for was published.
pub(super) struct Viewed<'f> {
    pub state: &'f FamilyState,
    view: Guard<Arc<View>>,
}

impl Viewed<'_> {
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Where nothing lived when the window began, by the time of a snapshot that is no newer.
    /// Called when every commit in the window is complete, so that its puts have cut the ranges.
    pub(super) fn dead_before(&self, window: Window, snapshot: ReadPoint) -> KnownRanges {
        self.state.reads.dead_ranges.known_to(Reader { snapshot: window.since, now: snapshot.now })
    }
}

/// The views of some families, one at a time: keys of a family mostly stand together.
pub(super) struct Views<'f> {
    families: &'f FamilyList,
    entered: Option<Viewed<'f>>,
}

impl<'f> Views<'f> {
    pub(super) const fn new(families: &'f FamilyList) -> Self {
        Self { families, entered: None }
    }

    pub(super) fn enter(&mut self, family: u32) -> Option<&Viewed<'f>> {
        if self.entered.as_ref().is_none_or(|viewed| viewed.state.id != family) {
            let state = self.families.find(family)?;
            #[cfg(test)]
            steps::take(&steps::BEFORE_A_VIEW);
            self.entered = Some(Viewed { state, view: state.view.load() });
        }
        self.entered.as_ref()
    }
}
