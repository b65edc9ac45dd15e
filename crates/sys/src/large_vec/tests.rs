use super::*;

/// A linear congruential generator; its upper bits are random enough for a test.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn copy_of<T: Copy>(vec: &LargeVec<T>) -> LargeVec<T> {
    let mut copy = LargeVec::new();
    copy.extend_from_slice(vec).unwrap();
    copy
}

/// All operations against those of a vector, over the size from which memory is mapped.
#[test]
fn it_holds_what_a_vector_holds() {
    let mut random = Random(7);
    for _ in 0..20 {
        let (mut large, mut plain) = (LargeVec::new(), Vec::new());
        for _ in 0..200 {
            let n = random.below(5000) as usize;
            match random.below(7) {
                0 => {
                    large.truncate(n);
                    plain.truncate(n);
                }
                1 => {
                    large.resize(2 * n, n as u64).unwrap();
                    plain.resize(2 * n, n as u64);
                }
                2 if random.below(9) == 0 => {
                    large.clear();
                    plain.clear();
                }
                3 => large.reserve(n).unwrap(),
                _ => {
                    let values: Vec<u64> = (0..n as u64).collect();
                    large.extend_from_slice(&values).unwrap();
                    large.push(9).unwrap();
                    plain.extend_from_slice(&values);
                    plain.push(9);
                }
            }
            assert_eq!(*large, *plain);
            assert!(large.capacity() >= large.len());
        }
        let copy = copy_of(&large);
        assert!(copy == large);
        large.iter_mut().for_each(|n| *n += 1);
        assert!(plain.is_empty() || copy != large);
    }
    assert_eq!(*LargeVec::filled(100_000, 3u8).unwrap(), *vec![3u8; 100_000]);
}

thread_local! {
    /// The system has no mapping left for this thread.
    static REFUSED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

pub(super) fn are_refused() -> bool {
    REFUSED.get()
}

thread_local! {
    /// More bytes than this a vector of this thread can't have.
    static MOST_BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
}

pub(super) fn are_too_many(bytes: usize) -> bool {
    bytes > MOST_BYTES.get()
}

/// A vector failed to grow by little where there was no memory for twice its size.
#[test]
fn where_doubling_is_refused_what_is_needed_is_taken() {
    for present in [1000, 200_000] {
        let mut large = LargeVec::filled(present, 7u8).unwrap();
        MOST_BYTES.set(large.capacity() + 8192);
        let room = large.capacity() - present;
        let added = vec![9; room + 1];
        let grown = large.extend_from_slice(&added);
        let beyond = large.reserve(1 << 20);
        MOST_BYTES.set(usize::MAX);
        assert_eq!((grown, beyond), (Ok(()), Err(NoMemory)), "{present}");
        assert!(large[..present].iter().all(|&byte| byte == 7));
        assert_eq!(large[present..], added);
    }
}

/// A process that had as many mappings as the system allows was ended, whatever memory there
/// was.
#[test]
fn what_cannot_be_mapped_is_allocated() {
    let number = |n: usize| (n * 7) as u64;
    // Refused at first, when it grows the first time, and when it grows later.
    for refused_from in [0, 20_000, 60_000] {
        let mut large = LargeVec::new();
        for n in 0..200_000 {
            REFUSED.set((refused_from..150_000).contains(&n));
            large.push(number(n)).unwrap();
        }
        assert!((0..200_000).all(|n| large[n] == number(n)));
        let copy = copy_of(&large);
        REFUSED.set(true);
        drop(large);
        let other = copy_of(&copy);
        drop(copy);
        REFUSED.set(false);
        assert!((0..200_000).all(|n| other[n] == number(n)));
    }
}

/// The process was ended where the allocator had no memory either.
#[test]
fn a_refusal_is_told_and_changes_nothing() {
    // Of bytes, more than any machine has: refused by the system, and before it is asked.
    for impossible in [1 << 50, usize::MAX / 2, usize::MAX] {
        for present in [0, 100, 200_000] {
            let mut large = LargeVec::filled(present, 7u8).unwrap();
            assert_eq!(large.reserve(impossible), Err(NoMemory));
            assert_eq!(large.resize(impossible, 7), Err(NoMemory));
            assert!(LargeVec::<u64>::with_capacity(impossible).is_err());
            assert_eq!(*large, *vec![7; present]);
            large.push(8).unwrap();
            assert_eq!(large.last(), Some(&8));
        }
    }
    let mut large = LargeVec::new();
    refusals::order(1, 1);
    assert_eq!(
        [large.push(1u8), large.reserve(100), large.reserve(100)],
        [Ok(()), Err(NoMemory), Ok(())]
    );
}

/// What an allocator keeps for later is taken all the same.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn large_memory_goes_back_to_the_system() {
    const BYTES: usize = 256 << 20;
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * PAGE_BYTES
    };
    let before = resident();
    let mut large = LargeVec::new();
    large.extend_from_slice(&[7u8; 100]).unwrap();
    // Grown in steps, which an allocator would have moved and kept.
    while large.len() < BYTES {
        large.resize(large.len() * 2, 7u8).unwrap();
    }
    assert!(resident() > before + BYTES / 2);
    drop(large);
    assert!(resident() < before + BYTES / 2);
}
