//! Every adapter that this build contains answers the same calls in the same way.
//!
//! RocksDB takes part when a library is found; the others when their feature is on.

#![expect(clippy::unwrap_used, reason = "a failed call is a failed test")]

use bench_compare::engine::{Direction, Engine, EngineOptions, Op, ScanRequest, SessionMode};

fn options(directory: &std::path::Path) -> EngineOptions {
    EngineOptions { cache_bytes: 8 << 20, ..EngineOptions::parity(directory.to_path_buf()) }
}

fn rows(engine: &dyn Engine, start: Option<&[u8]>, direction: Direction) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut session = engine.session(SessionMode::ReadWrite).unwrap();
    session
        .scan(ScanRequest { start, direction }, &mut |key, value| {
            found.push((
                String::from_utf8(key.to_vec()).unwrap(),
                String::from_utf8(value.to_vec()).unwrap(),
            ));
            true
        })
        .unwrap();
    found
}

fn keys(engine: &dyn Engine, start: Option<&[u8]>, direction: Direction) -> Vec<String> {
    rows(engine, start, direction).into_iter().map(|(key, _)| key).collect()
}

fn get(engine: &dyn Engine, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = None;
    let mut session = engine.session(SessionMode::ReadWrite).unwrap();
    let found = session.get(key, &mut |bytes| value = Some(bytes.to_vec())).unwrap();
    assert_eq!(found, value.is_some());
    value
}

fn exercise(name: &str, library: Option<&std::path::Path>) {
    let directory = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        library: library.map(std::path::Path::to_path_buf),
        ..options(directory.path())
    };
    let engine = bench_compare::open(name, &options).unwrap();
    {
        let mut session = engine.session(SessionMode::ReadWrite).unwrap();
        session.write_batch(&[Op::Put { key: b"b", value: b"1" }]).unwrap();
        session
            .write_batch(&[
                Op::Put { key: b"d", value: b"2" },
                Op::Put { key: b"f", value: b"3" },
                Op::Put { key: b"b", value: b"4" },
            ])
            .unwrap();
        assert_eq!(get(engine.as_ref(), b"b").as_deref(), Some(&b"4"[..]));
        assert_eq!(get(engine.as_ref(), b"c"), None);
        // The same session sees its own later writes.
        let mut seen = Vec::new();
        assert!(session.get(b"d", &mut |value| seen = value.to_vec()).unwrap());
        session.write_batch(&[Op::Put { key: b"d", value: b"5" }]).unwrap();
        assert!(session.get(b"d", &mut |value| seen = value.to_vec()).unwrap());
        assert_eq!(seen, b"5");
    }
    for settled in [false, true] {
        if settled {
            engine.settle().unwrap();
        }
        let engine = engine.as_ref();
        assert_eq!(keys(engine, None, Direction::Forward), ["b", "d", "f"], "{name}");
        assert_eq!(keys(engine, None, Direction::Reverse), ["f", "d", "b"], "{name}");
        assert_eq!(keys(engine, Some(b"c"), Direction::Forward), ["d", "f"], "{name}");
        assert_eq!(keys(engine, Some(b"d"), Direction::Forward), ["d", "f"], "{name}");
        assert_eq!(keys(engine, Some(b"g"), Direction::Forward), [""; 0], "{name}");
        assert_eq!(keys(engine, Some(b"e"), Direction::Reverse), ["d", "b"], "{name}");
        assert_eq!(keys(engine, Some(b"d"), Direction::Reverse), ["d", "b"], "{name}");
        assert_eq!(keys(engine, Some(b"x"), Direction::Reverse), ["f", "d", "b"], "{name}");
        assert_eq!(keys(engine, Some(b"a"), Direction::Reverse), [""; 0], "{name}");
    }
    {
        let mut session = engine.session(SessionMode::ReadWrite).unwrap();
        session.write_batch(&[Op::Delete { key: b"d" }, Op::Delete { key: b"x" }]).unwrap();
        session.write_batch(&[Op::Delete { key: b"b" }]).unwrap();
    }
    engine.sync_now().unwrap();
    assert_eq!(keys(engine.as_ref(), None, Direction::Forward), ["f"], "{name}");
    assert_eq!(get(engine.as_ref(), b"d"), None);
    engine.stats().unwrap();
    engine.close().unwrap();
    if name != "memory" {
        let engine = bench_compare::open(name, &options).unwrap();
        assert_eq!(rows(engine.as_ref(), None, Direction::Forward), [("f".into(), "3".into())]);
        engine.close().unwrap();
    }
}

/// What goes beyond the required calls, where the engine says that it has it.
fn exercise_extras(name: &str, library: Option<&std::path::Path>) {
    let directory = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        library: library.map(std::path::Path::to_path_buf),
        transactions: true,
        families: 2,
        ..options(directory.path())
    };
    let engine = bench_compare::open(name, &options).unwrap();
    let can = engine.capabilities();
    let mut session = engine.session(SessionMode::ReadWrite).unwrap();
    for number in 0..10_u8 {
        session.write_batch(&[Op::Put { key: &[number], value: &[number] }]).unwrap();
    }
    let mut found = Vec::new();
    session.multi_get(&[&[3], &[99], &[7]], &mut |at, value| found.push((at, value[0]))).unwrap();
    found.sort_unstable();
    assert_eq!(found, [(0, 3), (2, 7)], "{name}");
    if can.range_delete {
        session.write_batch(&[Op::DeleteRange { start: &[2], end: &[5] }]).unwrap();
        let left = rows_of(session.as_mut());
        assert_eq!(left, [0, 1, 5, 6, 7, 8, 9], "{name}");
    }
    if can.expiry {
        session.write_batch(&[Op::PutExpiring { key: &[20], value: &[1], at: 1 }]).unwrap();
        let later = 4_000_000_000;
        session.write_batch(&[Op::PutExpiring { key: &[21], value: &[1], at: later }]).unwrap();
        assert!(!session.get(&[20], &mut |_| {}).unwrap(), "{name}");
        assert!(session.get(&[21], &mut |_| {}).unwrap(), "{name}");
    }
    if can.families {
        exercise_families(name, engine.as_ref(), session.as_mut());
    }
    if can.transactions {
        exercise_transactions(name, engine.as_ref(), session.as_mut());
    }
    if can.compact {
        engine.compact().unwrap();
        assert!(session.get(&[9], &mut |_| {}).unwrap(), "{name}");
    }
    if can.checkpoint {
        let copy = directory.path().join("copy");
        engine.checkpoint(&copy).unwrap();
        let options = EngineOptions { directory: copy, ..options.clone() };
        let engine = bench_compare::open(name, &options).unwrap();
        let mut session = engine.session(SessionMode::ReadOnly).unwrap();
        assert!(session.get(&[9], &mut |_| {}).unwrap(), "{name}");
    }
    drop(session);
    engine.close().unwrap();
}

fn rows_of(session: &mut dyn bench_compare::engine::Session) -> Vec<u8> {
    let mut seen = Vec::new();
    let request = ScanRequest { start: None, direction: Direction::Forward };
    session
        .scan(request, &mut |key, _| {
            seen.push(key[0]);
            true
        })
        .unwrap();
    seen
}

fn exercise_families(
    name: &str,
    engine: &dyn Engine,
    session: &mut dyn bench_compare::engine::Session,
) {
    for family in [1, 2] {
        session.use_family(family).unwrap();
        session.write_batch(&[Op::Put { key: &[40 + family as u8], value: b"x" }]).unwrap();
        assert_eq!(rows_of(session), [40 + family as u8], "{name}");
    }
    engine.create_family(3).unwrap();
    session.use_family(3).unwrap();
    assert!(rows_of(session).is_empty(), "{name}");
    session.use_family(0).unwrap();
    assert!(!session.get(&[41], &mut |_| {}).unwrap(), "{name}");
}

fn exercise_transactions(
    name: &str,
    engine: &dyn Engine,
    session: &mut dyn bench_compare::engine::Session,
) {
    use bench_compare::engine::{Commit, Isolation};
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        session.begin(isolation).unwrap();
        session.put_in_transaction(&[60], b"mine").unwrap();
        let mut seen = Vec::new();
        session.get_in_transaction(&[60], &mut |value| seen = value.to_vec()).unwrap();
        assert_eq!(seen, b"mine", "{name} {isolation:?}");
        assert_eq!(session.commit().unwrap(), Commit::Done, "{name} {isolation:?}");
    }
    let mut other = engine.session(SessionMode::ReadWrite).unwrap();
    session.begin(Isolation::Snapshot).unwrap();
    session.get_in_transaction(&[60], &mut |_| {}).unwrap();
    other.write_batch(&[Op::Put { key: &[60], value: b"theirs" }]).unwrap();
    session.put_in_transaction(&[60], b"late").unwrap();
    assert_eq!(session.commit().unwrap(), Commit::Conflict, "{name}");
    assert!(session.get(&[60], &mut |value| assert_eq!(value, b"theirs")).unwrap());
    session.begin(Isolation::ReadCommitted).unwrap();
    session.put_in_transaction(&[61], b"gone").unwrap();
    session.rollback().unwrap();
    assert!(!session.get(&[61], &mut |_| {}).unwrap(), "{name}");
}

#[test]
fn adapters_agree() {
    let libraries = bench_compare::Libraries::default();
    exercise("memory", None);
    exercise_extras("memory", None);
    for engine in bench_compare::catalogue(&libraries) {
        if engine.name != "null" && engine.available.is_ok() {
            exercise(engine.name, None);
            exercise_extras(engine.name, None);
        }
    }
}

/// A library with TidesDB's C interface, made by the C compiler if there is one.
#[test]
fn any_library_with_the_c_interface_can_be_used() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("libfake.so");
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_tidesdb/fake.c");
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(&source)
        .arg("-lpthread")
        .status();
    match compiled {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            eprintln!("no C compiler, nothing was tested: {error}");
            return;
        }
    }
    exercise("tidesdb-c", Some(&library));
    exercise_extras("tidesdb-c", Some(&library));
    let named = bench_compare::Libraries { tidesdb: Some(library), rocksdb: None };
    let catalogue = bench_compare::catalogue(&named);
    let entry = catalogue.iter().find(|engine| engine.name == "tidesdb-c").unwrap();
    assert_eq!(entry.available, Ok(()));
    let missing = bench_compare::Libraries { tidesdb: Some("/nowhere.so".into()), rocksdb: None };
    let catalogue = bench_compare::catalogue(&missing);
    let entry = catalogue.iter().find(|engine| engine.name == "tidesdb-c").unwrap();
    assert!(entry.available.as_ref().unwrap_err().contains("no library at"));
}

/// A peer that was built for an old processor calculates the checksum of each log record by table,
/// which makes it slower than it is. RocksDB says in its log which it is; this shows it to a reader
/// who chose the library, and fails if the log can no longer be asked.
#[test]
fn rocksdb_says_whether_checksums_use_the_processor() {
    let libraries = bench_compare::Libraries::default();
    let catalogue = bench_compare::catalogue(&libraries);
    let found = catalogue.iter().find(|engine| engine.name == "rocksdb").unwrap();
    if let Err(reason) = &found.available {
        eprintln!("nothing was tested: {reason}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        extra: vec![("info_log_level".into(), "INFO_LEVEL".into())],
        ..options(directory.path())
    };
    bench_compare::open("rocksdb", &options).unwrap().close().unwrap();
    let log = std::fs::read_to_string(directory.path().join("LOG")).unwrap();
    let stated = log.lines().find_map(|line| line.split_once("Fast CRC32 supported: "));
    let (_, support) = stated.expect("the log says how checksums are calculated");
    println!("RocksDB, CRC32C in hardware: {support}");
    assert!(support.starts_with("Supported") || support.starts_with("Not supported"), "{support}");
}
