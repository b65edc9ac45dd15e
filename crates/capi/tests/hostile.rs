//! Every reader of files of the C interface on bytes that were made up: small real ones, and
//! thousands of changes of them. The same functions, and the same first bytes, are targets in
//! `fuzz/`.

#[path = "../../cli/tests/hostile/changes.rs"]
mod changes;

#[test]
fn readers_of_files_survive_whatever_they_are_given() {
    changes::try_on_changes(tidesdb_c::hostile::READERS);
}
