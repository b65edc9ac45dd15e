//! Shortening a manifest that has become long.

use tidesdb_sys::sched::Lane;

use crate::core::Core;
use crate::version::{Catalog, restate_beside};

impl Core {
    /// Queues that the manifest is restated, if it has become long: in the lane of jobs that no
    /// writer waits for.
    pub(crate) fn restate_manifest_later(&self, catalog: &mut Catalog) {
        if catalog.should_be_restated() {
            self.submit(Lane::Compaction, |core| {
                // A failure leaves all as it was, and an edit has it tried again.
                let _ = restate_beside(&core.storage.catalog);
            });
        }
    }
}
