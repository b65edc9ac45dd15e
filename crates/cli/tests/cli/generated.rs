//! Completions and man pages: they are produced, and know the commands and their options.

use std::process::{Command, Stdio};

use crate::support::{Place, Run};

/// Runs the tool without a database.
fn tool(place: &Place, arguments: &[&str]) -> Run {
    let mut process = Command::new(env!("CARGO_BIN_EXE_tidesdb"));
    process.current_dir(place.path("")).env_remove("TIDESDB_DB").args(arguments);
    process.output().unwrap().into()
}

#[test]
fn completions_know_commands_and_options() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = tool(&place, &["completions", shell]).ok();
        for word in ["tidesdb", "create-family", "keys-only", "doctor"] {
            assert!(script.text().contains(word), "{shell} knows no {word}");
        }
    }
    let script = tool(&place, &["completions", "bash"]).ok().stdout;
    let mut bash = Command::new("bash");
    bash.args(["-n", "-s"]).stdin(Stdio::piped());
    let Ok(mut checked) = bash.spawn() else { return };
    std::io::Write::write_all(&mut checked.stdin.take().unwrap(), &script).unwrap();
    assert!(checked.wait().unwrap().success(), "bash does not take it");
    tool(&place, &["completions", "csh"]).fails(2, &["bash", "zsh", "fish"]);
}

#[test]
fn man_pages_are_written_for_the_tool_and_each_command() {
    let place = Place::new();
    tool(&place, &["man", "pages/man1"]).ok();
    let read = |name: &str| String::from_utf8(place.read(&format!("pages/man1/{name}"))).unwrap();
    let main = read("tidesdb.1");
    assert!(main.contains(".TH tidesdb 1"), "{main}");
    let version = env!("CARGO_PKG_VERSION");
    for page in ["tidesdb.1", "tidesdb-scan.1", "tidesdb-man.1"] {
        let title = read(page).lines().find(|line| line.starts_with(".TH")).unwrap().to_owned();
        // The last word but one of the title is the source, which stands in the footer.
        assert!(title.contains(&format!("\"tidesdb {version}\"")), "{page}: {title}");
    }
    assert!(!place.path("pages/man1/tidesdb-help.1").exists());
    assert!(!read("tidesdb-scan.1").contains("--version"));
    assert!(read("tidesdb-scan.1").contains("keys"), "the options of a command are there");
    assert!(read("tidesdb-doctor.1").contains(".SH NAME"));
    tool(&place, &["man", "pages/man1/tidesdb.1"]).fails(2, &["tidesdb.1"]);
    assert!(read("tidesdb-completions.1").contains("zsh"));
}

#[test]
fn commands_with_a_verdict_explain_their_exit_codes() {
    let place = Place::new();
    tool(&place, &["man", "pages"]).ok();
    for command in ["get", "verify", "inspect", "upgrade", "salvage", "repair", "restore", "shell"]
    {
        let help = tool(&place, &[command, "--help"]).ok();
        assert!(help.text().contains("Exit codes"), "{command}: {}", help.text());
        let page = String::from_utf8(place.read(&format!("pages/tidesdb-{command}.1"))).unwrap();
        assert!(page.contains("Exit codes"), "{command}: {page}");
    }
    let restore = tool(&place, &["restore", "--help"]).ok();
    assert!(restore.text().contains("killed"), "{}", restore.text());
    let inspect = tool(&place, &["inspect", "--help"]).ok();
    assert!(inspect.text().contains("CLOSED"), "{}", inspect.text());
}
