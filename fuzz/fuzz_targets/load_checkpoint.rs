#![no_main]
//! See `tidesdb_cli::hostile`.

use libfuzzer_sys::fuzz_target;
use tidesdb_cli::hostile::READERS;

fuzz_target!(|bytes: &[u8]| {
    let reader = READERS.iter().find(|(name, _)| *name == "load_checkpoint");
    if let Some((_, read)) = reader {
        read(bytes);
    }
});
