//! On XFS a copy made by `cp` shares the blocks of its original, and the first write to one takes
//! another. Of a segment that is mapped that write has no way to answer that the disk is full: it
//! would end the process by a signal.

use std::io::Write;
use std::process::Command;

use tidesdb_sys::vfs::{RealVfs, SegmentMode, Vfs};

use super::*;

const SEGMENT: u64 = 4 << 20;

/// Takes all space of the file system.
fn fill_with_a_file(mounted: &Mounted) {
    let mut file = std::fs::File::create_new(mounted.path().join("filler")).unwrap();
    for block in [1 << 20, 4 << 10] {
        let bytes = vec![7; block];
        while file.write_all(&bytes).and_then(|()| file.sync_data()).is_ok() {}
    }
}

/// Writes each page of the segment; how many were refused.
fn refused_pages(segment: &dyn tidesdb_sys::vfs::LogSegment) -> usize {
    let page = [9; 4096];
    let write = |at: u64| segment.write(at, &page);
    (0..SEGMENT).step_by(4096).map(write).filter(|written| written.is_err()).count()
}

#[test]
#[ignore = "mounts a file system"]
fn a_segment_that_shares_its_blocks_is_used_again_without_a_signal() {
    for full_before in [false, true] {
        let Some(mounted) = Mounted::new("xfs", 400) else { return };
        let vfs = RealVfs::new();
        let path = mounted.path().join("segment");
        let segment = vfs.log_segment(&path, SEGMENT, SegmentMode::Create).unwrap();
        assert_eq!(refused_pages(&*segment), 0);
        segment.sync(SEGMENT).unwrap();
        drop(segment);
        let copy = mounted.path().join("copy");
        let copied = Command::new("cp").arg("--reflink=always").arg(&path).arg(&copy).status();
        assert!(copied.unwrap().success());
        if full_before {
            fill_with_a_file(&mounted);
        }
        let reused = vfs.log_segment(&path, SEGMENT, SegmentMode::Reuse);
        if !full_before {
            fill_with_a_file(&mounted);
        }
        println!("{} MiB free", mounted.free_mib());
        let refused = reused.map(|segment| refused_pages(&*segment));
        println!("full before the segment was used again: {full_before}, refused: {refused:?}");
        if full_before {
            assert!(refused.is_err() || refused.is_ok_and(|pages| pages > 0));
        } else {
            assert_eq!(refused.unwrap(), 0, "its blocks were its own before the disk was full");
        }
    }
}
