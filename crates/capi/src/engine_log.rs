//! The engine's log: lines to stderr or to `LOG` in a database's directory.
//!
//! Each database has a level and a destination of its own. Lines that belong to no database, such
//! as those of `tidesdb_log_write`, go where the most recently opened database logs.

use std::ffi::{CStr, c_char, c_int};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

/// Severity of a line, as `tidesdb_log_level_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug = 0,
    Info = 1,
    Warn = 2,
    Error = 3,
    Fatal = 4,
    None = 99,
}

impl Level {
    /// The level of a number; numbers between and beyond are rounded up.
    pub const fn of(number: c_int) -> Self {
        match number {
            ..=0 => Self::Debug,
            1 => Self::Info,
            2 => Self::Warn,
            3 => Self::Error,
            4 => Self::Fatal,
            5.. => Self::None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
            Self::None => "NONE",
        }
    }
}

/// Where lines go.
enum Destination {
    Stderr,
    File { file: File, path: PathBuf, bytes: u64, restart_at: u64 },
}

/// The log of one database.
pub struct EngineLog {
    least: Level,
    destination: Mutex<Destination>,
}

/// The log of the database that was opened last.
static RECENT: Mutex<Weak<EngineLog>> = Mutex::new(Weak::new());

impl EngineLog {
    /// A log that writes lines of at least this level: to `LOG` in the directory when
    /// `restart_at` is given, otherwise to stderr. The file begins anew when it has that size; 0
    /// is never. Lines of no database go here from now on.
    pub fn open(least: Level, file_in: Option<(&Path, u64)>) -> std::io::Result<Arc<Self>> {
        let destination = match file_in {
            None => Destination::Stderr,
            Some((directory, restart_at)) => {
                let path = directory.join("LOG");
                let file = OpenOptions::new().create(true).append(true).open(&path)?;
                let bytes = file.metadata()?.len();
                Destination::File { file, path, bytes, restart_at }
            }
        };
        let log = Arc::new(Self { least, destination: Mutex::new(destination) });
        *RECENT.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&log);
        Ok(log)
    }

    /// Writes a line if its level is at least the one in force.
    pub fn write(&self, level: Level, text: &str) {
        if level >= self.least && self.least != Level::None {
            self.append(&format_line(level, text));
        }
    }

    fn append(&self, line: &str) {
        let mut destination = self.destination.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that can't be written must not stop the database.
        let _ = match &mut *destination {
            Destination::Stderr => std::io::stderr().write_all(line.as_bytes()),
            Destination::File { file, path, bytes, restart_at } => {
                if *restart_at > 0 && *bytes + line.len() as u64 > *restart_at {
                    restart(file, path, bytes);
                }
                *bytes += line.len() as u64;
                file.write_all(line.as_bytes())
            }
        };
    }
}

fn restart(file: &mut File, path: &Path, bytes: &mut u64) {
    let emptied = OpenOptions::new().create(true).write(true).truncate(true).open(path);
    if emptied.is_err() {
        return;
    }
    if let Ok(again) = OpenOptions::new().append(true).open(path) {
        *file = again;
    }
    let line = format_line(Level::Info, "LOG TRUNCATED");
    *bytes = line.len() as u64;
    // As in `append`.
    let _ = file.write_all(line.as_bytes());
}

/// Writes a line of no database to the log that was opened last.
pub fn write(level: Level, text: &str) {
    let recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    if let Some(log) = recent {
        log.write(level, text);
    }
}

/// `[YYYY-MM-DDTHH:MM:SS.mmmZ] [LEVEL] text`, in UTC.
fn format_line(level: Level, text: &str) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, milliseconds) = (since.as_secs(), since.subsec_millis());
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let name = level.name();
    format!(
        "[{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z] \
         [{name}] {text}\n"
    )
}

/// Year, month and day of a day since 1970-01-01 in the Gregorian calendar.
const fn civil_date(days: u64) -> (u64, u64, u64) {
    // Years begin in March, so that the leap day is the last of its year, and are counted in
    // cycles of 400 years of 146,097 days.
    let shifted = days + 719_468;
    let (cycle, day_of_cycle) = (shifted / 146_097, shifted % 146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524
        - day_of_cycle / 146_096)
        / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = cycle * 400 + year_of_cycle + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Called by `tidesdb_log_write`, see `c/log_write.c`.
///
/// # Safety
/// `file` is null or a C string, `text` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn tdb_log_line(
    level: c_int,
    file: *const c_char,
    line: c_int,
    text: *const c_char,
) {
    if text.is_null() {
        return;
    }
    // SAFETY: by contract.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    if file.is_null() {
        return write(Level::of(level), &text);
    }
    // SAFETY: by contract.
    let file = unsafe { CStr::from_ptr(file) }.to_string_lossy();
    write(Level::of(level), &format!("{file}:{line}: {text}"));
}

/// 1 if a line of this level would be written.
#[unsafe(no_mangle)]
extern "C" fn tdb_log_wants(level: c_int) -> c_int {
    let recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    let wanted =
        recent.is_some_and(|log| log.least != Level::None && Level::of(level) >= log.least);
    c_int::from(wanted)
}

/// See `tidesdb_log_write` in `tidesdb.h`. A function of a variable number of arguments can't be
/// defined in stable Rust: this one goes on, with all of its arguments as they are, in C.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn tidesdb_log_write() {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!("jmp {formatted}", formatted = sym tdb_log_formatted);
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!("b {formatted}", formatted = sym tdb_log_formatted);
}

unsafe extern "C" {
    /// Formats a line and calls [`tdb_log_line`]: `c/log_write.c`.
    fn tdb_log_formatted(
        level: c_int,
        file: *const c_char,
        line: c_int,
        format: *const c_char,
        ...
    );
}
