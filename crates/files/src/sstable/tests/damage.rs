//! Damaged tables: every bit, every truncation, bytes from other places and other files.

use super::*;
use crate::sstable::iterator::{Readahead, TableIterator};
use crate::testing::assert_names_place;

/// A small table with several blocks, versions, expiries and value pointers, always the same.
fn golden_model() -> Model {
    let mut model = Model::new();
    for n in 0..30u64 {
        let key = format!("golden-key-{:03}", n / 2).into_bytes();
        let value = format!("value {n} {}", "xyz".repeat(n as usize % 7)).into_bytes();
        let kind = if n % 9 == 4 { ValueKind::Tombstone } else { ValueKind::Value };
        let value = if n % 9 == 4 { Vec::new() } else { value };
        model.insert((key, Reverse(n % 5)), (kind, n % 3 * 1000, value));
    }
    model
}

fn golden(index: IndexForm) -> (Model, Arc<MemoryFile>) {
    let model = golden_model();
    let (file, _) = write(&model, TableOptions { index, ..options(256) });
    assert!(open(&file).unwrap().block_count() >= 4);
    (model, file)
}

/// Opens, looks up everything, walks everything: each answer must be right or a corruption error.
/// Returns whether any error was seen.
pub(super) fn right_or_corrupt(
    file: &Arc<MemoryFile>,
    model: &Model,
    len: usize,
    context: &str,
) -> bool {
    match open(file) {
        Ok(table) => right_or_corrupt_in(&table, model, len, context),
        Err(error) => {
            assert_names_place::<()>(Err(error), len, context);
            true
        }
    }
}

/// As [`right_or_corrupt`] for a table that is open.
pub(super) fn right_or_corrupt_in(table: &Table, model: &Model, len: usize, context: &str) -> bool {
    let mut damaged = false;
    for (key, seq) in model.keys() {
        match table.lookup(key, seq.0, &Uncached) {
            Ok(found) => {
                let found = found.map(|found| (found.meta().seq, found.value().to_vec()));
                assert_eq!(
                    found,
                    Some((seq.0, model[&(key.clone(), *seq)].2.clone())),
                    "{context}"
                );
            }
            Err(error) => {
                assert_names_place::<()>(Err(error), len, context);
                damaged = true;
            }
        }
    }
    let mut iterator = TableIterator::new(table, Uncached, Readahead::None);
    let mut result = iterator.seek_to_first();
    for (key, seq) in model.keys() {
        if result.is_err() {
            assert_names_place(result, len, context);
            return true;
        }
        assert_eq!((iterator.key(), iterator.seq()), (key.as_slice(), seq.0), "{context}");
        result = iterator.next();
    }
    assert!(!iterator.valid(), "{context}: an entry too many");
    damaged
}

#[test]
fn any_flipped_bit_gives_the_right_answer_or_a_corruption_error() {
    FORMS.into_iter().for_each(any_flipped_bit);
}

fn any_flipped_bit(index: IndexForm) {
    let (model, file) = golden(index);
    let len = file.bytes().len();
    assert!(!right_or_corrupt(&file, &model, len, "undamaged"));
    for bit in 0..len * 8 {
        let flip = || file.change(|bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        flip();
        let context = format!("bit {bit} of {}", len * 8);
        // No byte of a table is unused: each bit is noticed somewhere.
        assert!(right_or_corrupt(&file, &model, len, &context), "{context} went unnoticed");
        if bit % 16 == 0 {
            assert_names_place(open(&file).and_then(|table| table.verify()), len, &context);
        }
        flip();
    }
    open(&file).unwrap().verify().unwrap();
}

#[test]
fn any_truncation_or_extension_is_a_corruption_error() {
    let (_, file) = golden(FORMS[1]);
    let whole = file.bytes();
    for len in 0..whole.len() {
        file.change(|bytes| bytes.truncate(0));
        file.change(|bytes| bytes.extend_from_slice(&whole[..len]));
        assert_names_place(open(&file), len, &format!("cut to {len}"));
    }
    for extra in [1, 7, 100, 5000] {
        let mut longer = whole.clone();
        longer.resize(whole.len() + extra, 0);
        let len = longer.len();
        assert_names_place(open(&MemoryFile::new(longer)), len, &format!("{extra} zeros added"));
    }
}

#[test]
fn a_file_cut_while_it_is_open_is_a_corruption_error() {
    let (model, file) = golden(IndexForm::Flat);
    let table = open(&file).unwrap();
    file.change(|bytes| bytes.truncate(100));
    let (last, _) = model.keys().next_back().unwrap();
    let result = table.lookup(last, u64::MAX, &Uncached).map(|_| ());
    assert_names_place(result, table.summary().file_len as usize, "cut");
}

#[test]
fn a_block_of_another_place_or_another_file_is_refused() {
    // Two blocks with the same content length: equal entries but for one digit of the keys.
    let mut model = Model::new();
    for n in 0..40u64 {
        let key = format!("key{n:04}").into_bytes();
        model.insert((key, Reverse(1)), (ValueKind::Value, 0, vec![b'v'; 20]));
    }
    let plain = TableOptions { compression: Compression::None, ..options(250) };
    let (file, _) = write(&model, plain.clone());
    let table = open(&file).unwrap();
    let handle = |at| table.block_handle(at, &Uncached).unwrap().unwrap();
    let (a, b) = (handle(1), handle(2));
    assert_eq!(a.len, b.len);
    let range =
        |handle: BlockHandle| handle.offset as usize..handle.offset as usize + handle.len as usize;
    let good = file.bytes();
    file.change(|bytes| bytes.copy_within(range(b), a.offset as usize));
    assert_names_place(table.read_block(a, &mut Vec::new()), good.len(), "misplaced");
    table.read_block(b, &mut Vec::new()).unwrap();

    let (other, _) = write(&model, TableOptions { identity: IDENTITY + 1, ..plain });
    let other = other.bytes();
    assert_eq!(other.len(), good.len());
    file.change(|bytes| bytes.copy_from_slice(&good));
    file.change(|bytes| bytes[range(a)].copy_from_slice(&other[range(a)]));
    assert_names_place(table.read_block(a, &mut Vec::new()), good.len(), "of another file");
    assert_names_place(open(&MemoryFile::new(other)), good.len(), "another file as a whole");
}

#[test]
fn the_format_may_never_change_without_a_new_version() {
    let model = golden_model();
    let (file, _) = write(&model, TableOptions { compression: Compression::None, ..options(256) });
    let bytes = file.bytes();
    assert_eq!((bytes.len(), tidesdb_base::checksum::plain(&bytes)), GOLDEN);
}

/// With property 10, which readers from before it pass over.
const GOLDEN: (usize, u64) = (1522, 3_012_266_795_030_277_728);
