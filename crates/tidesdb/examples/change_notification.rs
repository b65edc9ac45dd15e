//! Notification of changes: a hook that feeds a channel.
//!
//! A hook is called after each commit to its family, when that is visible, by the thread that
//! committed. It should do little; here it hands keys to a thread that does the work.
//!
//! `cargo run --release -p tidesdb --example change_notification`

use std::sync::mpsc;
use std::thread;

use tidesdb::{CommittedKind, Db, DbOptions, FamilyOptions, WriteBatch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open(directory.path(), DbOptions::default())?;
    let users = db.open_family("users", FamilyOptions::default())?;
    let (send, changes) = mpsc::channel();
    users.on_commit(move |commit| {
        for operation in commit.operations {
            let gone = operation.kind != CommittedKind::Put;
            // There is no listener any more when the receiver is gone.
            let _ = send.send((commit.sequence, operation.key.to_vec(), gone));
        }
    });
    let listener = thread::spawn(move || {
        changes
            .iter()
            .map(|(_, key, gone)| (String::from_utf8_lossy(&key).into_owned(), gone))
            .collect()
    });

    users.put(b"ada", b"lovelace")?;
    let mut batch = WriteBatch::new();
    batch.put(&users, b"alan", b"turing")?;
    batch.delete(&users, b"ada")?;
    db.write(&batch)?;
    // Closing removes the hook, and with it the sender: the listener ends.
    db.close()?;

    let seen: Vec<(String, bool)> = listener.join().unwrap_or_default();
    let expected = [("ada", false), ("alan", false), ("ada", true)];
    assert_eq!(seen, expected.map(|(key, gone)| (key.to_owned(), gone)));
    println!("seen: {seen:?}");
    Ok(())
}
