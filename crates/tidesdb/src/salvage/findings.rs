//! What a salvage finds, until it is known what families are called and how their keys are ordered.

use std::collections::BTreeMap;

use tidesdb_base::key_order::KeyOrder;

use crate::salvage::report::{Loss, SalvageReport};

/// A family of the new database, for what is said of it.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) order: KeyOrder,
}

/// Losses and damage that a salvage has met so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// All but the losses.
    pub(crate) report: SalvageReport,
    /// Each with the numbers of its families, by stored keys.
    losses: Vec<(Loss, Vec<u32>)>,
}

impl Findings {
    /// Notes something that can't be read. The keys of `loss` are as they are stored.
    pub(crate) fn lose(&mut self, loss: Loss, families: &[u32]) {
        self.losses.push((loss, families.to_vec()));
    }

    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.report.warnings.push(text.into());
    }

    /// What was lost, as far as files show, when families don't matter.
    pub(crate) fn losses(&self) -> impl Iterator<Item = &Loss> {
        self.losses.iter().map(|(loss, _)| loss)
    }

    /// The report, with the names of families, and keys as they were given.
    pub(crate) fn finish(mut self, families: &BTreeMap<u32, Named>) -> SalvageReport {
        for (mut loss, numbers) in self.losses {
            let known: Vec<&Named> = numbers.iter().filter_map(|n| families.get(n)).collect();
            // Families that share a table have the same order.
            if let Some(Named { order, .. }) = known.first() {
                let given = |stored: &Vec<u8>| order.key(stored);
                loss.first_key = loss.first_key.as_ref().map(given);
                loss.last_key = loss.last_key.as_ref().map(given);
            }
            loss.families = known.iter().map(|named| named.name.clone()).collect();
            self.report.losses.push(loss);
        }
        self.report
    }
}
