//! Texts that keep and that break the rules of documents.

use super::*;

#[test]
fn intentions_and_machine_paths_are_found() {
    assert_eq!(intentions("a", &format!("// {}: later\n", INTENTIONS[0])).len(), 1);
    assert!(intentions("a", "autodoc\n").is_empty());
    assert_eq!(machine_paths("a", &format!("see {}me/x\n", MACHINE_PATHS[0])).len(), 1);
    assert!(machine_paths("a", &format!("crates{}x\n", MACHINE_PATHS[3])).is_empty());
}

#[test]
fn wide_lines_are_found_unless_they_cannot_be_broken() {
    let word = "a".repeat(101);
    let prose = format!("b {word}\n");
    assert_eq!(columns("a.md", &prose), ["a.md:1: 103 columns, at most 100 are allowed"]);
    for kept in [format!("- {word}\n"), format!("| b {word} |\n"), format!("│ b {word} │\n")] {
        assert!(columns("a.md", &kept).is_empty(), "{kept}");
    }
    let output = format!("```text\nb {word}\nb {word}{word}\n```\n{prose}");
    assert_eq!(columns("a.md", &output).len(), 3);
    assert_eq!(columns(SHOWS_OUTPUT[0], &output).len(), 2);
    assert!(columns(GENERATED[0], &prose).is_empty());
}

#[test]
fn sentences_that_are_too_long_are_found() {
    let (most, one) = ("word ".repeat(44), "word\n".repeat(45));
    assert!(long_sentences("a.md", &format!("{most}end.")).is_empty());
    let found = long_sentences("a.md", &format!("# Head\n\nShort. {one}end. Short.\n"));
    assert_eq!(found, ["a.md:3: a sentence of 46 words, at most 45 are allowed"]);
    for other in [format!("```text\n{one}{one}```\n"), format!("| {most} | {most} |\n")] {
        assert!(long_sentences("a.md", &other).is_empty(), "{other}");
    }
}

#[test]
fn sentences_end_at_marks_and_where_the_text_is_divided() {
    let cases: [(&str, &[usize]); 4] = [
        ("One two. (Three four!) \"Five?\" **Six.** `se.ven` eight", &[2, 2, 1, 1, 2]),
        ("Marks - e.g. those, `a ...` and 1.5 - go on.", &[8]),
        ("One:\n- two\n  three\n- four\n12. five\n\nsix\n# seven", &[1, 2, 1, 1, 1]),
        ("One\n| two |\nthree\n```\nfour\n```\nfive", &[1, 1, 1]),
    ];
    for (text, counts) in cases {
        let words: Vec<_> = sentences(text).into_iter().map(|(_, words)| words).collect();
        assert_eq!(words, counts, "{text}");
    }
    assert_eq!(sentences("One.\n\nTwo\nthree. Four.\n"), [(1, 1), (3, 2), (4, 1)]);
}

#[test]
fn names_that_leave_open_who_acts_are_found() {
    let nameless = ["no", "body"].concat();
    assert_eq!(nameless_functions("a.rs", &format!("fn waits_for_{nameless}() {{}}\n")).len(), 1);
    assert!(nameless_functions("a.rs", "fn waits_for_no_reader() {}\n").is_empty());
}

#[test]
fn types_with_vague_names_are_found() {
    assert_eq!(vague_types("a.rs", "pub(crate) struct Moment {\n    enum World {\n").len(), 2);
    assert!(vague_types("a.rs", "struct Moments;\nlet x: Moment;\n").is_empty());
}

#[test]
fn sentences_that_go_on_at_another_item_are_found() {
    let cut = "/// Up to this,\nconst A: u8 = 1;\n/// ... and from there.\nconst B: u8 = 2;\n";
    assert_eq!(split_sentences("a.rs", cut).len(), 2);
    let whole = "/// Up to this,\n/// or less.\nconst A: u8 = 1;\n";
    assert!(split_sentences("a.rs", whole).is_empty());
}

#[test]
fn a_call_returns_what_code_names() {
    let verb = "answers";
    let text = format!("A read {verb} `Corruption`.\nIt {verb} TDB_ERR_IO.\nIt {verb} a call.\n");
    assert_eq!(answering("a.md", &text).len(), 2);
}

#[test]
fn words_that_name_no_one_are_found() {
    let text = "Nobody waits.\n`nobody` and \"nobody\"\n```\nnobody\n```\nfor ever\n";
    assert_eq!(nameless("a.md", text).len(), 2);
    assert!(nameless("a.md", "slows_nobody, for every one\n").is_empty());
    let code = "//! Whoever\nfn a() {} // nobody\n    // somebody waits\n\"nobody\"\n";
    assert_eq!(nameless("a.rs", code).len(), 2);
    assert!(nameless("a.rs", "/// ```\n/// // nobody\n/// ```\n").is_empty());
}

#[test]
fn invariants_without_a_heading_are_found() {
    let known = invariants("### I-01 One\n\nI-03\n### I-20 Two\n");
    assert_eq!(known, ["01", "20"]);
    assert_eq!(unknown_invariants("a", "(I-01), I-2, API-3, I-x\n", &known).len(), 1);
}

#[test]
fn names_of_nothing_are_found() {
    let text = "`crates/a.rs` and `docs/b.md::c`, `crates/*/x`, `cargo test`\n";
    assert_eq!(missing_paths("p", text, |_| false).len(), 2);
    assert!(missing_paths("p", text, |_| true).is_empty());
}

#[test]
fn files_that_are_drawn_and_are_not_there_are_found() {
    let sources = ["crates/lockfree/src/gate.rs", "crates/tidesdb/src/wal/commit.rs"];
    let there = "```text\nput ── gate    lockfree/gate.rs, commit.rs\n```\ngone.rs\n";
    assert!(missing_in_pictures("p", there, &sources).is_empty());
    let gone = "```text\n(plan.rs) mit.rs, wal/gate.rs\n```\n";
    let names = ["plan.rs", "mit.rs", "wal/gate.rs"];
    let expected = names.map(|name| format!("p:2: no file '{name}'"));
    assert_eq!(missing_in_pictures("p", gone, &sources), expected);
}

#[test]
fn links_to_nothing_are_found() {
    let text = "[a](b.md#c) and [d](https://e.org/f), [g](#h)\n";
    assert_eq!(missing_links("p/q.md", text, |_| false), ["p/q.md:1: 'p/b.md' does not exist"]);
    assert!(missing_links("p/q.md", text, |path| path == "p/b.md").is_empty());
    assert!(missing_links("q.md", text, |path| path == "b.md").is_empty());
}

#[test]
fn examples_are_cut_out() {
    let text = "a\n```rust\nlet b;\n\n  c();\n```\nd\n```text\ne\n```\n";
    assert_eq!(rust_lines(text), ["let b;", "c();"]);
}

#[test]
fn guards_are_file_and_function() {
    let text = "`crates/a/b.rs::works`, `Vfs::open`\n";
    assert_eq!(guards(text), [("crates/a/b.rs".to_owned(), "works".to_owned())]);
}

#[test]
fn what_a_program_puts_into_a_page_is_not_counted() {
    let text =
        "# A\n<!-- made by `x` from y -->\n| a |\n| b |\n<!-- end of what is made -->\nend\n";
    assert_eq!(written_lines(text), 3);
    assert_eq!(written_lines("a\nb\n"), 2);
}
