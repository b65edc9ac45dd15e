//! When the value of a key expires.

use tidesdb_base::entry::{NEVER_EXPIRES, is_expired};
use tidesdb_base::error::Result;
use tidesdb_lockfree::stripe::ThisThread;

use super::get::{Get, InMemory};
use crate::core::Core;
use crate::family::FamilyState;
use crate::memtable::kind_of;

/// When the value of a key expires. Made by [`Family::expiry`](crate::Family::expiry).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Expiry {
    /// It has no time to live.
    Never,
    /// At this Unix second.
    AtUnixSecond(u64),
}

impl Core {
    /// When the value that `key` has now expires; `None` when it has none. The value is not read.
    ///
    /// # Errors
    /// See [`crate::Family::get`].
    pub(crate) fn expiry_of(&self, family: &FamilyState, key: &[u8]) -> Result<Option<Expiry>> {
        let stored = family.keys.stored_key(key)?;
        self.health.check_readable(family)?;
        let get = Get::new(self, family, &stored, None);
        // The view first, as for every read.
        let view = family.view.load();
        family.check_view()?;
        let snapshot = get.snapshot();
        let (kind, second) = match get.look_in_memtables(&view, snapshot) {
            InMemory::Dead => return Ok(None),
            InMemory::Version(version) => (kind_of(&version), version.expires_at),
            InMemory::Unknown => {
                let found = get.find_in_tables(&view.version, snapshot, ThisThread::get())?;
                let Some(found) = found else { return Ok(None) };
                let meta = found.meta();
                if view.version.range_tombstones.hides(get.key, meta.seq, snapshot) {
                    return Ok(None);
                }
                (meta.kind, meta.expires_at)
            }
        };
        Ok(match second {
            _ if kind.is_tombstone() => None,
            NEVER_EXPIRES => Some(Expiry::Never),
            second if is_expired(second, get.now()) => None,
            second => Some(Expiry::AtUnixSecond(second)),
        })
    }
}

#[cfg(test)]
mod tests {
    use tidesdb_base::key_order::KeyOrder;
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use super::Expiry;
    use crate::db::{Components, Db};

    const LATE: u64 = 4_000_000_000;

    #[test]
    fn the_newest_version_decides_wherever_it_lies() {
        for order in [KeyOrder::Bytewise, KeyOrder::Reverse] {
            let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
            let options = FamilyOptions::default().key_order(order);
            let family = db.create_family("family", options).unwrap();
            let second = |key: &str| family.expiry(key).unwrap();
            for flushed in [false, true] {
                family.put("plain", "1").unwrap();
                family.put_expiring_at("late", [7; 2000], LATE).unwrap();
                family.put_expiring_at("past", "1", 1).unwrap();
                family.put_expiring_at("deleted", "1", LATE).unwrap();
                family.put_expiring_at("in a range", "1", LATE).unwrap();
                if flushed {
                    family.flush().unwrap();
                }
                family.delete("deleted").unwrap();
                family.delete_prefix("in").unwrap();
                if flushed {
                    family.flush().unwrap();
                }
                assert_eq!(second("plain"), Some(Expiry::Never));
                assert_eq!(second("late"), Some(Expiry::AtUnixSecond(LATE)));
                for key in ["past", "deleted", "in a range", "absent"] {
                    assert_eq!(second(key), None, "{key}");
                }
            }
            family.put("late", "again").unwrap();
            assert_eq!(second("late"), Some(Expiry::Never));
            assert!(family.expiry("").is_err());
        }
    }
}
