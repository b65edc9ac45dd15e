//! How many versions of keys some tables hold, and how many of them are needed.

/// Versions of some tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Liveness {
    /// All of them; those that one run holds of a key for snapshots count once.
    pub versions: u64,
    /// About how many of them a compaction of these tables keeps: they are alive, or a snapshot
    /// needs them.
    pub needed: u64,
}

impl Liveness {
    /// Versions that a compaction leaves out.
    #[must_use]
    pub const fn garbage(&self) -> u64 {
        self.versions.saturating_sub(self.needed)
    }

    /// The part of the versions that is garbage.
    #[must_use]
    pub fn garbage_share(&self) -> f64 {
        self.garbage() as f64 / self.versions.max(1) as f64
    }

    /// Whether there is garbage, and more than `amplification` versions to one that is needed.
    ///
    /// ```
    /// use tidesdb_base::liveness::Liveness;
    /// let half = Liveness { versions: 20, needed: 10 };
    /// assert!(half.exceeds(1.5) && !half.exceeds(2.0));
    /// assert!(!Liveness::default().exceeds(1.0));
    /// ```
    #[must_use]
    pub fn exceeds(&self, amplification: f64) -> bool {
        self.garbage() > 0 && self.versions as f64 > self.needed as f64 * amplification
    }
}
