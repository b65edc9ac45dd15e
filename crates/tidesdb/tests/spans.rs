//! Spans and events of the feature `tracing`:
//! `cargo test -p tidesdb --features tracing --test spans`.

#![cfg(feature = "tracing")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use tidesdb::{Db, DbOptions, ErrorKind, FamilyOptions, WriteOptions};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// What a subscriber got: spans and events as lines, and spans that were entered and not left.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    spans: Vec<String>,
    events: Vec<String>,
    entered: i64,
}

thread_local! {
    /// The spans that the thread is in.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Seen {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap()
    }
}

/// Fields as text.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

fn line(metadata: &Metadata<'_>, record: impl FnOnce(&mut Text)) -> String {
    assert_eq!(metadata.target(), "tidesdb");
    let name = if metadata.is_span() { metadata.name() } else { "event" };
    let mut text = Text(format!("{} {name}", metadata.level()));
    record(&mut text);
    text.0
}

impl Subscriber for Seen {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tidesdb" && *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let text = line(attributes.metadata(), |text| attributes.record(text));
        let mut lines = self.lines();
        lines.spans.push(text);
        Id::from_u64(lines.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let text = line(event.metadata(), |text| event.record(text));
        let inside = INSIDE.with_borrow(|inside| inside.last().copied());
        let mut lines = self.lines();
        let around = inside.map_or(String::new(), |id| lines.spans[id as usize - 1].clone());
        lines.events.push(format!("{text} within [{around}]"));
    }

    fn enter(&self, id: &Id) {
        INSIDE.with_borrow_mut(|inside| inside.push(id.into_u64()));
        self.lines().entered += 1;
    }

    fn exit(&self, id: &Id) {
        assert_eq!(INSIDE.with_borrow_mut(Vec::pop), Some(id.into_u64()));
        self.lines().entered -= 1;
    }
}

fn work(directory: &std::path::Path) {
    let path = directory.join("db");
    let options = DbOptions::default().slow_operation_us(1);
    let db = Db::open(&path, options.clone()).unwrap();
    let family = db.create_family("orders", FamilyOptions::default()).unwrap();
    for _ in 0..2 {
        family.put_with("key", "value", WriteOptions::new().sync(true)).unwrap();
        family.flush().unwrap();
    }
    family.compact().unwrap();
    db.checkpoint(directory.join("checkpoint")).unwrap();
    db.backup(directory.join("backup")).unwrap();
    drop((family, db));
    // Only now, so that a slow disk does not make the calls above stall.
    let db = Db::open(&path, options.clone().stall_timeout_ms(50)).unwrap();
    let small = FamilyOptions::default().write_buffer_size(64 << 10);
    let held = db.create_family("held", small).unwrap();
    db.pause_background().unwrap();
    let value = vec![7; 4096];
    let refused = (0..1000).find_map(|n: u32| held.put(n.to_be_bytes(), &value).err());
    assert_eq!(refused.unwrap().kind(), ErrorKind::Stalled);
    db.resume_background();
    drop((held, db));
    Db::open(&path, options).unwrap().close().unwrap();
}

#[test]
fn openings_background_work_and_waits_are_spans() {
    let seen = Seen::default();
    tracing::subscriber::set_global_default(seen.clone()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    work(directory.path());
    let lines = seen.lines();
    let (spans, events) = (lines.spans.join("\n"), lines.events.join("\n"));
    println!("{spans}\n{events}");
    let path = directory.path().display();
    for wanted in [
        format!("INFO open path={path}/db read_only=false"),
        "INFO recovery families=2".to_owned(),
        "INFO flush family=orders bytes=".to_owned(),
        "INFO compaction family=orders runs=2 bytes=".to_owned(),
        format!("INFO checkpoint to={path}/checkpoint"),
        format!("INFO backup to={path}/backup"),
        "DEBUG sync_wait sequence=".to_owned(),
        "DEBUG stall family=held reason=".to_owned(),
        format!("INFO close path={path}/db"),
    ] {
        let found = lines.spans.iter().filter(|span| span.starts_with(&wanted)).count();
        assert!(found > 0, "no '{wanted}'");
    }
    let event = |start: &str, part: &str| {
        let found = |event: &&String| event.starts_with(start) && event.contains(part);
        assert!(lines.events.iter().any(|event| found(&event)), "no '{start}' with '{part}'");
    };
    event("INFO event", "event=\"opened\" micros=");
    event("INFO event", "event=\"family_created\" family=\"orders\"");
    event("INFO event", "event=\"flushed\" family=\"orders\"");
    event("INFO event", "event=\"closed\"");
    event("WARN event", "event=\"slow_operation\" family=\"orders\" operation=\"commit\" micros=");
    // What is reported while work goes on lies within its span.
    event("INFO event", "within [INFO open path=");
    event("INFO event", "within [INFO flush family=orders");
    event("INFO event", "within [INFO compaction family=orders");
    // A span of nothing is none.
    let stalls = lines.spans.iter().filter(|span| span.starts_with("DEBUG stall")).count();
    assert!(stalls <= 100, "{stalls} stalls");
    assert_eq!(lines.entered, 0, "each span that was entered was left");
}
