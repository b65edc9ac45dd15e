//! Events as lines of a file, within a bound on its size.
//!
//! The file is for people, and nothing depends on it: a line that can't be written is counted and
//! dropped, and the operation that it is about goes on. A line is never torn: what a failed write
//! leaves behind the last whole line is overwritten by the next.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tidesdb_base::event::{Event, LogLevel};
use tidesdb_base::options::DbOptions;
use tidesdb_base::utc;
use tidesdb_files::naming::FileKind;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::clock::Clock;
use tidesdb_sys::vfs::{File, OpenMode, Vfs};

/// What is appended to the file's name when another one is begun.
const OLD: &str = "old";

/// The file that events are written to.
#[derive(Debug)]
pub(crate) struct EventLog {
    vfs: Arc<dyn Vfs>,
    clock: Arc<dyn Clock>,
    path: PathBuf,
    least: LogLevel,
    /// Bytes at which another file is begun; 0 for never.
    most_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: Option<OpenLog>,
    /// Lines that could not be written since the last that was.
    lost: u64,
}

#[derive(Debug)]
struct OpenLog {
    file: Arc<dyn File>,
    bytes: u64,
}

impl EventLog {
    /// Of a database in `dir`; its file is opened with the first line.
    pub(crate) fn new(
        vfs: &Arc<dyn Vfs>,
        clock: &Arc<dyn Clock>,
        options: &DbOptions,
        dir: &Path,
    ) -> Option<Self> {
        // Who opens to read changes nothing, neither here nor elsewhere.
        if !options.event_log || options.read_only {
            return None;
        }
        let path = options.event_log_path.clone();
        Some(Self {
            vfs: Arc::clone(vfs),
            clock: Arc::clone(clock),
            path: path.unwrap_or_else(|| dir.join(FileKind::EventLog.name())),
            least: options.event_log_level,
            most_bytes: options.event_log_bytes,
            state: Mutex::default(),
        })
    }

    /// Whether events of this level are written.
    pub(crate) fn wants(&self, level: LogLevel) -> bool {
        level >= self.least
    }

    /// Writes an event, if its level is wanted.
    pub(crate) fn write(&self, event: &Event) {
        if !self.wants(event.level()) {
            return;
        }
        let mut state = lock(&self.state);
        let mut text = String::new();
        if state.lost > 0 {
            let lost = format!("{} lines could not be written", state.lost);
            text.push_str(&self.line(LogLevel::Warn, &lost));
        }
        text.push_str(&self.line(event.level(), &event.to_string()));
        match self.append(&mut state, text.as_bytes()) {
            Ok(()) => state.lost = 0,
            Err(_) => state.lost += 1,
        }
    }

    /// One line, whatever is in the text.
    fn line(&self, level: LogLevel, text: &str) -> String {
        let text = text.replace('\n', "\\n").replace('\r', "\\r");
        let time = utc::timestamp(self.clock.unix_millis());
        format!("[{time}] [{}] {text}\n", level.name().to_ascii_uppercase())
    }

    fn append(&self, state: &mut State, bytes: &[u8]) -> io::Result<()> {
        let mut open = match state.open.take() {
            Some(open) => open,
            None => self.open()?,
        };
        let length = bytes.len() as u64;
        if self.most_bytes > 0 && open.bytes > 0 && open.bytes + length > self.most_bytes {
            // When that fails the file is opened again by the next line, and stays within its
            // bound.
            open = self.begin_another()?;
        }
        let written = write_all(open.file.as_ref(), bytes, open.bytes);
        match &written {
            Ok(()) => open.bytes += length,
            // The next line begins there in any case.
            Err(_) => _ = open.file.set_len(open.bytes),
        }
        state.open = Some(open);
        written
    }

    fn open(&self) -> io::Result<OpenLog> {
        let file = match self.vfs.open(&self.path, OpenMode::ReadWrite) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.vfs.open(&self.path, OpenMode::CreateNew)?
            }
            other => other?,
        };
        let bytes = file.len()?;
        Ok(OpenLog { file, bytes })
    }

    /// Keeps the file as the old one, in place of an older one, and begins another.
    fn begin_another(&self) -> io::Result<OpenLog> {
        let mut old = self.path.clone().into_os_string();
        old.push(".");
        old.push(OLD);
        self.vfs.rename(&self.path, &PathBuf::from(old))?;
        self.open()
    }
}

fn write_all(file: &dyn File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = file.write_at(bytes, at)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(written..).unwrap_or_default();
        at += written as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
