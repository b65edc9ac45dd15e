//! Patches that plant bugs: that each still says what the source says.

use std::collections::BTreeMap;

/// Lines of one file that a patch takes for others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hunk {
    pub path: String,
    pub old: String,
    pub new: String,
}

/// The hunks of a unified diff of files that exist.
pub(crate) fn hunks(patch: &str) -> Vec<Hunk> {
    let mut found: Vec<Hunk> = Vec::new();
    let mut path = "";
    for line in patch.lines() {
        if let Some(named) = line.strip_prefix("+++ b/") {
            path = named;
        } else if line.starts_with("@@ ") {
            found.push(Hunk { path: path.to_owned(), old: String::new(), new: String::new() });
        } else if !line.starts_with("--- a/")
            && let Some(hunk) = found.last_mut()
        {
            let (mark, text) = line.split_at(line.len().min(1));
            if mark != "+" {
                hunk.old.extend([text, "\n"]);
            }
            if mark != "-" {
                hunk.new.extend([text, "\n"]);
            }
        }
    }
    found
}

/// The texts with a patch applied. What it takes away has to be in its file once.
pub(crate) fn apply(patch: &str, texts: &mut BTreeMap<String, String>) -> Result<(), String> {
    let hunks = hunks(patch);
    if hunks.is_empty() {
        return Err("changes nothing".to_owned());
    }
    for Hunk { path, old, new } in hunks {
        let Some(text) = texts.get_mut(&path) else {
            return Err(format!("{path} is not there"));
        };
        let at: Vec<_> = text
            .match_indices(&old)
            .filter(|(at, _)| *at == 0 || text.as_bytes()[at - 1] == b'\n')
            .collect();
        let [(at, _)] = at[..] else {
            return Err(format!("{path} has these lines {} times, not once:\n{old}", at.len()));
        };
        text.replace_range(at..at + old.len(), &new);
    }
    Ok(())
}

/// Names of the bugs that the script runs: with a switch, and of the loom models.
pub(crate) fn listed(script: &str) -> (Vec<&str>, Vec<&str>) {
    let list = script.split("bugs='\n").nth(1).and_then(|rest| rest.split('\'').next());
    let rows: Vec<Vec<&str>> =
        list.unwrap_or("").lines().map(|row| row.split_whitespace().collect()).collect();
    let of_kind = |loom: bool| {
        let rows = rows.iter().filter(|row| row.len() == 4 && (row[2] == "loom") == loom);
        rows.map(|row| row[0]).collect()
    };
    (of_kind(false), of_kind(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "--- a/f.rs\n+++ b/f.rs\n@@ -1,3 +1,2 @@\n a\n-b\n-c\n+d\n";

    fn one(text: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("f.rs".to_owned(), text.to_owned())])
    }

    #[test]
    fn a_patch_is_applied_where_its_lines_are() {
        let mut texts = one("x\na\nb\nc\ny\n");
        apply(PATCH, &mut texts).unwrap();
        assert_eq!(texts["f.rs"], "x\na\nd\ny\n");
        assert_eq!(hunks(PATCH)[0].old, "a\nb\nc\n");
    }

    #[test]
    fn a_patch_that_has_rotted_is_found() {
        for text in ["a\nb\n", "a\nb\nc\na\nb\nc\n", "xa\nb\nc\n"] {
            apply(PATCH, &mut one(text)).unwrap_err();
        }
        apply(PATCH, &mut BTreeMap::new()).unwrap_err();
        apply("", &mut one("a\n")).unwrap_err();
    }

    #[test]
    fn the_list_of_the_script_is_read() {
        let script = "# x\nbugs='\nfirst  p lib f\nsecond p loom f\n'\nthird p lib f\n";
        assert_eq!(listed(script), (vec!["first"], vec!["second"]));
    }
}
