//! `ReadOnlyVfs` lets nothing through that changes the disk.

use std::io;
use std::path::Path;

use tidesdb_sim::SimVfs;
use tidesdb_sys::vfs::{LockMode, OpenMode, ReadOnlyVfs, SegmentMode, Vfs};

#[test]
fn looks_are_passed_on_and_changes_are_not() {
    let disk = SimVfs::new(1);
    let path = Path::new("/a");
    disk.open(path, OpenMode::CreateNew).unwrap().write_all_at(b"x", 0).unwrap();
    let before = disk.mutations();
    let view = ReadOnlyVfs::new(disk.clone()).hold_dir(Path::new("/")).unwrap();
    assert_eq!(view.list(Path::new("/")).unwrap().len(), 1);
    let file = view.open(path, OpenMode::Read).unwrap();
    file.read_exact_at(&mut [0], 0).unwrap();
    file.write_at(b"y", 0).unwrap_err();
    view.free_bytes(Path::new("/")).unwrap();
    drop(view.lock(path, LockMode::Shared).unwrap());
    let other = Path::new("/b");
    let answers = [
        view.open(path, OpenMode::ReadWrite).map(drop),
        view.open(other, OpenMode::CreateNew).map(drop),
        view.create_dir(other),
        view.rename(path, other),
        view.link(path, other),
        view.remove(path),
        view.remove_dir(path),
        view.sync_dir(Path::new("/")),
        view.log_segment(other, 10, SegmentMode::Create).map(drop),
        view.lock(path, LockMode::Exclusive).map(drop),
    ];
    for answer in answers {
        assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
    }
    assert_eq!(disk.mutations(), before);
}
