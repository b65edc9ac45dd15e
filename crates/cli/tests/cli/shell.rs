//! The shell: as a script, and at a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::{Place, Run, json_lines};

/// Nothing of a test takes so long, unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

fn script(place: &Place, text: &str) -> Run {
    place.run_with_input("shell", &["--create"], text.as_bytes())
}

#[test]
fn a_script_reads_and_writes() {
    let place = Place::new();
    let run = script(
        &place,
        "# records\nput a 1\nput 'b c' \"two words\"\nput \\x00\\xff -5 --ttl 1000\n\n\
         get a\nget \"b c\"\nget \"b c\" a\n\
         scan\nscan --prefix b --keys-only\nscan -r -n 1 --hex\ncount\n\
         delete a\ndelete b --to c\ncount\n",
    );
    assert_eq!(
        run.ok().text(),
        "1\ntwo words\nb c  two words\na  1\n\
         \\x00\\xff  -5\na  1\nb c  two words\nb c\n622063  74776f20776f726473\n3\n1\n"
    );
    assert_eq!(place.run("count", &[]).ok().text(), "1\n", "it is stored");
}

#[test]
fn families_options_and_reports() {
    let place = Place::new();
    let run = script(
        &place,
        "create-family logs --set block_size=16K\nuse logs\nput k v\nfamilies\n\
         options --set compression=zstd\nuse default\nflush\ncompact --all\nsync\n",
    );
    run.fails(2, &["line 6:", "'default'", "there are: logs"]);
    let run = place.run_with_input(
        "shell",
        &[],
        b"use logs\noptions --format toml\nstats --json\ndoctor --json\nflush\ncompact\nhelp\nhelp put\n",
    );
    let run = run.ok();
    for part in
        ["block_size = 16384", "compression = \"zstd\"", "\"findings\"", "savepoint", "--ttl"]
    {
        assert!(run.text().contains(part), "'{part}' is not in:\n{}", run.text());
    }
    let run = place.run_with_input("shell", &[], b"drop-family logs\n");
    run.fails(2, &["line 1:", "--yes"]);
    place.run_with_input("shell", &[], b"drop-family logs --yes\n").ok();
    assert_eq!(place.run("families", &[]).ok().text(), "");
}

#[test]
fn families_counts_and_options_are_json_too() {
    let place = Place::new();
    let run = script(
        &place,
        "put a 1\ncreate-family b --set block_size=8192\nfamilies --json\n\
         count --json\ncount --estimate --json\nuse b\noptions --json\n",
    );
    let run = run.ok();
    let values = serde_json::Deserializer::from_str(run.text()).into_iter();
    let values: Vec<serde_json::Value> = values.map(Result::unwrap).collect();
    let [families, count, estimate, options] = values.try_into().unwrap();
    assert_eq!((&families[0]["name"], &families[1]["name"]), (&"b".into(), &"default".into()));
    assert_eq!(families[0]["options"], options);
    assert_eq!(options["block_size"], 8192);
    assert_eq!((&count["count"], &estimate["estimate"]), (&1.into(), &1.into()));
}

/// It was one of the newest state, whatever else the shell showed.
#[test]
fn estimates_of_an_earlier_moment_are_refused() {
    let place = Place::new();
    let begin = "put a 1\n";
    for (line, count) in [("snapshot", "1\n"), ("begin", "1\n")] {
        let text = format!("{begin}{line}\ncount\ncount --estimate\n");
        let run = script(&place, &text);
        run.fails(2, &["line 4:", "newest state", "--estimate"]);
        assert_eq!(run.text(), count);
    }
    let text = format!("{begin}snapshot\nsnapshot --drop\ncount --estimate\n");
    assert_eq!(script(&place, &text).ok().text(), "1\n");
}

#[test]
fn copies_names_and_checks() {
    let place = Place::new();
    let run = script(
        &place,
        "put a 1\nclone-family default copy\nrename-family default first\nput b 2\nfamilies\n\
         count\ncount --estimate\nuse copy\ncount\nbackup made --verify\ncheckpoint 'point 1'\n\
         verify --json\n",
    );
    let run = run.ok();
    let begin = "copy\nfirst\n2\n2\n1\n{\n";
    assert!(run.text().starts_with(begin) && run.text().contains("\"ok\": true"), "{}", run.text());
    for copy in ["made", "point 1"] {
        assert_eq!(place.run_in(copy, "families", &[]).ok().text(), "copy\nfirst\n");
    }
    script(&place, "backup made\n").fails(2, &["line 1:", "not empty"]);
    script(&place, "rename-family first __load_progress\n").fails(2, &["how far a load"]);
    script(&place, "create-family own --set key_order=custom:mine\nuse own\nput a 1\n").ok();
}

#[test]
fn transactions_and_snapshots() {
    let place = Place::new();
    let run = script(
        &place,
        "put a 1\nbegin serializable\nput a 2\nsavepoint s\nput a 3\ndelete b\nget a --json\n\
         rollback s\nget a\nscan\ncount\nrollback\nget a\nbegin\nput a 4\ncommit\nget a\n\
         snapshot\nput a 5\nget a\nscan\nsnapshot --drop\nget a\n",
    );
    assert_eq!(run.ok().text(), "{\"key\":\"a\",\"value\":\"3\"}\n2\na  2\n1\n1\n4\n4\na  4\n5\n");
    script(&place, "begin\nbegin\n").fails(2, &["line 2:", "already"]);
    script(&place, "commit\n").fails(2, &["line 1:", "begin"]);
    script(&place, "begin\nput a 9\n").fails(2, &["not committed"]);
    script(&place, "begin\ndelete a --prefix\n").fails(2, &["line 2:", "transaction"]);
    let run = script(&place, "begin snapshot\nget a\nrollback nowhere\n");
    run.fails(2, &["line 3:", "nowhere"]);
    assert_eq!(place.run("get", &["a"]).ok().text(), "5");
}

#[test]
fn the_first_error_ends_a_script_with_its_line() {
    let place = Place::new();
    let run = script(&place, "put a 1\nnonsense\nput b 2\n");
    run.fails(2, &["error: line 2:", "nonsense"]);
    assert_eq!(place.run("count", &[]).ok().text(), "1\n");
    script(&place, "get \"a\nput b 2\n").fails(2, &["line 1:", "not closed"]);
    script(&place, "put a\n").fails(2, &["line 1:", "VALUE"]);
    let run = script(&place, "get absent\nget a\n");
    run.fails(1, &["line 1: not found"]);
    assert_eq!(run.text(), "1\n", "a key that is not there does not end a script");
    assert_eq!(script(&place, "get a\nexit\nnonsense\n").ok().text(), "1\n");
    place.run_with_input("shell", &["--read-only"], b"put a 2\n").fails(2, &["line 1:"]);
    place.run_with_input_in("absent", "shell", &[], b"").fails(2, &["no database at absent"]);
}

/// The shell at a terminal of its own.
struct Terminal {
    child: Child,
    input: Option<File>,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn start(place: &Place) -> Self {
        let mut terminal = Self::running(place, &["shell", "db", "--create"], "1000");
        terminal.expect("tidesdb default> ");
        terminal
    }

    /// A command of the tool whose work is shown after so many milliseconds.
    fn running(place: &Place, arguments: &[&str], shown_after: &str) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = || -> OwnedFd {
            let path = name.to_str().unwrap();
            File::options().read(true).write(true).open(path).unwrap().into()
        };
        // Ctrl-C reaches those whose controlling terminal it is.
        let mut command = Command::new("setsid");
        command.args(["--ctty", env!("CARGO_BIN_EXE_tidesdb")]).args(arguments);
        command.env("TIDESDB_PROGRESS_AFTER_MS", shown_after);
        command.current_dir(place.path("")).env("TERM", "xterm").env_remove("TIDESDB_DB");
        command.env("XDG_STATE_HOME", place.path("state"));
        command.stdin(Stdio::from(theirs())).stdout(Stdio::from(theirs()));
        let child = command.stderr(Stdio::from(theirs())).spawn().unwrap();
        let mut reader = File::from(ours.try_clone().unwrap());
        let (send, output) = mpsc::sync_channel(0);
        std::thread::spawn(move || {
            let mut bytes = [0; 1000];
            // The end of the other side is an error of ours.
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                if send.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, input: Some(File::from(ours)), output, seen: String::new() }
    }

    fn send(&mut self, keys: &str) {
        self.input.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until `text` was shown, and forgets what came before.
    #[track_caller]
    fn expect(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let more = self.output.recv_timeout(PATIENCE);
            assert!(more.is_ok(), "no '{text}' in {:?}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&more.unwrap()));
        }
        let end = self.seen.find(text).unwrap() + text.len();
        self.seen.drain(..end);
    }

    /// Waits for the shell to end.
    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        while self.output.recv_timeout(PATIENCE).is_ok() {}
        self.child.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_terminal_has_completion_and_history_and_ctrl_d_leaves() {
    let place = Place::new();
    let mut terminal = Terminal::start(&place);
    terminal.send("put user:one 1\r");
    terminal.expect("> ");
    // Tab completes the command and the only key.
    terminal.send("ge\tuser\t\r");
    terminal.expect("user:one");
    terminal.expect("\n1\r\n");
    terminal.send("get absent\r");
    terminal.expect("not found");
    terminal.send("begin\r");
    terminal.expect("tidesdb default*> ");
    // Kept already: the terminal may go at any time.
    let history = || String::from_utf8(place.read("state/tidesdb/history")).unwrap();
    assert!(history().contains("put user:one 1\n") && history().ends_with("begin\n"));
    terminal.send("rollback\r");
    terminal.expect("tidesdb default> ");
    // Ctrl-C gives up the line.
    terminal.send("nonsense\x03");
    terminal.expect("tidesdb default> ");
    terminal.send("count\r");
    terminal.expect("\n1\r\n");
    terminal.expect("tidesdb default> ");
    terminal.send("\x04");
    assert_eq!(terminal.end(), Some(0));
    assert_eq!(history().matches("put user:one 1\n").count(), 1, "{}", history());

    let mut terminal = Terminal::start(&place);
    // The line before the last of the other shell.
    terminal.send("\x1b[A\x1b[A\x1b[A");
    terminal.expect("begin");
    terminal.send("\x03");
    terminal.expect("tidesdb default> ");
    terminal.send("exit\r");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn ctrl_c_gives_up_the_command_that_runs() {
    let place = Place::new();
    place.file("input.jsonl", json_lines(100_000));
    place.run("load", &["input.jsonl"]).ok();
    let mut terminal = Terminal::start(&place);
    terminal.send("scan\r");
    // It prints more than the terminal holds, and the test reads on only after it is interrupted.
    terminal.expect("value ");
    terminal.send("\x03");
    terminal.expect("interrupted: the command was given up");
    terminal.expect("tidesdb default> ");
    terminal.send("count\r");
    terminal.expect("\n100000\r\n");
    terminal.expect("tidesdb default> ");
    terminal.send("\x04");
    assert_eq!(terminal.end(), Some(0));
}

/// Only copies and checks were shown in a shell, and no command showed that it closed.
#[test]
fn long_work_is_shown_at_a_terminal() {
    let place = Place::new();
    place.file("keys", "user:1\n");
    let mut terminal = Terminal::running(&place, &["shell", "db", "--create"], "0");
    terminal.expect("opening");
    terminal.expect("tidesdb default> ");
    for (line, shown) in [
        ("put user:1 ada", ""),
        ("count", "counting"),
        ("flush", "flushing"),
        ("compact", "compacting"),
        ("sync", "syncing"),
    ] {
        terminal.send(&format!("{line}\r"));
        terminal.expect("\r\n");
        terminal.expect(shown);
        terminal.expect("tidesdb default> ");
    }
    terminal.send("\x04");
    terminal.expect("closing");
    assert_eq!(terminal.end(), Some(0));
    for (arguments, shown) in [
        (&["put", "--db", "db", "k", "v"][..], "closing"),
        (&["delete", "--db", "db", "k"], "closing"),
        (&["load", "--db", "db", "--format", "tsv", "--no-header", "empty"], "closing"),
        (&["compact", "--db", "db"], "closing"),
        (&["upgrade", "--db", "db"], "reading"),
        (&["doctor", "db"], "examining"),
    ] {
        place.file("empty", "");
        let mut terminal = Terminal::running(&place, arguments, "0");
        terminal.expect(shown);
        assert_eq!(terminal.end(), Some(0), "{arguments:?}");
    }
}
