//! A value log: header and records.

use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::vlog::{SalvagedRecord, VLOG_HEADER_BYTES, VlogReader};

use super::{Inspected, Item, Visit};

pub(super) fn inspect(inspected: &Inspected<'_>, visit: Visit<'_>) -> Result<()> {
    let file = Arc::clone(&inspected.file);
    let claimed = VlogReader::claimed_number(file.as_ref(), inspected.path)?;
    let number = claimed.or(inspected.number).unwrap_or(0);
    let item = Item::at("header", 0, VLOG_HEADER_BYTES).with("number", number);
    visit(match (claimed, inspected.number) {
        (None, _) => item.wrong("the header is damaged"),
        (Some(claimed), Some(named)) if claimed != named => {
            item.wrong("the file has the name of another value log")
        }
        _ => item,
    })?;
    let reader = VlogReader::without_header(file, inspected.path, number);
    reader.survey(&mut |record| {
        visit(match record {
            SalvagedRecord::Whole(pointer) => {
                Item::at("record", pointer.offset, pointer.record_bytes())
                    .with("value_bytes", u64::from(pointer.raw_len))
                    .with("stored_bytes", u64::from(pointer.stored_len))
            }
            SalvagedRecord::Lost { offset, len, reason } => {
                let text = match reason {
                    Error::Corruption { detail, .. } => detail,
                    other => other.to_string(),
                };
                Item::at("lost", offset, len).wrong(text)
            }
        })
    })
}
