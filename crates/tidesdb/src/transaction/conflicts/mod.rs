//! Conflicts of a transaction with other commits: what is checked when it commits, and when.
//!
//! A commit is checked twice. First before it takes its place in the log, against everything
//! published by then; most conflicts end here and cost other threads nothing. Then, with its place
//! taken, against what came in between: it waits until every commit in front of it is complete
//! that may touch the same keys, which none of those does for one behind itself, and looks at
//! versions that are newer than the first look and older than itself. Between two such commits no
//! third can slip in, so the first committer wins whatever the others are: transactions, batches
//! or single puts. A conflict found at the second look leaves a void record.
//!
//! Serializable commits that have read take the lock of the dependencies before they take their
//! place and give it back before they write: they are judged one at a time, in the order of their
//! sequence numbers. One that only wrote can only be the last of a dangerous structure, like a
//! plain write, which others find in the data: it is checked as at snapshot.
//!
//! A commit that wrote nothing has no place in the log and looks once. It registers a snapshot for
//! its look, and so does a serializable commit for its first one: the views of its families are
//! loaded one after the other, and without the snapshot a flush in between could drop the change
//! that it looks for, because a newer one hides it. A serializable one that wrote nothing first has
//! its reads recorded (`recording`). A transaction that is judged later meets them; one that was
//! judged before is visible to the look.
//!
//! | level | wrote | looks at | when | lock of the dependencies |
//! |---|---|---|---|---|
//! | repeatable read | yes | what it read | before its place, and in it | - |
//! | repeatable read | no | what it read | once | - |
//! | snapshot | yes | what it wrote | before its place, and in it | - |
//! | serializable, nothing read | yes | what it wrote | before its place, and in it | - |
//! | serializable | yes | what it wrote and read | before its place, in it | second look, judgement |
//! | serializable | no | what it read | once | recording in parts, judgement |
//!
//! A serializable transaction may ask for its reads to stand: it conflicts, whether or not it would
//! be judged dangerous, as soon as a look finds that others have changed something that it read.
//!
//! Other commits are not checked.
//!
//! | file | what |
//! |---|---|
//! | `validation` | the checks of a commit that has read, or only read |
//! | `write_conflicts` | changes of what it wrote: the first committer wins |
//! | `written_keys` | what it wrote, sorted when that is much |
//! | `repeatable_reads` | changes of what a repeatable reader has read |
//! | `read_conflicts` | changes of what a serializable transaction has read |
//! | `recording` | what a serializable transaction has read, recorded for others |
//! | `changes` | which keys have newer versions than a snapshot |
//! | `logged_changes` | the same for many reads, from what was logged since the first look |
//! | `views` | the views of families that a commit looks at |
//! | `window` | the commits that it looks at |

mod changes;
mod logged_changes;
mod read_conflicts;
mod recording;
mod repeatable_reads;
mod validation;
mod views;
mod window;
mod write_conflicts;
mod written_keys;

#[cfg(test)]
pub(super) use self::logged_changes::MOST_KEYS;
pub(super) use self::validation::Validation;
pub(super) use self::write_conflicts::WriteConflicts;
