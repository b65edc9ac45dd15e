//! A manifest: header, edits one by one, and the state that they amount to.

use std::collections::BTreeMap;

use tidesdb_base::error::Result;
use tidesdb_files::manifest::{Change, SalvagedManifest};

use super::{Inspected, Item, Visit};

/// What edits amount to, for one family.
#[derive(Clone, Default)]
struct State {
    name: String,
    tables: BTreeMap<u64, u64>,
    value_logs: u64,
    range_tombstones: u64,
    flushed_through: u64,
}

pub(super) fn inspect(inspected: &Inspected<'_>, visit: Visit<'_>) -> Result<()> {
    let file = inspected.file.as_ref();
    let claimed = SalvagedManifest::claimed_number(file, inspected.path)?;
    let survey = |number| SalvagedManifest::survey(file, inspected.path, number);
    // The header has no checksum: the name counts if records open by it.
    let (number, remains) = match (inspected.number, claimed) {
        (Some(named), claimed) => {
            let by_name = survey(named)?;
            match claimed {
                Some(claimed) if by_name.edits.is_empty() => (claimed, survey(claimed)?),
                _ => (named, by_name),
            }
        }
        (None, claimed) => (claimed.unwrap_or(0), survey(claimed.unwrap_or(0))?),
    };
    let mut item = Item::at("manifest", 0, remains.file_len).with("number", number);
    if let Some(version) = remains.version {
        item = item.with("version", u64::from(version));
    }
    visit(item)?;
    for problem in &remains.problems {
        visit(Item::problem(problem))?;
    }
    let mut families: BTreeMap<u32, State> = BTreeMap::new();
    for edit in &remains.edits {
        let item = Item::at("edit", edit.offset, edit.len);
        visit(item.with("changes", edit.edit.changes.len() as u64))?;
        for change in &edit.edit.changes {
            apply(&mut families, change);
            if inspected.options.entries {
                visit(show(change))?;
            }
        }
    }
    for &(offset, bytes) in &remains.gaps {
        visit(Item::at("lost", offset, bytes).wrong("no edit can be read here"))?;
    }
    if remains.tail > 0 {
        let text = "what a crash cut short, or damage";
        visit(Item::at("tail", remains.file_len - remains.tail, remains.tail).with("note", text))?;
    }
    for (number, state) in families {
        visit(
            Item::of("family")
                .with("family_number", u64::from(number))
                .with("name", state.name)
                .with("tables", state.tables.len() as u64)
                .with("table_bytes", state.tables.values().sum::<u64>())
                .with("value_logs", state.value_logs)
                .with("range_tombstones", state.range_tombstones)
                .with("flushed_through", state.flushed_through),
        )?;
    }
    Ok(())
}

fn of<'a>(families: &'a mut BTreeMap<u32, State>, family: &u32) -> &'a mut State {
    families.entry(*family).or_default()
}

fn apply(families: &mut BTreeMap<u32, State>, change: &Change) {
    match change {
        Change::CreateFamily { family, name, .. } | Change::RenameFamily { family, name } => {
            of(families, family).name.clone_from(name);
        }
        Change::CopyFamily { family, source, name } => {
            let copied = of(families, source).clone();
            families.insert(*family, State { name: name.clone(), ..copied });
        }
        Change::DropFamily { family } => {
            families.remove(family);
        }
        Change::AddTable { family, table } => {
            of(families, family).tables.insert(table.number, table.bytes);
        }
        Change::RemoveTable { family, number } => {
            of(families, family).tables.remove(number);
        }
        Change::AddValueLog { family, .. } => of(families, family).value_logs += 1,
        Change::RemoveValueLog { family, .. } => {
            let state = of(families, family);
            state.value_logs = state.value_logs.saturating_sub(1);
        }
        Change::FlushedThrough { family, sequence } => {
            of(families, family).flushed_through = *sequence
        }
        Change::AddRangeTombstone { family, .. } => of(families, family).range_tombstones += 1,
        Change::RemoveRangeTombstone { family, .. } => {
            let state = of(families, family);
            state.range_tombstones = state.range_tombstones.saturating_sub(1);
        }
        Change::SetOptions { .. }
        | Change::LogStart { .. }
        | Change::NextFile { .. }
        | Change::NextFamily { .. }
        | Change::LastSequence { .. } => {}
    }
}

fn show(change: &Change) -> Item {
    let of = |what, family: &u32| Item::of(what).with("family_number", u64::from(*family));
    match change {
        Change::CreateFamily { family, name, options } => {
            let options = options.replace('\n', ", ");
            of("create family", family).with("name", name.clone()).with("options", options)
        }
        Change::DropFamily { family } => of("drop family", family),
        Change::RenameFamily { family, name } => {
            of("rename family", family).with("name", name.clone())
        }
        Change::CopyFamily { family, source, name } => {
            of("copy family", family).with("source", u64::from(*source)).with("name", name.clone())
        }
        Change::SetOptions { family, options } => {
            of("set options", family).with("options", options.replace('\n', ", "))
        }
        Change::AddTable { family, table } => of("add table", family)
            .with("number", table.number)
            .with("level", u64::from(table.level))
            .with("run", table.run)
            .with("bytes", table.bytes)
            .with("entries", table.entries)
            .with("smallest_key", table.smallest_key.clone())
            .with("largest_key", table.largest_key.clone()),
        Change::RemoveTable { family, number } => {
            of("remove table", family).with("number", *number)
        }
        Change::AddValueLog { family, file } => {
            of("add value log", family).with("number", file.number).with("bytes", file.bytes)
        }
        Change::RemoveValueLog { family, number } => {
            of("remove value log", family).with("number", *number)
        }
        Change::FlushedThrough { family, sequence } => {
            of("flushed through", family).with("sequence", *sequence)
        }
        Change::AddRangeTombstone { family, tombstone } => of("add range tombstone", family)
            .with("sequence", tombstone.sequence)
            .with("start", tombstone.start.to_vec())
            .with("end", tombstone.end.to_vec()),
        Change::RemoveRangeTombstone { family, tombstone } => of("remove range tombstone", family)
            .with("sequence", tombstone.sequence)
            .with("start", tombstone.start.to_vec())
            .with("end", tombstone.end.to_vec()),
        Change::LogStart { segment } => Item::of("log start").with("segment", *segment),
        Change::NextFile { number } => Item::of("next file").with("number", *number),
        Change::NextFamily { family } => of("next family", family),
        Change::LastSequence { sequence } => Item::of("last sequence").with("sequence", *sequence),
    }
}
