//! When values expire.

use tidesdb_base::error::Result;

use crate::handles::Family;
use crate::read::Expiry;

impl Family {
    /// When the value of a key expires; `None` when the key is absent, deleted or expired. The
    /// value is not read.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, Expiry, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let sessions = db.open_family("sessions", FamilyOptions::default())?;
    /// sessions.put("permanent", "ada")?;
    /// sessions.put_expiring_at("long", "alan", 4_000_000_000)?;
    /// assert_eq!(sessions.expiry("permanent")?, Some(Expiry::Never));
    /// assert_eq!(sessions.expiry("long")?, Some(Expiry::AtUnixSecond(4_000_000_000)));
    /// assert_eq!(sessions.expiry("absent")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::get`].
    #[doc(alias = "expires_at")]
    #[doc(alias = "ttl")]
    pub fn expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<Expiry>> {
        self.core().expiry_of(&self.state, key.as_ref())
    }
}
