//! Which file systems keep the promise that a mapped log needs.
//!
//! A page of a mapping that is written for the first time must find its block: if the file system
//! has to allocate one then and the disk is full, the answer is a signal that ends the process. So
//! the file systems that are known to write over reserved blocks in place are listed. On all others
//! the log is written with system calls, which return errors.

use std::fs;

use crate::os_calls;
use crate::vfs::SegmentMode;

/// What is known of the blocks of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocks {
    /// Each byte has one: the system has reserved them.
    Reserved,
    /// Each byte has one: the file is new and was filled with zeros, as the system has no call that
    /// reserves blocks.
    Written,
    /// The file may have holes: it existed before, and the system has no call that fills them.
    Unknown,
}

/// When a file may be mapped whose blocks are all there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MappingRule {
    /// Blocks are written in place.
    Always,
    /// Blocks are written in place unless another file shares them, or the file is one whose blocks
    /// can't be reserved since each write takes others (zoned devices).
    Unshared,
    /// The file system moves blocks, is a network's, lies over another one, or is not known.
    Never,
}

impl MappingRule {
    /// The rule for a file system with this magic number (`statfs(2)`); `None` where there is none.
    pub(super) const fn of(magic: Option<u32>) -> Self {
        match magic {
            // ext2, ext3, ext4; tmpfs.
            Some(0xEF53 | 0x0102_1994) => Self::Always,
            // XFS: copies made by `cp` share blocks with the original.
            Some(0x5846_5342) => Self::Unshared,
            _ => Self::Never,
        }
    }
}

/// Whether the first `size` bytes of a segment file may be mapped.
pub(super) fn may_map(file: &fs::File, size: u64, how: SegmentMode, blocks: Blocks) -> bool {
    let rule = MappingRule::of(os_calls::file_system_magic(file));
    rule_allows(rule, file, size, (how, blocks))
}

fn rule_allows(
    rule: MappingRule,
    file: &fs::File,
    size: u64,
    (how, blocks): (SegmentMode, Blocks),
) -> bool {
    match (rule, blocks, how) {
        (MappingRule::Never, ..) | (_, Blocks::Unknown, _) => false,
        (MappingRule::Unshared, Blocks::Written, _) => false,
        (MappingRule::Always, ..) | (MappingRule::Unshared, _, SegmentMode::Create) => true,
        (MappingRule::Unshared, _, SegmentMode::Reuse) => os_calls::unshare(file, size).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_systems_that_write_in_place_are_mapped() {
        let of = |magic| MappingRule::of(Some(magic));
        for in_place in [0xEF53, 0x0102_1994] {
            assert_eq!(of(in_place), MappingRule::Always, "{in_place:#x}");
        }
        assert_eq!(of(0x5846_5342), MappingRule::Unshared, "XFS");
        let others = [
            0x794C_7630, // overlayfs
            0x9123_683E, // btrfs
            0x2FC1_2FC1, // zfs
            0xCA45_1A4E, // bcachefs
            0xF2F5_2010, // f2fs
            0x6969,      // nfs
            0x517B,      // smb
            0xFF53_4D42, // cifs
            0xFE53_4D42, // smb2
            0x6573_5546, // fuse
            0x0102_1997, // 9p
            0x8584_58F6, // ramfs
            0,
            0xEF54,
        ];
        for other in others {
            assert_eq!(of(other), MappingRule::Never, "{other:#x}");
        }
        assert_eq!(MappingRule::of(None), MappingRule::Never);
    }

    /// XFS reports that it can't reserve blocks where it never writes in place.
    #[test]
    fn a_file_whose_blocks_can_not_be_reserved_is_mapped_where_writes_are_always_in_place() {
        let file = tempfile::tempfile().unwrap();
        let allows = |rule, blocks| rule_allows(rule, &file, 4096, (SegmentMode::Create, blocks));
        assert!(allows(MappingRule::Always, Blocks::Written), "ext2 and ext3");
        assert!(!allows(MappingRule::Unshared, Blocks::Written));
        assert!(allows(MappingRule::Unshared, Blocks::Reserved));
    }

    #[test]
    fn a_file_that_may_have_holes_is_not_mapped() {
        let file = tempfile::tempfile().unwrap();
        assert!(!may_map(&file, 4096, SegmentMode::Reuse, Blocks::Unknown));
    }
}
