//! Operations of a family as they were given, for its hook and for readers of batches: the engine
//! stores keys in a form that sorts as the family orders them (I-132).

use std::borrow::Cow;

use tidesdb_base::entry::ValueKind;
use tidesdb_base::key_order::KeyOrder;
use tidesdb_base::key_ranges::EVERYTHING;
use tidesdb_files::wal::Operation;

use super::{CommittedKind, CommittedOperation, FamilyState};

impl FamilyState {
    /// Calls the hook, if one is set, with operations of this family as they are stored. True when
    /// it panicked for the first time.
    #[cold]
    pub(crate) fn call_hook<'a>(
        &self,
        sequence: u64,
        operations: impl Iterator<Item = Operation<'a>>,
    ) -> bool {
        let name = self.name();
        self.with_given(operations, |given: &[CommittedOperation<'_>]| {
            self.writes.commit_hook.call(&name, sequence, given)
        })
    }

    /// Calls `use_them` with operations of this family, which come as they are stored, as they were
    /// given.
    pub(crate) fn with_given<'a, R>(
        &self,
        operations: impl Iterator<Item = Operation<'a>>,
        use_them: impl FnOnce(&[CommittedOperation<'_>]) -> R,
    ) -> R {
        let order = &self.keys.order;
        if order.stores_keys_as_given() {
            let reported = operations.map(|operation| {
                let reported = CommittedOperation::of(&operation);
                if is_of_everything(&operation) {
                    CommittedOperation { key: &[], ..reported }
                } else {
                    reported
                }
            });
            let reported: Vec<_> = reported.collect();
            return use_them(&reported);
        }
        let operations: Vec<Operation<'_>> = operations.collect();
        let given: Vec<_> = operations.iter().map(|operation| given(order, operation)).collect();
        let reported = operations.iter().zip(&given).map(|(operation, (key, value))| {
            let reported = CommittedOperation::of(&Operation { key, value, ..*operation });
            match reported.kind {
                // Nothing that can be given is stored as the start.
                CommittedKind::DeleteRange if is_of_everything(operation) => {
                    CommittedOperation { key: &[], ..reported }
                }
                CommittedKind::DeleteRange
                    if order.are_of_prefix(operation.key, operation.value) =>
                {
                    CommittedOperation { kind: CommittedKind::DeletePrefix, value: &[], ..reported }
                }
                _ => reported,
            }
        });
        let reported: Vec<_> = reported.collect();
        use_them(&reported)
    }
}

fn is_of_everything(operation: &Operation<'_>) -> bool {
    operation.kind == ValueKind::RangeTombstone && (operation.key, operation.value) == EVERYTHING
}

/// Key and value of a stored operation as they were given.
fn given<'a>(order: &KeyOrder, operation: &Operation<'a>) -> (Vec<u8>, Cow<'a, [u8]>) {
    let mut key = Vec::new();
    let value = match operation.kind {
        ValueKind::Value => {
            order.put_key(operation.key, operation.value, &mut key);
            return (key, Cow::Borrowed(order.value(operation.value)));
        }
        ValueKind::RangeTombstone if !operation.value.is_empty() => {
            Cow::Owned(order.key(operation.value))
        }
        _ => Cow::Borrowed(operation.value),
    };
    order.put_key(operation.key, &[], &mut key);
    (key, value)
}
