//! The new database that a salvage writes.
//!
//! Records come in the order of their keys and go through an ordinary database, in a directory that
//! gets its name when it is whole (`place`). The database's clock stands at its first second: that
//! of the machine on which a salvage runs does not decide what has expired.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::{Clock, Components, Db, Family, WriteBatch};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::key_order::KeyOrder;
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sys::clock::SystemClock;
use tidesdb_sys::vfs::RealVfs;

use crate::salvage::place::Place;

/// Bytes of records that are committed together.
const BATCH_BYTES: u64 = 4 << 20;

/// The database that a salvage writes, at its place.
#[derive(Debug)]
pub(crate) struct Destination {
    place: Place,
    db: Db,
    batch: WriteBatch,
    batch_bytes: u64,
}

/// A clock by which nothing expires.
#[derive(Debug)]
struct BeforeAllExpiry;

impl Clock for BeforeAllExpiry {
    fn unix_seconds(&self) -> u64 {
        0
    }

    fn unix_millis(&self) -> u64 {
        0
    }

    fn monotonic_nanos(&self) -> u64 {
        SystemClock.monotonic_nanos()
    }

    fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration);
    }
}

impl Destination {
    /// Begins a database that will lie at `place`, which must be vacant. What an interrupted
    /// salvage to the same place left is removed. Memory, threads and limits are those of
    /// `options`.
    ///
    /// # Errors
    /// Those of [`Place::prepare`] and of creating a database.
    pub(crate) fn create(place: &Path, options: &DbOptions) -> Result<Self> {
        let place = Place::prepare(Arc::new(RealVfs::new()), place)?;
        let mut options = options.clone();
        options.create_if_missing = true;
        options.read_only = false;
        // What it does is no event of the database that it becomes.
        options.event_listener = None;
        options.event_log = false;
        let components = Components::for_options(&options)?;
        let components = Components { clock: Arc::new(BeforeAllExpiry), ..components };
        match Db::open_with(place.working(), options, components) {
            Ok(db) => Ok(Self { place, db, batch: WriteBatch::new(), batch_bytes: 0 }),
            Err(e) => {
                place.abandon();
                Err(e)
            }
        }
    }

    /// Where it lies until it is whole.
    pub(crate) fn working(&self) -> &Path {
        self.place.working()
    }

    /// Makes a family.
    ///
    /// # Errors
    /// Those of [`Db::create_family`].
    pub(crate) fn family(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        // Nothing that is stored depends on how the application compares keys.
        if let KeyOrder::Custom(order) = &options.key_order {
            match self.db.register_key_order(order, <[u8]>::cmp) {
                // Another family has it.
                Ok(()) | Err(Error::InvalidArgument(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.db.create_family(name, options)
    }

    /// Writes a record.
    ///
    /// # Errors
    /// Those of a commit.
    pub(crate) fn put(
        &mut self,
        family: &Family,
        key: &[u8],
        value: &[u8],
        expires_at: u64,
    ) -> Result<()> {
        let bytes = (key.len() + value.len()) as u64;
        if self.batch_bytes > 0 && self.batch_bytes + bytes > BATCH_BYTES {
            self.commit()?;
        }
        self.batch.put_expiring_at(family, key, value, expires_at)?;
        self.batch_bytes += bytes + 64;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.db.write(&self.batch)?;
        self.batch.clear();
        self.batch_bytes = 0;
        Ok(())
    }

    /// Makes everything durable and gives the database its place.
    ///
    /// # Errors
    /// Those of a commit and of a flush; [`Error::Io`]. Nothing is left then.
    pub(crate) fn finish(mut self) -> Result<()> {
        let written = self.commit().and_then(|()| self.db.flush());
        if let Err(e) = written.and_then(|()| self.db.wait_idle()) {
            self.abandon();
            return Err(e);
        }
        match self.db.close() {
            Ok(()) => self.place.take(),
            Err(e) => {
                self.place.abandon();
                Err(e)
            }
        }
    }

    /// Removes what was written.
    pub(crate) fn abandon(self) {
        drop(self.batch);
        // Whatever it returns: the files go next.
        let _ = self.db.close();
        self.place.abandon();
    }
}
