//! By when how much of a table has expired, without reading it.
//!
//! A table carries up to eight times, its *octiles*: by the n-th of them n eighths of its bytes
//! have expired. There are fewer than eight when the rest never expires, and none in most tables.
//! An octile may be later than the truth, never earlier, and the eighth is exact. So a table whose
//! eighth octile has passed holds nothing that a reader may see, and is dropped on that word alone.
//!
//! The writer counts bytes in a histogram by the time that is left, an eighth of that time wide: an
//! octile is late by an eighth of the entries' time to live at most. Kept in the table's properties
//! and in its manifest record.
#![expect(clippy::cast_possible_truncation, reason = "counts of few buckets")]

use tidesdb_base::codec::{Decoder, Malformed, put_varint};

/// Parts that the bytes of a table are divided into.
const EIGHTHS: u64 = 8;

/// Buckets of a histogram for each doubling of the time that is left, as a power of two.
const BUCKET_BITS: u32 = 3;

/// By when how much of a table has expired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpiryOctiles(Vec<u64>);

impl ExpiryOctiles {
    /// These times in Unix seconds, which ascend; all after the eighth are left out.
    #[must_use]
    pub fn new(mut times: Vec<u64>) -> Self {
        times.truncate(EIGHTHS as usize);
        Self(times)
    }

    /// The times in Unix seconds, ascending: by the n-th of them n eighths of the bytes have
    /// expired.
    #[must_use]
    pub fn times(&self) -> &[u64] {
        &self.0
    }

    /// When everything has expired, in Unix seconds; `None` when some entry never does.
    #[must_use]
    pub fn all_expired_at(&self) -> Option<u64> {
        self.0.get(EIGHTHS as usize - 1).copied()
    }

    /// Appends the persisted form.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as u64);
        let mut before = 0;
        for &time in &self.0 {
            put_varint(out, time.saturating_sub(before));
            before = time;
        }
    }

    /// Reads the persisted form.
    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let count = decoder.varint()?;
        if count > EIGHTHS {
            return Err(Malformed);
        }
        let (mut times, mut time) = (Vec::new(), 0_u64);
        for _ in 0..count {
            time = time.checked_add(decoder.varint()?).ok_or(Malformed)?;
            times.push(time);
        }
        Ok(Self(times))
    }
}

/// Bytes of a table by when they expire.
#[derive(Debug)]
pub(crate) struct ExpiryHistogram {
    /// What time is left is counted from here, in Unix seconds.
    now: u64,
    /// By the time that is left; as many as were needed.
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    bytes: u64,
    /// The latest expiry in the bucket.
    latest: u64,
}

impl ExpiryHistogram {
    pub(crate) const fn new(now_unix_seconds: u64) -> Self {
        Self { now: now_unix_seconds, buckets: Vec::new() }
    }

    /// Adds an entry that expires then.
    pub(crate) fn add(&mut self, expires_at: u64, bytes: u64) {
        let at = bucket_of(expires_at.saturating_sub(self.now));
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, Bucket::default());
        }
        if let Some(bucket) = self.buckets.get_mut(at) {
            bucket.bytes += bytes;
            bucket.latest = bucket.latest.max(expires_at);
        }
    }

    /// The octiles of a table of so many bytes, those that never expire included.
    pub(crate) fn octiles(&self, bytes: u64) -> ExpiryOctiles {
        let (mut times, mut expired) = (Vec::new(), 0_u64);
        for bucket in &self.buckets {
            expired += bucket.bytes;
            let reached = expired.saturating_mul(EIGHTHS) / bytes.max(1);
            times.resize(reached.min(EIGHTHS) as usize, bucket.latest);
        }
        ExpiryOctiles(times)
    }
}

/// The bucket of what has this time left: one for each second below eight, then eight to a
/// doubling.
fn bucket_of(seconds: u64) -> usize {
    let doublings = seconds.max(1).ilog2().saturating_sub(BUCKET_BITS);
    ((u64::from(doublings) << BUCKET_BITS) + (seconds >> doublings)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000;

    fn octiles(entries: &[(u64, u64)], never: u64) -> Vec<u64> {
        let mut histogram = ExpiryHistogram::new(NOW);
        entries.iter().for_each(|&(expires_at, bytes)| histogram.add(expires_at, bytes));
        let bytes = entries.iter().map(|(_, bytes)| bytes).sum::<u64>() + never;
        histogram.octiles(bytes).times().to_vec()
    }

    #[test]
    fn times_say_how_much_has_expired() {
        assert_eq!(octiles(&[], 100), [0; 0]);
        assert_eq!(octiles(&[(NOW + 60, 100)], 0), [NOW + 60; 8]);
        assert_eq!(octiles(&[(NOW + 60, 100)], 100), [NOW + 60; 4]);
        assert_eq!(octiles(&[(NOW + 60, 100)], 701), [0; 0], "less than an eighth");
        let two = octiles(&[(NOW + 900, 50), (NOW + 60, 25)], 25);
        assert_eq!(two, [[NOW + 60; 2].as_slice(), &[NOW + 900; 4]].concat());
        assert_eq!(octiles(&[(NOW - 5, 1), (u64::MAX, 1)], 0)[3..5], [NOW - 5, u64::MAX]);
    }

    /// Whatever expires when: never too early, late by an eighth of the time at most, and exact at
    /// the end.
    #[test]
    fn times_are_never_too_early_and_hardly_too_late() {
        let mut rng = tidesdb_sim::rng::SplitMix64::new(7);
        for _ in 0..200 {
            let longest = 1 << rng.index(40);
            let entry = |_| (NOW + 1 + rng.next_u64() % longest, 1 + rng.next_u64() % 1000);
            let mut entries: Vec<(u64, u64)> = (0..500).map(entry).collect();
            let times = octiles(&entries, 0);
            entries.sort_unstable();
            let bytes: u64 = entries.iter().map(|(_, bytes)| bytes).sum();
            for (eighths, &time) in (1..).zip(&times) {
                let mut expired = 0;
                let reached = entries.iter().find(|(_, more)| {
                    expired += more;
                    expired * 8 >= eighths * bytes
                });
                let truth = reached.unwrap().0;
                assert!(time >= truth && time - truth <= (truth - NOW) / 8, "{time} for {truth}");
            }
            assert_eq!(times[7], entries[499].0);
        }
    }

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut before = 0;
        for seconds in (0..100_000).chain((17..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit])) {
            let bucket = bucket_of(seconds);
            assert!(bucket >= before && bucket < 512, "{seconds}");
            before = bucket;
        }
        assert_eq!((bucket_of(7), bucket_of(8), bucket_of(16), bucket_of(18)), (7, 8, 16, 17));
    }

    #[test]
    fn the_stored_form_round_trips_and_nonsense_is_refused() {
        for times in [vec![], vec![NOW], vec![1, 5, 5, u64::MAX], vec![NOW; 8]] {
            let (octiles, mut bytes) = (ExpiryOctiles::new(times), Vec::new());
            octiles.encode(&mut bytes);
            assert_eq!(ExpiryOctiles::decode(&mut Decoder::new(&bytes)), Ok(octiles));
        }
        let mut nine = vec![9];
        nine.extend([1; 9]);
        let mut overflow = vec![2];
        put_varint(&mut overflow, u64::MAX);
        overflow.push(1);
        for bytes in [nine, overflow, vec![2, 7]] {
            assert_eq!(ExpiryOctiles::decode(&mut Decoder::new(&bytes)), Err(Malformed));
        }
    }
}
