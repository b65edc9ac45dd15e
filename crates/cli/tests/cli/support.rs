//! What the tests share: running the binary, looking at what it did, seeded randomness.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;
use tidesdb_sim::rng::SplitMix64;

/// What a run of the binary left.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// The same, after making sure that it succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(
            self.code,
            Some(0),
            "{}\n{}",
            self.stderr,
            String::from_utf8_lossy(&self.stdout)
        );
        self
    }

    /// Makes sure that it failed with that code, and that standard error has all of these texts.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        for text in texts {
            assert!(self.stderr.contains(text), "'{text}' is not in:\n{}", self.stderr);
        }
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Self { code: output.status.code(), stdout: output.stdout, stderr }
    }
}

/// A directory for one test: the database in `db`, and whatever files it needs.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// The binary with a command for the database `db`, run in this directory.
    pub(crate) fn command(&self, command: &str) -> Command {
        self.command_in("db", command)
    }

    pub(crate) fn command_in(&self, db: &str, command: &str) -> Command {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tidesdb"));
        process.current_dir(self.directory.path()).stdin(Stdio::null());
        process.arg(command);
        // These work on what their arguments name.
        if !["salvage", "restore", "inspect", "man", "completions"].contains(&command) {
            process.args(["--db", db]);
        }
        process
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, command: &str, arguments: &[&str]) -> Run {
        self.command(command).args(arguments).output().unwrap().into()
    }

    pub(crate) fn run_in(&self, db: &str, command: &str, arguments: &[&str]) -> Run {
        self.command_in(db, command).args(arguments).output().unwrap().into()
    }

    /// Runs a command that reads `input`.
    pub(crate) fn run_with_input(&self, command: &str, arguments: &[&str], input: &[u8]) -> Run {
        self.run_with_input_in("db", command, arguments, input)
    }

    pub(crate) fn run_with_input_in(
        &self,
        db: &str,
        command: &str,
        arguments: &[&str],
        input: &[u8],
    ) -> Run {
        let mut child = piped(self.command_in(db, command).args(arguments));
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // A command may stop reading before the end.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let run = child.wait_with_output().unwrap().into();
        writer.join().unwrap();
        run
    }

    /// Starts a command with pipes at all three ends.
    pub(crate) fn spawn(&self, command: &str, arguments: &[&str]) -> Child {
        piped(self.command(command).args(arguments))
    }

    /// Runs a command whose output has no reader.
    pub(crate) fn run_closed(&self, command: &str, arguments: &[&str]) -> Run {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut process = self.command(command);
        process.args(arguments).stdout(writer).stderr(Stdio::piped());
        process.spawn().unwrap().wait_with_output().unwrap().into()
    }

    /// The names of files that are being written, or were left so.
    pub(crate) fn partial_files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".partial")).collect();
        names.sort_unstable();
        names
    }

    /// Every record of a family as JSON lines.
    pub(crate) fn records(&self, family: &str) -> String {
        self.run("scan", &["--family", family, "--format", "jsonl"]).ok().text().to_owned()
    }

    /// Number of records that the checkpoint of the only unfinished load names, if there is one.
    pub(crate) fn checkpoint_records(&self) -> Option<u64> {
        if !self.run("families", &["--all"]).ok().text().contains("__load_progress") {
            return None;
        }
        let text = self.records("__load_progress");
        let outer: serde_json::Value = serde_json::from_str(text.lines().next()?).unwrap();
        let inner: serde_json::Value =
            serde_json::from_str(outer["value"].as_str().unwrap()).unwrap();
        inner["records"].as_u64()
    }
}

fn piped(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Reads standard error of a child up to and including the first line that has `text`.
pub(crate) fn read_until(child: &mut Child, text: &str) -> String {
    let stderr = child.stderr.as_mut().unwrap();
    let (mut seen, mut byte) = (Vec::new(), [0]);
    loop {
        let length = stderr.read(&mut byte).unwrap();
        assert_eq!(length, 1, "it ended with: {}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
        let so_far = String::from_utf8_lossy(&seen);
        if byte[0] == b'\n' && so_far.contains(text) {
            return so_far.into_owned();
        }
    }
}

/// Sends a signal by its name.
pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").arg(name).arg(child.id().to_string()).status().unwrap();
    assert!(status.success());
}

/// `count` JSON lines with distinct keys, in an order that is not that of the keys.
pub(crate) fn json_lines(count: u64) -> String {
    (0..count).map(json_line).collect()
}

pub(crate) fn json_line(number: u64) -> String {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{{\"key\":\"{scattered:016x}\",\"value\":\"value {number} of this test\"}}\n")
}

/// The same lines in the order of a dump.
pub(crate) fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines.sort_unstable();
    lines.concat()
}

/// Random numbers. The seed comes from `TIDESDB_SEED` or is new for each run, and is printed.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new() -> Self {
        let seed = std::env::var("TIDESDB_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            now.as_nanos() as u64
        });
        eprintln!("TIDESDB_SEED={seed}");
        Self(SplitMix64::new(seed))
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }
}

/// All regular files below a directory.
pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}
