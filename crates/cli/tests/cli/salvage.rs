//! Damaged databases: what is listed, what is salvaged, and what single files show.

use std::path::PathBuf;

use crate::support::{Place, files_below, json_lines};

/// A database with a table, whose path is answered, and a record in the log.
fn with_a_table(place: &Place) -> PathBuf {
    place.file("in.jsonl", json_lines(2000));
    place.run("load", &["in.jsonl"]).ok();
    place.run("flush", &[]).ok();
    place.run("put", &["zz in the log", "value"]).ok();
    let is_table = |path: &PathBuf| path.extension().is_some_and(|e| e == "klog");
    files_below(&place.path("db"))
        .into_iter()
        .filter(is_table)
        .max_by_key(|path| std::fs::metadata(path).unwrap().len())
        .unwrap()
}

fn flip(path: &PathBuf, offset: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset] ^= 0xff;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn verify_lists_all_damage_without_current() {
    let place = Place::new();
    let table = with_a_table(&place);
    flip(&table, 10);
    std::fs::write(place.path("db/CURRENT"), "nonsense").unwrap();
    let run = place.run("verify", &[]);
    run.fails(2, &["checked one by one", "problems"]);
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(run.text().contains("CURRENT") && run.text().contains(name), "{}", run.text());
    let json: serde_json::Value =
        serde_json::from_slice(&place.run("verify", &["--json"]).stdout).unwrap();
    assert_eq!(json["ok"], false);
    assert!(json["problems"].as_array().unwrap().len() >= 2, "{json}");
    // Nothing has counted them.
    assert!(json["blocks"].is_null() && json["entries"].is_null(), "{json}");
}

#[test]
fn salvage_writes_what_is_left_and_lists_what_is_lost() {
    let place = Place::new();
    let table = with_a_table(&place);
    let whole = place.path("whole").display().to_string();
    let (from, to) =
        (place.path("db").display().to_string(), place.path("new").display().to_string());
    let run = place.run("salvage", &[&from, &whole]).ok();
    assert!(run.text().contains("Nothing was lost"), "{}", run.text());
    assert_eq!(place.run_in("whole", "count", &[]).ok().text(), "2001\n");
    flip(&table, 10);
    let run = place.run("salvage", &[&from, &to, "--json"]);
    run.fails(3, &["1 part of the database was lost"]);
    let json: serde_json::Value = serde_json::from_str(run.text()).unwrap();
    assert_eq!(json["complete"], false);
    assert_eq!(json["losses"][0]["offset"], 0);
    assert_eq!(json["losses"][0]["families"][0], "default");
    let left: u64 = place.run_in("new", "count", &[]).ok().text().trim().parse().unwrap();
    assert_eq!(json["keys"], left);
    assert!(left > 1000 && left < 2001, "{left}");
    assert_eq!(place.run_in("new", "get", &["zz in the log"]).ok().text(), "value");
    place.run("salvage", &[&from, &to]).fails(2, &["not empty"]);
}

#[test]
fn the_family_of_the_tool_is_not_shown_as_one_of_the_users() {
    let place = Place::new();
    with_a_table(&place);
    assert!(!place.run("families", &["--all"]).ok().text().contains("__load_progress"));
    // One that is unfinished.
    place.file("bad.jsonl", format!("{}nonsense\n", json_lines(3)));
    place.run("load", &["bad.jsonl"]).fails(2, &["line 4"]);
    let (from, to) =
        (place.path("db").display().to_string(), place.path("new").display().to_string());
    assert!(place.run("families", &["--all"]).ok().text().contains("__load_progress"));
    let run = place.run("salvage", &[&from, &to]).ok();
    assert!(run.text().contains("default") && !run.text().contains("__load"), "{}", run.text());
    std::fs::remove_dir_all(&to).unwrap();
    let json = place.run("salvage", &[&from, &to, "--json"]).ok();
    let json: serde_json::Value = serde_json::from_str(json.text()).unwrap();
    let families = json["families"].as_array().unwrap();
    for family in families {
        assert_eq!(family["of_the_tool"], family["name"] == "__load_progress", "{family}");
    }
    assert_eq!(families.len(), 2);
}

#[test]
fn repair_puts_a_salvaged_database_in_place() {
    let place = Place::new();
    with_a_table(&place);
    std::fs::remove_file(place.path("db/CURRENT")).unwrap();
    place.run("count", &[]).fails(2, &["CURRENT", "salvage"]);
    let run = place.run("repair", &[]).ok();
    assert!(run.text().contains("db.damaged"), "{}", run.text());
    assert_eq!(place.run("count", &[]).ok().text(), "2001\n");
    place.run("verify", &[]).ok();
    assert!(place.path("db.damaged").exists());
}

#[test]
fn programs_are_told_what_was_repaired_and_restored() {
    let place = Place::new();
    let table = with_a_table(&place);
    let as_json = |run: &crate::support::Run| -> serde_json::Value {
        serde_json::from_str(run.text()).unwrap()
    };
    let (db, copy) =
        (place.path("db").display().to_string(), place.path("copy").display().to_string());
    place.run("flush", &[]).ok();
    let said = as_json(&place.run("restore", &[&db, &copy, "--json"]).ok());
    let files: Vec<_> = files_below(&place.path("copy"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == "klog" || e == "vlog"))
        .collect();
    let bytes: u64 = files.iter().map(|path| std::fs::metadata(path).unwrap().len()).sum();
    assert_eq!((&said["restored"], &said["entries"]), (&copy.into(), &2001.into()), "{said}");
    assert!(said["files"].as_u64().unwrap() >= files.len() as u64, "{said}");
    assert!(said["bytes"].as_u64().unwrap() >= bytes, "{said}");
    assert_eq!(place.run_in("copy", "count", &[]).ok().text(), "2001\n");

    flip(&table, 10);
    let run = place.run("restore", &[&db, &place.path("no").display().to_string(), "--json"]);
    run.fails(2, &["is damaged at offset", "db/"]);
    assert_eq!(run.text(), "");
    let run = place.run("repair", &["--json"]);
    run.fails(3, &["1 part of the database was lost"]);
    let said = as_json(&run);
    let left: u64 = place.run("count", &[]).ok().text().trim().parse().unwrap();
    assert!(left > 1000 && left < 2001, "{left}");
    assert_eq!((&said["keys"], &said["complete"]), (&left.into(), &false.into()), "{said}");
    let kept = std::path::Path::new(said["kept"].as_str().unwrap());
    assert!(kept.ends_with("db.damaged") && kept.join("CURRENT").exists(), "{said}");
    assert_eq!(said["losses"].as_array().unwrap().len(), 1, "{said}");
    let lost = said["losses"][0]["file"].as_str().unwrap();
    assert!(lost.ends_with(table.file_name().unwrap().to_str().unwrap()), "{said}");
}

#[test]
fn files_are_inspected_wherever_they_lie() {
    let place = Place::new();
    let table = with_a_table(&place);
    let outside = place.path("some file");
    std::fs::copy(&table, &outside).unwrap();
    let outside = outside.display().to_string();
    let run = place.run("inspect", &[&outside, "--keys"]).ok();
    assert!(
        run.text().contains("entries=") && run.text().contains("family=default"),
        "{}",
        run.text()
    );
    assert!(run.text().lines().filter(|line| line.contains("  entry  ")).count() > 1000);
    let json = place.run("inspect", &[&outside, "--json", "--limit", "3"]).ok();
    assert_eq!(json.text().lines().count(), 3);
    let first: serde_json::Value =
        serde_json::from_str(json.text().lines().next().unwrap()).unwrap();
    assert_eq!(first["what"], "table");
    flip(&PathBuf::from(&outside), 10);
    place.run("inspect", &[&outside]).fails(2, &["problem"]);
    for file in files_below(&place.path("db")) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        if name != "LOCK" && !name.starts_with("LOG") {
            let run = place.run("inspect", &[&file.display().to_string(), "--keys"]);
            assert!(!run.text().is_empty(), "{name}: {}", run.stderr);
        }
    }
    let other = place.file("other", "text").display().to_string();
    place.run("inspect", &[&other]).fails(2, &["no file of a database"]);
}

#[test]
fn backups_are_restored_and_formats_shown() {
    let place = Place::new();
    with_a_table(&place);
    let (backup, to) =
        (place.path("backup").display().to_string(), place.path("back").display().to_string());
    place.run("backup", &[&backup]).ok();
    let run = place.run("restore", &[&backup, &to]).ok();
    assert!(run.text().contains("entries back"), "{}", run.text());
    assert_eq!(place.run_in("back", "count", &[]).ok().text(), "2001\n");
    place.run("restore", &[&backup, &to]).fails(2, &["not empty"]);
    let run = place.run("upgrade", &[]).ok();
    assert!(run.text().contains("nothing to upgrade"), "{}", run.text());
    let current = place.read("back/CURRENT");
    for damage in [Some("nonsense"), None] {
        match damage {
            Some(text) => std::fs::write(place.path("back/CURRENT"), text).unwrap(),
            None => std::fs::remove_file(place.path("back/CURRENT")).unwrap(),
        }
        let run = place.run_in("back", "upgrade", &[]);
        run.fails(2, &["1 file can't be read"]);
        assert!(
            run.text().contains("CURRENT") && !run.text().contains("nothing to upgrade"),
            "{}",
            run.text()
        );
    }
    std::fs::write(place.path("back/CURRENT"), current).unwrap();
    // A version that comes later.
    let manifest = files_below(&place.path("back"))
        .into_iter()
        .find(|path| path.to_string_lossy().contains("MANIFEST"))
        .unwrap();
    let mut bytes = std::fs::read(&manifest).unwrap();
    bytes[8] -= 1;
    std::fs::write(&manifest, &bytes).unwrap();
    let run = place.run_in("back", "upgrade", &[]).ok();
    let outlook = "read as it is; rewritten when next opened";
    assert!(run.text().contains(outlook) && !run.text().contains("All"), "{}", run.text());
    bytes[8] = 200;
    std::fs::write(&manifest, bytes).unwrap();
    place.run_in("back", "upgrade", &[]).fails(2, &["manifest format version 200", "newer"]);
}

#[test]
fn a_manifest_shows_a_clone_with_all_that_it_has() {
    let place = Place::new();
    place.run("put", &["key", "value"]).ok();
    place.run("flush", &[]).ok();
    place.run("clone-family", &["default", "copy"]).ok();
    let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("MANIFEST-");
    let manifest = files_below(&place.path("db")).into_iter().filter(is_manifest).max().unwrap();
    let run = place.run("inspect", &[&manifest.display().to_string(), "--json"]).ok();
    let items = run.text().lines().map(|line| serde_json::from_str(line).unwrap());
    let families: Vec<serde_json::Value> =
        items.filter(|item: &serde_json::Value| item["what"] == "family").collect();
    assert_eq!(families.len(), 2, "{}", run.text());
    let of = |family: usize, field: &str| families[family]["fields"][field].clone();
    for field in ["tables", "table_bytes", "flushed_through"] {
        assert_ne!(of(0, field), 0, "{field}");
        assert_eq!(of(0, field), of(1, field), "{field}");
    }
}

#[test]
fn the_value_logs_of_a_table_are_a_list() {
    let place = Place::new();
    place.run("create-family", &["default", "--set", "klog_value_threshold=100"]).ok();
    place.run("put", &["key", &"v".repeat(1000)]).ok();
    place.run("flush", &[]).ok();
    let files = files_below(&place.path("db"));
    let table = files.iter().find(|path| path.extension().is_some_and(|e| e == "klog")).unwrap();
    let run = place.run("inspect", &[&table.display().to_string(), "--json"]).ok();
    let items = run.text().lines().map(|line| serde_json::from_str(line).unwrap());
    let lists: Vec<usize> = items
        .filter_map(|item: serde_json::Value| item["fields"]["value_logs"].as_array().map(Vec::len))
        .collect();
    assert_eq!(lists, [1], "{}", run.text());
}

#[cfg(unix)]
#[test]
fn an_upgrade_lists_files_that_can_not_be_opened_and_tells_of_the_others() {
    let place = Place::new();
    let table = with_a_table(&place);
    std::fs::remove_file(&table).unwrap();
    // A link to itself can't be opened, even by those who may open everything.
    std::os::unix::fs::symlink(&table, &table).unwrap();
    let run = place.run("upgrade", &[]);
    run.fails(2, &["1 file can't be read"]);
    assert!(run.text().contains("klog") && run.text().contains("manifest"), "{}", run.text());
    let run = place.run("upgrade", &["--json"]);
    assert!(run.text().contains("\"unreadable\": [\n    {"), "{}", run.text());
}

/// The files were not named, and the verdict was that all was well.
#[test]
fn an_upgrade_names_files_without_a_version_and_fails_for_damaged_ones() {
    let place = Place::new();
    let table = with_a_table(&place);
    let len = std::fs::metadata(&table).unwrap().len();
    std::fs::write(&table, vec![0; len as usize]).unwrap();
    let run = place.run("upgrade", &[]);
    run.fails(2, &["1 file can't be read"]);
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(
        run.text().contains(name) && run.text().contains("expected a version"),
        "{}",
        run.text()
    );
    assert!(!run.text().contains("All files"), "{}", run.text());
}

/// What the opening and the check of the files found at one place counted as two problems.
#[test]
fn one_fault_is_one_problem() {
    let place = Place::new();
    with_a_table(&place);
    let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("MANIFEST-");
    let manifest = files_below(&place.path("db")).into_iter().filter(is_manifest).max().unwrap();
    let current = place.read("db/CURRENT");
    std::fs::remove_file(place.path("db/CURRENT")).unwrap();
    let run = place.run("verify", &[]);
    run.fails(2, &["checked one by one", "has 1 problem"]);
    assert!(run.text().contains("CURRENT"), "{}", run.text());
    std::fs::write(place.path("db/CURRENT"), current).unwrap();
    flip(&manifest, 50);
    let run = place.run("verify", &[]);
    run.fails(2, &["checked one by one", "has 1 problem"]);
    assert!(run.text().contains("MANIFEST-"), "{}", run.text());
}

/// Nothing has the name of the database, or a program that starts it has made a directory there.
#[test]
fn a_repair_ends_one_that_was_killed_before_the_name_was_given() {
    let place = Place::new();
    with_a_table(&place);
    for (made, arguments) in [(false, &[][..]), (true, &["--json"][..])] {
        std::fs::rename(place.path("db"), place.path("db.repaired")).unwrap();
        std::fs::write(place.path("db.repaired/REPAIRED"), "db.damaged").unwrap();
        if made {
            std::fs::create_dir(place.path("db")).unwrap();
        } else {
            std::fs::create_dir(place.path("db.damaged")).unwrap();
        }
        place.run("put", &["key", "value"]).fails(2, &["db.repaired", "tidesdb repair --db"]);
        let run = place.run("repair", arguments).ok();
        assert!(run.text().contains("db.repaired"), "{}", run.text());
        assert_eq!(place.run("count", &[]).ok().text(), "2001\n");
        assert!(!place.path("db/REPAIRED").exists());
    }
}

#[test]
fn what_a_repair_leaves_is_named_by_its_own_path() {
    let place = Place::new();
    with_a_table(&place);
    let canonical = std::fs::canonicalize(place.path("db")).unwrap().display().to_string();
    let mut repair = place.command_in(".", "repair");
    let run: crate::support::Run = repair.current_dir(place.path("db")).output().unwrap().into();
    let run = run.ok();
    assert!(run.text().contains(&format!("Salvaged to {canonical}\n")), "{}", run.text());
    let kept = format!("The old database is kept at {canonical}.damaged\n");
    assert!(
        run.text().contains(&kept) && run.text().contains("Nothing was lost"),
        "{}",
        run.text()
    );
    assert!(
        run.stderr.contains(&format!("in the old directory: `cd {canonical}`")),
        "{}",
        run.stderr
    );
    let run = place.run("repair", &[]).ok();
    assert!(run.stderr.is_empty(), "{}", run.stderr);
}

/// The error named the copy, which is removed.
#[test]
fn a_restore_names_the_damaged_file_of_the_backup_and_counts_the_log() {
    let place = Place::new();
    let mut child = place.spawn("shell", &["--create"]);
    let stdin = child.stdin.as_mut().unwrap();
    std::io::Write::write_all(stdin, b"put a 1\nput b 2\ncount\n").unwrap();
    let mut answer = [0; 2];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut answer).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let (backup, to) =
        (place.path("db").display().to_string(), place.path("back").display().to_string());
    let run = place.run("restore", &[&backup, &to]).ok();
    assert!(run.text().contains("read 2 entries back"), "{}", run.text());
    std::fs::remove_dir_all(&to).unwrap();
    let table = with_a_table(&place);
    flip(&table, 10);
    place.run("restore", &[&backup, &to]).fails(2, &[table.to_str().unwrap(), "damaged"]);
    assert!(!place.path("back").exists());
}
