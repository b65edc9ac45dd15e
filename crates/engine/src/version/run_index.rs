//! Which table of a run may hold a key, told without looking at the tables.
//!
//! A get asks this of every run. Comparing its key with those of the tables themselves costs two
//! lines of memory a step that nothing keeps in the cache; here the first bytes of all bounds, behind
//! what they have in common, lie side by side. Only where those are equal are whole keys compared.
//!
//! Immutable once built; any thread may read it.

use std::sync::Arc;

use tidesdb_base::codec::key_head;

use super::TableFile;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct RunIndex {
    /// What all keys of the run begin with.
    prefix: Vec<u8>,
    /// Heads of the tables' smallest and largest keys behind the prefix.
    heads: Vec<(u64, u64)>,
}

impl RunIndex {
    /// The index of these tables, which are in key order and do not overlap.
    pub(super) fn of(tables: &[Arc<TableFile>]) -> Self {
        let (Some(first), Some(last)) = (tables.first(), tables.last()) else {
            return Self::default();
        };
        let (smallest, largest) = (&first.record.smallest_key, &last.record.largest_key);
        let shared = smallest.iter().zip(largest).take_while(|(a, b)| a == b).count();
        let head = |key: &[u8]| key_head(key.get(shared..).unwrap_or_default());
        let heads = tables
            .iter()
            .map(|table| (head(&table.record.smallest_key), head(&table.record.largest_key)));
        let prefix = smallest.get(..shared).unwrap_or_default().to_vec();
        Self { prefix, heads: heads.collect() }
    }

    /// The only one of the `tables` that may hold `key`.
    #[inline]
    pub(super) fn table_for<'t>(
        &self,
        tables: &'t [Arc<TableFile>],
        key: &[u8],
    ) -> Option<&'t Arc<TableFile>> {
        let wanted = key_head(key.strip_prefix(self.prefix.as_slice())?);
        let mut at = self.heads.partition_point(|&(_, largest)| largest < wanted);
        if self.heads.get(at)?.1 == wanted {
            let ties = self.heads.get(at..)?.partition_point(|&(_, largest)| largest == wanted);
            let tied = tables.get(at..at + ties)?;
            at += tied.partition_point(|table| table.record.largest_key.as_slice() < key);
        }
        let smallest = self.heads.get(at)?.0;
        let table = tables.get(at)?;
        let begins_behind =
            smallest > wanted || (smallest == wanted && table.record.smallest_key.as_slice() > key);
        (!begins_behind).then_some(table)
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
                let found = index.table_for(&tables, key.as_bytes());
                let found =
                    found.and_then(|found| tables.iter().position(|t| Arc::ptr_eq(t, found)));
                let covers = |span: &[&str; 2]| span[0] <= key.as_str() && key.as_str() <= span[1];
                assert_eq!(found, spans.iter().position(covers), "{key:?} in {spans:?}");
            }
        }
    }
}
