//! What the doctor says of real databases.

use crate::support::{Place, json_lines};

#[test]
fn a_database_is_explained_by_the_systems_figures() {
    let place = Place::new();
    place.file("input.jsonl", json_lines(5000));
    place.run("load", &["input.jsonl"]).ok();
    place.run("create-family", &["other"]).ok();
    let text = place.run("doctor", &[]).ok();
    for part in ["file system", "free", "log to replay", "default", "5,000", "manifest, version"] {
        assert!(text.text().contains(part), "'{part}' is not in:\n{}", text.text());
    }
    assert!(!text.text().contains("__load_progress"));
    let json = place.run("doctor", &["--json"]).ok();
    let report: serde_json::Value = serde_json::from_str(json.text()).unwrap();
    assert_eq!(report["families"][0]["versions"], 5000);
    let tables: u64 = crate::support::files_below(&place.path("db"))
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "klog"))
        .map(|path| std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap()) * 512)
        .sum();
    assert_eq!(report["files"]["table_bytes"], tables);
    assert!(report["volume"]["free_bytes"].as_u64().unwrap() > 0);
    assert_eq!(report["stalls"].as_array().unwrap().len(), 5);
}

#[test]
fn it_changes_nothing_and_takes_the_database_as_an_argument() {
    let place = Place::new();
    place.run("put", &["k", "v"]).ok();
    std::fs::create_dir(place.path("db/set-aside")).unwrap();
    place.file("db/set-aside/000999.klog", [0; 5000]);
    let files = |place: &Place| {
        let mut files = crate::support::files_below(&place.path("db"));
        files.sort();
        files.into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    let before = files(&place);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidesdb"));
    command.current_dir(place.path("")).env_remove("TIDESDB_DB").args(["doctor", "db"]);
    let run: crate::support::Run = command.output().unwrap().into();
    let run = run.ok();
    assert!(run.text().contains("note: 1 files"), "{}", run.text());
    assert!(files(&place) == before);
    place.run_in("absent", "doctor", &[]).fails(2, &["no database at absent"]);
}
