//! What Tab offers: commands, their flags, families, isolation levels, settings, and the keys of
//! the family in use.

use clap::CommandFactory;
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use tidesdb::{Db, FamilyOptions};

use super::line::Line;
use super::session::Session;
use crate::database;
use crate::encoding::Encoding;

/// Keys that are offered.
const MOST_KEYS: usize = 50;

/// Completes lines of a session as it is before the line.
#[derive(Debug)]
pub(super) struct Completion {
    db: Db,
    family: String,
}

impl Completion {
    pub(super) fn of(session: &Session) -> Self {
        Self { db: session.db.clone(), family: session.family_name().to_owned() }
    }

    /// The words that the word under the cursor may become, and where it begins.
    pub(super) fn candidates(&self, line: &str, cursor: usize) -> (usize, Vec<String>) {
        let before = line.get(..cursor).unwrap_or(line);
        let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let (head, word) = before.split_at(start);
        let mut words = head.split_whitespace();
        let Some(command) = words.next() else { return (start, commands(word)) };
        let last = words.next_back();
        let found = match (command, last) {
            _ if word.starts_with('-') => flags(command, word),
            (_, Some("--set")) => starting(word, settings()),
            ("options", Some("--format")) => {
                starting(word, ["lines", "toml", "ini"].map(str::to_owned))
            }
            ("use" | "drop-family" | "rename-family" | "clone-family", None) => {
                starting(word, database::visible_families(&self.db))
            }
            ("help", None) => commands(word),
            ("begin", None) => starting(word, values_of("begin")),
            ("get" | "put" | "delete", None) => self.keys(word),
            ("scan" | "count" | "delete", Some("--prefix" | "--from" | "--to")) => self.keys(word),
            _ => Vec::new(),
        };
        (start, found)
    }

    /// Keys that begin with a word. What can't be read is no completion.
    fn keys(&self, word: &str) -> Vec<String> {
        let mut prefix = Vec::new();
        if Encoding::Text.decode(word.as_bytes(), &mut prefix).is_err() {
            return Vec::new();
        }
        let Ok(scan) = self.db.family(&self.family).and_then(|family| family.prefix(&prefix))
        else {
            return Vec::new();
        };
        let entries = scan.entries().take(MOST_KEYS).flatten();
        entries.filter_map(|(key, _)| word_of(&key)).collect()
    }
}

/// A key as a word of a line.
fn word_of(key: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    Encoding::Text.encode(key, &mut text);
    let text = String::from_utf8(text).ok()?;
    let mut word = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            blank if blank.is_whitespace() => {
                let mut bytes = [0; 4];
                for byte in blank.encode_utf8(&mut bytes).bytes() {
                    word.push_str(&format!("\\x{byte:02x}"));
                }
            }
            '"' => word.push_str("\\x22"),
            '\'' => word.push_str("\\x27"),
            '#' if word.is_empty() => word.push_str("\\x23"),
            plain => word.push(plain),
        }
    }
    Some(word)
}

fn starting(word: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    names.into_iter().filter(|name| name.starts_with(word)).collect()
}

fn commands(word: &str) -> Vec<String> {
    let line = Line::command();
    let names = line.get_subcommands().map(|command| command.get_name().to_owned());
    starting(word, names.chain(["help".to_owned()]))
}

fn flags(command: &str, word: &str) -> Vec<String> {
    let line = Line::command();
    let Some(command) = line.find_subcommand(command) else { return Vec::new() };
    let names = command.get_arguments().filter_map(clap::Arg::get_long);
    starting(word, names.map(|name| format!("--{name}")))
}

/// The values that the only argument of a command may have.
fn values_of(command: &str) -> Vec<String> {
    let line = Line::command();
    let Some(command) = line.find_subcommand(command) else { return Vec::new() };
    let values = command.get_positionals().flat_map(clap::Arg::get_possible_values);
    values.map(|value| value.get_name().to_owned()).collect()
}

fn settings() -> Vec<String> {
    let text = FamilyOptions::default().to_text();
    let names = text.lines().filter_map(|line| line.split_once(" = "));
    names.map(|(name, _)| format!("{name}=")).collect()
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let (start, mut words) = self.candidates(line, cursor);
        // A word that is complete; a setting still needs its value.
        if let [word] = words.as_mut_slice()
            && !word.ends_with('=')
        {
            word.push(' ');
        }
        Ok((start, words))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}

impl Validator for Completion {}

impl Helper for Completion {}
