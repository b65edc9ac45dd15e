//! Which table of a run may hold a key, found without looking at the tables.
//!
//! A get asks this of every run. Comparing its key with those of the tables themselves costs two
//! lines of memory a step that nothing keeps in the cache; here the first bytes of all bounds,
//! behind what they have in common, lie side by side, and what they have in common lies in the run
//! itself: a run that cannot hold the key costs two or three lines. Only where first bytes are
//! equal are whole keys compared.
//!
//! Immutable once built; any thread may read it.

use std::sync::Arc;

use tidesdb_base::codec::key_head;

use super::TableFile;

/// So much of what all keys begin with is compared without looking at a table.
const INLINE_PREFIX_BYTES: usize = 16;

/// The bounds of the tables of a run, packed for a search.
#[derive(Clone, Debug, Default)]
pub(super) struct RunIndex {
    /// First bytes of what all keys of the run begin with, and which of them count.
    prefix: u128,
    prefix_mask: u128,
    /// Length of what all keys of the run begin with.
    prefix_len: usize,
    spans: Arc<[Span]>,
}

/// A table with the heads of its bounds behind the prefix.
#[derive(Debug)]
struct Span {
    smallest: u64,
    largest: u64,
    table: Arc<TableFile>,
}

impl Span {
    fn smallest_key(&self) -> &[u8] {
        &self.table.record.smallest_key
    }

    fn largest_key(&self) -> &[u8] {
        &self.table.record.largest_key
    }
}

/// As [`key_head`], of the first sixteen bytes.
#[inline]
fn wide_head(key: &[u8]) -> u128 {
    if let Some(head) = key.first_chunk() {
        return u128::from_be_bytes(*head);
    }
    let low = key_head(key.get(8..).unwrap_or_default());
    u128::from(key_head(key)) << 64 | u128::from(low)
}

impl RunIndex {
    /// The index of these tables, which are in key order and do not overlap.
    pub(super) fn of(tables: &[Arc<TableFile>]) -> Self {
        let (Some(first), Some(last)) = (tables.first(), tables.last()) else {
            return Self::default();
        };
        let (smallest, largest) = (&first.record.smallest_key, &last.record.largest_key);
        let prefix_len = smallest.iter().zip(largest).take_while(|(a, b)| a == b).count();
        let head = |key: &[u8]| key_head(key.get(prefix_len..).unwrap_or_default());
        let spans = tables.iter().map(|table| Span {
            smallest: head(&table.record.smallest_key),
            largest: head(&table.record.largest_key),
            table: Arc::clone(table),
        });
        let counted = u32::try_from(prefix_len.min(INLINE_PREFIX_BYTES)).unwrap_or(0);
        let prefix_mask = u128::MAX.checked_shl(128 - 8 * counted).unwrap_or(0);
        Self {
            prefix: wide_head(smallest) & prefix_mask,
            prefix_mask,
            prefix_len,
            spans: spans.collect(),
        }
    }

    /// What comes behind the prefix; `None` for a key that does not begin with it.
    #[inline]
    fn behind_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        if wide_head(key) & self.prefix_mask != self.prefix {
            return None;
        }
        // A key that is shorter than the prefix may have looked like it, filled up with zeros.
        let behind = key.get(self.prefix_len..)?;
        let is_inline = self.prefix_len <= INLINE_PREFIX_BYTES;
        (is_inline || self.has_long_prefix(key)).then_some(behind)
    }

    #[cold]
    fn has_long_prefix(&self, key: &[u8]) -> bool {
        let prefix = self.spans.first().and_then(|span| span.smallest_key().get(..self.prefix_len));
        prefix.is_some_and(|prefix| key.starts_with(prefix))
    }

    /// The only table that may hold `key`.
    #[inline]
    pub(super) fn table_for(&self, key: &[u8]) -> Option<&Arc<TableFile>> {
        let wanted = key_head(self.behind_prefix(key)?);
        let mut at = self.spans.partition_point(|span| span.largest < wanted);
        if self.spans.get(at)?.largest == wanted {
            let tied = self.spans.get(at..)?;
            let ties = tied.partition_point(|span| span.largest == wanted);
            at += tied.get(..ties)?.partition_point(|span| span.largest_key() < key);
        }
        let span = self.spans.get(at)?;
        let begins_behind =
            span.smallest > wanted || (span.smallest == wanted && span.smallest_key() > key);
        (!begins_behind).then_some(&span.table)
    }
}

#[cfg(test)]
mod tests {
    use tidesdb_files::manifest::TableRecord;

    use super::super::test_tables::context;
    use super::*;

    #[test]
    fn the_table_is_the_one_that_covers_the_key() {
        let spans: &[&[[&str; 2]]] = &[
            &[],
            &[["k", "k"]],
            &[["a", "c"], ["d", "d"], ["dd", "f"]],
            &[["user:0001", "user:0004"], ["user:0005", "user:0009"], ["user:001", "user:0019"]],
            // All heads but the last are equal.
            &[["xaaaaaaaa0", "xaaaaaaaa4"], ["xaaaaaaaa5", "xaaaaaaaa5b"], ["xaaaaaaaa6", "xb"]],
            &[
                ["a prefix of many bytes:0", "a prefix of many bytes:1"],
                ["a prefix of many bytes:2", "a prefix of many bytes:9"],
            ],
            &[["a\u{0}\u{0}0", "a\u{0}\u{0}4"]],
            &[["p", "p\u{0}"], ["p\u{0}\u{0}", "p\u{0}\u{1}"], ["q", "qqqqqqqqqqqq"]],
        ];
        let context = context();
        for spans in spans {
            let table = |[smallest, largest]: &[&str; 2]| {
                let (smallest_key, largest_key) =
                    (smallest.as_bytes().into(), largest.as_bytes().into());
                let record = TableRecord { smallest_key, largest_key, ..TableRecord::default() };
                TableFile::new(&context, record)
            };
            let tables: Vec<_> = spans.iter().map(table).collect();
            let index = RunIndex::of(&tables);
            let mut keys = vec![String::new(), "user:".to_owned(), "zzzzzzzzzzzz".to_owned()];
            for bound in spans.iter().flatten() {
                let shorter = bound.get(..bound.len() - 1).unwrap_or_default();
                keys.extend([*bound, shorter].map(str::to_owned));
                keys.extend(["\u{0}", "0", "~"].map(|more| format!("{bound}{more}")));
                keys.extend(["\u{0}", "!", "~"].map(|more| format!("{shorter}{more}")));
            }
            for key in keys {
                let found = index.table_for(key.as_bytes());
                let found =
                    found.and_then(|found| tables.iter().position(|t| Arc::ptr_eq(t, found)));
                let covers = |span: &[&str; 2]| span[0] <= key.as_str() && key.as_str() <= span[1];
                assert_eq!(found, spans.iter().position(covers), "{key:?} in {spans:?}");
            }
        }
    }
}
