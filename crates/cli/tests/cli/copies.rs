//! Families that are renamed and cloned, checkpoints and backups.

use crate::support::{Place, Run, files_below};

#[test]
fn families_are_renamed_and_cloned() {
    let place = Place::new();
    place.run("put", &["key", "value", "--family", "old", "--create"]).ok();
    place.run("rename-family", &["old", "new"]).ok();
    let reported = place.run("clone-family", &["new", "copy", "--json"]).ok();
    assert_eq!(reported.text(), "{\"cloned\":\"new\",\"to\":\"copy\"}\n");
    assert_eq!(place.run("families", &[]).ok().text(), "copy\nnew\n");
    place.run("put", &["key", "other", "--family", "new"]).ok();
    assert_eq!(place.run("get", &["key", "--family", "copy"]).ok().text(), "value");
    place.run("rename-family", &["absent", "x"]).fails(2, &["absent"]);
    place.run("rename-family", &["new", "copy"]).fails(2, &["'copy' exists"]);
}

#[test]
fn checkpoints_and_backups_are_databases() {
    for command in ["checkpoint", "backup"] {
        let place = Place::new();
        place.run("put", &["key", "before"]).ok();
        let to = place.path("made").display().to_string();
        let reported = place.run(command, &[&to, "--verify", "--json"]).ok();
        assert!(reported.text().contains("\"verified\":true"), "{}", reported.text());
        place.run("put", &["key", "after"]).ok();
        assert_eq!(place.run_in("made", "get", &["key"]).ok().text(), "before");
        place.run(command, &[&to]).fails(2, &["not empty"]);
    }
}

#[test]
fn copies_of_a_damaged_table_are_refused_when_they_are_verified() {
    let place = Place::new();
    place.run("put", &["key", "value"]).ok();
    place.run("flush", &[]).ok();
    let is_table = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "klog");
    let table = files_below(&place.path("db")).into_iter().find(is_table).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[2] ^= 1;
    std::fs::write(table, bytes).unwrap();
    for command in ["checkpoint", "backup"] {
        let to = place.path("made").display().to_string();
        place.run(command, &[&to, "--verify"]).fails(2, &["is damaged at offset", "made/"]);
        assert!(!place.path("made").exists());
        place.run("families", &[]).ok();
    }
}

/// It copied every byte and said nothing.
#[test]
fn a_checkpoint_on_another_file_system_says_that_it_is_a_copy() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new();
    place.run("put", &["key", "value"]).ok();
    let device = |path: &std::path::Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    let memory = std::path::Path::new("/dev/shm");
    let Ok(elsewhere) = tempfile::tempdir_in(memory) else { return };
    let is_another = device(elsewhere.path()) != device(&place.path("db"));
    for (to, is_told) in [(place.path("made"), false), (elsewhere.path().join("made"), is_another)]
    {
        let run = place.run("checkpoint", &[&to.display().to_string()]).ok();
        assert_eq!(run.stderr.contains("files were copied, not linked"), is_told, "{}", run.stderr);
    }
}

/// A path with `..` in it was taken for one into the database that it leads out of.
#[test]
fn copies_go_beside_a_database_by_any_path() {
    let place = Place::new();
    place.run("put", &["key", "value"]).ok();
    let within = |command: &str, arguments: &[&str]| -> Run {
        let mut process = place.command_in(".", command);
        process.current_dir(place.path("db")).args(arguments).output().unwrap().into()
    };
    within("backup", &["../from-within"]).ok();
    within("checkpoint", &["../linked"]).ok();
    within("restore", &[".", "../restored"]).ok();
    within("salvage", &[".", "../salvaged"]).ok();
    place.run("backup", &["db/../beside"]).ok();
    place.run("restore", &["db", "db/../restored-beside"]).ok();
    place.run_in("db/../db", "backup", &["db/../by-detour"]).ok();
    for copy in
        ["from-within", "linked", "restored", "salvaged", "beside", "restored-beside", "by-detour"]
    {
        assert_eq!(place.run_in(copy, "get", &["key"]).ok().text(), "value", "{copy}");
    }
    std::os::unix::fs::symlink("db", place.path("link")).unwrap();
    for to in ["db/copy", "beside/../db/copy", "db/../db/copy", "link/copy", "db", "db/."] {
        place.run("backup", &[to]).fails(2, &["lies in the database's own directory"]);
        place.run("restore", &["db", to]).fails(2, &["would lie in db"]);
    }
    within("backup", &["copy"]).fails(2, &["lies in the database's own directory"]);
    assert!(!place.path("db").join("copy").exists());
}
