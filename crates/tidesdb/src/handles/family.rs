//! The handle of a column family. What users do with it is in `db/family.rs` and `db/family/`.

use std::sync::Arc;

use crate::core::{Core, Owner};
use crate::family::FamilyState;

/// A handle of a column family. Cloning is cheap; any number of threads may use one.
///
/// The handle keeps the database open. After [`crate::Db::close`], or when the family was dropped,
/// its methods return an error of kind `Closed`.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// use tidesdb::{Db, DbOptions, FamilyOptions};
/// let db = Db::open(directory.path(), DbOptions::default())?;
/// let family = db.open_family("default", FamilyOptions::default())?;
/// family.put(b"key", b"value")?;
/// assert_eq!(family.get(b"key")?, Some(b"value".to_vec()));
/// let length = family.get_with(b"key", |value| value.len())?;
/// assert_eq!(length, Some(5));
/// family.delete(b"key")?;
/// assert!(!family.contains(b"key")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Family {
    pub(crate) owner: Arc<Owner>,
    pub(crate) state: Arc<FamilyState>,
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Family {
    pub(crate) fn state(&self) -> &Arc<FamilyState> {
        &self.state
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.owner.core()
    }
}
