//! The section of the invented set, and pages that say something else than their result file.

use super::super::sample;
use super::*;
use std::fs;

/// What a place names that nothing was put into.
const NOTHING: &str = "nothing yet";

/// Whether a page shows what its result file says. `read` returns the set of a name.
///
/// # Errors
/// What differs, or why it can't be said.
fn check(page: &str, read: impl Fn(&str) -> Result<ResultSet, String>) -> Result<(), String> {
    let (name, shown) = place_in(page)?;
    if name == NOTHING && shown.is_empty() {
        return Ok(());
    }
    let heading = shown.lines().find_map(|line| line.strip_prefix(HEADER));
    let baseline = heading.and_then(|engines| engines.split(" | ").nth(1));
    let made = section(&read(name)?, baseline.ok_or("the page has no table")?)?;
    let mut lines = made.lines().zip(shown.lines());
    match lines.find(|(made, shown)| made != shown) {
        Some((made, shown)) => Err(format!("the page shows\n{shown}\nand {name} gives\n{made}")),
        None if made == shown => Ok(()),
        None => Err(format!("the page does not end where the table of {name} does")),
    }
}

/// A page with a place that holds `section`, made from `name`.
fn page(name: &str, section: &str) -> String {
    format!("# Title\n\n{BEGIN}{name}{BEGIN_TAIL}\n{section}{END}\n\nThe rest.\n")
}

fn row<'a>(section: &'a str, label: &str) -> &'a str {
    let start = format!("| {label} |");
    section.lines().find(|line| line.starts_with(&start)).unwrap()
}

#[test]
fn a_row_has_medians_ranges_the_ratio_and_a_verdict() {
    let section = section(&sample::set(), "rocksdb").unwrap();
    assert_eq!(
        row(&section, "write_random_b1"),
        "| write_random_b1 | 3 | 952K (923K-981K) | 180K (175K-185K) | 5.29 (4.98-5.62) | win |"
    );
    assert!(row(&section, "delete_b1").ends_with("| 0.58 (0.54-0.61) | **loss** |"), "{section}");
    assert!(
        section.contains("| operations a second | runs | tidesdb | rocksdb | ratio | verdict |")
    );
    assert!(section.contains("15 rows: 13 won, 1 level, 1 lost, 0 too noisy"), "{section}");
    assert!(section.contains("| Command | `benchtool suite core` |"), "{section}");
    assert!(!section.contains("0123456789ab"), "the machine has no name here");
}

#[test]
fn one_repetition_has_no_range_and_a_bad_row_no_ratio() {
    let mut set = sample::set();
    set.runs.retain(|run| run.spec.repetition == 0);
    for run in &mut set.runs {
        if run.spec.test == "read_random" && run.spec.engine == "tidesdb" {
            run.result.status = crate::spec::Status::Invalid;
        }
    }
    let section = section(&set, "rocksdb").unwrap();
    assert_eq!(
        row(&section, "write_random_b1"),
        "| write_random_b1 | 1 | 923K | 175K | 5.29 | win |"
    );
    assert!(row(&section, "read_random").ends_with("|  | **INVALID** |"), "{section}");
    assert!(section.contains("**1 invalid**"));
    assert!(section.contains(" lost, noise not measured (one run), **1 invalid**"), "{section}");
    set.runs.retain(|run| run.spec.engine == "tidesdb");
    assert!(super::section(&set, "rocksdb").is_err(), "there is nothing to compare with");
}

/// The page of HTML said what keeps figures from being quoted, and the one of Markdown did not.
#[test]
fn what_keeps_figures_from_being_quoted_is_said() {
    let mut set = sample::set();
    set.environment.cores = 2;
    set.environment.load_average = "2.5".to_owned();
    for run in &mut set.runs {
        (run.spec.setup.memtable, run.spec.setup.cache) = (8 << 20, 4 << 20);
    }
    let made = section(&set, "rocksdb").unwrap();
    assert_eq!(row(&made, "Profile"), "| Profile | quick |");
    assert_eq!(row(&made, "Sizes"), "| Sizes | memtable 8 MiB; cache 4 MiB; block 4 KiB |");
    let load = row(&made, "Load average");
    assert!(load.contains("The machine was shared: load average 2.5 on 2 processors"), "{load}");
    let missed = row(&made, "Not met for quoting");
    for text in ["A release build on a machine of its own", "runs had none", "both profiles"] {
        assert!(missed.to_lowercase().contains(&text.to_lowercase()), "{text}: {missed}");
    }
    assert!(!missed.contains("three repetitions"), "{missed}");
    set.runs.retain(|run| run.spec.repetition == 0);
    let made = section(&set, "rocksdb").unwrap();
    let missed = row(&made, "Not met for quoting");
    assert!(missed.contains("three repetitions in alternating order (a test has 1)"), "{missed}");
    set.command = ["suite", "core", "--profile", "full"].map(str::to_owned).to_vec();
    assert_eq!(row(&section(&set, "rocksdb").unwrap(), "Profile"), "| Profile | full |");
    set.command = ["suite", "core", "--profile=standard"].map(str::to_owned).to_vec();
    assert_eq!(row(&section(&set, "rocksdb").unwrap(), "Profile"), "| Profile | standard |");
    set.command = vec!["compare".to_owned()];
    assert!(!section(&set, "rocksdb").unwrap().contains("| Profile |"));
}

#[test]
fn a_section_replaces_the_one_before_and_nothing_else() {
    let first = put_into(&page(NOTHING, ""), "a.json", "one\n").unwrap();
    assert_eq!(place_in(&first).unwrap(), ("a.json", "one\n"));
    let second = put_into(&first, "b.json", "two\n").unwrap();
    assert_eq!(second, page("b.json", "two\n"));
    for wrong in ["# No place\n".to_owned(), page("a", "x\n").repeat(2), page("a\nb", "")] {
        assert!(put_into(&wrong, "a.json", "one\n").is_err(), "{wrong}");
    }
}

#[test]
fn a_page_that_was_edited_by_hand_is_found() {
    let read = |name: &str| match name {
        "a.json" => Ok(sample::set()),
        other => Err(format!("no file {other}")),
    };
    let section = section(&sample::set(), "rocksdb").unwrap();
    check(&page("a.json", &section), read).unwrap();
    check(&page(NOTHING, ""), read).unwrap();
    let edited = section.replace("5.29 (4.98-5.62)", "6.29 (4.98-5.62)");
    let error = check(&page("a.json", &edited), read).unwrap_err();
    assert!(error.contains("6.29") && error.contains("5.29"), "{error}");
    let shorter = section.lines().rev().skip(1).collect::<Vec<_>>();
    let shorter: String = shorter.into_iter().rev().map(|line| format!("{line}\n")).collect();
    assert!(check(&page("a.json", &shorter), read).is_err(), "a row was taken away");
    assert!(check(&page("b.json", &section), read).is_err(), "the file is gone");
    assert!(check(&page(NOTHING, &section), read).is_err(), "nothing says where it comes from");
}

/// What is kept gives the same section, is small, and names no folder.
#[test]
fn what_is_kept_of_a_set_gives_the_same_section() {
    let mut set = sample::set();
    let command =
        ["suite", "core", "--json=/data/me/x.json", "-d", "/data/me/data", "--repeat", "3"];
    set.command = command.map(str::to_owned).to_vec();
    set.engines[1].version = "/data/me/librocksdb.so".to_owned();
    for run in &mut set.runs {
        run.spec.directory = "/data/me/data/run".into();
        run.result.version = "/data/me/librocksdb.so".to_owned();
        run.spec.setup.rocksdb_library = Some("/data/me/librocksdb.so".into());
    }
    set.environment.commit = "0123abc".to_owned();
    let kept = condensed(&set, "0123abc");
    assert_eq!(section(&kept, "rocksdb").unwrap(), section(&set, "rocksdb").unwrap());
    let text = serde_json::to_string(&kept).unwrap();
    assert!(!text.contains("/data/me") && !text.contains("0123456789ab"));
    assert!(text.len() * 5 < serde_json::to_string(&set).unwrap().len() * 4, "{}", text.len());
    assert_eq!(kept.command, ["suite", "core", "--repeat", "3"]);
}

/// `docs/performance.md` has a place, and shows what the file says that it names.
#[test]
fn the_page_on_performance_shows_its_result_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/performance.md")).unwrap();
    check(&page, |name| ResultSet::read(&root.join(name))).unwrap();
}
