use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::ManualScheduler;

use super::*;
use crate::db::{Components, Db};

/// A sample: name, labels, value.
type Sample = (String, BTreeMap<String, String>, f64);

/// A strict reader of the format: each metric is there once, with its help, its kind and its
/// samples.
fn parse(text: &str) -> Vec<Sample> {
    assert!(text.ends_with('\n'));
    let mut samples: Vec<Sample> = Vec::new();
    let mut metric = (String::new(), String::new());
    let mut known = BTreeSet::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(is_name(name) && !help.is_empty(), "{line}");
            assert!(known.insert(name.to_owned()), "{name} comes twice");
            metric = (name.to_owned(), String::new());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!((name, metric.1.as_str()), (metric.0.as_str(), ""), "{line}");
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            metric.1 = kind.to_owned();
        } else {
            let sample = parse_sample(line);
            let suffixes: &[&str] =
                if metric.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            let fits = suffixes.iter().any(|suffix| sample.0 == format!("{}{suffix}", metric.0));
            assert!(fits, "'{line}' stands below {}", metric.0);
            samples.push(sample);
        }
    }
    let identities: BTreeSet<_> = samples.iter().map(|(name, labels, _)| (name, labels)).collect();
    assert_eq!(identities.len(), samples.len(), "a sample comes twice");
    samples
}

fn is_name(name: &str) -> bool {
    name.starts_with("tidesdb_") && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

fn parse_sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, value) = rest.split_once("=\"").unwrap();
            assert!(label.chars().all(|c| c.is_ascii_lowercase()), "{line}");
            let mut text = String::new();
            let mut characters = value.char_indices();
            let end = loop {
                match characters.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => text.push(match characters.next().unwrap().1 {
                        'n' => '\n',
                        c @ ('\\' | '"') => c,
                        other => panic!("'\\{other}' in {line}"),
                    }),
                    (_, c) => text.push(c),
                }
            };
            assert!(labels.insert(label.to_owned(), text).is_none(), "{line}");
            rest = &value[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap();
    }
    let value = rest.strip_prefix(' ').unwrap();
    assert!(!value.contains(' '), "{line}");
    (name.to_owned(), labels, value.parse().unwrap())
}

fn value(samples: &[Sample], name: &str, wanted: &[(&str, &str)]) -> f64 {
    let has = |labels: &BTreeMap<String, String>| {
        wanted.len() == labels.len()
            && wanted.iter().all(|(label, text)| labels.get(*label).is_some_and(|t| t == text))
    };
    let found = samples.iter().find(|(own, labels, _)| own == name && has(labels));
    found.unwrap_or_else(|| panic!("no {name} {wanted:?}")).2
}

#[test]
fn the_page_is_well_formed_and_right_whatever_families_are_called() {
    let options = DbOptions::default().latency_sampling(1);
    let db = Db::open_with("/db", options, Components::simulated()).unwrap();
    let names = ["plain", "with \"quotes\"", "{ünicode}=1, or not"];
    for name in names {
        let family = db.create_family(name, FamilyOptions::default()).unwrap();
        family.put(b"key", b"value").unwrap();
        family.flush().unwrap();
        family.get(b"key").unwrap();
    }
    let samples = parse(&db.metrics_prometheus());
    for name in names {
        let of_family = |metric: &str| value(&samples, metric, &[("family", name)]);
        assert_eq!(of_family("tidesdb_user_written_bytes_total"), 8.0);
        assert_eq!(of_family("tidesdb_table_gets_total"), 1.0);
        let level = [("family", name), ("level", "1")];
        assert_eq!(value(&samples, "tidesdb_level_entries", &level), 1.0);
    }
    assert_eq!(value(&samples, "tidesdb_families", &[]), 3.0);
    assert_eq!(value(&samples, "tidesdb_stalls_total", &[("reason", "flush queue")]), 0.0);
    let buckets: Vec<&Sample> = samples
        .iter()
        .filter(|(name, labels, _)| {
            name == "tidesdb_operation_duration_seconds_bucket" && labels["operation"] == "commit"
        })
        .collect();
    let bounds: Vec<f64> =
        buckets.iter().map(|(_, labels, _)| labels["le"].parse().unwrap()).collect();
    assert!(bounds.is_sorted() && bounds.last() == Some(&f64::INFINITY), "{bounds:?}");
    assert!(buckets.iter().map(|bucket| bucket.2).is_sorted());
    let commits = [("operation", "commit")];
    let count = value(&samples, "tidesdb_operation_duration_seconds_count", &commits);
    assert_eq!((count, buckets.last().unwrap().2), (3.0, 3.0));
}

#[test]
fn families_with_work_that_waits_are_counted_until_it_is_done() {
    let scheduler = Arc::new(ManualScheduler::new(1));
    let components =
        Components { scheduler: Arc::clone(&scheduler) as _, ..Components::simulated() };
    let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
    let options = FamilyOptions::default().min_disk_space(0).l1_file_count_trigger(2);
    let [frozen, runs] = ["frozen", "runs"].map(|name| db.create_family(name, options.clone()));
    let (frozen, runs) = (frozen.unwrap(), runs.unwrap());
    let at_work = || {
        let samples = parse(&db.metrics_prometheus());
        ["flushing", "compacting"]
            .map(|what| value(&samples, &format!("tidesdb_families_{what}"), &[]))
    };
    assert_eq!(at_work(), [0.0, 0.0]);
    for value in 0..4 {
        runs.put(b"key", &[value]).unwrap();
        runs.flush().unwrap();
    }
    assert_eq!(at_work(), [0.0, 1.0]);
    frozen.put(b"key", b"value").unwrap();
    db.core().freeze(frozen.state(), 0);
    assert_eq!(at_work(), [1.0, 1.0]);
    frozen.flush().unwrap();
    scheduler.run_until_idle();
    assert_eq!(at_work(), [0.0, 0.0]);
}

#[test]
fn labels_hold_any_text() {
    let text = "a \\ b \" c \n d \\n { } , =";
    let mut page = Page::default();
    page.metric("some", "Help with a \\ and\ntwo lines.", Kind::Gauge);
    page.value("some", &[("family", text)], 7);
    assert_eq!(value(&parse(&page.0), "tidesdb_some", &[("family", text)]), 7.0);
}

#[test]
fn times_are_told_in_seconds_to_the_nanosecond() {
    let texts = [0, 1, 256, 1_000_000_000, 1_500_000_000, u64::MAX].map(seconds);
    let wanted = ["0", "0.000000001", "0.000000256", "1", "1.5", "18446744073.709551615"];
    assert_eq!(texts, wanted);
}
