//! What the block device under a directory reads and writes, by the kernel's count of sectors.
//!
//! The counters are the whole device's, so they mean something only while no other process uses it;
//! and data that lies in the page cache is no traffic yet. Both are the reasons why they are read
//! only when asked for, with the file system synced before each reading, by a child process before
//! and after its phase. File systems without a device of their own (overlays, network, memory) have
//! no counters.

use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// The kernel counts in sectors of this size, whatever the device's are.
const SECTOR: u64 = 512;

/// Bytes since the system started, or of an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    /// Read from the device.
    pub(crate) read: u64,
    /// Written to it.
    pub(crate) written: u64,
}

impl Traffic {
    /// What came on top of an earlier reading.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
        }
    }
}

/// Reads the counters of the device under a directory, after all that is written has gone to it.
pub(crate) fn synced_traffic(directory: &Path) -> Result<Traffic, String> {
    let synced = Command::new("sync").arg("-f").arg(directory).status();
    if !synced.is_ok_and(|status| status.success()) {
        return Err(format!("sync -f {} failed", directory.display()));
    }
    let device = fs::metadata(directory).map_err(|error| error.to_string())?.dev();
    let (major, minor) = numbers(device);
    let path = format!("/sys/dev/block/{major}:{minor}/stat");
    let text = fs::read_to_string(&path)
        .map_err(|_| format!("{} lies on no block device", directory.display()))?;
    parse(&text).ok_or_else(|| format!("{path} is not understood"))
}

/// Major and minor number of a device, as the C library packs them.
fn numbers(device: u64) -> (u64, u64) {
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
    let minor = (device & 0xff) | ((device >> 12) & 0xff_ff00);
    (major, minor)
}

/// Third and seventh number of a device's `stat`: sectors read and written.
fn parse(text: &str) -> Option<Traffic> {
    let figures: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    Some(Traffic { read: figures.get(2)? * SECTOR, written: figures.get(6)? * SECTOR })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_the_third_and_the_seventh_figure() {
        let text = "  100  5  2000  9  300  6  4000  10  0  7  8  0 0 0 0 1 2\n";
        let traffic = parse(text).unwrap();
        assert_eq!(traffic, Traffic { read: 2_000 * 512, written: 4_000 * 512 });
        let later = Traffic { read: 2_001 * 512, written: 4_010 * 512 };
        assert_eq!(later.since(traffic), Traffic { read: 512, written: 5_120 });
        assert_eq!(parse("1 2 3"), None);
    }

    #[test]
    fn device_numbers_are_unpacked() {
        assert_eq!(numbers(0x801), (8, 1));
        assert_eq!(numbers(0x0001_0305), (0x103, 5));
        assert_eq!(numbers(0xfd0a), (253, 10));
    }

    /// Where a directory lies on a device, its counters grow with what is written.
    #[test]
    fn a_device_that_is_there_counts() {
        let directory = tempfile::tempdir().unwrap();
        let Ok(before) = synced_traffic(directory.path()) else { return };
        let bytes = vec![7; 4 << 20];
        fs::write(directory.path().join("file"), &bytes).unwrap();
        let after = synced_traffic(directory.path()).unwrap();
        assert!(after.since(before).written >= 4 << 20, "{before:?} {after:?}");
    }
}
