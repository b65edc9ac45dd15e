//! One job in a child process: started, asked to end, killed.

use super::{IMPATIENT, interrupted};
use crate::child::{INTERRUPTED, MARK};
use crate::machine;
use crate::spec::{JobResult, JobSpec};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Milliseconds after which mimalloc gives freed pages back to the system.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Runs a job in a child process.
pub(super) fn spawn(spec: &JobSpec, timeout: Duration) -> Result<JobResult, String> {
    let program = std::env::current_exe().map_err(|error| format!("own program: {error}"))?;
    let job = serde_json::to_string(spec).map_err(|error| format!("job: {error}"))?;
    let mut command = machine::command(&program, spec.setup.processors.as_deref());
    if let Some(allocator) = &spec.setup.preload {
        command.env("LD_PRELOAD", allocator);
    }
    // What an engine has freed is not to count as its memory: by default mimalloc keeps it a while.
    if std::env::var_os(PURGE_DELAY).is_none() {
        command.env(PURGE_DELAY, "0");
    }
    let mut child = command
        .arg("child")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("child process: {error}"))?;
    let mut input = child.stdin.take();
    if input.as_mut().is_some_and(|input| writeln!(input, "{job}").is_err()) {
        // It is gone, and `wait` returns how.
        input = None;
    }
    let Some(mut output) = child.stdout.take() else {
        return Err("child process without output".to_owned());
    };
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        output.read_to_end(&mut text).map(|_| text)
    });
    let ended = wait(&mut child, input, timeout)?;
    let text = reader.join().map_err(|_| "reader of the child's output panicked".to_owned())?;
    let text = text.map_err(|error| format!("child process: {error}"))?;
    let text = String::from_utf8_lossy(&text);
    match text.lines().find_map(|line| line.strip_prefix(MARK)) {
        Some(result) => {
            serde_json::from_str(result).map_err(|error| format!("child's result: {error}"))
        }
        None => Err(ended),
    }
}

/// Whether a child was ended by Ctrl-C. It had not got as far as handling that, and we, who got the
/// signal as well, may not have either.
pub(super) fn is_interruption(status: ExitStatus) -> bool {
    const SIGINT: i32 = 2;
    status.signal() == Some(SIGINT)
}

/// Waits for the end of a child; returns how it ended, in words.
pub(super) fn wait(
    child: &mut Child,
    input: Option<std::process::ChildStdin>,
    timeout: Duration,
) -> Result<String, String> {
    let start = Instant::now();
    let mut input = input;
    loop {
        let ended = child.try_wait().map_err(|error| format!("child process: {error}"))?;
        if let Some(status) = ended {
            if is_interruption(status) {
                // ORDERING: the flag carries no data.
                INTERRUPTED.store(true, Ordering::Relaxed);
            }
            return Ok(format!("the child process ended without a result ({status})"));
        }
        if interrupted() {
            // Closing its standard input makes the child finish early.
            input = None;
        }
        // ORDERING: the flag carries no data.
        let impatient = IMPATIENT.load(Ordering::Relaxed);
        if impatient || start.elapsed() > timeout {
            drop(input);
            child.kill().map_err(|error| format!("child process: {error}"))?;
            child.wait().map_err(|error| format!("child process: {error}"))?;
            let seconds = timeout.as_secs();
            return Ok(match impatient {
                true => "killed by a second interruption".to_owned(),
                false => format!("killed after {seconds} s"),
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
