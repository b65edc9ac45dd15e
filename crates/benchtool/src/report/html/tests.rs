//! Tests of the page on the sample set.

use super::*;
use crate::report::sample;
use crate::spec::{JobResult, Status};

fn page_of(set: &ResultSet) -> String {
    let view = View::new(set, &[], "rocksdb");
    page(&view, &draw_all(&view).unwrap())
}

#[test]
fn the_page_is_self_contained() {
    let html = page_of(&sample::set());
    for outside in ["<script", "<link", "<img", "@import", "url(", "src="] {
        assert!(!html.contains(outside), "{outside}");
    }
    let addresses = html.matches("http").count();
    let namespaces = html.matches("http://www.w3.org/2000/svg").count();
    assert_eq!(addresses, namespaces, "no address but that of the SVG name space");
}

#[test]
fn texts_of_others_are_escaped() {
    let html = page_of(&sample::set());
    assert!(html.contains("A processor &lt;invented&gt;"));
    assert!(!html.contains("<invented>"));
    assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
}

#[test]
fn losses_are_named_beside_wins() {
    let html = page_of(&sample::set());
    assert!(html.contains("Losses:</span> delete_b1 (0.58x)"), "named at the top");
    assert!(html.contains("<tr class=\"lost\"><th>delete_<wbr>b1</th>"), "marked in the table");
    assert!(html.contains("Every row passed every check"));
}

/// An engine that is not the baseline has losses of ours counted and coloured as well.
#[test]
fn losses_to_any_engine_are_shown() {
    let mut set = sample::set();
    for run in &mut set.runs {
        if run.spec.test == "read_random" && run.spec.engine == "lmdb" {
            run.result.operations[0].per_second *= 1_000.0;
        }
    }
    let html = page_of(&set);
    assert!(html.contains("<tr><th>lmdb</th><td class=\"win\">"), "{html}");
    let row = html.split("<tr").find(|row| row.contains("<th>read_<wbr>random</th>")).unwrap();
    let cell = row.split("<td data-of=\"lmdb\">").nth(1).unwrap();
    assert!(cell.contains("<small class=\"loss\">0.00"), "{cell}");
    let own = row.split("<td data-of=\"tidesdb\">").nth(1).unwrap();
    assert!(!own.split("</td>").next().unwrap().contains("1.00x"), "{own}");
}

#[test]
fn rows_that_may_not_be_believed_are_prominent_and_count_for_nothing() {
    let mut set = sample::set();
    for run in &mut set.runs {
        if run.spec.test == "read_random" && run.spec.engine == "tidesdb" {
            run.result.status = Status::Invalid;
            run.result.problems = vec!["key 7: value <differs>".to_owned()];
        }
        if run.spec.test == "seek_random" && run.spec.engine == "rocksdb" {
            run.result = JobResult::failed("died".to_owned());
        }
    }
    let html = page_of(&set);
    assert!(html.contains("6 runs</strong> may not be believed"));
    assert!(html.contains("key 7: value &lt;differs&gt;"));
    assert!(html.contains("<tr class=\"invalid\"><th>read_<wbr>random</th><td class=\"bad\">–"));
    assert!(html.contains("<td class=\"bad\" data-of=\"rocksdb\">FAILED</td>"));
    assert!(html.contains("<b>6</b>runs not valid"), "counted at the top");
    assert!(!html.contains("Every row passed every check"));
}

#[test]
fn skipped_rows_and_notes_are_told_but_are_not_bad() {
    let mut set = sample::set();
    for run in &mut set.runs {
        if run.spec.test == "seek_random" && run.spec.engine == "rocksdb" {
            run.result = JobResult::skipped("seeks <backwards>: not available".to_owned());
        }
        if run.spec.test == "read_random" && run.spec.engine == "lmdb" {
            run.result.notes = vec!["the page cache was not emptied".to_owned()];
        }
    }
    let html = page_of(&set);
    assert!(html.contains("2 things left out or noted"), "each is told once");
    assert!(html.contains("rocksdb, seek_random: seeks &lt;backwards&gt;: not available"));
    assert!(html.contains("Every row passed every check"));
    assert!(html.contains("<tr><th>seek_<wbr>random</th><td>–</td><td></td>"), "no verdict");
}

#[test]
fn what_a_set_lacks_is_said() {
    let html = page_of(&sample::set());
    assert!(html.contains("Not in this set of results"));
    assert!(html.contains("28_version_history: History needs more than one result file"));
}

#[test]
fn conditions_for_quoting_follow_the_set() {
    let mut set = sample::set();
    let conditions = |set: &ResultSet| {
        let view = View::new(set, &[], "rocksdb");
        conditions::all(&view)
    };
    let state = |set: &ResultSet, part: &str| {
        let all = conditions(set);
        all.into_iter().find(|(name, _)| name.contains(part)).unwrap().1
    };
    assert_eq!(state(&set, "VALID"), conditions::Met::Yes);
    assert_eq!(state(&set, "three repetitions"), conditions::Met::Yes);
    assert_ne!(state(&set, "Both profiles"), conditions::Met::Yes);
    assert_ne!(state(&set, "tool costs"), conditions::Met::Yes);
    assert_eq!(state(&set, "spread"), conditions::Met::Yes);
    set.runs[0].result.operations[0].per_second *= 3.0;
    assert_ne!(state(&set, "spread"), conditions::Met::Yes);
    set.runs.retain(|run| run.spec.repetition == 0);
    assert_ne!(state(&set, "three repetitions"), conditions::Met::Yes);
    assert_ne!(state(&set, "spread"), conditions::Met::Yes, "one run has none");
}

#[test]
fn the_folder_holds_page_pictures_results_and_sums() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("out");
    let set = sample::set();
    for _ in 0..2 {
        let page = write(&set, &[], "rocksdb", &folder).unwrap();
        assert_eq!(page, folder.join("report.html"));
    }
    assert!(ResultSet::read(&folder.join("results.json")).unwrap() == set);
    let sums = fs::read_to_string(folder.join(checksums::FILE)).unwrap();
    let files = walk(&folder);
    assert_eq!(sums.lines().count() + 1, files, "every file but the sums has its sum");
    assert!(sums.contains("plots/00_speedup_summary.svg"));
    let svg = fs::read_to_string(folder.join("plots/00_speedup_summary.svg")).unwrap();
    assert!(svg.contains("prefers-color-scheme:dark"));
}

fn walk(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { 1 }).sum()
}
