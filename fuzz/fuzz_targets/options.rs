#![no_main]
//! See `tidesdb_files::hostile`.

use libfuzzer_sys::fuzz_target;
use tidesdb_files::hostile::READERS;

fuzz_target!(|bytes: &[u8]| {
    let reader = READERS.iter().find(|(name, _)| *name == "options");
    if let Some((_, read)) = reader {
        read(bytes);
    }
});
