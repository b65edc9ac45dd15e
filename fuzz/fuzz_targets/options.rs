#![no_main]
//! The text form of a family's options.

use libfuzzer_sys::fuzz_target;
use tidesdb_base::options::FamilyOptions;

fuzz_target!(|bytes: &[u8]| {
    if let Some(options) = std::str::from_utf8(bytes).ok().and_then(|t| FamilyOptions::from_text(t).ok()) {
        assert_eq!(FamilyOptions::from_text(&options.to_text()).ok(), Some(options));
    }
});
