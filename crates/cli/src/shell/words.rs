//! A line of the shell as words.
//!
//! Blanks separate words. Within `"..."` a blank stands for itself and `\"` for a quote; within
//! `'...'` every character stands for itself. A word that begins with `#` begins a remark. The
//! escapes of keys and values (`\t`, `\xNN`) are left for the commands, which take bytes.

use std::mem;
use std::str::Chars;

/// The words of a line, in two forms that differ in the backslashes within `'...'`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// For what takes escapes: such a backslash is one.
    pub(crate) escaped: Vec<String>,
    /// For what takes characters as they are.
    pub(crate) literal: Vec<String>,
    /// The word that has begun.
    word: Option<[String; 2]>,
}

/// The words of a line.
///
/// # Errors
/// What is wrong with the line.
pub(crate) fn split(line: &str) -> Result<Words, String> {
    let mut words = Words::default();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            blank if blank.is_whitespace() => words.end(),
            '#' if words.word.is_none() => break,
            quote @ ('"' | '\'') => words.quoted(quote, &mut characters)?,
            '\\' => words.escape(characters.next(), "\"' #"),
            plain => words.push(plain),
        }
    }
    words.end();
    Ok(words)
}

impl Words {
    fn end(&mut self) {
        if let Some([escaped, literal]) = mem::take(&mut self.word) {
            self.escaped.push(escaped);
            self.literal.push(literal);
        }
    }

    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().iter_mut().for_each(|form| form.push(character));
    }

    /// Takes characters up to the closing quote.
    fn quoted(&mut self, quote: char, characters: &mut Chars<'_>) -> Result<(), String> {
        self.word.get_or_insert_default();
        while let Some(character) = characters.next() {
            match character {
                end if end == quote => return Ok(()),
                // It stands for itself, also behind the escapes that the commands know.
                '\\' if quote == '\'' => {
                    let [escaped, literal] = self.word.get_or_insert_default();
                    escaped.push_str("\\\\");
                    literal.push('\\');
                }
                '\\' => self.escape(characters.next(), "\""),
                plain => self.push(plain),
            }
        }
        Err(format!("a {quote} is not closed"))
    }

    /// Takes what a backslash and a character stand for: the character, or both for the commands.
    fn escape(&mut self, character: Option<char>, plain: &str) {
        match character {
            Some(character) if plain.contains(character) => self.push(character),
            Some(character) => {
                self.push('\\');
                self.push(character);
            }
            None => self.push('\\'),
        }
    }
}
