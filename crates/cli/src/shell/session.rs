//! What a shell works on, and its commands but for those on records.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind as ClapError;
use tidesdb::{Db, Error, ErrorKind, Family, Snapshot, Transaction};

use super::line::{
    BeginArgs, Command, CreateArgs, DropArgs, JsonArgs, Line, OptionsArgs, RollbackArgs,
};
use super::words;
use crate::args::{CopyProgress, Names};
use crate::commands::{self, OptionsForm as Form};
use crate::database;
use crate::doctor;
use crate::failure::{Failure, Result, judged};
use crate::interrupt;
use crate::options_files;
use crate::progress::{self, WorkBar};
use crate::table::bytes;

/// The family that a shell begins with.
const FIRST_FAMILY: &str = "default";

/// Time between two looks at whether work in the background is done.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How long work that was given up is waited for.
const TIME_TO_END: Duration = Duration::from_secs(1);

/// What came of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was done.
    Done,
    /// There is no such key.
    NotFound,
    /// The shell is to end.
    Exit,
}

/// The database and family that the commands of a shell work on.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) db: Db,
    read_only: bool,
    family: String,
    pub(super) transaction: Option<Transaction>,
    pub(super) snapshot: Option<Snapshot>,
}

impl Session {
    /// A session on an open database.
    pub(crate) fn new(db: Db, read_only: bool) -> Self {
        Self { db, read_only, family: FIRST_FAMILY.to_owned(), transaction: None, snapshot: None }
    }

    /// Name of the family in use.
    pub(crate) fn family_name(&self) -> &str {
        &self.family
    }

    /// True between `begin` and its end.
    pub(crate) fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// The family in use, which must exist.
    pub(super) fn family(&self) -> Result<Family> {
        database::family(&self.db, &self.family)
    }

    /// The same; the family that a shell begins with is created.
    pub(super) fn family_to_write(&self) -> Result<Family> {
        if self.family == FIRST_FAMILY && !self.read_only {
            return database::family_or_new(&self.db, FIRST_FAMILY);
        }
        self.family()
    }

    /// Runs a line. Its output goes to `output`.
    ///
    /// # Errors
    /// A usage failure for a line that makes no sense, and those of the command.
    pub(crate) fn execute(&mut self, line: &str, output: &mut dyn Write) -> Result<Outcome> {
        let words = words::split(line).map_err(Failure::usage)?;
        if words.escaped.is_empty() {
            return Ok(Outcome::Done);
        }
        // Most lines have no backslash in single quotes: both forms of their words are the same.
        let same = words.escaped == words.literal;
        let parsed = match Line::try_parse_from(words.escaped) {
            Ok(parsed) if same || parsed.command.takes_escapes() => parsed,
            // The same words, each character of which stands for itself.
            Ok(parsed) => Line::try_parse_from(words.literal).unwrap_or(parsed),
            Err(error) => {
                let text = error.render().to_string();
                if matches!(error.kind(), ClapError::DisplayHelp | ClapError::DisplayVersion) {
                    print(output, &text)?;
                    return Ok(Outcome::Done);
                }
                let text = text.trim();
                return Err(Failure::usage(text.strip_prefix("error: ").unwrap_or(text)));
            }
        };
        self.run(parsed.command, output)
    }

    fn run(&mut self, command: Command, output: &mut dyn Write) -> Result<Outcome> {
        match command {
            Command::Get(args) => return self.get(&args, output),
            Command::Put(args) => self.put(&args)?,
            Command::Delete(args) => self.delete(&args)?,
            Command::Scan(args) => self.scan(&args, output)?,
            Command::Count(args) => self.count(&args, output)?,
            Command::Families(args) => {
                let names = database::visible_families(&self.db);
                print(output, &commands::families_of(&self.db, names, args.json)?)?;
            }
            Command::Use(args) => {
                database::family(&self.db, &args.name)?;
                self.family = args.name;
            }
            Command::CreateFamily(args) => self.create_family(&args)?,
            Command::DropFamily(args) => self.drop_family(&args)?,
            Command::RenameFamily(args) => self.rename_family(args)?,
            Command::CloneFamily(args) => args.clone_in(&self.db)?,
            Command::Begin(args) => self.begin(&args)?,
            Command::Commit => self.commit()?,
            Command::Rollback(args) => self.rollback(&args)?,
            Command::Savepoint(args) => self.open_transaction()?.savepoint(&args.name)?,
            Command::Snapshot(args) => {
                self.snapshot = if args.drop { None } else { Some(self.db.snapshot()) };
            }
            Command::Stats(args) => {
                print(output, &commands::stats_of(&self.db, args.json, args.prometheus)?)?;
            }
            Command::Doctor(args) => {
                print(output, &doctor::examine(&self.db, doctor::Viewer::User, args.json)?)?;
            }
            Command::Verify(args) => self.verify(&args, output)?,
            Command::Checkpoint(args) => {
                let db = self.db.clone();
                with_bar(move |report| args.checkpoint(&db, report))?;
            }
            Command::Backup(args) => {
                let db = self.db.clone();
                with_bar(move |report| args.backup(&db, report))?;
            }
            Command::Flush => {
                let db = self.db.clone();
                in_background("flushing", String::new, move || db.flush())?;
            }
            Command::Compact(args) => {
                let (db, told) = (self.db.clone(), self.db.clone());
                let read = move || told.stats().work.compaction_bytes_read;
                let before = read();
                let so_far = move || format!("{} read", bytes(read().saturating_sub(before)));
                match args.all {
                    true => in_background("compacting", so_far, move || db.compact())?,
                    false => {
                        let family = self.family()?;
                        in_background("compacting", so_far, move || family.compact())?;
                    }
                }
            }
            Command::Sync => {
                let db = self.db.clone();
                in_background("syncing", String::new, move || db.sync_log())?;
            }
            Command::Options(args) => self.options(&args, output)?,
            Command::Exit => return Ok(Outcome::Exit),
        }
        Ok(Outcome::Done)
    }

    fn create_family(&self, args: &CreateArgs) -> Result<()> {
        database::refuse_hidden(&args.name)?;
        let options = options_files::changed(options_files::family(&args.name)?, &args.set)?;
        database::know_order(&self.db, &options.key_order)?;
        self.db.create_family(&args.name, options)?;
        Ok(())
    }

    fn drop_family(&self, args: &DropArgs) -> Result<()> {
        database::family(&self.db, &args.name)?;
        commands::confirm_drop(&args.name, args.yes)?;
        Ok(self.db.drop_family(&args.name)?)
    }

    /// Renames a family. The one in use stays in use.
    fn rename_family(&mut self, names: Names) -> Result<()> {
        names.rename(&self.db)?;
        if self.family == names.from {
            self.family = names.to;
        }
        Ok(())
    }

    fn verify(&self, args: &JsonArgs, output: &mut dyn Write) -> Result<()> {
        let db = self.db.clone();
        let report = with_bar(move |report| db.verify_with_progress(report))?;
        let (text, verdict) = commands::verdict_on(report, args.json)?;
        judged(print(output, &text), verdict)
    }

    pub(super) fn open_transaction(&mut self) -> Result<&mut Transaction> {
        self.transaction
            .as_mut()
            .ok_or_else(|| Failure::usage("there is no transaction").hint("`begin` starts one"))
    }

    fn begin(&mut self, args: &BeginArgs) -> Result<()> {
        if self.in_transaction() {
            return Err(Failure::usage("there is a transaction already")
                .hint("`commit` or `rollback` ends it"));
        }
        self.transaction = Some(self.db.begin(args.level.isolation())?);
        Ok(())
    }

    /// Commits. After an error the transaction is still there, so that it can be looked at, unless
    /// its writes are visible all the same.
    fn commit(&mut self) -> Result<()> {
        let Err(error) = self.open_transaction()?.commit() else {
            self.transaction = None;
            return Ok(());
        };
        if error.kind() == ErrorKind::NotDurable {
            self.transaction = None;
        }
        let advice = match &error {
            // It would be refused again.
            Error::FamilyDropped(_) => GIVEN_UP,
            error => after_commit(error.kind()),
        };
        Err(Failure::from(error).hint(advice))
    }

    fn rollback(&mut self, args: &RollbackArgs) -> Result<()> {
        let transaction = self.open_transaction()?;
        match &args.savepoint {
            Some(name) => transaction.rollback_to_savepoint(name)?,
            None => {
                transaction.rollback()?;
                self.transaction = None;
            }
        }
        Ok(())
    }

    fn options(&self, args: &OptionsArgs, output: &mut dyn Write) -> Result<()> {
        if !args.set.is_empty() {
            let family = self.family()?;
            family.set_options(options_files::changed(family.options(), &args.set)?)?;
        }
        let form = if args.json { Form::Json } else { Form::Of(args.format) };
        print(output, &commands::options_of(&self.db, Some(&self.family), form)?)
    }

    /// Ends the session.
    ///
    /// # Errors
    /// When a transaction was left open, and those of the engine.
    pub(crate) fn close(mut self) -> Result<()> {
        let left_open = self.transaction.take().is_some();
        self.snapshot = None;
        database::close(self.db)?;
        if left_open {
            return Err(Failure::new("the transaction was not committed, and is rolled back"));
        }
        Ok(())
    }
}

/// What can be done about a commit that would fail again.
const GIVEN_UP: &str = "nothing was written, and nothing can be: `rollback` gives it up";

/// What can be done about a commit that failed.
pub(super) const fn after_commit(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Conflict => "`rollback`, and begin again: nothing was written",
        ErrorKind::NotDurable => "its writes are visible; `sync` tries again to make them durable",
        ErrorKind::Broken => "nothing was written: leave the shell and open the database again",
        _ => "nothing was written: `commit` tries again, `rollback` gives it up",
    }
}

/// Writes text to the output of a command.
pub(super) fn print(output: &mut dyn Write, text: &str) -> Result<()> {
    let failed = |error: io::Error| Failure::output(&error);
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(failed)
}

/// Does work that cannot be given up, with a line that shows what it is and what `so_far` says of
/// it. When the user asks for it, the shell goes on without it.
fn in_background<T: Send + 'static>(
    message: &'static str,
    so_far: impl Fn() -> String + Send,
    work: impl FnOnce() -> tidesdb::Result<T> + Send + 'static,
) -> Result<T> {
    let goes_on = || {
        Failure::interrupted(
            "nothing waits for its end now; what is not done when the shell ends is given up",
        )
    };
    progress::during(message, so_far, || in_background_until(work, Duration::ZERO, goes_on))
}

/// Does work that tells how far it is, behind a bar. When the user asks for it, it ends.
fn with_bar<T: Send + 'static>(
    work: impl FnOnce(&mut CopyProgress<'_>) -> tidesdb::Result<T> + Send + 'static,
) -> Result<T> {
    let given_up = Arc::new(AtomicBool::new(false));
    let is_given_up = Arc::clone(&given_up);
    let work = move || {
        let mut bar = WorkBar::new();
        work(&mut |progress| {
            // ORDERING: relaxed, as below; the flag guards no other memory.
            if is_given_up.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            bar.update(progress);
            Ok(())
        })
    };
    in_background_until(work, TIME_TO_END, || {
        given_up.store(true, Ordering::Relaxed);
        Failure::interrupted("it ends, and nothing is kept of a copy")
    })
}

fn in_background_until<T: Send + 'static>(
    work: impl FnOnce() -> tidesdb::Result<T> + Send + 'static,
    time_to_end: Duration,
    give_up: impl FnOnce() -> Failure,
) -> Result<T> {
    let (send, receive) = mpsc::channel();
    // The receiver may have gone on; the result is lost then, as was said.
    thread::spawn(move || drop(send.send(work())));
    loop {
        match receive.recv_timeout(LOOK_INTERVAL) {
            Ok(done) => return Ok(done?),
            Err(RecvTimeoutError::Timeout) if !interrupt::requested() => {}
            Err(RecvTimeoutError::Timeout) => {
                let given_up = give_up();
                // So that it takes its bar away before the next prompt.
                let _ = receive.recv_timeout(time_to_end);
                return Err(given_up);
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new("the work ended without a result"));
            }
        }
    }
}
