//! Rules of all texts: no intentions, no machine's paths, and documents that name what exists.

/// Marks of unfinished work. Split, so that this file does not contain them.
const INTENTIONS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/pla", "n/"),
];

/// Folders of the project that documents name.
const NAMED_FOLDERS: &[&str] = &["crates/", "docs/", "scripts/", ".ci/"];

/// Columns of a document, and of pages that show the tables that a program prints.
const MOST_COLUMNS: usize = 100;
const MOST_COLUMNS_OF_OUTPUT: usize = 120;
const SHOWS_OUTPUT: &[&str] = &["docs/design/0001-compaction-at-scale.md"];

/// Papers that a program writes.
const GENERATED: &[&str] = &["docs/c-api.md"];

/// Lines of a document that are too wide. What cannot be broken may be: rows of tables, also of
/// those that are drawn, and lines of one word, such as a link.
pub(crate) fn columns(path: &str, text: &str) -> Vec<String> {
    if GENERATED.contains(&path) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        let content = line.trim_start();
        if content.starts_with("```") {
            fenced = !fenced;
        }
        let output = fenced && SHOWS_OUTPUT.contains(&path);
        let most = if output { MOST_COLUMNS_OF_OUTPUT } else { MOST_COLUMNS };
        let row = content.starts_with('|') || line.contains(['│', '┌', '╞', '├', '└']);
        let one_word = !content.trim_start_matches("- ").contains(' ');
        let columns = line.chars().count();
        if columns > most && !row && !one_word {
            found.push(format!("{path}:{}: {columns} columns, at most {most} are allowed", at + 1));
        }
    }
    found
}

/// Lines of a page that people write: without what a program puts between two comments.
pub(crate) fn written_lines(text: &str) -> usize {
    let mut made = false;
    let written = text.lines().filter(|line| {
        made = (made || line.starts_with("<!-- made by ")) && !line.starts_with("<!-- end of ");
        !made
    });
    written.count()
}

/// Words of a sentence in a document.
const MOST_WORDS: usize = 45;

/// Sentences of a document that are too long to be read once, outside of tables and examples.
pub(crate) fn long_sentences(path: &str, text: &str) -> Vec<String> {
    let long = sentences(text).into_iter().filter(|(_, words)| *words > MOST_WORDS);
    let rule = format!("words, at most {MOST_WORDS} are allowed");
    long.map(|(at, words)| format!("{path}:{at}: a sentence of {words} {rule}")).collect()
}

/// Line and number of words of each sentence. A heading, an empty line, a table, an example and an
/// item of a list end the sentence before them.
fn sentences(text: &str) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let (mut fenced, mut goes_on) = (false, false);
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let fence = line.starts_with("```");
        fenced ^= fence;
        let item = item_of_list(line);
        let other = fence || fenced || line.is_empty() || line.starts_with(['|', '#']);
        goes_on &= !other && item.is_none();
        let prose = if other { "" } else { item.unwrap_or(line) };
        for word in prose.split_whitespace() {
            let words = usize::from(word.contains(char::is_alphanumeric));
            match found.last_mut() {
                Some((_, so_far)) if goes_on => *so_far += words,
                _ => found.push((at + 1, words)),
            }
            goes_on = !ends_sentence(word);
        }
    }
    found
}

/// The text of a line that begins an item of a list.
fn item_of_list(line: &str) -> Option<&str> {
    let numbered = || {
        let (number, rest) = line.split_once(". ")?;
        number.chars().all(|c| c.is_ascii_digit()).then_some(rest)
    };
    line.strip_prefix("- ").or_else(numbered)
}

/// Whether a sentence ends with this word, which quotes or brackets may close.
fn ends_sentence(word: &str) -> bool {
    let word = word.trim_end_matches(['`', '"', '*', '_', ')', ']']);
    let goes_on = word.ends_with("...") || ["e.g.", "i.e."].contains(&word);
    word.ends_with(['.', '!', '?']) && !goes_on
}

/// Words that leave open who acts. A document says which reader, writer or caller it is.
const NAMELESS: &[&str] =
    &["whoever", "nobody", "somebody", "everybody", "anybody", "for ever", "has it that"];

/// Lines of a document, or of comments in code, that leave open who acts, outside of examples and
/// quotations.
pub(crate) fn nameless(path: &str, text: &str) -> Vec<String> {
    if GENERATED.contains(&path) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        let Some(line) = prose_of(path, line) else { continue };
        fenced ^= line.starts_with("```");
        let prose: String = line.split(['`', '"']).step_by(2).collect();
        let prose = prose.to_lowercase();
        let words = NAMELESS.iter().filter(|word| !fenced && super::has_word(&prose, word));
        found.extend(words.map(|word| format!("{path}:{}: '{word}': say who or how long", at + 1)));
    }
    found
}

/// Names of types that say less than the field's word: a read point, a mode, a model.
const VAGUE_TYPES: &[&str] = &["Moment", "Ground", "World"];

/// Files that still have such types.
const HAS_VAGUE_TYPES: &str = "crates/tidesdb/src/compaction/plan/tests/";

/// Types with a name that the field has a better one for.
pub(crate) fn vague_types(path: &str, text: &str) -> Vec<String> {
    if path.starts_with(HAS_VAGUE_TYPES) {
        return Vec::new();
    }
    let vague = |line: &str| {
        let definition = ["struct ", "enum ", "trait ", "type "].iter().find_map(|kind| {
            let (before, rest) = line.split_once(kind)?;
            (before.is_empty() || before.starts_with("pub")).then_some(rest)
        })?;
        let name = definition.split(|c: char| !c.is_alphanumeric()).next()?;
        VAGUE_TYPES.contains(&name).then(|| name.to_owned())
    };
    let lines = text.lines().enumerate();
    let found = lines.filter_map(|(at, line)| Some((at, vague(line.trim_start())?)));
    found.map(|(at, name)| format!("{path}:{}: a type '{name}': name what it is", at + 1)).collect()
}

/// Lines in which a call answers what it returns: a name of code, or a constant of C.
pub(crate) fn answering(path: &str, text: &str) -> Vec<String> {
    let wrong = |line: &str| {
        ["answer ", "answers ", "answered "].iter().any(|verb| {
            line.match_indices(verb).any(|(at, _)| {
                let rest = &line[at + verb.len()..];
                ["`", "TDB_", "NULL"].iter().any(|begin| rest.starts_with(begin))
            })
        })
    };
    let lines = text.lines().enumerate().filter(|(_, line)| wrong(line));
    lines.map(|(at, _)| format!("{path}:{}: a call returns, it does not answer", at + 1)).collect()
}

/// Names of functions that leave open who acts.
pub(crate) fn nameless_functions(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some((_, rest)) = line.split_once("fn ") else { continue };
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next();
        let name = name.unwrap_or_default().replace('_', " ");
        let words = NAMELESS.iter().filter(|word| super::has_word(&name, word));
        found.extend(words.map(|word| format!("{path}:{}: '{word}' in a name", at + 1)));
    }
    found
}

/// Comments that belong to more than one item: a sentence that goes on at the next one says nothing
/// where only one of them is shown.
pub(crate) fn split_sentences(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut before: Option<&str> = None;
    for (at, line) in text.lines().map(str::trim).chain([""]).enumerate() {
        let comment = line.strip_prefix("///").map(str::trim);
        let is_cut = match (before, comment) {
            (None, Some(first)) => first.starts_with("..."),
            (Some(last), None) => last.ends_with(',') || last.ends_with("..."),
            _ => false,
        };
        if is_cut {
            let number = if comment.is_some() { at + 1 } else { at };
            found.push(format!("{path}:{number}: a sentence that goes on at another item"));
        }
        before = comment;
    }
    found
}

/// A line of a document, or the text of a line of Rust that is a comment.
fn prose_of<'a>(path: &str, line: &'a str) -> Option<&'a str> {
    let line = line.trim_start();
    if !path.ends_with(".rs") {
        return Some(line);
    }
    let comment = line.strip_prefix("//")?;
    Some(comment.trim_start_matches(['/', '!']).trim_start())
}

/// The numbers of the invariants that have a heading: `### I-01 What holds`.
pub(crate) fn invariants(text: &str) -> Vec<&str> {
    let headings = text.lines().filter_map(|line| line.strip_prefix("### I-"));
    headings.map(|heading| heading.split(' ').next().unwrap_or(heading)).collect()
}

/// Invariants that a text names, as `I-` and digits, and that have no heading.
pub(crate) fn unknown_invariants(path: &str, text: &str, known: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for (column, _) in line.match_indices("I-") {
            let within = line[..column].chars().next_back().is_some_and(char::is_alphanumeric);
            let rest = &line[column + 2..];
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            if !within && end > 0 && !known.contains(&&rest[..end]) {
                found.push(format!("{path}:{}: no invariant I-{}", at + 1, &rest[..end]));
            }
        }
    }
    found
}

/// Unfinished things belong in the issue tracker.
pub(crate) fn intentions(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for mark in INTENTIONS.iter().filter(|mark| super::has_word(line, mark)) {
            found.push(format!("{path}:{}: '{mark}'", at + 1));
        }
    }
    found
}

/// Absolute paths of one machine.
pub(crate) fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for start in MACHINE_PATHS {
            let absolute = line.match_indices(start).any(|(column, _)| {
                let before = line[..column].chars().next_back();
                before.is_none_or(|c| !c.is_alphanumeric() && !"._-}>*/".contains(c))
            });
            if absolute {
                found.push(format!("{path}:{}: a path of one machine, '{start}'", at + 1));
            }
        }
    }
    found
}

/// Words in backticks.
fn quoted(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words = line.split('`').skip(1).step_by(2);
        found.extend(words.map(|word| (at + 1, word)));
    }
    found
}

/// Files and folders that a document names in backticks and that do not exist.
pub(crate) fn missing_paths(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (number, word) in quoted(text) {
        let named = word.split("::").next().unwrap_or(word);
        let ours = NAMED_FOLDERS.iter().any(|folder| named.starts_with(folder));
        let pattern = named.contains(['*', '{', '<', ' ', 'N']);
        if ours && !pattern && !exists(named) {
            found.push(format!("{path}:{number}: '{named}' does not exist"));
        }
    }
    found
}

/// Names of source files in the drawn blocks of a document, bare or with a folder in front, that no
/// path ends with. A crate's folder stands for its `src`.
pub(crate) fn missing_in_pictures(path: &str, text: &str, sources: &[&str]) -> Vec<String> {
    let sources: Vec<_> =
        sources.iter().map(|source| format!("/{}", source.replace("/src/", "/"))).collect();
    let mut found = Vec::new();
    let mut drawn = false;
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            drawn = line == "```text";
        }
        let words = line.split(|c: char| !c.is_alphanumeric() && !"_./-".contains(c));
        for word in words.filter(|word| drawn && word.ends_with(".rs")) {
            if !sources.iter().any(|source| source.ends_with(&format!("/{word}"))) {
                found.push(format!("{path}:{}: no file '{word}'", at + 1));
            }
        }
    }
    found
}

/// Links of a document to other documents that do not exist. `exists` takes a path from the root.
pub(crate) fn missing_links(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for rest in line.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or("").split('#').next().unwrap_or("");
            let elsewhere = target.is_empty() || target.contains("://");
            let target =
                if folder.is_empty() { target.to_owned() } else { format!("{folder}/{target}") };
            if !elsewhere && !exists(&target) {
                found.push(format!("{path}:{}: '{target}' does not exist", at + 1));
            }
        }
    }
    found
}

/// Tests that a document names as `path::test`: file and function.
pub(crate) fn guards(text: &str) -> Vec<(String, String)> {
    let tests = quoted(text).into_iter().filter_map(|(_, word)| {
        let (path, test) = word.split_once("::")?;
        path.ends_with(".rs").then(|| (path.to_owned(), test.to_owned()))
    });
    tests.collect()
}

/// Lines of the Rust examples of a document, trimmed.
pub(crate) fn rust_lines(text: &str) -> Vec<&str> {
    let examples = text.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
    examples.flat_map(str::lines).map(str::trim).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests;
