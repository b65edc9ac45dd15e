//! Link options of the one engine that brings a second copy of a C library.
//!
//! TidesDB 10 and the LZ4 crate both carry xxHash under its own names. The functions that both
//! define (XXH32 and XXH64) calculate the same published hashes on states of the same layout, so
//! the linker may take either.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_TIDESDB10").is_some() {
        println!("cargo:rustc-link-arg=-Wl,--allow-multiple-definition");
    }
}
