//! Damage that is laid out by hand, where it matters what lies where.

use std::path::Path;

use tidesdb::salvage::{repair, salvage};
use tidesdb::{Components, Db, DbOptions, FamilyOptions, KeyOrder};
use tidesdb_base::ErrorKind;
use tidesdb_files::manifest::{Change, Edit, ManifestWriter, read_manifest};
use tidesdb_files::naming::{self, FileKind};
use tidesdb_sim::ManualClock;
use tidesdb_sys::vfs::{OpenMode, RealVfs, Vfs};

use super::killed::*;
use super::support::{Damage, content_of};

#[test]
fn a_missing_table_makes_no_dead_ones_count() {
    let place = Place::new();
    let dir = place.source();
    let db = Db::open(&dir, DbOptions::default()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    let other = db.create_family("other", FamilyOptions::default()).unwrap();
    // What lies above another run keeps its sequence number.
    family.put(b"key", b"first").unwrap();
    family.flush().unwrap();
    let first = tables(&dir);
    family.put(b"key", b"old").unwrap();
    family.flush().unwrap();
    let mut dead = tables(&dir);
    dead.retain(|path| !first.contains(path));
    assert_eq!(dead.len(), 1);
    let kept: Vec<_> = dead.iter().map(|path| std::fs::read(path).unwrap()).collect();
    family.put(b"key", b"new").unwrap();
    family.flush().unwrap();
    family.compact().unwrap();
    let listed = tables(&dir);
    other.put(b"key", b"of the other").unwrap();
    other.flush().unwrap();
    db.close().unwrap();
    // A new manifest says nothing of what was removed.
    Db::open(&dir, DbOptions::default()).unwrap().close().unwrap();
    for (path, bytes) in dead.iter().zip(kept) {
        assert!(!path.exists());
        std::fs::write(path, bytes).unwrap();
    }
    let missing = tables(&dir).into_iter().find(|p| !listed.contains(p) && !dead.contains(p));
    std::fs::remove_file(missing.unwrap()).unwrap();
    let (report, found) = place.salvaged();
    assert_eq!(found["family"][b"key".as_slice()], b"new", "{report:?}");
    assert_eq!(report.losses.len(), 1, "{report:?}");
}

/// The last edits of the manifest are damaged, and an older table lies beside what a merge has made
/// of it.
#[test]
fn damage_at_the_end_of_the_manifest_is_told_and_dead_tables_do_not_outrank_settled_ones() {
    let place = Place::new();
    let dir = place.source();
    let db = Db::open(&dir, DbOptions::default()).unwrap();
    let family = db.create_family("family", FamilyOptions::default()).unwrap();
    // What lies above another run keeps its sequence number.
    family.put(b"key", b"first").unwrap();
    family.flush().unwrap();
    let first = tables(&dir);
    family.put(b"key", b"old").unwrap();
    family.flush().unwrap();
    let mut dead = tables(&dir);
    dead.retain(|path| !first.contains(path));
    assert_eq!(dead.len(), 1);
    let kept: Vec<_> = dead.iter().map(|path| std::fs::read(path).unwrap()).collect();
    family.put(b"key", b"new").unwrap();
    family.flush().unwrap();
    family.compact().unwrap();
    db.close().unwrap();
    let db = Db::open(&dir, DbOptions::default()).unwrap();
    let family = db.family("family").unwrap();
    family.put(b"later", b"of the last edit").unwrap();
    family.flush().unwrap();
    let killed = place.dir.path().join("killed");
    copy_files(&dir, &killed);
    db.close().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    std::fs::rename(&killed, &dir).unwrap();
    dead.iter().zip(kept).for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    let manifest = named(&dir, |kind| matches!(kind, FileKind::Manifest(_))).pop().unwrap();
    let len = std::fs::metadata(&manifest).unwrap().len();
    let name = manifest.file_name().unwrap().to_str().unwrap().to_owned();
    Damage::flip_at(&dir, &name, len - 2);
    let (report, found) = place.salvaged();
    assert!(report.warnings.iter().any(|text| text.contains("last")), "{report:?}");
    assert_eq!(found["family"][b"key".as_slice()], b"new", "{report:?}");
    assert_eq!(found["family"][b"later".as_slice()], b"of the last edit", "{report:?}");
}

#[test]
fn the_log_counts_where_a_table_of_an_unknown_family_is_lost() {
    let place = Place::new();
    let dir = place.killed(DbOptions::default(), |db| {
        let options = FamilyOptions::default().l1_file_count_trigger(64);
        let family = db.create_family("family", options).unwrap();
        db.create_family("other", FamilyOptions::default()).unwrap();
        // The second one is too small for a merge with the first.
        for numbers in [0..5000, 5000..5001] {
            put_all(&family, numbers);
            family.flush().unwrap();
        }
    });
    let [lost, _] = tables(&dir).try_into().unwrap();
    let len = std::fs::metadata(&lost).unwrap().len();
    std::fs::write(&lost, vec![0; len as usize]).unwrap();
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    for manifest in named(&dir, |kind| matches!(kind, FileKind::Manifest(_))) {
        std::fs::remove_file(manifest).unwrap();
    }
    let (report, found) = place.salvaged();
    assert_eq!(found["family"].len(), 5001, "{report:?}");
    assert_eq!(found.len(), 1, "{report:?}");
}

/// The manifest forgets deletions of ranges that hide nothing in a table, and the log still has
/// what they deleted.
#[test]
fn deleted_ranges_of_the_log_stay_deleted_where_a_table_is_damaged() {
    let place = Place::new();
    let dir = place.killed(DbOptions::default(), |db| {
        let options = FamilyOptions::default().l1_file_count_trigger(64);
        let family = db.create_family("family", options).unwrap();
        put_all(&family, 0..100);
        family.delete_range(&key(40), &key(60)).unwrap();
        family.flush().unwrap();
        // Younger ones count, in a table and in the log.
        family.put(&key(45), b"again").unwrap();
        family.flush().unwrap();
        family.put(&key(46), b"again").unwrap();
    });
    let [lost, _] = tables(&dir).try_into().unwrap();
    write_at(&lost, 0, &[0; 512]);
    let (report, found) = place.salvaged();
    assert_eq!(report.losses.len(), 1, "{report:?}");
    let left = (0..40).chain([45, 46]).chain(60..100);
    assert_eq!(keys_of(&found, "family"), keys(left), "{report:?}");
}

/// Damage of the manifest was listed as such that cost nothing, beside families that were gone.
#[test]
fn without_a_manifest_missing_families_are_uncertain_and_nothing_is_called_costless() {
    for removed in [true, false] {
        let place = Place::new();
        let dir = place.killed(DbOptions::default(), |db| {
            let family = db.create_family("family", FamilyOptions::default()).unwrap();
            db.create_family("empty", FamilyOptions::default()).unwrap();
            put_all(&family, 0..10);
            family.flush().unwrap();
            db.clone_family("family", "copy").unwrap();
        });
        for manifest in named(&dir, |kind| matches!(kind, FileKind::Manifest(_))) {
            if removed {
                std::fs::remove_file(manifest).unwrap();
            } else {
                std::fs::write(manifest, [0xa5; 2000]).unwrap();
            }
        }
        let (report, found) = place.salvaged();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["family"], "{report:?}");
        assert!(report.harmless.is_empty() && !report.is_complete(), "{report:?}");
        let reported = |text: &str| report.warnings.iter().any(|warning| warning.contains(text));
        assert!(reported("copies of families") && reported("MANIFEST-"), "{report:?}");
    }
}

#[test]
fn a_repair_has_the_database_for_itself_from_the_beginning() {
    let place = Place::new();
    let dir = place.killed(DbOptions::default(), |db| {
        put_all(&db.create_family("family", FamilyOptions::default()).unwrap(), 0..3);
    });
    let read_only = || Db::open(&dir, DbOptions::default().read_only(true));
    let reader = read_only().unwrap();
    let mut calls = 0;
    let error = repair(&dir, &mut |_| {
        calls += 1;
        Ok(())
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Locked);
    assert_eq!(calls, 0, "it was found after the work");
    reader.close().unwrap();
    let repaired = repair(&dir, &mut |_| {
        calls += 1;
        assert_eq!(read_only().unwrap_err().kind(), ErrorKind::Locked);
        Ok(())
    });
    assert!(calls > 0 && repaired.unwrap().report.is_complete());
    assert_eq!(content_of(&read_only().unwrap())["family"].len(), 3);
}

#[test]
fn what_has_expired_by_the_clock_of_the_rescuer_is_kept() {
    let place = Place::new();
    place.killed(DbOptions::default(), |db| {
        let family = db.create_family("family", FamilyOptions::default()).unwrap();
        family.put_expiring_at(b"long ago", b"value", 1000).unwrap();
    });
    let report = salvage(&place.source(), &place.copy(), &mut |_| Ok(())).unwrap();
    assert_eq!((report.entries(), report.families[0].deleted), (1, 0));
    let options = DbOptions::default().read_only(true);
    let components = Components::for_options(&options).unwrap();
    let clock = std::sync::Arc::new(ManualClock::new(999));
    let components = Components { clock, ..components };
    let db = Db::open_with(place.copy(), options, components).unwrap();
    assert_eq!(content_of(&db)["family"].len(), 1);
}

fn edit_manifest(dir: &Path, change: Change) {
    let path = named(dir, |kind| matches!(kind, FileKind::Manifest(_))).pop().unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let number = naming::parse(name).and_then(FileKind::number).unwrap();
    let file = RealVfs::new().open(&path, OpenMode::ReadWrite).unwrap();
    let (_, end) = read_manifest(file.as_ref(), &path, number).unwrap();
    let mut writer = ManifestWriter::resume(file, path, number, end);
    writer.append(&Edit::new(vec![change])).unwrap();
}

#[test]
fn what_was_read_and_values_that_are_gone_are_counted() {
    let place = Place::new();
    let dir = place.killed(DbOptions::default(), |db| {
        let options = FamilyOptions::default().klog_value_threshold(100);
        let family = db.create_family("family", options).unwrap();
        put_all(&family, 0..20);
        (20..25).for_each(|number| family.put(&key(number), &[7; 500]).unwrap());
        family.flush().unwrap();
        put_all(&family, 30..33);
    });
    let (report, found) = place.salvaged();
    assert_eq!((found["family"].len(), report.families[0].values_lost), (28, 0), "{report:?}");
    let (segments, tables) = (segments(&dir), tables(&dir));
    let bytes = |paths: &[std::path::PathBuf]| -> u64 {
        paths.iter().map(|path| std::fs::metadata(path).unwrap().len()).sum()
    };
    assert!(!segments.is_empty() && tables.len() == 1);
    assert_eq!((report.log_segments, report.tables), (segments.len() as u64, 1), "{report:?}");
    assert_eq!(report.bytes_read, bytes(&segments) + bytes(&tables), "{report:?}");
    // The log has the values as well.
    let kinds = |kind| matches!(kind, FileKind::ValueLog(_) | FileKind::LogSegment(_));
    named(&dir, kinds).iter().for_each(|path| std::fs::remove_file(path).unwrap());
    std::fs::remove_dir_all(place.copy()).unwrap();
    let (report, found) = place.salvaged();
    let family = &report.families[0];
    assert_eq!((family.entries, family.values_lost), (20, 5), "{report:?}");
    assert_eq!(found["family"].len(), 20);
    assert_eq!((report.log_segments, report.bytes_read), (0, bytes(&tables)), "{report:?}");
}

#[test]
fn options_that_do_not_parse_leave_keys_what_they_were() {
    for (unknown, in_tables) in [(false, false), (false, true), (true, false)] {
        let place = Place::new();
        let dir = place.killed(DbOptions::default(), |db| {
            let options = FamilyOptions::default().key_order(KeyOrder::Reverse);
            let family = db.create_family("family", options).unwrap();
            put_all(&family, 0..3);
            if in_tables {
                family.flush().unwrap();
            }
        });
        let order = if unknown { "of_tomorrow" } else { "reverse" };
        let options = format!("compression = of_tomorrow\nkey_order = {order}");
        edit_manifest(&dir, Change::SetOptions { family: 0, options: options.into() });
        let (report, found) = place.salvaged();
        if unknown {
            assert!(found.is_empty() && report.losses.len() == 1, "{report:?}");
            assert!(report.losses[0].reason.contains("order of keys"), "{report:?}");
        } else {
            assert_eq!(keys_of(&found, "family"), keys(0..3), "{report:?}");
            assert!(!report.families[0].options_are_known);
        }
    }
}

/// A name that no family can have ended the whole work.
#[test]
fn a_family_with_a_name_that_none_can_have_is_salvaged_under_another() {
    for name in ["../above", "two\nlines", &"n".repeat(200), ""] {
        for in_tables in [false, true] {
            let place = Place::new();
            let dir = place.killed(DbOptions::default(), |db| {
                let family = db.create_family("family", FamilyOptions::default()).unwrap();
                put_all(&family, 0..3);
                if in_tables {
                    family.flush().unwrap();
                }
            });
            edit_manifest(&dir, Change::RenameFamily { family: 0, name: name.to_owned() });
            let (report, found) = place.salvaged();
            // A table has the name that it was written under.
            let expected = if in_tables { "family" } else { "family-0" };
            assert_eq!(keys_of(&found, expected), keys(0..3), "{name:?}: {report:?}");
            assert_eq!(report.families[0].name_is_known, in_tables, "{report:?}");
        }
    }
}

#[test]
fn losses_name_keys_as_they_were_given_and_families_by_their_names() {
    let place = Place::new();
    let dir = place.killed(DbOptions::default(), |db| {
        // Names that are numbers, of others.
        for (name, order) in [("1", KeyOrder::Reverse), ("0", KeyOrder::Bytewise)] {
            let options = FamilyOptions::default().key_order(order).block_size(512);
            let family = db.create_family(name, options.klog_value_threshold(100)).unwrap();
            put_all(&family, 0..500);
            family.put(b"long", &[7; 1000]).unwrap();
            family.flush().unwrap();
        }
    });
    let table = tables(&dir).remove(0);
    let name = table.file_name().unwrap().to_str().unwrap().to_owned();
    Damage::flip_at(&dir, &name, 1500);
    // The log has it all.
    let kinds = |kind| matches!(kind, FileKind::ValueLog(_) | FileKind::LogSegment(_));
    named(&dir, kinds).iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let (report, found) = place.salvaged();
    let of_table: Vec<_> = report.losses.iter().filter(|loss| loss.file == table).collect();
    assert_eq!(of_table.len(), 1, "{report:?}");
    assert_eq!(of_table[0].families, ["1"]);
    let (first, last) = (of_table[0].first_key.clone(), of_table[0].last_key.clone());
    let (first, last) = (first.unwrap(), last.unwrap());
    assert!(first.starts_with(b"key ") && last.starts_with(b"key ") && first > last, "{report:?}");
    let lost: Vec<_> = keys(0..500).into_iter().filter(|k| !found["1"].contains_key(k)).collect();
    assert!(!lost.is_empty() && lost.iter().all(|key| last <= *key && *key <= first));
    let of_key = |loss: &&tidesdb::salvage::Loss| {
        loss.first_key.is_some() && loss.first_key == loss.last_key
    };
    let values = report.losses.iter().filter(of_key);
    let mut named: Vec<_> =
        values.map(|loss| (loss.families.clone(), loss.first_key.clone())).collect();
    named.sort();
    let long = Some(b"long".to_vec());
    assert_eq!(named, [(vec!["0".to_owned()], long.clone()), (vec!["1".to_owned()], long)]);
}

/// Runs a function of this program in a process that may have few descriptors.
#[test]
#[cfg(target_os = "linux")]
fn many_tables_are_salvaged_with_few_descriptors() {
    let program = std::env::current_exe().unwrap();
    let mut shell = std::process::Command::new("sh");
    shell.arg("-c").arg("ulimit -n 256; exec \"$0\" \"$@\"").arg(program);
    shell.args(["--exact", "laid_out::with_few_descriptors", "--ignored", "--nocapture"]);
    let output = shell.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

#[test]
#[ignore = "run in a process of its own"]
fn with_few_descriptors() {
    const FAMILIES: u32 = 300;
    let place = Place::new();
    place.killed(DbOptions::default(), |db| {
        for number in 0..FAMILIES {
            let options = FamilyOptions::default().klog_value_threshold(100);
            let family = db.create_family(&format!("family {number:03}"), options).unwrap();
            family.put(b"short", b"value").unwrap();
            family.put(b"long", &[7; 1000]).unwrap();
        }
        db.flush().unwrap();
    });
    assert_eq!(tables(&place.source()).len(), FAMILIES as usize);
    let mut most = 0;
    let report = salvage(&place.source(), &place.copy(), &mut |_| {
        most = most.max(std::fs::read_dir("/proc/self/fd").unwrap().count());
        Ok(())
    });
    let report = report.unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(report.entries(), u64::from(FAMILIES) * 2);
    assert!(most < 250, "{most}");
}
