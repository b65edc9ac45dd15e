/* TidesDB: the version of the interface, and what the library was built with. */
#ifndef TIDESDB_VERSION_H
#define TIDESDB_VERSION_H

/* Of the interface: that of TidesDB 9.3. */
#define TIDESDB_VERSION "9.3.14"

/* Of this implementation, which is written in Rust. The original does not define it. */
#define TIDESDB_RUST_VERSION "0.1.0"

#define TIDESDB_HAVE_SNAPPY
#define TIDESDB_HAVE_LZ4
#define TIDESDB_HAVE_ZSTD

#endif /* TIDESDB_VERSION_H */
