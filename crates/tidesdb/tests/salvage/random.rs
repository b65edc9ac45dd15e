//! Salvage of randomly damaged databases, judged by what lies where in the undamaged one.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::support::{Damage, Files, Kept, Made, Places, content_of, open_db, seeds};
use tidesdb::salvage::{Loss, SalvageReport, find_damage, repair, restore, salvage};
use tidesdb::{Compression, Db, DbOptions, FamilyOptions};
use tidesdb_base::ErrorKind;
use tidesdb_sim::rng::SplitMix64;

type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

fn salvaged(from: &Path, to: &Path) -> (SalvageReport, Contents) {
    let report = salvage(from, to, &mut |_| Ok(())).unwrap();
    let db = open_db(to, DbOptions::default().read_only(true));
    assert!(db.verify().unwrap().problems.is_empty());
    (report, content_of(&db))
}

#[test]
fn an_undamaged_database_is_salvaged_whole() {
    for seed in seeds(4) {
        let place = tempfile::tempdir().unwrap();
        let made = Made::random(seed, &place.path().join("source"));
        let before = Files::of(&made.dir);
        let (report, found) = salvaged(&made.dir, &place.path().join("copy"));
        assert_eq!(report.losses, [], "seed {seed}");
        assert!(report.warnings.is_empty(), "seed {seed}: {:?}", report.warnings);
        assert_eq!(found, made.content(), "seed {seed}");
        assert_eq!(Files::of(&made.dir), before, "seed {seed}: the source was changed");
        let db = open_db(&place.path().join("copy"), DbOptions::default().read_only(true));
        for (name, options) in &made.options {
            assert_eq!(db.family(name).unwrap().options(), *options, "seed {seed}");
        }
    }
}

/// What is known of the damage when one key is judged.
struct Judge<'a> {
    made: &'a Made,
    before: &'a Files,
    after: &'a Files,
    report: &'a SalvageReport,
    manifest_is_whole: bool,
}

impl Judge<'_> {
    fn is_intact(&self, file: &str, offset: u64, bytes: u64) -> bool {
        self.before.part(file, offset, bytes) == self.after.part(file, offset, bytes)
    }

    /// Whether the block or record that holds a version is whole.
    fn is_there(&self, kept: &Kept) -> bool {
        self.is_intact(&kept.file, kept.offset, kept.bytes)
    }

    /// Whether it may be impossible to know what the block or record is of.
    fn is_doubtful(&self, kept: &Kept) -> bool {
        // Behind damage in a log it may not be known that a record was a commit, which is reported.
        let unproven = |text: &String| text.contains(&kept.file) && text.contains("left out");
        if kept.file.ends_with(".log")
            && !self.is_intact(&kept.file, 128, kept.offset - 128)
            && self.report.warnings.iter().any(unproven)
        {
            return true;
        }
        let (offset, bytes) = kept.needs;
        let from_manifest = self.manifest_is_whole && kept.file.ends_with(".klog");
        !from_manifest && !self.is_intact(&kept.file, offset, bytes)
    }

    fn value_is_there(&self, kept: &Kept) -> bool {
        kept.pointer.as_ref().is_none_or(|(file, at, bytes)| self.is_intact(file, *at, *bytes))
    }

    fn is_told(&self, file: &str, offset: u64, bytes: u64) -> bool {
        let tells = |loss: &Loss| {
            let end = if loss.bytes == 0 { u64::MAX } else { loss.offset + loss.bytes };
            loss.file.file_name().unwrap() == file && loss.offset < offset + bytes && offset < end
        };
        self.report.losses.iter().any(tells)
    }

    fn check(&self, family: &str, key: &[u8], found: Option<&Vec<u8>>, places: &Places) {
        let story = self.made.story(family, key);
        let truth = story.last().and_then(|written| written.as_ref());
        let context =
            || format!("{family} {key:?}: {:?}, {:?}", places.of(family, key), self.report);
        if let Some(found) = found {
            let written = story.iter().flatten().any(|value| value == found);
            assert!(written, "a value that was never written: {}", context());
        }
        let versions = places.of(family, key);
        let Some(newest) = versions.first() else {
            assert_eq!(truth, None, "{}", context());
            return;
        };
        if versions.iter().any(|kept| self.is_doubtful(kept)) {
            return;
        }
        // Several files may hold it: the log, and a table.
        let copies: Vec<&Kept> =
            versions.iter().take_while(|kept| kept.sequence == newest.sequence).collect();
        // A merge has forgotten the sequence number of this one: it can't be told from older ones.
        let settled_and_lost =
            |kept: &Kept| kept.sequence == 0 && self.is_there(kept) && !self.value_is_there(kept);
        if found.is_none() && versions.iter().any(settled_and_lost) {
            return;
        }
        let whole = |kept: &&&Kept| self.is_there(kept) && self.value_is_there(kept);
        if copies.iter().any(|kept| whole(&kept)) {
            match truth {
                Some(value) => assert_eq!(found, Some(value), "{}", context()),
                // Deleted by a range, which the manifest or the log has.
                None if !newest.deletes => {}
                None => assert_eq!(found, None, "{}", context()),
            }
            return;
        }
        // What the manifest does not name any more no reader can miss.
        for kept in copies.iter().filter(|_| self.manifest_is_whole) {
            let block = self.is_intact(&kept.file, kept.offset, kept.bytes);
            let (file, offset, bytes) = match &kept.pointer {
                Some((file, offset, bytes)) if block => (file, *offset, *bytes),
                _ => (&kept.file, kept.offset, kept.bytes),
            };
            // Behind the last whole record of a log nothing shows that there was more.
            let at_the_end = kept.file.ends_with(".log")
                && !places
                    .records_behind(&kept.file, kept.offset)
                    .any(|later| self.is_there(later));
            // A warning names the place behind which nothing shows that records were commits.
            let left_out = |text: &String| text.contains(file) && text.contains("left out");
            let is_warned_of = self.report.warnings.iter().any(left_out);
            assert!(
                at_the_end || is_warned_of || self.is_told(file, offset, bytes),
                "{file} {offset}: {}",
                context()
            );
        }
        if copies.iter().any(|kept| self.is_there(kept)) {
            assert_eq!(found, None, "an older value than the lost one: {}", context());
            return;
        }
        let settled = versions.iter().any(|kept| kept.sequence == 0);
        let next = versions.iter().find(|kept| self.is_there(kept));
        if let Some(next) = next.filter(|kept| !settled && self.value_is_there(kept)) {
            let older = next.value.as_ref().filter(|_| !next.deletes);
            let deleted = self.made.deletes_ranges && found.is_none();
            assert!(deleted || found == older, "{}", context());
        }
    }
}

fn damaged_and_judged(seed: u64, kinds: &[Damage]) {
    let place = tempfile::tempdir().unwrap();
    let made = Made::random(seed, &place.path().join("source"));
    let before = Files::of(&made.dir);
    let places = Places::find(&made);
    let mut random = SplitMix64::new(seed ^ 0xda3a6e);
    for _ in 0..1 + random.below(5) {
        let kind = kinds[random.below(kinds.len() as u64) as usize];
        kind.apply(&made.dir, &mut random);
    }
    let after = Files::of(&made.dir);
    let (report, found) = salvaged(&made.dir, &place.path().join("copy"));
    assert_eq!(Files::of(&made.dir), after, "seed {seed}: the source was changed");
    let is_manifest = |name: &str| name == "CURRENT" || name.starts_with("MANIFEST");
    let manifest_is_whole = before.only(is_manifest) == after.only(is_manifest);
    println!("seed {seed}: {} losses, manifest whole {manifest_is_whole}", report.losses.len());
    let judge =
        Judge { made: &made, before: &before, after: &after, report: &report, manifest_is_whole };
    let mut keys: BTreeSet<(String, Vec<u8>)> = made.keys();
    for (family, content) in &found {
        keys.extend(content.keys().map(|key| (family.clone(), key.clone())));
    }
    // A family may have lost its name.
    let known = |name: &str| made.options.contains_key(name);
    if !manifest_is_whole && report.families.iter().any(|family| !known(&family.name)) {
        return;
    }
    let options_are_lost = |name: &str| {
        report.families.iter().any(|family| family.name == name && !family.options_are_known)
    };
    // Without its options keys are what is stored.
    keys.retain(|(family, _)| !options_are_lost(family));
    for (family, key) in keys {
        let value = found.get(&family).and_then(|content| content.get(&key));
        judge.check(&family, &key, value, &places);
    }
    if before == after {
        assert_eq!(found, made.content());
    }
}

#[test]
fn salvage_recovers_every_undamaged_entry_of_a_randomly_damaged_database() {
    for seed in seeds(14) {
        let kinds = [Damage::Flip, Damage::Zero, Damage::Page, Damage::Cut, Damage::Remove];
        damaged_and_judged(seed, &kinds);
    }
}

#[test]
fn blocks_are_found_in_tables_whose_index_or_footer_is_damaged() {
    for seed in seeds(8) {
        damaged_and_judged(seed, &[Damage::TableEnd, Damage::TableEnd, Damage::Flip]);
    }
}

#[test]
fn a_database_without_its_manifest_is_salvaged_from_its_files() {
    for seed in seeds(5) {
        let place = tempfile::tempdir().unwrap();
        let made = Made::random(seed, &place.path().join("source"));
        for name in Files::of(&made.dir).names() {
            if name == "CURRENT" || name.starts_with("MANIFEST") {
                std::fs::remove_file(made.dir.join(name)).unwrap();
            }
        }
        let (report, found) = salvaged(&made.dir, &place.path().join("copy"));
        assert!(report.losses.is_empty(), "seed {seed}: {:?}", report.losses);
        assert!(!report.warnings.is_empty());
        for (family, content) in made.content() {
            // One that has no table yet has its name in the manifest alone.
            let Some(found) = found.get(&family) else { continue };
            for (key, value) in content {
                assert_eq!(found.get(&key), Some(&value), "seed {seed} {family} {key:?}");
            }
        }
        let damage = find_damage(&made.dir, &mut |_| Ok(())).unwrap();
        assert!(damage.problems.iter().any(|problem| problem.to_string().contains("CURRENT")));
    }
}

#[test]
fn all_damage_is_listed_without_a_manifest() {
    let place = tempfile::tempdir().unwrap();
    let made = Made::random(3, &place.path().join("source"));
    let files = Files::of(&made.dir);
    let table = files.names().find(|name| name.ends_with(".klog")).unwrap().to_owned();
    std::fs::write(made.dir.join("CURRENT"), "nonsense").unwrap();
    Damage::flip_at(&made.dir, &table, 20);
    let damage = find_damage(&made.dir, &mut |_| Ok(())).unwrap();
    let texts: Vec<String> = damage.problems.iter().map(ToString::to_string).collect();
    assert!(texts.iter().any(|text| text.contains("CURRENT")), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains(&table)), "{texts:?}");
}

#[test]
fn a_repaired_database_opens_and_the_damaged_one_is_kept() {
    let place = tempfile::tempdir().unwrap();
    let made = Made::random(5, &place.path().join("source"));
    std::fs::remove_file(made.dir.join("CURRENT")).unwrap();
    let before = Files::of(&made.dir);
    let repaired = repair(&made.dir, &mut |_| Ok(())).unwrap();
    assert_eq!(repaired.kept, place.path().join("source.damaged"));
    assert_eq!(Files::of(&repaired.kept), before);
    let db = open_db(&made.dir, DbOptions::default());
    assert_eq!(content_of(&db), made.content());
    db.close().unwrap();
    std::fs::remove_file(made.dir.join("CURRENT")).unwrap();
    let repaired = repair(&made.dir, &mut |_| Ok(())).unwrap();
    assert_eq!(repaired.kept, place.path().join("source.damaged-1"));
}

#[test]
fn a_name_that_is_taken_during_a_repair_leads_to_the_next() {
    let place = tempfile::tempdir().unwrap();
    let made = Made::random(8, &place.path().join("source"));
    let before = Files::of(&made.dir);
    let another = place.path().join("source.damaged/another's");
    // The name was free when the repair chose it.
    let taken = repair(&made.dir, &mut |_| {
        std::fs::create_dir_all(&another).unwrap();
        Ok(())
    });
    let kept = taken.unwrap().kept;
    assert_eq!(kept, place.path().join("source.damaged-1"));
    assert!(Files::of(&kept) == before && another.exists());
    assert!(!place.path().join("source.repaired").exists());
    let repaired = repair(&made.dir, &mut |_| Ok(())).unwrap();
    assert_eq!(repaired.kept, place.path().join("source.damaged-2"));
    assert_eq!(content_of(&open_db(&made.dir, DbOptions::default())), made.content());
}

#[test]
fn a_backup_is_restored_to_a_new_place_or_not_at_all() {
    let place = tempfile::tempdir().unwrap();
    let made = Made::random(6, &place.path().join("backup"));
    let to = place.path().join("restored");
    let restored = restore(&made.dir, &to, &mut |_| Ok(())).unwrap();
    assert!(restored.files > 2 && restored.entries > 0, "{restored:?}");
    let db = open_db(&to, DbOptions::default().read_only(true));
    assert_eq!(content_of(&db), made.content());
    db.close().unwrap();
    let again = restore(&made.dir, &to, &mut |_| Ok(())).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Exists, "{again}");
    let table =
        Files::of(&made.dir).names().find(|name| name.ends_with(".klog")).unwrap().to_owned();
    Damage::flip_at(&made.dir, &table, 20);
    let other = place.path().join("other");
    let error = restore(&made.dir, &other, &mut |_| Ok(())).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    let left: Vec<_> =
        std::fs::read_dir(place.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!other.exists() && left.len() == 2, "{left:?}");
}

#[test]
fn what_is_in_the_way_is_left_alone() {
    let stop = || tidesdb_base::Error::Cancelled;
    let place = tempfile::tempdir().unwrap();
    let made = Made::random(7, &place.path().join("source"));
    let taken = place.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("file"), "mine").unwrap();
    let error = salvage(&made.dir, &taken, &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    let error = salvage(&made.dir, &made.dir.join("inside"), &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    // By another name, and where the work would be done in the source.
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&made.dir, &link).unwrap();
    let unfinished = place.path().join("whole.unfinished");
    std::fs::rename(&made.dir, &unfinished).unwrap();
    let files = || std::fs::read_dir(&unfinished).unwrap().count();
    let before = files();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&unfinished, &link).unwrap();
    for to in [link.join("inside"), place.path().join("whole")] {
        let error = salvage(&unfinished, &to, &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let error = restore(&unfinished, &to, &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(files(), before);
    std::fs::rename(&unfinished, &made.dir).unwrap();
    // Nothing could get the name of a link in the end.
    let dangling = place.path().join("dangling");
    std::os::unix::fs::symlink("absent", &dangling).unwrap();
    let error = salvage(&made.dir, &dangling, &mut |_| Err(stop())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let error = salvage(&taken, &place.path().join("copy"), &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let db = Db::open(&made.dir, DbOptions::default()).unwrap();
    let error = salvage(&made.dir, &place.path().join("copy"), &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    db.close().unwrap();
    // Who interrupts it leaves nothing.
    salvage(&made.dir, &place.path().join("copy"), &mut |_| Err(stop())).unwrap_err();
    assert!(!place.path().join("copy").exists());
    assert!(!place.path().join("copy.unfinished").exists());
}

#[test]
fn all_codecs_and_both_forms_of_tables_are_salvaged_behind_damaged_indexes() {
    let codecs = [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    for codec in codecs {
        for tree in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let dir = place.path().join("source");
            let db = Db::open(&dir, DbOptions::default()).unwrap();
            let options = FamilyOptions::default()
                .compression(codec)
                .use_btree(tree)
                .block_size(512)
                .klog_value_threshold(1 << 20);
            let family = db.create_family("family", options).unwrap();
            for number in 0..2000_u32 {
                let value = format!("value of {number} {number}").repeat(3);
                family.put(&number.to_be_bytes(), value.as_bytes()).unwrap();
            }
            db.flush().unwrap();
            db.wait_idle().unwrap();
            db.close().unwrap();
            let table =
                Files::of(&dir).names().find(|name| name.ends_with(".klog")).unwrap().to_owned();
            let len = std::fs::metadata(dir.join(&table)).unwrap().len();
            // The footer, and one data block.
            Damage::flip_at(&dir, &table, len - 50);
            Damage::flip_at(&dir, &table, len / 3);
            let (report, found) = salvaged(&dir, &place.path().join("copy"));
            assert_eq!(report.losses.len(), 1, "{codec:?} {tree}: {:?}", report.losses);
            let loss = &report.losses[0];
            assert_eq!(loss.families, ["family"]);
            let left = found["family"].len();
            assert!((1900..2000).contains(&left), "{codec:?} {tree}: {left}");
            let (first, last) = (loss.first_key.clone().unwrap(), loss.last_key.clone().unwrap());
            for number in 0..2000_u32 {
                let key = number.to_be_bytes().to_vec();
                let lost = first < key && key < last;
                assert_eq!(found["family"].contains_key(&key), !lost, "{codec:?} {tree} {number}");
            }
        }
    }
}
