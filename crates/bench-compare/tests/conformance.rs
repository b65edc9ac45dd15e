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

fn exercise(name: &str) {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
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

#[test]
fn adapters_agree() {
    exercise("memory");
    for engine in bench_compare::catalogue(&bench_compare::Libraries::default()) {
        if engine.name != "null" && engine.available.is_ok() {
            exercise(engine.name);
        }
    }
}
