//! The bytes that are written are those of version 1 (`docs/formats/README.md`).
//!
//! The first bytes of the fuzz targets are small files of every format, made of the same content
//! each time. What `fuzz/corpus` has of them was stored when version 1 was frozen. A change of a
//! format on purpose gives it a new version, keeps what is stored under another name, and writes it
//! anew.

use std::path::Path;

#[allow(dead_code, unreachable_pub, reason = "the example has a main function of its own")]
#[path = "../examples/fuzz_corpus.rs"]
mod fuzz_corpus;

#[test]
fn every_format_is_written_as_it_was_frozen() {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut compared = 0;
    for (target, name, bytes) in fuzz_corpus::corpus().unwrap() {
        // What the codecs make is theirs: that it is read is for the fixtures to show. There may be
        // more options, which earlier versions pass over.
        let others = ["value_log", "options"].contains(&target);
        if ["lz4", "zstd", "snappy"].contains(&name.as_str()) || others {
            continue;
        }
        let frozen = std::fs::read(stored.join(target).join(&name)).unwrap();
        assert!(bytes == frozen, "{target} {name} is written otherwise than version 1 was");
        compared += 1;
    }
    assert!(compared > 15, "{compared}");
}

/// What `cargo run -p tidesdb-files --example fuzz_corpus -- fuzz/corpus` does.
#[test]
#[ignore = "writes the first bytes of the fuzz targets anew"]
fn write_the_first_bytes() {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, name, bytes) in fuzz_corpus::corpus().unwrap() {
        std::fs::create_dir_all(stored.join(target)).unwrap();
        std::fs::write(stored.join(target).join(name), bytes).unwrap();
    }
}
