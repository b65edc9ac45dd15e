//! What the exit codes of commands mean, where there is more to say than done or failed.

pub(super) const GET: &str = "\
Exit codes: 0 each key is there, 1 a key is not there, 2 error or wrong usage.";

pub(super) const VERIFY: &str = "\
Exit codes: 0 no damage was found (what is uncertain is none), 2 damage, error or wrong usage,
130 interrupted.";

pub(super) const INSPECT: &str = "\
Exit codes: 0 each part is whole, 2 a part is damaged, error or wrong usage.";

pub(super) const UPGRADE: &str = "\
Exit codes: 0 this build reads each file, 2 it does not, a file is damaged, error or wrong usage.";

pub(super) const RESTORE: &str = "\
Exit codes: 0 the copy is whole, 2 damage, error or wrong usage: there is no copy then,
130 interrupted.";

pub(super) const SALVAGE: &str = "\
Exit codes: 0 nothing is known to be lost, 2 error or wrong usage: nothing was written then,
3 done, and something was lost, which is listed, 130 interrupted.";

pub(super) const SHELL: &str = "\
Exit codes of a script: 0 each line was done, 1 a key was not there, 2 an error, which ended the
script, or a transaction that was left open, 130 interrupted.";
