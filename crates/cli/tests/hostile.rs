//! Every reader of what users give to the tool on bytes that were made up: small real ones, and
//! thousands of changes of them. The same functions, and the same first bytes, are targets in
//! `fuzz/`.

#[path = "hostile/changes.rs"]
mod changes;

#[test]
fn readers_of_what_users_give_survive_whatever_it_is() {
    changes::try_on_changes(tidesdb_cli::hostile::READERS);
}
