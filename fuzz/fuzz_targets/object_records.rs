#![no_main]
//! See `tidesdb_c::hostile`.

use libfuzzer_sys::fuzz_target;
use tidesdb_c::hostile::READERS;

fuzz_target!(|bytes: &[u8]| {
    let reader = READERS.iter().find(|(name, _)| *name == "object_records");
    if let Some((_, read)) = reader {
        read(bytes);
    }
});
