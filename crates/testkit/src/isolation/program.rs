//! Programs of three transactions of four steps, written as text.
//!
//! A step is a list of actions joined by `+`; a transaction begins with its first step. Keys are
//! letters, `a` to `z` in one family and `A` to `Z` in another.
//!
//! | action | what |
//! |---|---|
//! | `begin` | nothing, so that the snapshot is older than the first read |
//! | `get(a)`, `peek(a)` | a read, a read that is not remembered |
//! | `both(ab)` | two reads in one call |
//! | `scan(a-f)`, `back(a-f)` | all entries of a range, forwards or backwards |
//! | `first(a-f)`, `last(a-f)` | the first entry from either side |
//! | `put(a)`, `del(a)`, `app(a)` | a write, a deletion, one more element for a list |
//! | `save(1)`, `undo(1)` | a savepoint, a roll back to it |
//! | `commit`, `rollback` | the end |

use tidesdb_sim::rng::SplitMix64;

use super::store::{Key, KeyRange, ScanRequest};
use crate::Verdict;

/// Number of transactions of a program.
pub const TRANSACTIONS: usize = 3;

/// Number of steps of each.
pub const STEPS: usize = 4;

/// One action of a step.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Nothing.
    Begin,
    /// A read.
    Get(Key),
    /// Two reads in one call, of keys of one family.
    GetBoth([Key; 2]),
    /// A read that is not remembered.
    Peek(Key),
    /// A scan.
    Scan(ScanRequest),
    /// A put.
    Put(Key),
    /// A deletion.
    Delete(Key),
    /// A list gets one more element.
    Append(Key),
    /// A savepoint.
    Savepoint(u8),
    /// A roll back to a savepoint.
    RollbackTo(u8),
    /// The end, for good.
    Commit,
    /// The end, in vain.
    Rollback,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is to show.
    pub name: String,
    /// Keys that exist before it runs.
    pub present: Vec<Key>,
    /// All keys that it names, and those in the ranges that it names.
    pub keys: Vec<Key>,
    /// Steps of each transaction.
    pub transactions: [[Vec<Action>; STEPS]; TRANSACTIONS],
    /// The text of each transaction.
    pub text: [String; TRANSACTIONS],
}

/// Name, present keys, and the three transactions of the named anomalies.
#[rustfmt::skip]
const NAMED: &[(&str, &str, [&str; TRANSACTIONS])] = &[
    ("lost update", "ab",
     ["get(a) put(a) get(b) commit", "get(a) put(a) put(b) commit", "get(a) get(b) get(a) commit"]),
    ("lost update of blind writes", "ab",
     ["begin put(a) put(b) commit", "begin put(b) put(a) commit", "get(a) get(b) put(a) commit"]),
    ("read skew", "abc",
     ["get(a) get(b) get(c) commit", "put(a) put(b) get(c) commit", "put(b) put(c) get(a) commit"]),
    ("write skew", "ab",
     ["get(a) get(b) put(a) commit", "get(b) get(a) put(b) commit", "begin get(a) get(b) commit"]),
    ("write skew through lists of keys", "ab",
     ["scan(a-c) put(a) get(b) commit", "back(a-c) put(b) get(a) commit", "get(a) put(c) get(b) commit"]),
    ("read-only transaction sees what cannot be", "ab",
     ["get(b) put(b) peek(c) commit", "get(a)+get(b) put(a) peek(c) commit", "begin get(a) get(b) commit"]),
    ("phantom of two inserters", "ay",
     ["scan(a-d) put(x) get(a) commit", "scan(w-z) put(b) get(y) commit",
      "scan(a-d) scan(w-z) put(c) commit"]),
    ("phantom behind a limit", "ce",
     ["first(a-f) put(e) get(e) commit", "last(a-f) put(c) get(c) commit",
      "put(b) put(d) first(a-f) commit"]),
    ("phantom of a deletion", "abc",
     ["scan(a-d) del(a) peek(b) commit", "back(a-d) del(b) peek(a) commit",
      "first(a-d) del(c) get(a) commit"]),
    ("two that found a key absent", "b",
     ["get(a) put(a) get(b) commit", "get(a) put(a) put(b) commit", "get(a) get(b) get(a) commit"]),
    ("absent keys crosswise", "",
     ["get(a) put(b) peek(c) commit", "get(b) put(a) peek(c) commit", "get(a) get(b) put(c) commit"]),
    ("aborted read", "ab",
     ["put(a) put(b) get(a) rollback", "get(a) get(b) put(c) commit", "get(b) get(a) scan(a-c) commit"]),
    ("intermediate read", "ab",
     ["put(a) put(a) put(b) commit", "get(a) get(b) put(c) commit", "get(b) get(a) scan(a-c) commit"]),
    ("commit in parts", "aB",
     ["put(a)+put(B) put(c) put(D) commit", "get(a) get(B) get(c) commit",
      "get(D) get(c) scan(A-E) commit"]),
    ("commit in parts, scans", "ace",
     ["put(a)+put(b) put(c) del(e) commit", "scan(a-f) begin back(a-f) commit",
      "put(b) put(e) scan(a-f) commit"]),
    ("savepoints", "abc",
     ["put(a)+save(1) put(b) undo(1) commit", "put(a)+save(1) put(a)+undo(1) put(c) commit",
      "get(a) get(b) get(c) commit"]),
    ("savepoints within savepoints", "abc",
     ["put(a)+save(1)+put(b)+save(2) put(c)+undo(2) undo(1) commit",
      "save(1)+put(a)+save(1) del(b)+undo(1) scan(a-d) commit", "scan(a-d) get(a) get(b) commit"]),
    ("own writes", "acd",
     ["put(b) del(c) scan(a-f) commit", "put(c)+put(d) back(a-f) get(d) commit",
      "get(b)+put(b) back(a-f) del(b)+get(b) commit"]),
    ("three in a circle", "abc",
     ["get(a) put(b) peek(c) commit", "get(b) put(c) peek(a) commit", "get(c) put(a) peek(b) commit"]),
    ("circular flow", "ab",
     ["put(a) get(b) get(a) commit", "put(b) get(a) get(b) commit", "get(a) get(b) put(c) commit"]),
    ("stale reads", "ab",
     ["put(a) commit begin begin", "get(a) put(b) commit begin", "begin get(b) get(a) commit"]),
    ("deletion and insertion", "ab",
     ["get(a) del(a) put(b) commit", "get(a) put(a) del(b) commit", "scan(a-c) get(a) put(c) commit"]),
    ("reports and receipts", "ab",
     ["get(a) put(a) begin commit", "get(a) put(c) get(b) commit", "get(a) scan(b-f) get(c) commit"]),
    ("two keys at once", "ab",
     ["both(ba) put(a) get(b) commit", "both(ab) put(b) scan(b-c) commit",
      "scan(a-b) both(ac) put(c) commit"]),
    ("ranges of one key", "a",
     ["scan(b-c) put(a) back(a-b) commit", "scan(a-b) put(b) both(ba) commit",
      "scan(b-c) scan(a-b) scan(b-c) commit"]),
    ("reads that are not remembered", "ab",
     ["peek(a) put(b) peek(b) commit", "peek(b) put(a) peek(a) commit", "peek(a) peek(b) put(c) commit"]),
];

/// Programs of lists, for the check that does without commit numbers.
#[rustfmt::skip]
const LISTS: &[(&str, &str, [&str; TRANSACTIONS])] = &[
    ("lists", "ab",
     ["app(a) app(b) get(a) commit", "app(b) app(a) get(b) commit", "get(a) get(b) app(a) commit"]),
    ("lists, crosswise", "ab",
     ["get(a) app(b) get(b) commit", "get(b) app(a) get(a) commit", "begin get(a) get(b) commit"]),
    ("lists, in a circle", "abc",
     ["get(a) app(b) peek(c) commit", "get(b) app(c) peek(a) commit", "get(c) app(a) peek(b) commit"]),
    ("lists, one after the other", "ab",
     ["app(a) commit begin begin", "app(a) app(b) commit begin", "begin get(b) get(a) commit"]),
];

/// The programs of the named anomalies.
///
/// # Errors
/// None, unless a text does not follow the grammar.
pub fn named() -> Verdict<Vec<Program>> {
    NAMED.iter().map(|(name, present, texts)| parse(name, present, texts)).collect()
}

/// The programs of lists.
///
/// # Errors
/// As [`named`].
pub fn lists() -> Verdict<Vec<Program>> {
    LISTS.iter().map(|(name, present, texts)| parse(name, present, texts)).collect()
}

/// A random program over few keys.
///
/// # Errors
/// As [`named`].
pub fn generated(random: &mut SplitMix64) -> Verdict<Program> {
    let letters = ["a", "b", "c", "d", "A", "B"];
    let ranges = ["a-c", "a-e", "b-d", "b-c", "A-C"];
    let texts = std::array::from_fn::<String, TRANSACTIONS, _>(|_| {
        let mut text = String::new();
        for _ in 1..STEPS {
            let key = letters[random.index(letters.len())];
            let range = ranges[random.index(ranges.len())];
            text += &match random.below(20) {
                0..5 => format!("get({key}) "),
                5 => ["both(ab) ", "both(dc) ", "both(AB) "][random.index(3)].to_owned(),
                6 => format!("peek({key}) "),
                7..9 => format!("scan({range}) "),
                9 => format!("back({range}) "),
                10 => format!("first({range}) "),
                11 => format!("last({range}) "),
                12..17 => format!("put({key}) "),
                17 => format!("del({key}) "),
                18 => format!("put({key})+get({key})+put({key}) "),
                _ => format!("save(1)+put({key})+undo(1) "),
            };
        }
        text + if random.chance(1, 12) { "rollback" } else { "commit" }
    });
    let present: String = letters.iter().copied().filter(|_| random.chance(1, 2)).collect();
    parse("generated", &present, &texts)
}

fn key(letter: char) -> Verdict<Key> {
    let (family, first) = if letter.is_ascii_uppercase() { (1, b'A') } else { (0, b'a') };
    let number = u8::try_from(letter).ok().and_then(|byte| byte.checked_sub(first));
    let number = number.filter(|number| *number < 26).ok_or(format!("no key: '{letter}'"))?;
    Ok(Key { family, number: u16::from(number) })
}

fn parse<T: AsRef<str>>(name: &str, present: &str, texts: &[T; TRANSACTIONS]) -> Verdict<Program> {
    let mut program = Program {
        name: name.to_owned(),
        present: present.chars().map(key).collect::<Verdict<_>>()?,
        keys: Vec::new(),
        transactions: Default::default(),
        text: std::array::from_fn(|at| texts[at].as_ref().to_owned()),
    };
    for (transaction, text) in program.transactions.iter_mut().zip(texts) {
        let steps: Vec<_> = text.as_ref().split_whitespace().collect();
        if steps.len() != STEPS {
            return Err(format!("'{}' has not {STEPS} steps", text.as_ref()));
        }
        for (step, text) in transaction.iter_mut().zip(steps) {
            *step = text.split('+').map(action).collect::<Verdict<_>>()?;
        }
    }
    let mut keys = program.present.clone();
    for action in program.transactions.iter().flatten().flatten() {
        match action {
            Action::Get(key) | Action::Peek(key) | Action::Put(key) => keys.push(*key),
            Action::Delete(key) | Action::Append(key) => keys.push(*key),
            Action::GetBoth(both) => keys.extend(both),
            Action::Scan(ScanRequest { range, .. }) => {
                let family = range.family;
                keys.extend((range.from..range.to).map(|number| Key { family, number }));
            }
            _ => {}
        }
    }
    keys.sort_unstable();
    keys.dedup();
    program.keys = keys;
    Ok(program)
}

fn action(text: &str) -> Verdict<Action> {
    let wrong = || format!("no action: '{text}'");
    let (name, argument) = match text.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')').ok_or_else(wrong)?),
        None => (text, ""),
    };
    let letters: Vec<char> = argument.chars().collect();
    match (name, letters.as_slice()) {
        ("begin", []) => Ok(Action::Begin),
        ("commit", []) => Ok(Action::Commit),
        ("rollback", []) => Ok(Action::Rollback),
        ("get", [letter]) => key(*letter).map(Action::Get),
        ("both", [one, other]) => {
            let keys = [key(*one)?, key(*other)?];
            (keys[0].family == keys[1].family).then_some(Action::GetBoth(keys)).ok_or_else(wrong)
        }
        ("peek", [letter]) => key(*letter).map(Action::Peek),
        ("put", [letter]) => key(*letter).map(Action::Put),
        ("del", [letter]) => key(*letter).map(Action::Delete),
        ("app", [letter]) => key(*letter).map(Action::Append),
        ("save" | "undo", [digit]) => {
            let number = digit.to_digit(10).ok_or_else(wrong)? as u8;
            let save = name == "save";
            Ok(if save { Action::Savepoint(number) } else { Action::RollbackTo(number) })
        }
        ("scan" | "back" | "first" | "last", [from, '-', to]) => {
            let (from, to) = (key(*from)?, key(*to)?);
            let range = KeyRange { family: from.family, from: from.number, to: to.number };
            let forward = matches!(name, "scan" | "first");
            let most = if matches!(name, "first" | "last") { 1 } else { usize::MAX };
            Ok(Action::Scan(ScanRequest { range, forward, most }))
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_texts_follow_the_grammar() {
        assert!(named().unwrap().len() > 20);
        assert_eq!(lists().unwrap().len(), 4);
        let mut random = SplitMix64::new(1);
        for _ in 0..500 {
            generated(&mut random).unwrap();
        }
        assert!(action("get(a").is_err());
        assert!(action("jump").is_err());
    }
}
