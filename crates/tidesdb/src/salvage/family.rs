//! A family of the new database: what it is called, how its keys are stored, which versions count.

use std::sync::Arc;

use crate::Family;
use tidesdb_base::key_order::KeyOrder;
use tidesdb_base::options::FamilyOptions;
use tidesdb_base::range_tombstone::{RangeTombstone, RangeTombstones};

use crate::salvage::catalog::{Catalog, KnownFamily};
use crate::salvage::merge::{Found, Version};
use crate::salvage::report::SalvagedFamily;
use crate::salvage::tables::{LostRange, Standing, UsedTable, is_lost};

/// A family that is written to the new database.
pub(crate) struct Salvaged {
    pub(crate) number: u32,
    pub(crate) family: Family,
    pub(crate) order: KeyOrder,
    pub(crate) summary: SalvagedFamily,
    /// Every commit up to this one was in tables.
    pub(crate) in_tables_through: u64,
    /// Every commit from this one on that is left is in the log as well.
    pub(crate) log_is_live_from: u64,
    pub(crate) tombstones: Tombstones,
    pub(crate) lost: Vec<LostRange>,
}

impl Salvaged {
    /// Leaves out versions that are older than one that does not show it.
    pub(crate) fn leave_out_dead(&self, versions: &mut Vec<Version<'_>>) {
        self.leave_out_what_tables_have(versions);
        self.leave_out_what_was_settled(versions);
    }

    /// Leaves out versions of the log that are in tables, unless a table is damaged where they
    /// would be: what is in tables may have been deleted since, and the deletion be gone with what
    /// it deleted.
    fn leave_out_what_tables_have(&self, versions: &mut Vec<Version<'_>>) {
        let flushed = |version: &Version<'_>| {
            matches!(version.found, Found::InLog(_)) && version.sequence <= self.in_tables_through
        };
        if !versions.iter().any(flushed) {
            return;
        }
        let Some(key) = versions.first().map(|version| version.key.clone()) else { return };
        let in_tables = sequences_in_tables(versions);
        let lost = is_lost(&self.lost, &key);
        versions
            .retain(|version| lost || !flushed(version) || in_tables.contains(&version.sequence));
    }

    /// Leaves out what a compaction that settled the key has taken in, or what was older: versions
    /// of the log that were in tables when it began, and of tables that the manifest knew then and
    /// knows no more.
    fn leave_out_what_was_settled(&self, versions: &mut Vec<Version<'_>>) {
        let settled =
            || versions.iter().filter_map(table_of).filter(|(sequence, _)| *sequence == 0);
        let listed = settled().find(|(_, table)| table.standing != Standing::Stray);
        let Some((_, by)) = listed.or_else(|| settled().next()) else { return };
        let (is_listed, number, through) = (listed.is_some(), by.number, by.begun_behind);
        let in_tables = sequences_in_tables(versions);
        versions.retain(|version| {
            let was_taken_in = match version.found {
                Found::InTable(table, _) => {
                    is_listed && table.standing == Standing::Stray && table.number < number
                }
                // A copy of what a table has counts as that does.
                Found::InLog(_) => {
                    version.sequence <= self.log_is_live_from
                        && !in_tables.contains(&version.sequence)
                }
            };
            !was_taken_in || version.sequence > through
        });
    }
}

fn table_of<'a>(version: &Version<'a>) -> Option<(u64, &'a UsedTable)> {
    match version.found {
        Found::InTable(table, _) => Some((version.sequence, table)),
        Found::InLog(_) => None,
    }
}

fn sequences_in_tables(versions: &[Version<'_>]) -> Vec<u64> {
    versions.iter().filter_map(table_of).map(|(sequence, _)| sequence).collect()
}

/// Deletions of ranges.
pub(crate) struct Tombstones {
    /// They hide what is older.
    certain: RangeTombstones,
    /// They may have been applied long ago, so that versions which compactions have settled to
    /// sequence number zero since may be newer. They hide other versions only. The manifest forgets
    /// one when no table has what it hides; records of the log that may count again do.
    perhaps_applied: RangeTombstones,
}

impl Tombstones {
    /// The deletions of ranges of a family that are known.
    pub(crate) fn new(
        catalog: &Catalog,
        known: &KnownFamily,
        of_log: &[Arc<RangeTombstone>],
        in_tables_through: u64,
    ) -> Self {
        let (mut certain, mut perhaps) = (Vec::new(), Vec::new());
        let of_manifest = known.range_tombstones.iter().cloned();
        if catalog.whole { &mut certain } else { &mut perhaps }.extend(of_manifest);
        for tombstone in of_log {
            let was_flushed = tombstone.sequence <= in_tables_through;
            if was_flushed { &mut perhaps } else { &mut certain }.push(Arc::clone(tombstone));
        }
        Self {
            certain: RangeTombstones::new(certain),
            perhaps_applied: RangeTombstones::new(perhaps),
        }
    }

    pub(crate) fn hide(&self, version: &Version<'_>) -> bool {
        let hides = |tombstones: &RangeTombstones| {
            tombstones.hides(&version.key, version.sequence, u64::MAX)
        };
        hides(&self.certain) || (version.sequence != 0 && hides(&self.perhaps_applied))
    }
}

/// The options of a family from their text forms, the most reliable first, and whether they are all
/// known.
///
/// Of a text that can't be read as a whole those lines are taken that can. The order of keys is
/// another matter: under a wrong one stored keys would pass for those that were given. `None` where
/// a text names an order that this build does not know.
pub(crate) fn options_from(texts: &[&str]) -> Option<(FamilyOptions, bool)> {
    let mut whole = texts.iter().filter_map(|text| FamilyOptions::from_text(text).ok());
    if let Some(options) = whole.next() {
        return Some((options, texts.first().is_some_and(|t| FamilyOptions::from_text(t).is_ok())));
    }
    let Some(text) = texts.first() else { return Some((FamilyOptions::default(), false)) };
    let mut taken = String::new();
    for line in text.lines() {
        let longer = format!("{taken}{line}\n");
        if FamilyOptions::from_text(&longer).is_ok() {
            taken = longer;
        } else if line.split('=').next().map(str::trim) == Some("key_order") {
            return None;
        }
    }
    FamilyOptions::from_text(&taken).ok().map(|options| (options, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_options_that_do_not_parse_the_rest_counts_and_above_all_the_order_of_keys() {
        let text = "key_order = reverse\ncompression = of_tomorrow\nblock_size = 8192";
        let (options, known) = options_from(&[text]).unwrap();
        assert!(!known);
        assert_eq!((options.key_order, options.block_size), (KeyOrder::Reverse, 8192));
        let (options, known) = options_from(&[text, "key_order = uint64"]).unwrap();
        assert_eq!((options.key_order, known), (KeyOrder::Uint64, false));
        assert!(options_from(&["key_order = of_tomorrow\nblock_size = 8192"]).is_none());
        assert_eq!(options_from(&[]), Some((FamilyOptions::default(), false)));
        assert_eq!(options_from(&["block_size = 8192"]).map(|(_, known)| known), Some(true));
    }
}
