//! Single writes with a durability and a time to live of their own.

use tidesdb_base::error::Result;

use crate::handles::Family;
use crate::write::{WriteBatch, WriteOptions};

impl Family {
    /// As [`Family::put`], as durable and for as long as the options say.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        self.put_one(key.as_ref(), value.as_ref(), options)
    }

    fn put_one(&self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        let mut batch = WriteBatch::new();
        match options.ttl {
            Some(ttl) => batch.put_with_ttl(self, key, value, ttl)?,
            None => batch.put(self, key, value)?,
        }
        self.core().write(&batch, options)
    }

    /// As [`Family::delete`], as durable as the options say.
    ///
    /// # Errors
    /// As [`Family::put`]; `Invalid` also for options with a time to live.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.write_with(options, |batch| batch.delete(self, key.as_ref()))
    }

    /// As [`Family::single_delete`], as durable as the options say.
    ///
    /// # Errors
    /// As [`Family::delete_with`].
    pub fn single_delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.write_with(options, |batch| batch.single_delete(self, key.as_ref()))
    }

    /// As [`Family::delete_range`], as durable as the options say.
    ///
    /// # Errors
    /// As [`Family::delete_range`]; `Invalid` also for options with a time to live.
    pub fn delete_range_with(
        &self,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        self.write_with(options, |batch| batch.delete_range(self, start.as_ref(), end.as_ref()))
    }

    /// As [`Family::delete_prefix`], as durable as the options say.
    ///
    /// # Errors
    /// As [`Family::delete_prefix`]; `Invalid` also for options with a time to live.
    pub fn delete_prefix_with(
        &self,
        prefix: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        self.write_with(options, |batch| batch.delete_prefix(self, prefix.as_ref()))
    }

    pub(super) fn write_with(
        &self,
        options: WriteOptions,
        add: impl FnOnce(&mut WriteBatch) -> Result<()>,
    ) -> Result<()> {
        let options = options.without_ttl()?;
        let mut batch = WriteBatch::new();
        add(&mut batch)?;
        self.core().write(&batch, options)
    }
}
