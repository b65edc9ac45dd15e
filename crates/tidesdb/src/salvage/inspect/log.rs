//! A segment of the log: header, sync mark, records, operations.

use std::sync::Arc;

use tidesdb_base::entry::ValueKind;
use tidesdb_base::error::Result;
use tidesdb_files::vlog::ValuePointer;
use tidesdb_files::wal::{BatchReader, Operation, RECORDS_OFFSET, RecordKind, SegmentReader};

use super::{Inspected, Item, Visit};

pub(super) const fn kind_name(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Tombstone => "deletion",
        ValueKind::Value => "put",
        ValueKind::ValuePointer => "put in value log",
        ValueKind::SingleTombstone => "single deletion",
        ValueKind::RangeTombstone => "deletion of a range",
    }
}

/// An item with the length of a value, or where it lies.
pub(super) fn with_value(item: Item, kind: ValueKind, value: &[u8]) -> Item {
    match kind {
        ValueKind::Value => item.with("value_bytes", value.len() as u64),
        ValueKind::ValuePointer => match ValuePointer::decode(value) {
            Ok(pointer) => item
                .with("value_bytes", u64::from(pointer.raw_len))
                .with("value_log", pointer.file)
                .with("value_offset", pointer.offset),
            Err(_) => item.wrong("the pointer to the value is malformed"),
        },
        ValueKind::RangeTombstone => item.with("end", value.to_vec()),
        ValueKind::Tombstone | ValueKind::SingleTombstone => item,
    }
}

pub(super) fn inspect(inspected: &Inspected<'_>, visit: Visit<'_>) -> Result<()> {
    let file = Arc::clone(&inspected.file);
    let Some(mut reader) = SegmentReader::open(file, inspected.path)? else {
        let text = "it has no readable header: reserved and never begun, or damaged";
        return visit(Item::at("header", 0, RECORDS_OFFSET).wrong(text));
    };
    let header = *reader.header();
    visit(
        Item::at("header", 0, RECORDS_OFFSET)
            .with("number", header.number)
            .with("first_position", header.base)
            .with("previous_end", header.previous_end)
            .with("synced_when_begun", header.synced)
            .with("synced", reader.end().synced),
    )?;
    loop {
        let start = reader.end().position;
        let offset = reader.offset_of(start);
        let Some((record, end)) = reader.next_record()? else {
            let Some(passed) = reader.skip_break()? else { break };
            visit(Item::at("lost", offset, passed).wrong("no whole record lies here"))?;
            continue;
        };
        let item = Item::at("record", offset, end - start).with("sequence", end);
        if record.kind == RecordKind::Void {
            visit(item.with("kind", "void"))?;
            continue;
        }
        let mut operations = Vec::new();
        let (mut count, mut malformed) = (0_u64, false);
        for operation in BatchReader::new(record.payload) {
            let Ok(operation) = operation.and_then(Operation::checked) else {
                malformed = true;
                break;
            };
            count += 1;
            if inspected.options.entries {
                let mut shown = Item::of("operation")
                    .with("family_number", u64::from(operation.family))
                    .with("kind", kind_name(operation.kind))
                    .with("key", operation.key.to_vec());
                if operation.expires_at != 0 {
                    shown = shown.with("expires_at", operation.expires_at);
                }
                operations.push(with_value(shown, operation.kind, operation.value));
            }
        }
        let item = item.with("kind", "commit").with("operations", count);
        visit(if malformed { item.wrong("the operations do not decode") } else { item })?;
        operations.into_iter().try_for_each(&mut *visit)?;
    }
    let end = reader.end();
    let item = Item::at("end", reader.offset_of(end.position), reader.bytes_left());
    let item = item.with("position", end.position).with("synced", end.synced);
    if end.synced > end.position {
        let text = format!("the log was on disk through {}: records are damaged", end.synced);
        return visit(item.wrong(text));
    }
    visit(item)
}
