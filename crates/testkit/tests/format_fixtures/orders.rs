//! The stored databases with a family in each order of keys. What they must show is found with
//! comparisons that are written here once more.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use tidesdb::salvage::formats_of;
use tidesdb::{Db, DbOptions, FamilyOptions, KeyOrder, KeyOrders, ScanOptions};

use super::archives::{copy_alive, files_of, fixtures, unpack};

/// Name of the registered order.
const APPLICATION: &str = "by length";

fn orders() -> [KeyOrder; 7] {
    [
        KeyOrder::Bytewise,
        KeyOrder::Reverse,
        KeyOrder::Lexicographic,
        KeyOrder::Uint64,
        KeyOrder::Int64,
        KeyOrder::CaseInsensitive,
        KeyOrder::Custom(APPLICATION.to_owned()),
    ]
}

fn family_name(order: &KeyOrder) -> String {
    order.to_string().replace(':', " ")
}

fn by_length(one: &[u8], other: &[u8]) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

fn compare(order: &KeyOrder, one: &[u8], other: &[u8]) -> Ordering {
    let number = |key: &[u8]| key.try_into().ok().map(u64::from_ne_bytes);
    let text = |key: &[u8]| key.split(|byte| *byte == 0).next().map(<[u8]>::to_vec);
    match order {
        KeyOrder::Reverse => other.cmp(one),
        KeyOrder::Lexicographic => text(one).cmp(&text(other)),
        KeyOrder::CaseInsensitive => one.to_ascii_lowercase().cmp(&other.to_ascii_lowercase()),
        KeyOrder::Uint64 | KeyOrder::Int64 => match (number(one), number(other)) {
            (Some(one), Some(other)) if *order == KeyOrder::Int64 => {
                (one as i64).cmp(&(other as i64))
            }
            (Some(one), Some(other)) => one.cmp(&other),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => one.cmp(other),
        },
        KeyOrder::Custom(_) => by_length(one, other),
        _ => one.cmp(other),
    }
}

fn database_options() -> DbOptions {
    let mut orders = KeyOrders::default();
    orders.register(APPLICATION, Arc::new(by_length)).unwrap();
    DbOptions::default().key_orders(orders)
}

enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// Keys that the order treats in its own way; `spelling` chooses among bytes for the same key.
fn key(order: &KeyOrder, number: u64, spelling: u64) -> Vec<u8> {
    if matches!(order, KeyOrder::Uint64 | KeyOrder::Int64) && !number.is_multiple_of(9) {
        return number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_ne_bytes().to_vec();
    }
    let head = if (number + spelling).is_multiple_of(2) { "Key " } else { "kEY " };
    let tail = if number.is_multiple_of(3) { format!("\0{spelling}") } else { String::new() };
    format!("{head}{}{tail}", number * 7919 % 1000).into_bytes()
}

fn value(number: u64, version: u64) -> Vec<u8> {
    let times = if number.is_multiple_of(5) { 40 } else { 2 };
    format!("value {number} of version {version}, ").repeat(times).into_bytes()
}

/// What is done to a family: up to two flushes, and what only the log has.
fn changes(order: &KeyOrder) -> [Vec<Change>; 3] {
    let put = |number, version| Change::Put(key(order, number, version), value(number, version));
    let first = (0..200).map(|number| put(number, 1)).collect();
    let mut second: Vec<_> = (0..200).step_by(4).map(|number| put(number, 2)).collect();
    second.extend((0..200).step_by(10).map(|number| Change::Delete(key(order, number, 3))));
    let mut keys: Vec<_> = (0..200).map(|number| key(order, number, 1)).collect();
    keys.sort_by(|one, other| compare(order, one, other));
    let (from, to) = (keys.swap_remove(50), keys.swap_remove(70));
    second.push(Change::DeleteRange(from, to));
    let mut third: Vec<_> = (0..200).step_by(7).map(|number| put(number, 4)).collect();
    third.push(Change::Delete(key(order, 2, 9)));
    [first, second, third]
}

/// What the family shows in the end.
fn expected(order: &KeyOrder) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for change in changes(order).into_iter().flatten() {
        match change {
            Change::Put(key, value) => {
                let place = entries.binary_search_by(|(there, _)| compare(order, there, &key));
                match place {
                    Ok(at) => entries[at] = (key, value),
                    Err(at) => entries.insert(at, (key, value)),
                }
            }
            Change::Delete(key) => {
                entries.retain(|(there, _)| compare(order, there, &key).is_ne());
            }
            Change::DeleteRange(..) if matches!(order, KeyOrder::Custom(_)) => {}
            Change::DeleteRange(from, to) => entries.retain(|(there, _)| {
                compare(order, there, &from).is_lt() || compare(order, there, &to).is_ge()
            }),
        }
    }
    entries
}

/// Name of the archive.
pub(crate) const fn name(tree: bool) -> &'static str {
    if tree { "tree-orders-killed.archive" } else { "flat-orders-killed.archive" }
}

/// Makes the database in `dir`.
pub(crate) fn make(tree: bool, dir: &Path) {
    let alive = dir.with_extension("alive");
    let db = Db::open(&alive, database_options()).unwrap();
    for order in orders() {
        let options = FamilyOptions::default()
            .key_order(order.clone())
            .use_btree(tree)
            .block_size(512)
            .klog_value_threshold(300)
            .min_disk_space(100 << 20);
        let family = db.create_family(&family_name(&order), options).unwrap();
        for (round, changes) in changes(&order).into_iter().enumerate() {
            for change in changes {
                match change {
                    Change::Put(key, value) => family.put(&key, &value).unwrap(),
                    Change::Delete(key) => family.delete(&key).unwrap(),
                    Change::DeleteRange(..) if matches!(order, KeyOrder::Custom(_)) => {}
                    Change::DeleteRange(from, to) => family.delete_range(&from, &to).unwrap(),
                }
            }
            if round < 2 {
                family.flush().unwrap();
            }
        }
    }
    db.wait_idle().unwrap();
    copy_alive(&alive, dir);
    db.close().unwrap();
    std::fs::remove_dir_all(&alive).unwrap();
}

#[track_caller]
fn check(db: &Db, tree: bool) {
    for order in orders() {
        let family = db.family(&family_name(&order)).unwrap();
        let expected = expected(&order);
        assert!(expected.len() > 140, "{order}: {} entries", expected.len());
        let options = family.options();
        assert_eq!((&options.key_order, options.use_btree), (&order, tree));
        let scan = family.scan(ScanOptions::new()).unwrap();
        let found: Vec<_> = scan.entries().map(Result::unwrap).collect();
        assert!(found == expected, "{order} reads otherwise");
        for (number, (key, value)) in expected.iter().enumerate().step_by(11) {
            assert_eq!(family.get(key).unwrap().as_ref(), Some(value), "{order}");
            let mut scan = family.scan(ScanOptions::new()).unwrap();
            scan.seek(key).unwrap();
            assert_eq!(scan.key(), key, "{order}");
            scan.next().unwrap();
            let next = expected.get(number + 1).map_or(&[][..], |(key, _)| key);
            assert_eq!(scan.key(), next, "{order}");
        }
    }
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn stored_families_of_each_order_are_read_as_they_were_written() {
    let place = tempfile::tempdir().unwrap();
    for tree in [false, true] {
        let dir = place.path().join(name(tree));
        unpack(&std::fs::read(fixtures().join(name(tree))).unwrap(), &dir);
        let before = files_of(&dir);
        let db = Db::open(&dir, database_options().read_only(true)).unwrap();
        check(&db, tree);
        db.close().unwrap();
        assert!(files_of(&dir) == before, "reading changed {}", name(tree));
        let db = Db::open(&dir, database_options()).unwrap();
        check(&db, tree);
        db.compact().unwrap();
        check(&db, tree);
        db.close().unwrap();
        let db = Db::open(&dir, database_options()).unwrap();
        check(&db, tree);
        db.close().unwrap();
    }
}

/// The version that a build before the present one wrote is what the manifest says: what it holds
/// was the same.
#[test]
fn a_manifest_of_an_older_version_is_read_and_written_anew_by_an_opening_for_writing() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("older");
    unpack(&std::fs::read(fixtures().join(name(false))).unwrap(), &dir);
    let (manifest, mut bytes) =
        files_of(&dir).into_iter().find(|(name, _)| name.starts_with("MANIFEST-")).unwrap();
    bytes[8..12].copy_from_slice(&3_u32.to_le_bytes());
    std::fs::write(dir.join(manifest), bytes).unwrap();
    let manifests = || -> Vec<_> {
        let report = formats_of(&dir).unwrap();
        assert!(report.unreadable.is_empty(), "{:?}", report.unreadable);
        let manifests = report.found.into_iter().filter(|found| found.format == "manifest");
        manifests.map(|m| (m.version, m.files, m.is_readable(), m.is_current())).collect()
    };
    assert_eq!(manifests(), [(3, 1, true, false)]);
    let db = Db::open(&dir, database_options().read_only(true)).unwrap();
    check(&db, false);
    db.close().unwrap();
    assert_eq!(manifests(), [(3, 1, true, false)]);
    let db = Db::open(&dir, database_options()).unwrap();
    check(&db, false);
    db.close().unwrap();
    assert_eq!(manifests(), [(4, 1, true, true)]);
}
