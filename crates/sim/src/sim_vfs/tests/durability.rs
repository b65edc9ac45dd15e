//! What is durable when: rules 1, 2 and 4.

use std::path::Path;

use super::*;
use crate::CrashProfile::{Everything, MetadataFirst, Nothing, Random, Torn};

#[test]
fn unsynced_bytes_are_lost_by_a_power_cut_and_kept_by_a_kill() {
    let sim = SimVfs::new(1);
    let file = create_durable(&sim, "a", b"old");
    file.write_all_at(b"new and longer", 0).unwrap();
    assert_eq!(content_after(&sim, "a", Nothing, 0).unwrap(), b"old");
    assert_eq!(content_after(&sim, "a", Everything, 0).unwrap(), b"new and longer");
    file.sync_data().unwrap();
    assert_eq!(content_after(&sim, "a", Nothing, 0).unwrap(), b"new and longer");
}

#[test]
fn a_synced_file_without_a_synced_name_is_lost() {
    let sim = SimVfs::new(1);
    create(&sim, "a", b"data").sync_all().unwrap();
    assert_eq!(names_after(&sim, Nothing, 0), Vec::<String>::new());
    assert_eq!(names_after(&sim, Everything, 0), ["a"]);
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(content_after(&sim, "a", Nothing, 0).unwrap(), b"data");
}

#[test]
fn a_synced_name_does_not_bring_its_data() {
    let sim = SimVfs::new(1);
    create(&sim, "a", b"data");
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(content_after(&sim, "a", Nothing, 0).unwrap(), b"");
}

#[test]
fn a_rename_reverts_until_its_directory_is_synced() {
    let sim = SimVfs::new(1);
    create_durable(&sim, "current", b"1");
    create_durable(&sim, "next", b"2");
    sim.rename(&path("next"), &path("current")).unwrap();
    assert_eq!(sim.content(&path("current")).unwrap(), b"2");
    assert_eq!(names_after(&sim, Nothing, 0), ["current", "next"]);
    assert_eq!(content_after(&sim, "current", Nothing, 0).unwrap(), b"1");
    let outcomes: Vec<_> =
        (0..40).map(|seed| content_after(&sim, "current", Random, seed).unwrap()).collect();
    assert!(outcomes.contains(&b"1".to_vec()) && outcomes.contains(&b"2".to_vec()));
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(names_after(&sim, Nothing, 0), ["current"]);
    assert_eq!(content_after(&sim, "current", Nothing, 0).unwrap(), b"2");
}

#[test]
fn a_rename_may_arrive_before_the_data_it_publishes() {
    let sim = SimVfs::new(1);
    create_durable(&sim, "current", b"1");
    create(&sim, "next", b"22");
    sim.rename(&path("next"), &path("current")).unwrap();
    assert_eq!(content_after(&sim, "current", MetadataFirst, 0).unwrap(), b"");
}

#[test]
fn a_removed_file_returns_until_its_directory_is_synced() {
    let sim = SimVfs::new(1);
    create_durable(&sim, "a", b"data");
    sim.remove(&path("a")).unwrap();
    assert_eq!(content_after(&sim, "a", Nothing, 0).unwrap(), b"data");
    assert_eq!(names_after(&sim, Everything, 0), Vec::<String>::new());
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(names_after(&sim, Nothing, 0), Vec::<String>::new());
}

#[test]
fn syncing_one_directory_leaves_others_alone() {
    let sim = SimVfs::new(1);
    sim.create_dir(&path("d")).unwrap();
    create(&sim, "d/inside", b"");
    create(&sim, "outside", b"");
    sim.sync_dir(&path("d")).unwrap();
    assert_eq!(names_after(&sim, Nothing, 0), Vec::<String>::new());
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(names_after(&sim, Nothing, 0), ["d", "outside"]);
    assert!(content_after(&sim, "d/inside", Nothing, 0).is_some());
}

#[test]
fn a_move_between_directories_waits_for_the_new_one() {
    let sim = SimVfs::new(1);
    sim.create_dir(&path("d")).unwrap();
    create_durable(&sim, "a", b"data");
    sim.rename(&path("a"), &path("d/a")).unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(names_after(&sim, Nothing, 0), ["a", "d"]);
    sim.sync_dir(&path("d")).unwrap();
    assert_eq!(names_after(&sim, Nothing, 0), ["d"]);
    assert_eq!(content_after(&sim, "d/a", Nothing, 0).unwrap(), b"data");
}

#[test]
fn after_a_failed_sync_the_next_succeeds_and_the_data_is_gone() {
    let sim = SimVfs::new(1);
    let file = create_durable(&sim, "a", b"old");
    file.write_all_at(b"new", 0).unwrap();
    sim.fail_sync_after(0);
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(libc::EIO));
    file.sync_data().unwrap();
    assert_eq!(sim.content(&path("a")).unwrap(), b"new", "the cache still shows the bytes");
    for profile in [Nothing, Random, Torn, MetadataFirst] {
        assert_eq!(content_after(&sim, "a", profile, 3).unwrap(), b"old", "{profile:?}");
    }
    file.write_all_at(b"new", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(content_after(&sim, "a", Nothing, 0).unwrap(), b"new", "written again, kept");
}

#[test]
fn a_cut_file_is_whole_again_after_a_power_cut_unless_synced() {
    let sim = SimVfs::new(1);
    let file = create_durable(&sim, "a", &[7; 3000]);
    file.set_len(100).unwrap();
    file.set_len(3000).unwrap();
    let mut cut = vec![7; 100];
    cut.resize(3000, 0);
    assert_eq!(sim.content(&path("a")).unwrap(), cut);
    assert_eq!(content_after(&sim, "a", Nothing, 0).unwrap(), [7; 3000]);
    file.sync_data().unwrap();
    assert_eq!(content_after(&sim, "a", Nothing, 0).unwrap(), cut);
    // A file with unsynced bytes takes another path to its image: it must know of the cut too.
    file.write_all_at(&[1], 0).unwrap();
    assert_eq!(content_after(&sim, "a", Nothing, 0).unwrap(), cut);
}

#[test]
fn lost_sectors_stay_lost_when_a_neighbour_is_written_and_synced() {
    let sim = SimVfs::new(1);
    let file = create_durable(&sim, "a", &[1; 1024]);
    file.write_all_at(&[2; 1024], 0).unwrap();
    sim.fail_sync_after(0);
    file.sync_data().unwrap_err();
    file.write_all_at(&[2; 512], 0).unwrap();
    file.sync_data().unwrap();
    let content = content_after(&sim, "a", Nothing, 0).unwrap();
    assert_eq!((&content[..512], &content[512..]), (&[2; 512][..], &[1; 512][..]));
}

#[test]
fn an_open_file_outlives_its_name() {
    let sim = SimVfs::new(1);
    let file = create_durable(&sim, "a", b"data");
    sim.remove(&path("a")).unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
    let mut buffer = [0; 4];
    file.read_exact_at(&mut buffer, 0).unwrap();
    assert_eq!(&buffer, b"data");
    drop(file);
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(sim.disk().nodes.len(), 1, "only the root is left");
}
