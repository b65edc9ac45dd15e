use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb_base::event::EventListener;
use tidesdb_base::options::FamilyOptions;
use tidesdb_sim::{FaultError, FaultKind, FaultVfs, Op, OpSet, SimVfs};

use super::*;
use crate::db::{Components, Db};
use crate::write::WriteBatch;

fn components(vfs: &Arc<dyn Vfs>) -> Components {
    Components { vfs: Arc::clone(vfs), ..Components::simulated() }
}

fn text(vfs: &dyn Vfs, path: &str) -> String {
    let file = vfs.open(Path::new(path), OpenMode::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn names(vfs: &dyn Vfs) -> Vec<String> {
    vfs.list(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn the_life_of_a_database_is_told_line_by_line() {
    let vfs: Arc<dyn Vfs> = SimVfs::new(1);
    let options = DbOptions::default().event_log(true);
    let db = Db::open_with("/db", options.clone(), components(&vfs)).unwrap();
    let family = db.create_family("orders", FamilyOptions::default()).unwrap();
    family.put(b"key", b"value").unwrap();
    family.flush().unwrap();
    db.rename_family("orders", "b").unwrap();
    db.drop_family("b").unwrap();
    db.close().unwrap();
    let reported = text(vfs.as_ref(), "/db/LOG");
    let lines: Vec<&str> = reported.lines().map(|line| line.split("] ").nth(2).unwrap()).collect();
    let wanted = [
        "opened with 0 families",
        "family 'orders' was created",
        "memtable of 'orders' was written out",
        "family 'orders' is now called 'b'",
        "family 'b' was dropped",
        "closed",
    ];
    assert_eq!(lines.len(), wanted.len(), "{reported}");
    for (line, wanted) in lines.iter().zip(wanted) {
        assert!(line.contains(wanted), "'{line}' is not '{wanted}'");
    }
    // A later opening goes on behind it, and one for reading writes nothing.
    Db::open_with("/db", options.clone(), components(&vfs)).unwrap().close().unwrap();
    let twice = text(vfs.as_ref(), "/db/LOG");
    assert!(twice.starts_with(&reported) && twice.lines().count() == wanted.len() + 2, "{twice}");
    let reader = Db::open_with("/db", options.read_only(true), components(&vfs)).unwrap();
    reader.close().unwrap();
    assert_eq!(text(vfs.as_ref(), "/db/LOG"), twice);
}

#[test]
fn the_file_keeps_to_its_bound_and_one_old_one_stays() {
    let vfs: Arc<dyn Vfs> = SimVfs::new(1);
    let options = DbOptions::default().event_log(true).event_log_bytes(1000);
    let db = Db::open_with("/db", options, components(&vfs)).unwrap();
    for n in 0..40 {
        db.create_family(&format!("family {n}"), FamilyOptions::default()).unwrap();
        let files: Vec<String> =
            names(vfs.as_ref()).into_iter().filter(|name| name.starts_with("LOG")).collect();
        assert!(files == ["LOG"] || files == ["LOG", "LOG.old"], "{files:?}");
        assert!(text(vfs.as_ref(), "/db/LOG").len() <= 1000);
    }
    let (old, new) = (text(vfs.as_ref(), "/db/LOG.old"), text(vfs.as_ref(), "/db/LOG"));
    assert!(old.len() > 900 && old.len() <= 1000, "{}", old.len());
    // Nothing is lost in between.
    let last = new.lines().last().unwrap();
    assert!(last.contains("'family 39' was created"), "{last}");
    assert!(old.ends_with('\n') && !new.is_empty());
    // It is no file that a later opening takes for its own.
    db.close().unwrap();
    let db = Db::open_with("/db", DbOptions::default(), components(&vfs)).unwrap();
    assert!(db.verify().unwrap().problems.is_empty());
    assert!(names(vfs.as_ref()).contains(&"LOG.old".to_owned()));
}

#[test]
fn events_below_the_level_are_left_out() {
    let clock = Arc::new(tidesdb_sim::ManualClock::new(1000));
    for (level, wanted) in [(LogLevel::Info, 4), (LogLevel::Warn, 1), (LogLevel::Error, 0)] {
        let vfs: Arc<dyn Vfs> = SimVfs::new(1);
        let options =
            DbOptions::default().event_log(true).event_log_level(level).slow_operation_us(500);
        let components = Components { clock: Arc::clone(&clock) as _, ..components(&vfs) };
        let db = Db::open_with("/db", options, components).unwrap();
        let family = db.create_family("orders", FamilyOptions::default()).unwrap();
        family.put(b"key", b"value").unwrap();
        clock.advance(std::time::Duration::from_secs(1));
        let slowly = |_: &[u8]| clock.advance(std::time::Duration::from_millis(1));
        family.get_with(b"key", slowly).unwrap();
        db.drop_family("orders").unwrap();
        let there = names(vfs.as_ref()).contains(&"LOG".to_owned());
        let reported = if there { text(vfs.as_ref(), "/db/LOG") } else { String::new() };
        assert_eq!(reported.lines().count(), wanted, "{level:?}: {reported}");
        assert_eq!(reported.contains("slow get of 'orders'"), level < LogLevel::Error);
    }
}

/// Each event and each commit panics; the first panic of each function is in the file, no other is.
#[test]
fn a_function_that_panics_again_and_again_costs_one_line() {
    let vfs: Arc<dyn Vfs> = SimVfs::new(1);
    let calls = Arc::new(AtomicU64::new(0));
    let panicking = |calls: &Arc<AtomicU64>| {
        let calls = Arc::clone(calls);
        move || {
            calls.fetch_add(1, Ordering::Relaxed);
            // Without the report of the panic hook, which the test's output would be full of.
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    };
    let listen = panicking(&calls);
    let options = DbOptions::default()
        .event_log(true)
        .event_listener(EventListener::new(move |_| listen()))
        .event_listener_level(LogLevel::Info);
    let db = Db::open_with("/db", options, components(&vfs)).unwrap();
    let families = ["a", "b"].map(|n| db.create_family(n, FamilyOptions::default()).unwrap());
    for family in &families {
        let called = panicking(&calls);
        family.on_commit(move |_| called());
        let mut batch = WriteBatch::new();
        for n in 0..10_u8 {
            family.put(&[n], b"value").unwrap();
            batch.put(family, &[n], b"other").unwrap();
            db.write(&batch).unwrap();
        }
        family.flush().unwrap();
    }
    assert!(calls.load(Ordering::Relaxed) > 40, "nothing was put to the test");
    let lines = || text(vfs.as_ref(), "/db/LOG");
    let panicked = |of: &str| lines().matches(&format!("{of} panicked")).count();
    assert_eq!(panicked("the event listener"), 1, "{}", lines());
    assert_eq!(panicked("the commit hook of 'a'"), 1, "{}", lines());
    assert_eq!(panicked("the commit hook of 'b'"), 1, "{}", lines());
    assert_eq!(panicked(""), 3, "{}", lines());
}

#[test]
fn a_file_that_cannot_be_written_fails_nothing() {
    let faults = FaultVfs::new(SimVfs::new(1));
    let vfs: Arc<dyn Vfs> = Arc::clone(&faults) as Arc<dyn Vfs>;
    let clock: Arc<dyn Clock> = Components::simulated().clock;
    vfs.create_dir(Path::new("/db")).unwrap();
    let options = DbOptions::default().event_log(true);
    let log = EventLog::new(&vfs, &clock, &options, Path::new("/db")).unwrap();
    let event = |n: u32| Event::FamilyCreated { family: format!("family {n}") };
    log.write(&event(0));
    faults.reset();
    faults.count_only(OpSet::of(&[Op::Write]));
    faults.fail_call(0, FaultKind::Forever, FaultError::NO_SPACE);
    (1..3).for_each(|n| log.write(&event(n)));
    assert!(faults.fired() >= 2, "nothing was put to the test");
    faults.clear_faults();
    log.write(&event(3));
    let reported = text(vfs.as_ref(), "/db/LOG");
    let lines: Vec<&str> = reported.lines().map(|line| line.split("] ").nth(2).unwrap()).collect();
    let wanted = [
        "family 'family 0' was created",
        "2 lines could not be written",
        "family 'family 3' was created",
    ];
    assert_eq!(lines, wanted);
    // Nor does a directory that is not there.
    let options = options.event_log_path("/nowhere/LOG".into());
    let db = Db::open_with("/other", options, components(&vfs)).unwrap();
    db.create_family("f", FamilyOptions::default()).unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
}
