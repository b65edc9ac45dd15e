//! `CLOSED`: the mark of a clean close.

use tidesdb_base::checksum;
use tidesdb_base::error::{Error, Result};

use super::{Inspected, Item, Visit};

/// More bytes than any mark has.
const MOST_BYTES: usize = 257;

pub(super) fn inspect(inspected: &Inspected<'_>, visit: Visit<'_>) -> Result<()> {
    let mut bytes = [0; MOST_BYTES];
    let read = inspected.file.read_at(&mut bytes, 0);
    let read = read.map_err(|e| Error::io("read", inspected.path, e))?;
    visit(item_of(bytes.get(..read).unwrap_or_default()))
}

/// What the bytes of a mark say: a line of three words and the checksum of these.
fn item_of(bytes: &[u8]) -> Item {
    let item = Item::at("closed", 0, bytes.len() as u64);
    let line = std::str::from_utf8(bytes).ok().and_then(|text| text.strip_suffix('\n'));
    let said = line.and_then(|line| line.rsplit_once(' ')).and_then(|(said, sum)| {
        let is_whole = format!("{:016x}", checksum::plain(said.as_bytes())) == sum;
        is_whole.then(|| said.split(' ').collect::<Vec<_>>())
    });
    match said.as_deref() {
        Some(&[manifest, bytes, stamp]) => {
            item.with("manifest", manifest).with("manifest_bytes", bytes).with("stamp", stamp)
        }
        _ => item.wrong("it is no mark of a clean close"),
    }
}

#[cfg(test)]
mod tests {
    use tidesdb_sim::rng::SplitMix64;

    use super::super::Field;
    use super::*;

    fn sealed(said: &str) -> Vec<u8> {
        format!("{said} {:016x}\n", checksum::plain(said.as_bytes())).into_bytes()
    }

    #[test]
    fn a_mark_is_shown_as_it_was_written_and_no_other_bytes_are() {
        let mark = sealed("MANIFEST-000012 4096 a1-65f0c0de-7");
        let item = item_of(&mark);
        assert_eq!((item.problem, item.bytes), (None, Some(mark.len() as u64)));
        let text = |text: &str| Field::from(text);
        let expected = [
            ("manifest", text("MANIFEST-000012")),
            ("manifest_bytes", text("4096")),
            ("stamp", text("a1-65f0c0de-7")),
        ];
        assert_eq!(item.fields, expected);
        // Checksums that match, of another number of words.
        for said in ["", " ", "one", "one two", "one two three four"] {
            assert!(item_of(&sealed(said)).problem.is_some(), "'{said}'");
        }
        for end in 0..mark.len() {
            assert!(item_of(&mark[..end]).problem.is_some(), "cut at {end}");
        }
        for at in 0..mark.len() {
            for bit in 0..8 {
                let mut bytes = mark.clone();
                bytes[at] ^= 1 << bit;
                assert!(item_of(&bytes).problem.is_some(), "bit {bit} of byte {at}");
            }
        }
        let longer = [&mark[..], b"\n"].concat();
        assert!(item_of(&longer).problem.is_some());
    }

    #[test]
    fn bytes_without_a_checksum_that_matches_are_no_mark() {
        let mut random = SplitMix64::new(0xc105ed);
        let alphabet = b" \n0f\xff\xc3\xa9M-";
        for _ in 0..20_000 {
            let len = random.below(MOST_BYTES as u64 + 1);
            let bytes: Vec<u8> =
                (0..len).map(|_| alphabet[random.below(alphabet.len() as u64) as usize]).collect();
            assert!(item_of(&bytes).problem.is_some(), "{bytes:?}");
        }
    }
}
