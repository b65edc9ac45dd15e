//! The one error type of the engine.
//!
//! Every error says what the caller can do through its [`ErrorKind`]; damage always names the
//! file and the offset. "Absent" is never an error: lookups return `Ok(None)`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::event::StallReason;

/// Result of every fallible operation of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument or an option is wrong, or the call is not allowed where it is made; the same
    /// call will fail again.
    Invalid,
    /// A named thing does not exist.
    NotFound,
    /// A named thing exists already.
    Exists,
    /// Another process or another handle has the directory open. One database may write in it, or
    /// any number may read it.
    Locked,
    /// The disk is full, or the system gave no memory for a memtable, a value, a record or a batch
    /// ([`Error::OutOfMemory`]). The call had no effect and succeeds once there is space or memory.
    Full,
    /// The operating system refused a file operation.
    Io,
    /// Stored bytes are damaged.
    Corruption,
    /// The database was opened for reading only.
    ReadOnly,
    /// A write of the log failed. The database repairs the log in the background, and commits are
    /// refused until that has worked: the call had no effect and may be repeated. Reads still work.
    LogFailed,
    /// A background job panicked. Writes are refused until the database is opened again; reads
    /// still work. Please report it.
    Broken,
    /// The database is closed, the column family was dropped, or compactions were stopped
    /// ([`Error::CompactionsStopped`]).
    Closed,
    /// The handle is of the process that this one was forked from, and does nothing here.
    Forked,
    /// A function that the caller gave to the call ended it ([`Error::Cancelled`]).
    Cancelled,
    /// Another commit came first; roll the transaction back and run it again.
    Conflict,
    /// Background work that the call depends on makes no progress or is paused; the call had no
    /// effect and may be repeated.
    Stalled,
    /// A commit is visible to readers, and a power cut may take it; of all errors of a commit this
    /// is the only one after which the commit has an effect. Do not repeat it: `Db::sync_log`
    /// returns when it is durable.
    NotDurable,
    /// A change of column families has no effect as long as the database is open, and an opening
    /// after a crash may find it. Repeat it, or make another change: the next one that works makes
    /// certain.
    ChangeUncertain,
    /// The engine broke one of its own rules; please report it.
    Internal,
}

/// An error of the engine. Cloning is cheap; the background threads keep errors and hand copies
/// to every caller that they concern.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// An argument is wrong; the text says which and why.
    InvalidArgument(String),
    /// Options are wrong; every problem found is listed.
    InvalidOptions(Vec<String>),
    /// A key, value or batch exceeds a hard limit of [`crate::limits`].
    TooLarge {
        /// What was too large.
        what: &'static str,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// No column family has that name.
    FamilyNotFound(String),
    /// A column family of that name exists.
    FamilyExists(String),
    /// The keys of a column family are in an order of the application that is not registered. The
    /// family and all that is in it are kept; it can be used once the order is registered.
    KeyOrderNotRegistered {
        /// The column family.
        family: String,
        /// Name of the order.
        order: String,
    },
    /// A copy of a database was to be written to a directory that holds something.
    NotEmpty(PathBuf),
    /// The directory holds no database, or something that is not one.
    NotADatabase {
        /// The directory.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The directory is open elsewhere: one writer or any number of readers may have it.
    Locked(PathBuf),
    /// A file operation failed.
    Io {
        /// The operation, such as `write` or `sync`.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// The system gave no memory for what is named: memtables, a value or a record as large as the
    /// caller made it, a batch. The call has no effect; what is in memory is written to tables
    /// then, which frees it. Small pieces (keys, lists, blocks of tables) are asked for in a way
    /// that ends the process when there are none, which loses nothing that was acknowledged: it is
    /// a kill. Where overcommitted memory runs out the system kills the process by itself.
    OutOfMemory(&'static str),
    /// Stored bytes are not what was written.
    Corruption {
        /// The damaged file.
        file: PathBuf,
        /// Offset of the damage in bytes.
        offset: u64,
        /// What was expected and what was found.
        detail: String,
    },
    /// The log could not be written or synced, as the cause says. Commits are refused until the
    /// repair in the background has worked.
    LogFailed(Arc<Error>),
    /// A background job panicked. Writes are refused until the database is opened again.
    Broken(Arc<Error>),
    /// The database was opened for reading only.
    ReadOnly,
    /// The database is closed.
    Closed,
    /// The handle was made in another process, of which this one is a fork. It does nothing here; a
    /// database can be opened in each process.
    Forked,
    /// The column family was dropped.
    FamilyDropped(String),
    /// A transaction can't be committed at its isolation level, because of what others have
    /// committed since it began. Nothing was written; it can be rolled back or reset.
    Conflict {
        /// Column family of the key.
        family: String,
        /// A key that the transactions collide on.
        key: Vec<u8>,
        /// What was found.
        reason: &'static str,
    },
    /// The transaction was committed or rolled back; only a reset makes it usable again.
    TransactionFinished,
    /// The transaction has no savepoint of that name.
    SavepointNotFound(String),
    /// Background work is paused, and the call depends on it.
    Paused,
    /// Compactions were stopped until the database is opened again. This one did not begin, or it
    /// was ended without effect.
    CompactionsStopped,
    /// For functions that follow the progress of a copy, a verification or a salvage: returned by
    /// one it ends the work, and the call returns it. The engine makes none.
    Cancelled,
    /// A writer, a flush or a compaction waited for background work that got nowhere for
    /// `stall_timeout_ms`, or that took longer than a caller would wait; or a commit that was not
    /// to wait would have had to.
    Stalled {
        /// What it waited for.
        reason: StallReason,
        /// How long nothing moved, in milliseconds; 0 for a commit that was not to wait.
        milliseconds: u64,
    },
    /// A function that the database calls (a listener, or one that follows a copy) must not close
    /// it: the close would wait for the call that the function belongs to. The database stays open.
    CloseFromCallback,
    /// What was to be made durable is visible, and stays so, but the sync of the log failed, as the
    /// cause says, and so did the repair of the log. It becomes durable with the next repair that
    /// works, which the next commit or flush has tried; until then a power cut may take it.
    NotDurable(Arc<Error>),
    /// A change of column families failed, as the cause says, and has no effect as long as the
    /// database is open. But it may be on the disk, and an opening after a crash may find it, until
    /// another change of the set of files works: each tries to replace the manifest first. To make
    /// certain, repeat the change, or make another one.
    ChangeUncertain(Arc<Error>),
    /// The engine broke one of its own rules.
    Internal(String),
}

impl Error {
    /// An [`Error::Io`] for an operation on a path. An error of this type that came through
    /// `source` stays what it is.
    #[must_use]
    pub fn io(operation: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        if let Some(known) = source.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            return known.clone();
        }
        Self::Io { operation, path: path.as_ref().to_path_buf(), source: Arc::new(source) }
    }

    /// An [`Error::Corruption`] at an offset of a file.
    #[must_use]
    pub fn corruption(file: impl AsRef<Path>, offset: u64, detail: impl Into<String>) -> Self {
        Self::Corruption { file: file.as_ref().to_path_buf(), offset, detail: detail.into() }
    }

    /// An [`Error::Corruption`] when a file that must exist does not, otherwise an [`Error::Io`].
    #[must_use]
    pub fn missing_or_io(
        operation: &'static str,
        path: impl AsRef<Path>,
        source: io::Error,
    ) -> Self {
        if source.kind() == io::ErrorKind::NotFound {
            return Self::corruption(path, 0, "the file is missing");
        }
        Self::io(operation, path, source)
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidArgument(_)
            | Self::InvalidOptions(_)
            | Self::TooLarge { .. }
            | Self::TransactionFinished
            | Self::CloseFromCallback => ErrorKind::Invalid,
            Self::FamilyNotFound(_)
            | Self::KeyOrderNotRegistered { .. }
            | Self::NotADatabase { .. }
            | Self::SavepointNotFound(_) => ErrorKind::NotFound,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::FamilyExists(_) | Self::NotEmpty(_) => ErrorKind::Exists,
            Self::Locked(_) => ErrorKind::Locked,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Full,
                _ => ErrorKind::Io,
            },
            Self::OutOfMemory(_) => ErrorKind::Full,
            Self::Corruption { .. } => ErrorKind::Corruption,
            Self::ReadOnly => ErrorKind::ReadOnly,
            Self::LogFailed(_) => ErrorKind::LogFailed,
            Self::Broken(_) => ErrorKind::Broken,
            Self::Closed | Self::FamilyDropped(_) | Self::CompactionsStopped => ErrorKind::Closed,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Forked => ErrorKind::Forked,
            Self::Stalled { .. } | Self::Paused => ErrorKind::Stalled,
            Self::NotDurable(_) => ErrorKind::NotDurable,
            Self::ChangeUncertain(_) => ErrorKind::ChangeUncertain,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }

    /// True when the disk, or what the user may have of it, is full. Memory that the machine
    /// refuses is of the same kind, and no help from free space.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::ChangeUncertain(cause) => cause.is_disk_full(),
            other => other.kind() == ErrorKind::Full && !matches!(other, Self::OutOfMemory(_)),
        }
    }

    /// True when stored bytes are damaged.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        self.kind() == ErrorKind::Corruption
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidArgument(text) => write!(f, "invalid argument: {text}"),
            Self::InvalidOptions(problems) => write!(f, "invalid options: {}", problems.join("; ")),
            Self::TooLarge { what, size, limit } => {
                write!(f, "{what} of {size} bytes exceeds the limit of {limit} bytes")
            }
            Self::FamilyNotFound(name) => write!(f, "no column family is named '{name}'"),
            Self::KeyOrderNotRegistered { family, order } => {
                write!(
                    f,
                    "column family '{family}' needs key order '{order}', which is not registered"
                )
            }
            Self::NotEmpty(path) => write!(f, "{}: the directory is not empty", path.display()),
            Self::FamilyExists(name) => write!(f, "a column family named '{name}' exists"),
            Self::NotADatabase { path, reason } => {
                write!(f, "{} is not a database: {reason}", path.display())
            }
            Self::Locked(path) => {
                let rule = "one writer or any number of readers can have it";
                write!(f, "{} is open in another process or handle ({rule})", path.display())
            }
            Self::Io { operation, path, source } => {
                write!(f, "{operation} of {} failed: {source}", path.display())
            }
            Self::OutOfMemory(what) => write!(f, "the system has no memory left for {what}"),
            Self::Corruption { file, offset, detail } => {
                write!(f, "{} is damaged at offset {offset}: {detail}", file.display())
            }
            Self::LogFailed(cause) => {
                write!(f, "writes are refused until the log is repaired: {cause}")
            }
            Self::Broken(cause) => {
                write!(f, "writes are refused until the database is opened again: {cause}")
            }
            Self::ReadOnly => f.write_str("the database was opened for reading only"),
            Self::Closed => f.write_str("the database is closed"),
            Self::Forked => {
                f.write_str("the handle is of another process, of which this one is a fork")
            }
            Self::FamilyDropped(name) => write!(f, "the column family '{name}' was dropped"),
            Self::Conflict { family, key, reason } => {
                let key = String::from_utf8_lossy(key);
                write!(f, "the transaction conflicts at key '{key}' of family '{family}': {reason}")
            }
            Self::TransactionFinished => f.write_str("the transaction is finished"),
            Self::SavepointNotFound(name) => write!(f, "no savepoint is named '{name}'"),
            Self::Paused => f.write_str("background work is paused"),
            Self::CloseFromCallback => f.write_str(
                "a function that the database calls can't close it: the close would wait for it",
            ),
            Self::CompactionsStopped => f.write_str("compactions are stopped until a new opening"),
            Self::Cancelled => f.write_str("the caller ended the work"),
            Self::Stalled { reason, milliseconds: 0 } => {
                write!(f, "the commit would have had to wait ({reason})")
            }
            Self::Stalled { reason, milliseconds } => {
                write!(f, "stalled ({reason}): background work got nowhere for {milliseconds} ms")
            }
            Self::NotDurable(cause) => {
                write!(f, "the commit is visible, but may not survive a power cut: {cause}")
            }
            Self::ChangeUncertain(cause) => {
                write!(f, "the change has no effect now, but may have one after a crash: {cause}")
            }
            Self::Internal(text) => write!(f, "internal error, please report it: {text}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source.as_ref()),
            Self::LogFailed(cause)
            | Self::Broken(cause)
            | Self::NotDurable(cause)
            | Self::ChangeUncertain(cause) => Some(cause.as_ref()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_its_own_kind() {
        let full = Error::io("write", "a", io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(full.kind(), ErrorKind::Full);
        let other = Error::io("write", "a", io::Error::other("boom"));
        assert_eq!(other.kind(), ErrorKind::Io);
        let carried = Error::io("read", "a", io::Error::other(Error::Closed));
        assert_eq!(carried.kind(), ErrorKind::Closed);
    }

    #[test]
    fn what_has_different_advice_is_of_different_kinds() {
        let cause = || Arc::new(Error::io("sync", "a", io::Error::other("boom")));
        let of = [
            (Error::ReadOnly, ErrorKind::ReadOnly),
            (Error::CloseFromCallback, ErrorKind::Invalid),
            (Error::CompactionsStopped, ErrorKind::Closed),
            (Error::Cancelled, ErrorKind::Cancelled),
            (Error::LogFailed(cause()), ErrorKind::LogFailed),
            (Error::Broken(cause()), ErrorKind::Broken),
            (Error::NotDurable(cause()), ErrorKind::NotDurable),
            (Error::ChangeUncertain(cause()), ErrorKind::ChangeUncertain),
        ];
        for (error, kind) in of {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }

    #[test]
    fn damage_names_file_and_offset() {
        let text = Error::corruption("000007.klog", 4096, "block checksum").to_string();
        assert!(text.contains("000007.klog") && text.contains("4096"), "{text}");
    }
}
