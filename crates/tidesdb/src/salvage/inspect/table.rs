//! A table: footer, sections, properties, blocks, entries.

use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_files::sstable::{Part, SalvagedTable, TableSummary};

use super::{Inspected, Item, Visit};

pub(super) fn inspect(inspected: &Inspected<'_>, visit: Visit<'_>) -> Result<()> {
    let claimed = SalvagedTable::claimed_identity(inspected.file.as_ref(), inspected.path)?;
    let number = claimed.or(inspected.number).unwrap_or(0);
    let file = Arc::clone(&inspected.file);
    let remains = SalvagedTable::survey(file, inspected.path, number)?;
    let mut item = Item::at("table", 0, remains.file_len()).with("number", number);
    if claimed.is_none() && inspected.number.is_none() {
        item = item.wrong(
            "the number of the table is not known, without which no checksum can be checked",
        );
    } else if claimed.is_some() && inspected.number.is_some_and(|named| Some(named) != claimed) {
        item = item.wrong("the file has the name of another table");
    }
    visit(item)?;
    if let Some(tree) = remains.has_tree_index() {
        visit(Item::of("footer").with("index", if tree { "tree" } else { "flat" }))?;
    }
    for (name, offset, bytes) in remains.sections() {
        if bytes > 0 {
            visit(Item::at("section", offset, bytes).with("name", name))?;
        }
    }
    if let Some(summary) = remains.summary() {
        visit(properties(summary))?;
    }
    for problem in remains.problems() {
        visit(Item::problem(problem))?;
    }
    for part in remains.parts() {
        show_part(inspected, &remains, part, visit)?;
    }
    Ok(())
}

fn properties(summary: &TableSummary) -> Item {
    let mut item = Item::of("properties")
        .with("entries", summary.entries)
        .with("tombstones", summary.tombstones)
        .with("distinct_keys", summary.distinct_keys)
        .with("smallest_key", summary.min_key.clone())
        .with("largest_key", summary.max_key.clone())
        .with("lowest_sequence", summary.min_seq)
        .with("highest_sequence", summary.max_seq)
        .with("raw_bytes", summary.raw_bytes);
    if summary.earliest_expiry != 0 {
        item = item.with("earliest_expiry", summary.earliest_expiry);
    }
    if !summary.origin.name.is_empty() {
        item = item
            .with("family", summary.origin.name.clone())
            .with("family_number", u64::from(summary.origin.family))
            .with("in_tables_through", summary.origin.in_tables_through);
    }
    let references = summary.value_references.iter().map(|reference| {
        format!("{} values, {} bytes in {}", reference.count, reference.bytes, reference.file)
    });
    let references: Vec<String> = references.collect();
    if references.is_empty() { item } else { item.with("value_logs", references) }
}

fn show_part(
    inspected: &Inspected<'_>,
    remains: &SalvagedTable,
    part: &Part,
    visit: Visit<'_>,
) -> Result<()> {
    let (handle, what) = match part {
        Part::Data(handle) => (*handle, "block"),
        Part::IndexNode(handle) => (*handle, "index_node"),
        Part::Lost { offset, len } => {
            return visit(Item::at("lost", *offset, *len).wrong("no entry of it can be read"));
        }
    };
    let item = Item::at(what, handle.offset, u64::from(handle.len));
    let entries = match remains.entries(handle) {
        Ok(entries) => entries,
        Err(e @ Error::Corruption { .. }) => return visit(item.wrong(e.to_string())),
        Err(e) => return Err(e),
    };
    let mut item = item.with("entries", entries.len() as u64);
    if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
        item = item.with("first_key", first.key.clone()).with("last_key", last.key.clone());
    }
    visit(item)?;
    if !inspected.options.entries || what != "block" {
        return Ok(());
    }
    for entry in entries {
        let mut item = Item::of("entry")
            .with("key", entry.key)
            .with("sequence", entry.meta.seq)
            .with("kind", super::log::kind_name(entry.meta.kind));
        if entry.meta.expires_at != 0 {
            item = item.with("expires_at", entry.meta.expires_at);
        }
        visit(super::log::with_value(item, entry.meta.kind, &entry.value))?;
    }
    Ok(())
}
