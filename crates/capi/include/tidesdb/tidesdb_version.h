/* TidesDB: the version of the interface, and what the library was built with. */
#ifndef TIDESDB_VERSION_H
#define TIDESDB_VERSION_H

#define TIDESDB_VERSION "9.3.14"

#define TIDESDB_HAVE_SNAPPY
#define TIDESDB_HAVE_LZ4
#define TIDESDB_HAVE_ZSTD

#endif /* TIDESDB_VERSION_H */
