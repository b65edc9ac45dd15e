//! What crash images may contain: rules 3 and 6.

use std::collections::BTreeSet;

use super::*;
use crate::CrashProfile::{Everything, Nothing, Random, Tail, Torn};

#[test]
fn random_images_mix_whole_sectors_and_show_versions_between() {
    let sim = SimVfs::new(5);
    let file = create_durable(&sim, "a", &[b'o'; 4 * 512]);
    for version in *b"abcdefgh" {
        file.write_all_at(&[version; 4 * 512], 0).unwrap();
    }
    let (mut mixed, mut between) = (false, false);
    for seed in 0..200 {
        let content = content_after(&sim, "a", Random, seed).unwrap();
        let versions: BTreeSet<u8> = content
            .chunks(512)
            .map(|sector| {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is atomic");
                sector[0]
            })
            .collect();
        mixed |= versions.len() > 1;
        between |= versions.iter().any(|version| (b'a'..b'h').contains(version));
    }
    assert!(mixed && between);
}

#[test]
fn random_images_reach_both_lengths_and_some_between() {
    let sim = SimVfs::new(5);
    let file = create_durable(&sim, "a", &[1; 10]);
    file.write_all_at(&[2; 5000], 0).unwrap();
    let lengths: BTreeSet<usize> =
        (0..100).map(|seed| content_after(&sim, "a", Random, seed).unwrap().len()).collect();
    assert!(lengths.contains(&10) && lengths.contains(&5000) && lengths.len() > 10);
    assert_eq!((lengths.first(), lengths.last()), (Some(&10), Some(&5000)));
}

#[test]
fn torn_images_cut_the_last_write_at_any_byte_and_keep_the_earlier_ones() {
    let sim = SimVfs::new(5);
    let file = create(&sim, "a", &[1; 700]);
    file.write_all_at(&[2; 700], 700).unwrap();
    let mut lengths = BTreeSet::new();
    for seed in 0..300 {
        let content = content_after(&sim, "a", Torn, seed).unwrap();
        assert_eq!(content[..700], [1; 700]);
        assert!(content[700..].iter().all(|byte| *byte == 2));
        assert!(content.len() < 1400, "the last write never arrives whole");
        lengths.insert(content.len());
    }
    assert!(lengths.len() > 100, "cuts are not limited to sectors");
    file.sync_data().unwrap();
    assert_eq!(content_after(&sim, "a", Torn, 0).unwrap().len(), 1400, "synced: nothing to tear");
}

#[test]
fn torn_overwrites_show_new_bytes_before_the_cut_and_old_ones_behind() {
    let sim = SimVfs::new(5);
    let file = create_durable(&sim, "a", &[1; 3000]);
    file.write_all_at(&[2; 1000], 1000).unwrap();
    let mut cuts = BTreeSet::new();
    for seed in 0..50 {
        let content = content_after(&sim, "a", Torn, seed).unwrap();
        let new = content.iter().filter(|byte| **byte == 2).count();
        let mut expected = vec![1; 3000];
        expected[1000..1000 + new].fill(2);
        assert_eq!(content, expected);
        cuts.insert(new);
    }
    assert!(cuts.len() > 20);
}

#[test]
fn tail_images_have_the_new_length_but_zero_or_stale_content() {
    let sim = SimVfs::new(5);
    create_durable(&sim, "other", &[9; 2048]);
    let file = create_durable(&sim, "a", &[1; 600]);
    file.write_all_at(&[2; 4000], 600).unwrap();
    let (mut zero, mut stale) = (false, false);
    for seed in 0..60 {
        let content = content_after(&sim, "a", Tail, seed).unwrap();
        assert_eq!(content.len(), 4600);
        assert_eq!(content[..512], [1; 512]);
        assert!(content[1024..].iter().all(|byte| *byte != 2), "no new byte arrives");
        zero |= content[1024..].contains(&0);
        stale |= content[1024..].contains(&9);
    }
    assert!(zero && stale);
}

#[test]
fn images_and_originals_are_independent() {
    let sim = SimVfs::new(5);
    let file = create_durable(&sim, "a", &[1; 5000]);
    let image = sim.crash_image(Everything, 0);
    let fork = sim.fork();
    file.write_all_at(&[2; 10], 4090).unwrap();
    let in_image = image.open(&path("a"), OpenMode::ReadWrite).unwrap();
    in_image.write_all_at(&[3; 10], 0).unwrap();
    create(&image, "b", b"");
    let of = |sim: &SimVfs| sim.content(&path("a")).unwrap();
    assert_eq!((of(&sim)[0], of(&image)[0], of(&fork)[0]), (1, 3, 1));
    assert_eq!((of(&sim)[4095], of(&image)[4095], of(&fork)[4095]), (2, 1, 1));
    assert_eq!(sim.list(Path::new("/")).unwrap().len(), 1);
}

#[test]
fn a_fork_keeps_unsynced_state_apart_from_durable_state() {
    let sim = SimVfs::new(5);
    create_durable(&sim, "a", b"old").write_all_at(b"new", 0).unwrap();
    let fork = sim.fork();
    assert_eq!(fork.content(&path("a")).unwrap(), b"new");
    assert_eq!(content_after(&fork, "a", Nothing, 0).unwrap(), b"old");
    assert_eq!(fork.state_hash(), sim.state_hash());
}

#[test]
fn equal_seeds_give_equal_images_and_images_are_durable() {
    let sim = SimVfs::new(5);
    let file = create_durable(&sim, "a", &[1; 9000]);
    file.write_all_at(&[2; 9000], 3000).unwrap();
    create(&sim, "b", &[3; 5000]);
    for profile in CrashProfile::ALL {
        let first = sim.crash_image(profile, 11);
        assert_eq!(first.state_hash(), sim.crash_image(profile, 11).state_hash());
        for again in CrashProfile::ALL {
            let second = first.crash_image(again, 12);
            assert_eq!(first.state_hash(), second.state_hash(), "{profile:?} then {again:?}");
        }
    }
    let distinct: BTreeSet<u64> =
        (0..50).map(|seed| sim.crash_image(Random, seed).state_hash()).collect();
    assert!(distinct.len() > 25);
}
