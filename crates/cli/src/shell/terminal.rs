//! Lines from a terminal, with editing, completion and a history that outlives the shell.

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use rustyline::config::{CompletionType, Config};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{ColorMode, Editor};

use super::completion::Completion;
use super::session::{Outcome, Session};
use crate::failure::{Failure, Result, note};
use crate::interrupt;

/// Lines that the history keeps.
const HISTORY_LINES: usize = 1000;

/// Reads and runs lines until Ctrl-D or `exit`.
///
/// # Errors
/// When the terminal cannot be used.
pub(super) fn run(session: &mut Session) -> Result<()> {
    let failed = |error: ReadlineError| Failure::new(format!("cannot use the terminal: {error}"));
    let config = Config::builder()
        .max_history_size(HISTORY_LINES)
        .map_err(failed)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .color_mode(ColorMode::Disabled)
        .bracketed_paste(false)
        .build();
    let history = FileHistory::with_config(&config);
    let mut editor: Editor<Completion, FileHistory> =
        Editor::with_history(config, history).map_err(failed)?;
    interrupt::install_for_shell()?;
    let history = history_path();
    if let Some(path) = &history {
        // There is none before the first line of the first shell.
        let _ = path.parent().map(fs::create_dir_all);
        let _ = editor.load_history(path);
    }
    note("`help` lists the commands, Tab completes, Ctrl-D leaves");
    loop {
        editor.set_helper(Some(Completion::of(session)));
        let mark = if session.in_transaction() { "*" } else { "" };
        let prompt = format!("tidesdb {}{mark}> ", session.family_name());
        let line = match editor.readline(&prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        };
        // A history that can't be kept is no reason to stop. Each line is kept at once, behind
        // those of other shells: the terminal may go at any time.
        if editor.add_history_entry(&line).is_ok_and(|added| added)
            && let Some(path) = &history
        {
            let _ = editor.append_history(path);
        }
        interrupt::begin_command();
        let done = session.execute(&line, &mut io::stdout().lock());
        interrupt::end_command();
        match done {
            Ok(Outcome::Done) => {}
            Ok(Outcome::NotFound) => note("not found"),
            Ok(Outcome::Exit) => break,
            Err(failure) => drop(failure.report()),
        }
    }
    Ok(())
}

/// The file of the history: `tidesdb/history` in `XDG_STATE_HOME`, by default `~/.local/state`.
fn history_path() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    Some(state?.join("tidesdb/history"))
}
