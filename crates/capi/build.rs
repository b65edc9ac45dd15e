//! Compiles the variadic function and names the shared library.

fn main() {
    println!("cargo:rerun-if-changed=c/log_write.c");
    cc::Build::new().file("c/log_write.c").warnings(true).compile("tidesdb_log_write");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtidesdb.so.9");
    }
}
