//! What tests of copies share: small families, and the crashes around each change of some work.

use std::sync::{Arc, Mutex};

use tidesdb::{Compression, FamilyOptions};
use tidesdb_sim::{CrashProfile, Phase, SimVfs};

/// A family whose tables and value logs are small.
pub(crate) fn small() -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(16 << 10)
        .target_table_bytes(4 << 10)
        .klog_value_threshold(100)
        .block_size(256)
        .compression(Compression::None)
        .min_disk_space(0)
}

/// What each kind of crash leaves after each change of a disk, from now on.
pub(crate) struct Crashes {
    sim: Arc<SimVfs>,
    images: Arc<Mutex<Vec<Arc<SimVfs>>>>,
}

impl Crashes {
    pub(crate) fn of(sim: &Arc<SimVfs>) -> Self {
        let images = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&images);
        sim.on_mutation(Some(Arc::new(move |sim: &SimVfs, mutation| {
            if mutation.phase == Phase::After {
                let image = |profile| sim.crash_image(profile, mutation.index);
                taken.lock().unwrap().extend(CrashProfile::ALL.map(image));
            }
        })));
        Self { sim: Arc::clone(sim), images }
    }

    /// Images so far.
    pub(crate) fn count(&self) -> usize {
        self.images.lock().unwrap().len()
    }

    /// Ends with what was taken.
    pub(crate) fn end(self) -> Vec<Arc<SimVfs>> {
        self.sim.on_mutation(None);
        std::mem::take(&mut *self.images.lock().unwrap())
    }
}
