//! The engine's log: lines to stderr or to `LOG` in a database's directory.
//!
//! Each database has a level and a destination of its own. Lines that belong to no database, such
//! as those of `tidesdb_log_write`, go to the log of the database that was opened last and is still
//! open.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use tidesdb_base::utc::timestamp;
use tidesdb_sys::descriptors::open_above_standard;
use tidesdb_sys::forks::{self, ProcessMark};

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
    /// Lines of an opening that will go to a file once the directory is known to be ours.
    Held(String),
    File {
        file: File,
        bytes: u64,
        restart_at: u64,
    },
}

/// Names the log of a database among those of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogNumber(u64);

/// The log of one database.
pub struct EngineLog {
    number: LogNumber,
    /// Of each kind of line that is written seldom.
    seldom: [SeldomLines; Repeated::ALL],
    /// Whose log it is: a forked child writes nothing to it, and finds it locked perhaps for good.
    home: ProcessMark,
    least: Level,
    destination: Mutex<Destination>,
}

/// What may fail again and again, so that lines of it are written now and then. One kind keeps no
/// line of another back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated {
    /// A call that may be repeated.
    Busy,
    /// A file that can't be read or written.
    Io,
    /// Damage.
    Corruption,
    /// An allocation.
    Memory,
    /// A commit that is visible, and may be lost with the power.
    NotDurable,
}

impl Repeated {
    const ALL: usize = Self::NotDurable as usize + 1;
}

/// Lines of one kind.
#[derive(Default)]
struct SeldomLines {
    /// When the last one was written, in Unix milliseconds.
    last: AtomicU64,
    /// How many were left out since.
    left_out: AtomicU64,
}

/// A log of a database that is open.
struct OpenLog {
    number: LogNumber,
    least: Level,
    log: Weak<EngineLog>,
}

/// They are in the order in which they were opened. Locked inside [`forks::keep_out`] only, so that
/// a forked child finds it free; no log is dropped with it locked.
static OPEN: Mutex<Vec<OpenLog>> = Mutex::new(Vec::new());

/// The lowest level that one of them writes, to be asked without a lock.
static LEAST_OF_OPEN: AtomicU8 = AtomicU8::new(Level::None as u8);

/// Milliseconds in which [`write_seldom`] writes one line of a kind at most.
const SELDOM_MILLIS: u64 = 100;

impl EngineLog {
    /// A log that writes lines of at least this level to stderr, or, if they are to go to a file,
    /// holds them until [`EngineLog::begin_file`]. Held ones go to stderr if that is never called.
    pub fn new(least: Level, to_file: bool) -> Arc<Self> {
        let destination =
            if to_file { Destination::Held(String::new()) } else { Destination::Stderr };
        static MADE: AtomicU64 = AtomicU64::new(0);
        // ORDERING: relaxed; each number is given once.
        let number = LogNumber(MADE.fetch_add(1, Ordering::Relaxed));
        let home = ProcessMark::of_this();
        let (seldom, destination) = (Default::default(), Mutex::new(destination));
        Arc::new(Self { number, seldom, home, least, destination })
    }

    /// From now on lines go to `LOG` in the directory, those held so far first. The file begins
    /// anew when it has `restart_at` bytes; 0 is never.
    pub fn begin_file(&self, directory: &Path, restart_at: u64) -> std::io::Result<()> {
        let path = directory.join("LOG");
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        let file = File::from(open_above_standard(|| options.open(path))?);
        let bytes = file.metadata()?.len();
        let begun = Destination::File { file, bytes, restart_at };
        let mut destination = self.lock();
        let held = std::mem::replace(&mut *destination, begun);
        if let Destination::Held(lines) = held
            && !lines.is_empty()
        {
            // Before what other threads write meanwhile; and whole, though a repair has many.
            destination.append(&lines, Whole::Always);
        }
        Ok(())
    }

    /// Writes the lines held so far to `LOG` in another directory, and has them on disk: that
    /// becomes the database's. They are held on, since it may not come to that.
    pub fn save_held(&self, directory: &Path) -> std::io::Result<()> {
        let guard = self.lock();
        let Destination::Held(lines) = &*guard else { return Ok(()) };
        if lines.is_empty() {
            return Ok(());
        }
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(true);
        let path = directory.join("LOG");
        let mut file = File::from(open_above_standard(|| options.open(path))?);
        file.write_all(lines.as_bytes())?;
        file.sync_all()
    }

    /// The lines held so far are in the database's `LOG`.
    pub fn forget_held(&self) {
        if let Destination::Held(lines) = &mut *self.lock() {
            lines.clear();
        }
    }

    /// Its name for [`write`].
    pub const fn number(&self) -> LogNumber {
        self.number
    }

    /// Its database is open: failed calls that are about it are told here from now on, and lines of
    /// no database until another one is opened.
    pub fn join_open(self: &Arc<Self>) {
        let (number, least, log) = (self.number, self.least, Arc::downgrade(self));
        with_open(|open| {
            open.push(OpenLog { number, least, log });
            note_least(open);
        });
        connect();
    }

    /// Its database is closed.
    pub fn leave_open(&self) {
        // ORDERING: relaxed; no call is under way any more.
        let left_out = self.seldom.iter().map(|lines| lines.left_out.swap(0, Ordering::Relaxed));
        let left_out: u64 = left_out.sum();
        if left_out > 0 {
            let text = format_args!("{left_out} more failures of calls like those before");
            self.write(Level::Warn, text);
        }
        with_open(|open| {
            open.retain(|open| open.number != self.number);
            note_least(open);
        });
    }

    fn lock(&self) -> MutexGuard<'_, Destination> {
        self.destination.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a line of this level would be written.
    fn wants(&self, level: Level) -> bool {
        level >= self.least && level != Level::None && self.home.is_here()
    }

    /// Writes a line if its level is at least the one in force.
    pub fn write(&self, level: Level, text: fmt::Arguments<'_>) {
        if self.wants(level) {
            self.append(&format_line(level, text));
        }
    }

    fn append(&self, line: &str) {
        self.lock().append(line, Whole::UpToTheBound);
    }
}

/// Whether a text goes to a file that may not become so long.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    Always,
    UpToTheBound,
}

impl Destination {
    fn append(&mut self, line: &str, whole: Whole) {
        // A log that can't be written must not stop the database.
        let _ = match self {
            Self::Stderr => write_to_stderr(line),
            Self::Held(lines) => {
                lines.push_str(line);
                Ok(())
            }
            Self::File { file, bytes, restart_at } => {
                if *restart_at > 0 && *bytes + line.len() as u64 > *restart_at {
                    restart(file, bytes);
                }
                let line = line.as_bytes();
                let written = match usize::try_from(*restart_at) {
                    Ok(most) if most > 0 && whole == Whole::UpToTheBound => {
                        line.get(..most).unwrap_or(line)
                    }
                    _ => line,
                };
                let outcome = file.write_all(written);
                *bytes = match &outcome {
                    Ok(()) => *bytes + written.len() as u64,
                    // A part of it may be there.
                    Err(_) => file.metadata().map_or(*bytes, |metadata| metadata.len()),
                };
                outcome
            }
        };
    }
}

impl Drop for EngineLog {
    fn drop(&mut self) {
        if !self.home.is_here() {
            return;
        }
        self.leave_open();
        if let Destination::Held(lines) = &*self.lock() {
            // As in `append`.
            let _ = write_to_stderr(lines);
        }
    }
}

/// Without the lock that the standard library has for it: a forked child that has opened a database
/// would wait for a thread of its parent that held it.
fn write_to_stderr(lines: &str) -> std::io::Result<()> {
    // SAFETY: the descriptor is not closed here, and its owner is the process.
    let stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDERR_FILENO) });
    (&*stderr).write_all(lines.as_bytes())
}

fn restart(file: &mut File, bytes: &mut u64) {
    // It was opened for appending, so the next line begins at its start.
    if file.set_len(0).is_err() {
        return;
    }
    let line = format_line(Level::Info, format_args!("LOG TRUNCATED"));
    *bytes = line.len() as u64;
    // As in `append`.
    let _ = file.write_all(line.as_bytes());
}

fn with_open<R>(work: impl FnOnce(&mut Vec<OpenLog>) -> R) -> R {
    forks::keep_out(|| work(&mut OPEN.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The log of this number, or without one that of the database that was opened last; none where it
/// is closed. The caller drops it outside of the lock.
fn open_log(number: Option<LogNumber>) -> Option<Arc<EngineLog>> {
    with_open(|open| {
        let mut logs = open.iter().rev();
        match number {
            Some(number) => logs.find(|open| open.number == number)?.log.upgrade(),
            None => logs.find_map(|open| open.log.upgrade()),
        }
    })
}

/// Notes the lowest level of all logs that are open.
fn note_least(open: &[OpenLog]) {
    let least = open.iter().map(|open| open.least).min().unwrap_or(Level::None);
    // ORDERING: relaxed; a line that is written beside this may go either way.
    LEAST_OF_OPEN.store(least as u8, Ordering::Relaxed);
}

/// Whether a line would be written by one of the logs that are open.
fn is_wanted(level: Level) -> bool {
    // ORDERING: as in `note_least`.
    let least = LEAST_OF_OPEN.load(Ordering::Relaxed);
    level as u8 >= least && least != Level::None as u8
}

/// Writes a line to the log of this number, as long as its database is open; without a number to
/// that of the database that was opened last.
pub fn write(number: Option<LogNumber>, level: Level, text: fmt::Arguments<'_>) {
    if is_wanted(level)
        && let Some(log) = open_log(number)
    {
        log.write(level, text);
    }
}

/// As [`write`], for what may fail again and again: each log has such a line now and then, with the
/// number of those that it has not.
pub fn write_seldom(number: LogNumber, kind: Repeated, level: Level, text: fmt::Arguments<'_>) {
    if !is_wanted(level) {
        return;
    }
    let Some(log) = open_log(Some(number)).filter(|log| log.wants(level)) else { return };
    let Some(SeldomLines { last, left_out }) = log.seldom.get(kind as usize) else { return };
    let now = unix_millis();
    // ORDERING: relaxed; of two threads at the same time one may leave its line out, and counts it.
    let before = last.load(Ordering::Relaxed);
    let is_late = now.abs_diff(before) >= SELDOM_MILLIS;
    let (stored, missed) = (Ordering::Relaxed, Ordering::Relaxed);
    if !is_late || last.compare_exchange(before, now, stored, missed).is_err() {
        left_out.fetch_add(1, Ordering::Relaxed);
        return;
    }
    match left_out.swap(0, Ordering::Relaxed) {
        0 => log.write(level, text),
        more => log.write(level, format_args!("{text} ({more} more like this before)")),
    }
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// `[YYYY-MM-DDTHH:MM:SS.mmmZ] [LEVEL] text`, in UTC.
fn format_line(level: Level, text: fmt::Arguments<'_>) -> String {
    format!("[{}] [{}] {text}\n", timestamp(unix_millis()), level.name())
}

/// Writes a line of the C program; called by `tidesdb_log_write`, see `c/log_write.c`.
///
/// # Safety
/// `file` is null or a C string, `text` is a C string.
unsafe extern "C" fn write_line(
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
        return write(None, Level::of(level), format_args!("{text}"));
    }
    // SAFETY: by contract.
    let file = unsafe { CStr::from_ptr(file) }.to_string_lossy();
    write(None, Level::of(level), format_args!("{file}:{line}: {text}"));
}

/// 1 if a line of this level would be written.
extern "C" fn wants_line(level: c_int) -> c_int {
    let level = Level::of(level);
    c_int::from(is_wanted(level) && open_log(None).is_some_and(|log| log.wants(level)))
}

/// Passes the C part the functions to call. They are not found by name, since the library must not
/// export their names.
fn connect() {
    // SAFETY: both functions live as long as the library.
    unsafe { tdb_log_connect(wants_line, write_line) }
}

/// See `tidesdb_log_write` in `tidesdb.h`. A function of a variable number of arguments can't be
/// defined in stable Rust: this one goes on, with all of its arguments as they are, in C.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn tidesdb_log_write() {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    std::arch::naked_asm!("jmp {formatted}", formatted = sym tdb_log_formatted);
    #[cfg(any(target_arch = "aarch64", target_arch = "arm", target_arch = "loongarch64"))]
    std::arch::naked_asm!("b {formatted}", formatted = sym tdb_log_formatted);
    #[cfg(any(target_arch = "riscv64", target_arch = "riscv32"))]
    std::arch::naked_asm!("tail {formatted}", formatted = sym tdb_log_formatted);
    #[cfg(target_arch = "s390x")]
    std::arch::naked_asm!("jg {formatted}", formatted = sym tdb_log_formatted);
}

unsafe extern "C" {
    /// Formats a line and has it written: `c/log_write.c`.
    fn tdb_log_formatted(
        level: c_int,
        file: *const c_char,
        line: c_int,
        format: *const c_char,
        ...
    );

    /// Has [`tdb_log_formatted`] call these functions.
    fn tdb_log_connect(
        wants: extern "C" fn(c_int) -> c_int,
        line: unsafe extern "C" fn(c_int, *const c_char, c_int, *const c_char),
    );
}
