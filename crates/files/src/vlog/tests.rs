use super::*;
use crate::testing::{MemoryFile, PATH, assert_names_place, seeded};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use tidesdb_base::ErrorKind;
use tidesdb_base::compress::Compression;

fn writer(file: &Arc<MemoryFile>, compression: Compression) -> VlogWriter {
    let options = VlogOptions { number: 7, compression };
    VlogWriter::new(file.clone(), Path::new(PATH), options).unwrap()
}

fn open(file: &Arc<MemoryFile>) -> tidesdb_base::Result<VlogReader> {
    VlogReader::open(file.clone(), Path::new(PATH), 7)
}

/// Values of every way of storing: empty, small, compressible, noise, each side of every limit.
fn values() -> Vec<Vec<u8>> {
    let mut rng = seeded();
    let mut values = vec![Vec::new(), b"x".to_vec()];
    let limits =
        [600, 16 << 10, (16 << 10) + 1, 256 << 10, (256 << 10) + 1, 1 << 20, (1 << 20) + 1];
    for len in limits.into_iter().chain([3 << 20]) {
        let mut noise = vec![0; len];
        rng.fill(&mut noise);
        values.push(noise);
        values.push((0..len).map(|at| (at / 50) as u8).collect());
    }
    values
}

#[test]
fn every_value_reads_back_under_every_codec() {
    let values = values();
    for codec in Compression::ALL {
        let file = MemoryFile::new(Vec::new());
        let mut writer = writer(&file, codec);
        let reader = open(&file).unwrap();
        let pointers: Vec<_> = values.iter().map(|value| writer.append(value).unwrap()).collect();
        writer.flush().unwrap();
        let (mut scratch, mut back) = (Vec::new(), Vec::new());
        for (value, pointer) in values.iter().zip(&pointers) {
            assert_eq!(pointer.raw_len as usize, value.len());
            reader.read_into(pointer, &mut scratch, &mut back).unwrap();
            assert_eq!(back, *value);
        }
        let expected = writer.summary();
        assert_eq!(writer.finish().unwrap(), expected);
        assert_eq!(reader.verify().unwrap(), expected);
        assert_eq!(expected.file_len, file.bytes().len() as u64);
        assert_eq!(expected.records, values.len() as u64);
        let last = pointers.last().unwrap();
        assert_eq!(last.offset + last.record_bytes(), expected.file_len);
        assert_eq!(reader.read(&pointers[3]).unwrap(), values[3]);
    }
}

/// A small value log, always the same.
fn golden(codec: Compression) -> (Arc<MemoryFile>, Vec<ValuePointer>, Vec<Vec<u8>>) {
    let values: Vec<Vec<u8>> = vec![
        b"the first value".to_vec(),
        vec![b'r'; 700],
        Vec::new(),
        (0..=255).collect(),
        b"abcdefgh".repeat(40),
    ];
    let file = MemoryFile::new(Vec::new());
    let mut writer = writer(&file, codec);
    let pointers = values.iter().map(|value| writer.append(value).unwrap()).collect();
    writer.finish().unwrap();
    (file, pointers, values)
}

#[test]
fn any_flipped_bit_gives_the_right_value_or_a_corruption_error() {
    let (file, pointers, values) = golden(Compression::Lz4);
    let len = file.bytes().len();
    for bit in 0..len * 8 {
        let flip = || file.change(|bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        flip();
        let context = format!("bit {bit}");
        let mut damaged = 0;
        match open(&file) {
            Err(error) => {
                assert_names_place::<()>(Err(error), len, &context);
                damaged += 1;
            }
            Ok(reader) => {
                for (pointer, value) in pointers.iter().zip(&values) {
                    match reader.read(pointer) {
                        Ok(found) => assert_eq!(found, *value, "{context}"),
                        failed => {
                            assert_names_place(failed, len, &context);
                            damaged += 1;
                        }
                    }
                }
                assert_names_place(reader.verify(), len, &context);
            }
        }
        // Each bit belongs to exactly one record or to the header.
        assert_eq!(damaged, 1, "{context}");
        flip();
    }
    open(&file).unwrap().verify().unwrap();
}

#[test]
fn any_truncation_is_seen_by_the_reads_it_concerns() {
    let (file, pointers, values) = golden(Compression::Lz4);
    let whole = file.bytes();
    for len in 0..whole.len() {
        let file = MemoryFile::new(whole[..len].to_vec());
        let context = format!("cut to {len}");
        let Ok(reader) = open(&file) else {
            assert_names_place(open(&file), whole.len(), &context);
            assert!(len < 32);
            continue;
        };
        for (pointer, value) in pointers.iter().zip(&values) {
            if pointer.offset + pointer.record_bytes() <= len as u64 {
                assert_eq!(reader.read(pointer).unwrap(), *value);
            } else {
                assert_names_place(reader.read(pointer), whole.len(), &context);
            }
        }
    }
}

#[test]
fn a_record_of_another_place_or_another_file_is_refused() {
    let file = MemoryFile::new(Vec::new());
    let mut log = writer(&file, Compression::None);
    let first = log.append(&[1; 100]).unwrap();
    let second = log.append(&[2; 100]).unwrap();
    log.finish().unwrap();
    let size = first.record_bytes() as usize;
    let (from, to) = (second.offset as usize, first.offset as usize);
    file.change(|bytes| bytes.copy_within(from..from + size, to));
    let reader = open(&file).unwrap();
    assert_names_place(reader.read(&first), 500, "misplaced");
    assert_eq!(reader.read(&second).unwrap(), vec![2; 100]);
    let other = VlogReader::open(file.clone(), Path::new(PATH), 8);
    assert_names_place(other, 500, "another number");
    let foreign = ValuePointer { file: 8, ..second };
    assert_eq!(reader.read(&foreign).unwrap_err().kind(), ErrorKind::Internal);
}

/// A log of 300 records, every seventh of them large, and what is in it.
fn walked(file: &Arc<MemoryFile>) -> Vec<(ValuePointer, Vec<u8>)> {
    let options = VlogOptions { number: 7, compression: Compression::Lz4 };
    let mut log = VlogWriter::new(file.clone(), Path::new(PATH), options).unwrap();
    let value = |n: usize| vec![n as u8; if n.is_multiple_of(7) { 40_000 + n } else { 500 + n }];
    let noise = |n: usize| (0..900 + n).map(|at| ((at * at * (n + 3)) >> 3) as u8).collect();
    let values = (0..300).map(|n| if n % 2 == 0 { noise(n) } else { value(n) });
    let records = values.map(|value: Vec<u8>| (log.append(&value).unwrap(), value)).collect();
    log.finish().unwrap();
    records
}

#[test]
fn values_read_along_are_those_read_alone_in_whatever_order() {
    let file = MemoryFile::new(Vec::new());
    let records = walked(&file);
    let reader = open(&file).unwrap();
    let orders: [Vec<usize>; 5] = [
        (0..300).collect(),
        (0..300).rev().collect(),
        (0..300).step_by(3).collect(),
        (0..300).map(|n| n * 137 % 300).collect(),
        (0..300).chain(0..20).chain(280..300).collect(),
    ];
    let mut ahead = RecordReadahead::default();
    let (mut scratch, mut value) = (Vec::new(), Vec::new());
    for order in orders {
        for at in order {
            let (pointer, expected) = &records[at];
            reader.read_along(pointer, &mut ahead, &mut scratch, &mut value).unwrap();
            assert_eq!(&value, expected, "{at}");
        }
    }
    let foreign = ValuePointer { file: 8, ..records[1].0 };
    let refused = reader.read_along(&foreign, &mut ahead, &mut scratch, &mut value);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn damage_met_ahead_is_reported_where_it_is_and_nowhere_else() {
    let file = MemoryFile::new(Vec::new());
    let records = walked(&file);
    let damaged = 45;
    let at = records[damaged].0.offset as usize + 30;
    file.change(|bytes| bytes[at] ^= 1);
    let reader = open(&file).unwrap();
    let mut ahead = RecordReadahead::default();
    let (mut scratch, mut value) = (Vec::new(), Vec::new());
    for (n, (pointer, expected)) in records.iter().enumerate() {
        let result = reader.read_along(pointer, &mut ahead, &mut scratch, &mut value);
        if n == damaged {
            assert_names_place(result, pointer.offset as usize, "damaged");
        } else {
            result.unwrap();
            assert_eq!(&value, expected, "{n}");
        }
    }
}

/// A piece that was read ahead failed as a whole, and took the records in front with it.
#[test]
fn a_read_along_that_fails_is_tried_for_the_record_alone() {
    let file = MemoryFile::new(Vec::new());
    let records = walked(&file);
    let reader = open(&file).unwrap();
    let mut ahead = RecordReadahead::default();
    let (mut scratch, mut value) = (Vec::new(), Vec::new());
    let mut spared = 0;
    for first in 0..20 {
        ahead.clear();
        for (pointer, _) in &records[..first] {
            reader.read_along(pointer, &mut ahead, &mut scratch, &mut value).unwrap();
        }
        let (pointer, expected) = &records[first];
        let before = file.reads();
        file.fail_read_after(0);
        // A read of the record alone is not tried again.
        if reader.read_along(pointer, &mut ahead, &mut scratch, &mut value).is_ok() {
            assert_eq!(&value, expected);
            spared += u32::from(file.reads() > before);
        }
        file.fail_read_after(usize::MAX / 2);
    }
    assert!(spared > 0);
}

#[test]
fn wrong_pointers_are_refused_and_allocate_nothing() {
    let (file, pointers, _) = golden(Compression::Lz4);
    let reader = open(&file).unwrap();
    for pointer in pointers {
        let stored_len = pointer.stored_len;
        for wrong in [
            ValuePointer { offset: pointer.offset + 1, ..pointer },
            ValuePointer { offset: u64::MAX - 5, ..pointer },
            ValuePointer { stored_len: stored_len.wrapping_sub(1), ..pointer },
            ValuePointer { stored_len: u32::MAX, raw_len: u32::MAX, ..pointer },
            ValuePointer { raw_len: pointer.raw_len + 1, ..pointer },
            ValuePointer { raw_len: u32::MAX, ..pointer },
        ] {
            let mut value = Vec::new();
            let result = reader.read_into(&wrong, &mut Vec::new(), &mut value);
            assert!(result.is_err_and(|error| error.is_corruption()), "{wrong:?}");
            assert!(value.capacity() < 2 << 20);
        }
    }
}

/// A read that failed behind damage was taken for bytes that are no record, and the record that
/// lies there for lost.
#[test]
fn a_survey_tells_of_every_read_that_fails() {
    let file = MemoryFile::new(Vec::new());
    let mut writer = writer(&file, Compression::None);
    let pointers: Vec<_> = (0..3).map(|n| writer.append(&[n; 700]).unwrap()).collect();
    writer.finish().unwrap();
    file.change(|bytes| bytes[pointers[0].offset as usize + 100] ^= 1);
    let reader = open(&file).unwrap();
    let survey = || {
        let (mut whole, before) = (0, file.reads());
        let result = reader.survey(&mut |record| {
            whole += u32::from(matches!(record, SalvagedRecord::Whole(_)));
            Ok(())
        });
        result.map(|()| (whole, file.reads() - before))
    };
    let (whole, reads) = survey().unwrap();
    assert_eq!(whole, 2);
    for others in 0..reads {
        file.fail_read_after(others);
        let error = survey().expect_err("a read failed");
        assert_eq!(error.kind(), ErrorKind::Io, "{others} of {reads}");
    }
    assert_eq!(survey().unwrap(), (whole, reads));
}

#[test]
fn the_format_may_never_change_without_a_new_version() {
    let (file, _, _) = golden(Compression::None);
    let bytes = file.bytes();
    assert_eq!((bytes.len(), tidesdb_base::checksum::plain(&bytes)), GOLDEN);
}

const GOLDEN: (usize, u64) = (1423, 16_401_480_072_119_951_874);

proptest! {
    #[test]
    fn pointers_round_trip(file: u64, offset: u64, stored_len: u32, raw_len: u32) {
        let pointer = ValuePointer { file, offset, stored_len, raw_len };
        let mut bytes = Vec::new();
        pointer.encode(&mut bytes);
        prop_assert!(bytes.len() <= MAX_POINTER_BYTES);
        prop_assert_eq!(ValuePointer::decode(&bytes), Ok(pointer));
        bytes.push(0);
        prop_assert!(ValuePointer::decode(&bytes).is_err());
        bytes.truncate(bytes.len() - 2);
        prop_assert!(ValuePointer::decode(&bytes).is_err());
    }
}
