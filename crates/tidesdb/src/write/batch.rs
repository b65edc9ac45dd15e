//! The write batch: operations on any number of families that take effect together.

mod marks;
mod operations;
mod range_deletions;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tidesdb_base::entry::{NEVER_EXPIRES, ValueKind};
use tidesdb_base::error::{Error, Result};
use tidesdb_base::limits::{DIRECT_VALUE_BYTES, MAX_BATCH_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES};
use tidesdb_files::wal::{BatchWriter, Operation};

pub(crate) use self::marks::BatchMark;
pub(crate) use self::operations::BatchOperations;
use crate::family::{FamilyList, FamilyState};
use crate::handles::Family;
use crate::wal::{ANY_KEY, signature_of};

/// Beyond as many keys nearly every bit of a signature would be set.
const MOST_SIGNED: usize = 32;

/// Operations that are committed together: after a crash all of them are there or none, and no
/// reader ever sees some of them. Later operations on a key win over earlier ones.
///
/// A batch can be reused after [`WriteBatch::clear`] without allocating again. It belongs to the
/// open database whose families it was filled with: one that was filled before the database was
/// closed is refused by every database opened since, that of the same directory included.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// use tidesdb::{Db, DbOptions, FamilyOptions, WriteBatch};
/// let db = Db::open(directory.path(), DbOptions::default())?;
/// let users = db.open_family("users", FamilyOptions::default())?;
/// let by_mail = db.open_family("by_mail", FamilyOptions::default())?;
/// let mut batch = WriteBatch::new();
/// batch.put(&users, b"7", b"ada")?;
/// batch.put(&by_mail, b"ada@example.org", b"7")?;
/// db.write(&batch)?;
/// assert_eq!(by_mail.get(b"ada@example.org")?, Some(b"7".to_vec()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    /// The operations, as the log wants them.
    pub(crate) record: Vec<u8>,
    pub(crate) families: FamilyList,
    /// Families of before the last [`WriteBatch::clear`]: who writes to one of them again counts no
    /// reference, which would be a shared write.
    known_families: FamilyList,
    /// Signature of the keys, or of more; see [`signature_of`].
    pub(crate) signature: u64,
    pub(crate) count: usize,
    /// Sum of key and value lengths.
    pub(crate) user_bytes: u64,
    /// Puts among the operations.
    pub(crate) has_puts: bool,
    /// Deletions of any kind among the operations.
    pub(crate) has_deletions: bool,
    /// Range deletions among the operations.
    pub(crate) deletes_ranges: bool,
    /// Values that go straight to a value log, in the order of their operations.
    pub(crate) direct: Vec<DirectValue>,
}

/// An operation whose value is too large for the log.
#[derive(Clone, Debug)]
pub(crate) struct DirectValue {
    pub family: Arc<FamilyState>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub expires_at: u64,
    /// Length of the record in front of this operation.
    pub position: usize,
}

impl WriteBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put that never expires.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an empty key, or a family of another database than the
    /// batch's other operations; [`Error::TooLarge`] for a key or value over the limits or a batch
    /// that grows over its own; [`Error::OutOfMemory`]. The batch is unchanged then.
    pub fn put(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(family.state(), ValueKind::Value, NEVER_EXPIRES, key.as_ref(), value.as_ref())
    }

    /// Adds a put of a value that expires `ttl` from now: from this call, not from the commit on.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn put_with_ttl(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let expires_at = expiry_after(family.core().env.clock.unix_millis(), ttl);
        self.put_expiring_at(family, key.as_ref(), value.as_ref(), expires_at)
    }

    /// Adds a put that expires at a Unix time in seconds; zero means never.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn put_expiring_at(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_at_unix_seconds: u64,
    ) -> Result<()> {
        self.add(
            family.state(),
            ValueKind::Value,
            expires_at_unix_seconds,
            key.as_ref(),
            value.as_ref(),
        )
    }

    /// Adds a deletion. Deleting an absent key is no error.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete(&mut self, family: &Family, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(family.state(), ValueKind::Tombstone, NEVER_EXPIRES, key.as_ref(), &[])
    }

    /// Adds a deletion of a key that was put at most once since it was last deleted, by any method.
    /// See [`Family::single_delete`].
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn single_delete(&mut self, family: &Family, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(family.state(), ValueKind::SingleTombstone, NEVER_EXPIRES, key.as_ref(), &[])
    }

    /// Adds an operation on one key, as they are given.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    #[inline]
    pub(crate) fn add(
        &mut self,
        family: &Arc<FamilyState>,
        kind: ValueKind,
        expires_at: u64,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if family.keys.order.stores_keys_as_given() {
            return self.add_stored(family, kind, expires_at, key, value);
        }
        let before = self.user_bytes;
        let (stored_key, stored_value) = to_store(family, kind, key, value)?;
        self.add_stored(family, kind, expires_at, &stored_key, &stored_value)?;
        // What the order adds is not the user's.
        self.user_bytes = before + (key.len() + value.len()) as u64;
        Ok(())
    }

    /// Adds an operation with key and value as they are stored.
    pub(super) fn add_stored(
        &mut self,
        family: &Arc<FamilyState>,
        kind: ValueKind,
        expires_at: u64,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        check_sizes(key, value)?;
        let known = self.families.find(family.id);
        let is_known = known.is_some_and(|known| Arc::ptr_eq(known, family));
        if !is_known {
            self.check_database(family)?;
        }
        if kind == ValueKind::RangeTombstone && value.len() > MAX_KEY_BYTES {
            return Err(too_large("key", value.len(), MAX_KEY_BYTES));
        }
        if value.len() >= DIRECT_VALUE_BYTES {
            let mut copy = Vec::new();
            copy.try_reserve_exact(value.len()).map_err(|_| NO_MEMORY)?;
            copy.extend_from_slice(value);
            self.direct.push(DirectValue {
                family: Arc::clone(family),
                key: key.to_vec(),
                value: copy,
                expires_at,
                position: self.record.len(),
            });
        } else {
            let size = self.record.len() as u64 + key.len() as u64 + value.len() as u64 + 32;
            if size > MAX_BATCH_BYTES as u64 {
                return Err(Error::TooLarge {
                    what: "write batch",
                    size,
                    limit: MAX_BATCH_BYTES as u64,
                });
            }
            self.record.try_reserve(key.len() + value.len() + 32).map_err(|_| NO_MEMORY)?;
            let operation = Operation { family: family.id, kind, expires_at, key, value };
            BatchWriter::new(&mut self.record).push(operation);
        }
        if !is_known {
            self.add_family(family);
        }
        if kind == ValueKind::RangeTombstone {
            self.deletes_ranges = true;
            self.signature = ANY_KEY;
        } else if self.count < MOST_SIGNED {
            self.signature |= signature_of(family.id, key);
        } else {
            self.signature = ANY_KEY;
        }
        self.has_puts |= !kind.is_tombstone();
        self.has_deletions |= kind.is_tombstone();
        self.count += 1;
        self.user_bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    /// # Errors
    /// [`Error::InvalidArgument`] when what the batch holds already is for another database.
    fn check_database(&self, family: &FamilyState) -> Result<()> {
        match self.families.first() {
            Some(first) if first.database != family.database => Err(Error::InvalidArgument(
                "the family is of another database than the batch's other operations".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    fn add_family(&mut self, family: &Arc<FamilyState>) {
        // One of another database may have the same number.
        let known = self.known_families.swap_remove(family.id);
        let known = known.filter(|known| Arc::ptr_eq(known, family));
        self.families.push(known.unwrap_or_else(|| Arc::clone(family)));
    }

    /// Removes all operations and keeps the memory.
    pub fn clear(&mut self) {
        self.record.clear();
        std::mem::swap(&mut self.families, &mut self.known_families);
        self.families.clear();
        self.direct.clear();
        self.signature = 0;
        self.has_puts = false;
        self.has_deletions = false;
        self.deletes_ranges = false;
        self.count = 0;
        self.user_bytes = 0;
    }

    /// Whether so many bytes of operations at most are held, and next to nothing else.
    pub(crate) fn is_little(&self, most_bytes: usize) -> bool {
        let lists = [&self.families, &self.known_families];
        self.record.capacity() <= most_bytes
            && self.direct.capacity() == 0
            && lists.iter().all(|list| list.is_small())
    }

    /// Lets go of the families that a batch which was cleared has written to.
    pub(crate) fn forget_families(&mut self) {
        self.known_families.clear();
    }

    /// About how many bytes of memory are held.
    pub(crate) const fn memory_bytes(&self) -> usize {
        let direct = if self.direct.is_empty() { 0 } else { self.user_bytes as usize };
        self.record.capacity() + direct
    }

    /// Number of operations.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// True when there is no operation.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of keys and values.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.user_bytes
    }
}

const NO_MEMORY: Error = Error::OutOfMemory("a write batch");

/// Key and value as they are stored.
type Stored<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// Key and value as they are stored.
///
/// # Errors
/// As [`check_sizes`].
#[cold]
pub(super) fn to_store<'a>(
    family: &FamilyState,
    kind: ValueKind,
    key: &'a [u8],
    value: &'a [u8],
) -> Result<Stored<'a>> {
    check_sizes(key, value)?;
    let order = &family.keys.order;
    let value = match kind {
        ValueKind::Value => order.stored_value(key, value)?,
        _ => Cow::Borrowed(value),
    };
    Ok((order.stored_key(key), value))
}

/// Refuses keys and values that can't be stored.
pub(crate) fn check_sizes(key: &[u8], value: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::InvalidArgument("the key is empty".to_owned()));
    }
    if key.len() > MAX_KEY_BYTES {
        return Err(too_large("key", key.len(), MAX_KEY_BYTES));
    }
    if value.len() > MAX_VALUE_BYTES {
        return Err(too_large("value", value.len(), MAX_VALUE_BYTES));
    }
    Ok(())
}

fn too_large(what: &'static str, size: usize, limit: usize) -> Error {
    Error::TooLarge { what, size: size as u64, limit: limit as u64 }
}

/// Unix second at which something that lives for `ttl` from now expires. Its end is rounded up, so
/// it lives for `ttl` and less than a second more.
pub(crate) fn expiry_after(now_unix_millis: u64, ttl: Duration) -> u64 {
    let ttl_millis = u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    now_unix_millis.saturating_add(ttl_millis).div_ceil(1000).max(1)
}
