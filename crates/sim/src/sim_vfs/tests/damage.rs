//! Damaged sectors and full disks: rule 5.

use std::io::ErrorKind;

use super::*;
use crate::CrashProfile::{Everything, Nothing};
use crate::{Corruption, SECTOR_BYTES};
use tidesdb_sys::vfs::{File, SegmentMode};

const SECTOR: usize = SECTOR_BYTES as usize;

fn read(file: &dyn File, at: u64, count: usize) -> std::io::Result<Vec<u8>> {
    let mut buffer = vec![0; count];
    file.read_exact_at(&mut buffer, at).map(|()| buffer)
}

#[test]
fn a_flipped_bit_is_one_bit_and_survives_crashes() {
    let sim = SimVfs::new(1);
    create_durable(&sim, "a", &[0; 2000]);
    assert!(sim.corrupt(&path("a"), 777, Corruption::Flip(3)).unwrap());
    let mut expected = vec![0; 2000];
    expected[777] = 8;
    assert_eq!(sim.content(&path("a")).unwrap(), expected);
    assert_eq!(content_after(&sim, "a", Nothing, 0).unwrap(), expected);
}

#[test]
fn an_unreadable_sector_fails_until_rewritten() {
    let sim = SimVfs::new(1);
    let file = create_durable(&sim, "a", &[5; 2000]);
    assert!(sim.corrupt(&path("a"), 600, Corruption::ReadError).unwrap());
    assert_eq!(read(&*file, 1023, 2).unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(read(&*file, 0, SECTOR).unwrap(), [5; SECTOR]);
    assert_eq!(read(&*file, 1024, 976).unwrap(), [5; 976]);
    let image = sim.crash_image(Everything, 0);
    let in_image = image.open(&path("a"), OpenMode::Read).unwrap();
    assert!(read(&*in_image, 512, 1).is_err());
    file.write_all_at(&[6], 700).unwrap();
    assert_eq!(read(&*file, 700, 2).unwrap(), [6, 5]);
}

#[test]
fn zero_stale_and_misplaced_sectors() {
    let sim = SimVfs::new(1);
    let file = create_durable(&sim, "a", &[1; 1500]);
    create_durable(&sim, "b", &[7; 1500]);
    file.write_all_at(&[2; 1500], 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(&[3; 512], 512).unwrap();
    file.sync_data().unwrap();
    assert!(sim.corrupt(&path("a"), 0, Corruption::Stale).unwrap());
    assert!(sim.corrupt(&path("a"), 600, Corruption::Stale).unwrap());
    assert!(sim.corrupt(&path("a"), 1499, Corruption::Zero).unwrap());
    let content = sim.content(&path("a")).unwrap();
    assert_eq!(content[..512], [1; 512]);
    assert_eq!(content[512..1024], [2; 512]);
    assert_eq!(content[1024..], [0; 1500 - 1024]);
    let elsewhere = Corruption::Misplaced { from: path("b"), at: 3 };
    assert!(sim.corrupt(&path("a"), 0, elsewhere).unwrap());
    assert_eq!(sim.content(&path("a")).unwrap()[..512], [7; 512]);
}

#[test]
fn damage_that_changes_nothing_or_misses_the_file_says_so() {
    let sim = SimVfs::new(1);
    create_durable(&sim, "a", &[0; 100]);
    assert!(!sim.corrupt(&path("a"), 50, Corruption::Zero).unwrap());
    let beyond = sim.corrupt(&path("a"), 100, Corruption::Flip(0));
    assert_eq!(beyond.unwrap_err().kind(), ErrorKind::InvalidInput);
    let absent = sim.corrupt(&path("b"), 0, Corruption::Flip(0));
    assert_eq!(absent.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn space_runs_out_in_the_middle_of_a_write() {
    let sim = SimVfs::new(1);
    sim.set_capacity(Some(1000));
    let file = create(&sim, "a", &[1; 600]);
    assert_eq!(file.write_at(&[2; 600], 600).unwrap(), 400);
    assert_eq!(file.write_at(&[2; 200], 1000).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.write_all_at(&[3; 200], 900).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(sim.content(&path("a")).unwrap()[899..], [[2; 1].as_slice(), &[3; 100]].concat());
    assert_eq!(file.set_len(1001).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(sim.free_bytes(Path::new("/")).unwrap(), 0);
    file.write_all_at(&[4; 1000], 0).unwrap();
    drop(file);
    sim.remove(&path("a")).unwrap();
    assert_eq!(sim.free_bytes(Path::new("/")).unwrap(), 1000);
}

#[test]
fn reservations_take_space_and_segments_that_do_not_fit_leave_nothing() {
    let sim = SimVfs::new(1);
    sim.set_capacity(Some(10_000));
    let file = create(&sim, "a", b"");
    file.allocate(6000).unwrap();
    assert_eq!(file.len().unwrap(), 0);
    assert_eq!(file.allocate(10_001).unwrap_err().kind(), ErrorKind::StorageFull);
    let too_big = sim.log_segment(&path("log"), 4001, SegmentMode::Create);
    assert_eq!(too_big.unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(sim.list(Path::new("/")).unwrap().len(), 1);
    let log = sim.log_segment(&path("log"), 4000, SegmentMode::Create).unwrap();
    log.write(0, &[1; 4000]).unwrap();
    file.write_all_at(&[1; 6000], 0).unwrap();
}

#[test]
fn absurd_offsets_are_refused_without_eating_memory() {
    let sim = SimVfs::new(1);
    let file = create(&sim, "a", b"data");
    for at in [u64::MAX, u64::MAX / 2, 1 << 50] {
        assert_eq!(file.write_at(b"x", at).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(file.set_len(at).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(file.read_at(&mut [0; 8], at).unwrap(), 0);
    }
}
