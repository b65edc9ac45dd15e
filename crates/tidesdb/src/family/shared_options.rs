//! Options that families have, each once in memory.
//!
//! There may be tens of thousands of families, and most have the same options: their text, as the
//! manifest has it, is half a kilobyte, and the options are a quarter of one. Any thread may ask.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use tidesdb_base::error::Result;
use tidesdb_base::options::FamilyOptions;
use tidesdb_lockfree::sync::lock;

/// Texts are looked through for those that no family has any more when there are so many, and
/// again whenever their number has doubled since.
const LEAST_CLEANED: usize = 16;

/// Options and their text, shared with other families that have the same.
#[derive(Clone, Debug)]
pub(crate) struct StoredOptions {
    pub text: Arc<str>,
    pub options: Arc<FamilyOptions>,
}

#[derive(Debug, Default)]
struct Known {
    by_text: BTreeMap<Arc<str>, Weak<FamilyOptions>>,
    /// How many were left when it was last cleaned.
    left: usize,
}

/// Finds options that a family has already by their text.
#[derive(Debug, Default)]
pub(crate) struct SharedOptions(Mutex<Known>);

impl SharedOptions {
    /// These options as they are stored.
    pub(crate) fn of(&self, options: &FamilyOptions) -> StoredOptions {
        let text = options.to_text();
        let mut known = lock(&self.0);
        // What has no text is not shared.
        match known.find(&text) {
            Some(found) if *found.options == *options => found,
            _ => known.add(text.into(), options.clone()),
        }
    }

    /// The options of a text.
    ///
    /// # Errors
    /// [`tidesdb_base::Error::Corruption`] when it is none.
    pub(crate) fn of_text(&self, text: &str) -> Result<StoredOptions> {
        let mut known = lock(&self.0);
        match known.find(text) {
            Some(found) => Ok(found),
            None => Ok(known.add(text.into(), FamilyOptions::from_text(text)?)),
        }
    }
}

impl Known {
    fn find(&self, text: &str) -> Option<StoredOptions> {
        let (text, options) = self.by_text.get_key_value(text)?;
        Some(StoredOptions { text: Arc::clone(text), options: options.upgrade()? })
    }

    fn add(&mut self, text: Arc<str>, options: FamilyOptions) -> StoredOptions {
        if self.by_text.len() >= LEAST_CLEANED.max(2 * self.left) {
            self.by_text.retain(|_, options| options.strong_count() > 0);
            self.left = self.by_text.len();
        }
        let options = Arc::new(options);
        self.by_text.insert(Arc::clone(&text), Arc::downgrade(&options));
        StoredOptions { text, options }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_options_are_in_memory_once_and_others_are_forgotten() {
        let shared = SharedOptions::default();
        let first = shared.of(&FamilyOptions::default());
        let second = shared.of_text(&FamilyOptions::default().to_text()).unwrap();
        assert!(Arc::ptr_eq(&first.options, &second.options));
        assert!(Arc::ptr_eq(&first.text, &second.text));
        for bytes in 0..1000 {
            let other = FamilyOptions::default().block_size(4096 + bytes);
            assert_eq!(*shared.of(&other).options, other);
        }
        assert!(lock(&shared.0).by_text.len() <= LEAST_CLEANED);
        assert!(Arc::ptr_eq(&first.options, &shared.of(&FamilyOptions::default()).options));
        assert!(shared.of_text("block_size = none").is_err());
    }
}
