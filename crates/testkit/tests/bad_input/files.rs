//! Directories that hold no database, and files that are missing or cut.

use super::*;

#[test]
fn what_is_not_a_database_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let foreign = directory.path().join("photos");
    fs::create_dir_all(foreign.join("2024")).unwrap();
    fs::write(foreign.join("holiday.jpg"), b"not ours").unwrap();
    let file = directory.path().join("file");
    fs::write(&file, b"not a directory").unwrap();
    fs::create_dir(directory.path().join("empty")).unwrap();
    let before = picture(directory.path());
    let read_only = small_db().read_only(true);
    let existing = small_db().create_if_missing(false);
    for options in [small_db(), existing.clone(), read_only.clone()] {
        refused(Db::open(&foreign, options.clone()), ErrorKind::NotFound, &["photos"]);
        assert_unchanged(directory.path(), &before);
        refused(Db::open(&file, options.clone()), ErrorKind::NotFound, &["not a directory"]);
        assert_unchanged(directory.path(), &before);
    }
    refused(Db::open(&foreign, small_db()), ErrorKind::NotFound, &["which is not a database's"]);
    for options in [existing, read_only] {
        for name in ["empty", "absent", "no/parent"] {
            let path = directory.path().join(name);
            refused(Db::open(&path, options.clone()), ErrorKind::NotFound, &[name]);
            assert_unchanged(directory.path(), &before);
        }
    }
    refused(
        Db::open(directory.path().join("no/parent"), small_db()),
        ErrorKind::Io,
        &["no/parent"],
    );
    refused(Db::open(file.join("below"), small_db()), ErrorKind::NotFound, &["file/below"]);
    assert_unchanged(directory.path(), &before);
}

/// Cuts each file to some of its lengths and has the open refused as damage of that file.
fn cut_and_refuse(path: &Path, file: &Path, lengths: &[usize]) {
    let sound = fs::read(file).unwrap();
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    for &length in lengths {
        assert!(length < sound.len(), "nothing is cut from {name}");
        fs::write(file, &sound[..length]).unwrap();
        let before = picture(path);
        for read_only in [false, true] {
            let options = small_db().read_only(read_only);
            refused(Db::open(path, options), ErrorKind::Corruption, &[&name]);
            assert_unchanged(path, &before);
        }
    }
    fs::write(file, &sound).unwrap();
    assert_eq!(open(path).family("second").unwrap().get(b"key007").unwrap().unwrap(), b"other");
}

#[test]
fn a_cut_current_or_manifest_is_damage_and_nothing_is_touched() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path(), false);
    let current = directory.path().join("CURRENT");
    let length = fs::metadata(&current).unwrap().len() as usize;
    cut_and_refuse(directory.path(), &current, &[0, 1, length / 2, length - 1]);
    let manifest = files(directory.path(), "MANIFEST-", "").remove(0);
    // Inside the header, at its end, and inside the first record.
    cut_and_refuse(directory.path(), &manifest, &[0, 10, 24, 30]);
}

#[test]
fn a_cut_log_is_damage_when_its_end_was_synced() {
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path(), true);
    let log = files(directory.path(), "wal-", ".log");
    let is_used =
        |path: &&std::path::PathBuf| fs::read(path).unwrap()[128..].iter().any(|&b| b != 0);
    let used = log.iter().find(is_used).unwrap().clone();
    cut_and_refuse(directory.path(), &used, &[128, 129, 400, 1000]);
}

#[test]
fn missing_current_or_manifest_or_log_is_damage_not_an_empty_directory() {
    for log in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        sample(directory.path(), log);
        let mut victims = vec![("CURRENT", directory.path().join("CURRENT"))];
        victims.push(("MANIFEST", files(directory.path(), "MANIFEST-", "").remove(0)));
        for (name, victim) in victims {
            let bytes = fs::read(&victim).unwrap();
            fs::remove_file(&victim).unwrap();
            let before = picture(directory.path());
            refused(Db::open(directory.path(), small_db()), ErrorKind::Corruption, &[name]);
            assert_unchanged(directory.path(), &before);
            fs::write(&victim, bytes).unwrap();
        }
        if log {
            for segment in files(directory.path(), "wal-", ".log") {
                fs::remove_file(segment).unwrap();
            }
            let before = picture(directory.path());
            refused(Db::open(directory.path(), small_db()), ErrorKind::Corruption, &["wal-"]);
            assert_unchanged(directory.path(), &before);
        } else {
            let db = open(directory.path());
            assert_eq!(db.family("first").unwrap().get(b"key001").unwrap().unwrap().len(), 21);
        }
    }
}

#[test]
fn a_cut_table_or_value_log_fails_its_own_keys_only() {
    for ending in [".klog", ".vlog"] {
        let directory = tempfile::tempdir().unwrap();
        sample(directory.path(), false);
        for file in files(directory.path(), "", ending) {
            let sound = fs::read(&file).unwrap();
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            for length in [0, 1, sound.len() / 2, sound.len() - 1] {
                fs::write(&file, &sound[..length]).unwrap();
                let db = open(directory.path());
                let report = db.verify().unwrap();
                let problems: Vec<String> = report.problems.iter().map(Error::to_string).collect();
                assert!(problems.iter().any(|text| text.contains(&name)), "{problems:?}");
                let mut served = 0;
                for family in ["first", "second"].map(|name| db.family(name).unwrap()) {
                    for n in 0..40 {
                        match family.get(format!("key{n:03}").as_bytes()) {
                            Ok(value) => {
                                assert!(value.is_some(), "key {n} of {}", family.name());
                                served += 1;
                            }
                            Err(error) => {
                                refused::<()>(Err(error), ErrorKind::Corruption, &[&name])
                            }
                        }
                    }
                }
                assert!(served >= 40, "{name} cut to {length}: only {served} keys are served");
                drop(db);
                assert!(file.exists(), "{name} was given up");
            }
            fs::write(&file, &sound).unwrap();
        }
    }
}
