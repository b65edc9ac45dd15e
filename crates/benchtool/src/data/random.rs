//! Random numbers of a few nanoseconds each: one generator per thread, and a mixing function.
//!
//! [`mix`] is the finaliser of SplitMix64, a bijection of 64-bit numbers. [`Random`] walks it over
//! a counter, which passes the usual statistical batteries and has no shared state.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Scrambles a number; distinct inputs give distinct outputs.
pub(crate) fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(GOLDEN);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Maps a uniform 64-bit number to `0..bound`.
pub(crate) fn scale(uniform: u64, bound: u64) -> u64 {
    ((u128::from(uniform) * u128::from(bound)) >> 64) as u64
}

/// A random stream.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// The stream number `stream` of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self { state: mix(seed ^ mix(stream)) }
    }

    /// The next 64 bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number in `0..bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        scale(self.next_u64(), bound)
    }

    /// A number in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
