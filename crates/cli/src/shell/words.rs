//! A line of the shell as words.
//!
//! Blanks separate words. Within `"..."` a blank stands for itself and `\"` for a quote; within
//! `'...'` every character stands for itself. A word that begins with `#` begins a remark. The
//! escapes of keys and values (`\t`, `\xNN`) are left for the commands, which take bytes.

/// The words of a line.
///
/// # Errors
/// What is wrong with the line.
pub(crate) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            blank if blank.is_whitespace() => words.extend(word.take()),
            '#' if word.is_none() => break,
            quote @ ('"' | '\'') => {
                let word = word.get_or_insert_default();
                quoted(quote, &mut characters, word)?;
            }
            '\\' => {
                let word = word.get_or_insert_default();
                escaped(characters.next(), "\"' #", word);
            }
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Takes characters up to the closing quote.
fn quoted(
    quote: char,
    characters: &mut impl Iterator<Item = char>,
    word: &mut String,
) -> Result<(), String> {
    while let Some(character) = characters.next() {
        match character {
            end if end == quote => return Ok(()),
            // It stands for itself, also behind the escapes that the commands know.
            '\\' if quote == '\'' => word.push_str("\\\\"),
            '\\' => escaped(characters.next(), "\"", word),
            plain => word.push(plain),
        }
    }
    Err(format!("a {quote} is not closed"))
}

/// What a backslash and a character stand for: the character, or both for the commands.
fn escaped(character: Option<char>, plain: &str, word: &mut String) {
    match character {
        Some(character) if plain.contains(character) => word.push(character),
        Some(character) => word.extend(['\\', character]),
        None => word.push('\\'),
    }
}
