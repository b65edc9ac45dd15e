//! The program in bad surroundings: interrupted, killed, without a terminal, on full and read-only
//! disks, beside another one. What was measured is kept, and nothing is left behind.
//!
//! Tests that mount a small file system need the rights to do so; without them they say so and
//! pass.
#![expect(clippy::unwrap_used, reason = "a failed call is a failed test")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);
/// Loads a database and reads for a minute.
const READ: &str = "run --engine tidesdb,memory --workload read --num 20K --seconds 60 --dir data";

fn command(directory: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_benchtool"));
    command.args(line.split_whitespace()).current_dir(directory);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program with a group of its own, as a shell starts it, that has finished its first job.
struct Running {
    program: Child,
    errors: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn start(directory: &Path, line: &str) -> Self {
        let mut program = command(directory, line)
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = BufReader::new(program.stderr.take().unwrap());
        Self { program, errors }
    }

    /// Waits for the line of the first job, which is the loading.
    fn first_job(mut self) -> Self {
        let mut line = String::new();
        while !line.contains("K/s") {
            line.clear();
            assert!(self.errors.read_line(&mut line).unwrap() > 0, "ended early");
        }
        self
    }

    /// What Ctrl-C does: every process of the group gets the signal.
    fn interrupt(&self) {
        kill("-INT", &format!("-{}", self.program.id()));
    }

    /// The first process that this one has started, as soon as there is one.
    fn job(&self) -> u32 {
        first_child(self.program.id())
    }

    fn end(mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.errors.read_to_string(&mut rest).unwrap();
        (self.program.wait().unwrap(), rest)
    }
}

fn kill(signal: &str, target: &str) {
    let status = Command::new("kill").args([signal, "--", target]).status().unwrap();
    assert!(status.success(), "kill {signal} {target}");
}

/// State and parent of a process, if it is there.
fn process(number: &str) -> Option<(String, String)> {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
}

/// Whether it is a process that does a job, not one that is asked about the machine.
fn is_job(number: u32) -> bool {
    let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(b"child")
}

fn first_child(parent: u32) -> u32 {
    eventually("a child", || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let numbers: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
        let parent = parent.to_string();
        let is_ours = |number: &u32| {
            let found = process(&number.to_string());
            found.is_some_and(|found| found.1 == parent && found.0 != "Z") && is_job(*number)
        };
        numbers.into_iter().find(is_ours)
    })
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "no {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for the end of a process that is not ours; there may be no parent to reap it.
fn gone(number: u32) {
    eventually("end of the process", || match process(&number.to_string()) {
        Some((state, _)) if state != "Z" => None,
        _ => Some(()),
    });
}

/// Waits until a process has used so much processor time.
fn used_processor(number: u32, least: Duration) {
    eventually("work of the process", || {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        // The name, which ends with the last parenthesis, may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let milliseconds = (ticks(11)? + ticks(12)?) * 10;
        (u128::from(milliseconds) >= least.as_millis()).then_some(())
    });
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn statuses(report: &serde_json::Value) -> Vec<&str> {
    let runs = report["runs"].as_array().unwrap();
    runs.iter().map(|run| run["result"]["status"].as_str().unwrap()).collect()
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(directory.path(), &format!("{READ} --json out.json")).first_job();
    let job = running.job();
    used_processor(job, Duration::from_millis(400));
    running.interrupt();
    let (status, errors) = running.end();
    assert_eq!(status.code(), Some(130), "{errors}");
    gone(job);
    assert!(!directory.path().join("data").exists(), "the databases are left behind");
    let report = json(&directory.path().join("out.json"));
    assert_eq!(statuses(&report), ["VALID", "INTERRUPTED"]);
    assert_eq!(report["unfinished"], 1, "that of the other engine");
    let reads = &report["runs"][1]["result"]["operations"][0]["operations"];
    assert!(reads.as_u64().unwrap() > 0, "{reads}");
}

#[test]
fn a_comparison_and_a_suite_are_interrupted_too() {
    for line in [
        "compare --engine memory,tidesdb --dir data --json out.json --csv out.csv",
        "suite dbb --engine memory,tidesdb --dir data --json out.json --html page",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let running = Running::start(directory.path(), line).first_job();
        running.interrupt();
        let (status, errors) = running.end();
        assert_eq!(status.code(), Some(130), "{line}: {errors}");
        assert!(!directory.path().join("data").exists(), "{line}");
        let report = json(&directory.path().join("out.json"));
        assert!(report["unfinished"].as_u64().unwrap() > 0, "{line}");
        let statuses = statuses(&report);
        assert_eq!(statuses[0], "VALID", "{line}");
        let bad = ["FAILED", "INVALID"];
        assert!(!statuses.iter().any(|status| bad.contains(status)), "{line}: {statuses:?}");
        let page = directory.path().join("page/report.html");
        if line.contains("--html") {
            assert!(fs::read_to_string(page).unwrap().contains("was interrupted"));
        }
    }
}

/// A job that cannot end by itself, here because it is stopped, is killed by the second signal.
#[test]
fn a_second_interruption_kills_the_job() {
    let directory = tempfile::tempdir().unwrap();
    let mut running =
        Running::start(directory.path(), &format!("{READ} --json out.json")).first_job();
    let job = running.job();
    kill("-STOP", &job.to_string());
    running.interrupt();
    let mut line = String::new();
    while !line.contains("once more kills it") {
        line.clear();
        assert!(running.errors.read_line(&mut line).unwrap() > 0);
    }
    assert!(process(&job.to_string()).is_some(), "it was only asked");
    running.interrupt();
    let (status, errors) = running.end();
    assert_eq!(status.code(), Some(130), "{errors}");
    gone(job);
    assert!(!directory.path().join("data").exists());
    assert_eq!(statuses(&json(&directory.path().join("out.json"))), ["VALID", "INTERRUPTED"]);
}

#[test]
fn jobs_end_when_their_parent_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(directory.path(), READ).first_job();
    let job = running.job();
    kill("-KILL", &running.program.id().to_string());
    let (status, _) = running.end();
    assert_eq!(status.code(), None);
    gone(job);
    // The process that a job of this kind has started and means to kill.
    let line = "run --engine tidesdb --workload recover --num 3M --dir data";
    let running = Running::start(directory.path(), line);
    let job = running.job();
    let victim = first_child(job);
    kill("-KILL", &running.program.id().to_string());
    running.end();
    gone(job);
    gone(victim);
    // The next run in the folder works, and names what the killed ones have left.
    let output = command(directory.path(), "run --engine memory --num 1K --dir data").output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("2 folders like data/run-"), "{}", text(&output.stderr));
}

#[test]
fn a_terminal_that_is_gone_is_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let line = "run --engine memory,tidesdb --workload read --num 2K --ops 2K --json out.json";
    let mut program = command(directory.path(), line)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Neither is read: writing to either is an error from now on.
    drop((program.stdout.take(), program.stderr.take()));
    assert_eq!(program.wait().unwrap().code(), Some(0));
    assert_eq!(statuses(&json(&directory.path().join("out.json"))), ["VALID"; 3]);
    // Descriptors that are not open at all.
    let program = env!("CARGO_BIN_EXE_benchtool");
    let line = format!("exec {program} run --engine memory --num 1K >&- 2>&-");
    let status = Command::new("sh").args(["-c", &line]).current_dir(directory.path()).status();
    assert_eq!(status.unwrap().code(), Some(0));
}

#[test]
fn what_lies_in_the_folder_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("data/run-1/tidesdb-work");
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join("file"), "kept").unwrap();
    fs::write(directory.path().join("data/mine"), "mine").unwrap();
    let running = Running::start(directory.path(), READ).first_job();
    let second = command(directory.path(), "run --engine memory --num 1K --dir data").output();
    let second = second.unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(text(&second.stderr).contains("in use by another benchtool"));
    running.interrupt();
    assert_eq!(running.end().0.code(), Some(130));
    assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "kept");
    let mut names: Vec<_> = fs::read_dir(directory.path().join("data"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["mine", "run-1"]);
}

/// A file system of a few bytes in memory; unmounted when dropped.
struct Small {
    place: PathBuf,
}

impl Small {
    /// `None`, with a message, where mounting is not allowed.
    fn mount(place: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir_all(&place).unwrap();
        let options = format!("size={size}");
        let arguments = ["-t", "tmpfs", "-o", &options, "tmpfs"];
        let output = Command::new("mount").args(arguments).arg(&place).output();
        if output.as_ref().is_ok_and(|output| output.status.success()) {
            return Some(Self { place });
        }
        eprintln!("not tried, as no file system can be mounted here: {output:?}");
        None
    }

    fn make_read_only(&self) {
        let options = ["-o", "remount,ro"];
        assert!(Command::new("mount").args(options).arg(&self.place).status().unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.place).status());
    }
}

#[test]
fn a_full_disk_fails_the_row_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_small) = Small::mount(directory.path().join("small"), "36m") else { return };
    // The data set fits; a memtable's worth of what is written over it, with its log, does not.
    let line = "run --engine tidesdb,memory --workload overwrite --num 2K --value-size 4K --ops 60K \
        --dir small/data --json out.json";
    let output = command(directory.path(), line).output().unwrap();
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}{}", text(&output.stderr));
    let report = json(&directory.path().join("out.json"));
    assert_eq!(statuses(&report), ["VALID", "FAILED", "VALID"], "{shown}");
    let problem = report["runs"][1]["result"]["problems"][0].to_string();
    assert!(problem.to_lowercase().contains("space"), "{problem}");
    assert!(!directory.path().join("small/data").exists(), "the databases are left behind");
}

/// Results that find no place are kept elsewhere, and older ones stay as they are.
#[test]
fn results_survive_a_full_disk() {
    let directory = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(directory.path().join("small"), "64k") else { return };
    let run = |outputs: &str| -> Output {
        let line = format!("run --engine memory --num 1K {outputs}");
        command(directory.path(), &line).env("TMPDIR", directory.path()).output().unwrap()
    };
    let place = |name: &str| small.place.join(name);
    assert_eq!(run("--json small/a.json --csv small/a.csv").status.code(), Some(0));
    let before = ["a.json", "a.csv"].map(|name| fs::read(place(name)).unwrap());
    // Fill the rest.
    drop(fs::write(place("rest"), vec![0; 1 << 20]));
    let output = run("--json small/a.json --csv small/a.csv --html small/page");
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(text(&output.stdout).contains("memory"), "the tables are shown");
    let after = ["a.json", "a.csv"].map(|name| fs::read(place(name)).unwrap());
    assert_eq!(after[0], before[0]);
    assert!(after[1].starts_with(&before[1]) && after[1].ends_with(b"\n"), "whole rows only");
    let (_, rescued) = errors.rsplit_once("all results are in ").unwrap();
    // That the machine was shared may be said behind it.
    let rescued = rescued.lines().next().unwrap_or_default();
    assert_eq!(statuses(&json(Path::new(rescued.trim()))), ["VALID"]);
    small.make_read_only();
    for outputs in ["--json small/b.json", "--csv small/b.csv", "--html small/page2"] {
        let output = run(outputs);
        assert_eq!(output.status.code(), Some(2), "{outputs}: {}", text(&output.stdout));
        assert!(text(&output.stderr).contains("Read-only"), "{}", text(&output.stderr));
    }
}
