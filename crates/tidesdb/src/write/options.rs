//! How one commit is written.

use std::time::Duration;

use tidesdb_base::error::{Error, Result};

/// How one commit is written: how durable, for how long, and whether it may have to wait. The
/// default is what the database and the families say, without expiry, and that it may.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// use std::time::Duration;
/// use tidesdb::{Db, DbOptions, FamilyOptions, WriteOptions};
/// let db = Db::open(directory.path(), DbOptions::default())?;
/// let sessions = db.open_family("sessions", FamilyOptions::default())?;
/// let options = WriteOptions::new().sync(true).ttl(Duration::from_secs(3600));
/// sessions.put_with("token", "ada", options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// `Some(true)`: on disk before the call returns, whatever the sync mode. `Some(false)`: not
    /// waited for, whatever the sync mode. `None`: as the database and the families say.
    pub sync: Option<bool>,
    /// How long a value that is put lives, at least so long and less than a second more. `None`:
    /// without expiry. Only for puts: the puts of a batch have their own, a deletion has none.
    pub ttl: Option<Duration>,
    /// A commit that would be slowed down, or would wait for background work, returns
    /// [`Error::Stalled`] at once, and nothing is written. A sync that is asked for is waited for
    /// all the same, and so are the writing of a value of 1 MiB or more, and the next segment of
    /// the log where it is not ready. Default `false`.
    #[doc(alias = "no_slowdown")]
    pub no_wait: bool,
}

impl WriteOptions {
    /// The default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`WriteOptions::sync`].
    #[must_use]
    pub const fn sync(mut self, sync: bool) -> Self {
        self.sync = Some(sync);
        self
    }

    /// Sets [`WriteOptions::ttl`].
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets [`WriteOptions::no_wait`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, ErrorKind, FamilyOptions, WriteOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let events = db.open_family("events", FamilyOptions::default())?;
    /// match events.put_with("1", "clicked", WriteOptions::new().no_wait(true)) {
    ///     Err(error) if error.kind() == ErrorKind::Stalled => println!("dropped: {error}"),
    ///     other => other?,
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn no_wait(mut self, no_wait: bool) -> Self {
        self.no_wait = no_wait;
        self
    }

    /// Refuses a time to live where there is nothing to live.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`].
    pub(crate) fn without_ttl(self) -> Result<Self> {
        if self.ttl.is_some() {
            let text = "a time to live belongs to a single put; a batch takes put_with_ttl";
            return Err(Error::InvalidArgument(text.to_owned()));
        }
        Ok(self)
    }
}
