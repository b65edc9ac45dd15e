//! The input of a load: a file or a stream, watched while it is read.
//!
//! The source keeps the first bytes that passed through it, so that an interrupted load can
//! recognise its input, and it bounds how far the parser may read beyond the last record: one
//! missing quote must not pull a whole file into memory. Loader and parser share these through a
//! [`Tap`], on one thread.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Stdin};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::UNIX_EPOCH;

use crate::failure::{Failure, Result};

/// Bytes at the begin of the input by which it is recognised.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// What a parser may have buffered beyond the record that it returned.
const READ_AHEAD_BYTES: u64 = 1 << 20;

/// What loader and source share.
#[derive(Debug)]
pub(crate) struct Tap {
    head: RefCell<Vec<u8>>,
    allowed: Cell<u64>,
    record_limit: u64,
}

impl Tap {
    /// Reports that the parser has come to `offset`.
    pub(crate) fn advance(&self, offset: u64) {
        self.allowed.set(offset.saturating_add(self.record_limit).saturating_add(READ_AHEAD_BYTES));
    }

    /// A hash of the first `length` bytes of the input, or of all that was read if that is less.
    pub(crate) fn head_hash(&self, length: usize) -> u64 {
        let head = self.head.borrow();
        fnv1a(head.get(..length).unwrap_or(&head))
    }
}

/// FNV-1a: tells one input from another, against mistakes and not against malice.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[derive(Debug)]
enum Input {
    File(File),
    Stream(File),
    Stdin(Stdin),
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) | Self::Stream(file) => file.read(buffer),
            Self::Stdin(stdin) => stdin.read(buffer),
        }
    }
}

/// A file or a stream that is being read.
#[derive(Debug)]
pub(crate) struct Source {
    input: Input,
    name: String,
    path: Option<PathBuf>,
    size: Option<u64>,
    modified: Option<u64>,
    read: u64,
    /// What was looked at and is still to be read.
    peeked: Cursor<Vec<u8>>,
    tap: Rc<Tap>,
}

impl Source {
    /// Opens a file, or standard input for `-`. A record may be as long as `record_limit` bytes.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) fn open(path: &Path, record_limit: u64) -> Result<Self> {
        let tap = Tap { head: RefCell::default(), allowed: Cell::new(0), record_limit };
        tap.advance(0);
        let mut source = Self {
            input: Input::Stdin(io::stdin()),
            name: "standard input".to_owned(),
            path: None,
            size: None,
            modified: None,
            read: 0,
            peeked: Cursor::default(),
            tap: Rc::new(tap),
        };
        if path.as_os_str() == "-" {
            return Ok(source);
        }
        let cannot_open = |error| Failure::file("open", path, &error);
        let file = File::open(path).map_err(cannot_open)?;
        let metadata = file.metadata().map_err(cannot_open)?;
        if metadata.is_dir() {
            return Err(Failure::new(format!("{} is a directory, not a file", path.display())));
        }
        source.name = path.display().to_string();
        if !metadata.is_file() {
            source.input = Input::Stream(file);
            return Ok(source);
        }
        source.path = Some(std::fs::canonicalize(path).map_err(cannot_open)?);
        source.size = Some(metadata.len());
        source.modified = metadata
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
            .and_then(|age| u64::try_from(age.as_millis()).ok());
        source.input = Input::File(file);
        Ok(source)
    }

    /// How messages call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The absolute path of a regular file; streams have none.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Bytes of a regular file.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// When a regular file was last changed, in milliseconds since 1970.
    pub(crate) fn modified(&self) -> Option<u64> {
        self.modified
    }

    /// What the loader keeps while a parser owns the source.
    pub(crate) fn tap(&self) -> Rc<Tap> {
        Rc::clone(&self.tap)
    }

    /// The first line if it begins with `prefix`, without its end. It is read again afterwards.
    /// Nothing must have been read yet.
    ///
    /// # Errors
    /// When the input cannot be read, or the line is longer than a record may be.
    pub(crate) fn first_line_with(&mut self, prefix: &[u8]) -> Result<Option<Vec<u8>>> {
        let limit = usize::try_from(self.tap.record_limit).unwrap_or(usize::MAX);
        let (mut line, mut searched) = (Vec::new(), 0);
        loop {
            let compared = line.len().min(prefix.len());
            // What was read before has no end of a line.
            let unseen = line.get(searched..).unwrap_or_default();
            let end = unseen.iter().position(|&byte| byte == b'\n').map(|at| searched + at);
            searched = line.len();
            let differs = line.get(..compared) != prefix.get(..compared);
            if end.is_some() || differs {
                let found = end.filter(|_| !differs && compared == prefix.len());
                let found = found.and_then(|end| line.get(..end)).map(<[u8]>::to_vec);
                self.peeked = Cursor::new(line);
                return Ok(found);
            }
            if line.len() > limit {
                return Err(Failure::new(format!("the first line of {} is too long", self.name)));
            }
            let mut piece = [0; 4096];
            let length = self
                .input
                .read(&mut piece)
                .map_err(|error| Failure::file("read", &self.name, &error))?;
            if length == 0 {
                let found = line.starts_with(prefix).then(|| line.clone());
                self.peeked = Cursor::new(line);
                return Ok(found);
            }
            line.extend_from_slice(piece.get(..length).unwrap_or_default());
        }
    }

    /// Goes on to `offset` from the begin of the input, which must not have been read yet. Returns
    /// `false` when the input ends before.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub(crate) fn skip_to(&mut self, offset: u64) -> Result<bool> {
        self.tap.advance(offset);
        // A file is read as far as its head goes, which the tap wants to see.
        let through = match self.input {
            Input::File(_) => offset.min(HEAD_BYTES as u64),
            Input::Stream(_) | Input::Stdin(_) => offset,
        };
        let skipped = io::copy(&mut self.by_ref().take(through), &mut io::sink())
            .map_err(|error| Failure::file("read", &self.name, &error))?;
        if skipped < through || self.size.is_some_and(|size| size < offset) {
            return Ok(false);
        }
        if let Input::File(file) = &mut self.input {
            self.peeked = Cursor::default();
            file.seek(SeekFrom::Start(offset))
                .map_err(|error| Failure::file("read", &self.name, &error))?;
        }
        self.read = offset;
        Ok(true)
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read >= self.tap.allowed.get() {
            let limit = self.tap.record_limit >> 20;
            return Err(io::Error::other(format!(
                "a record is longer than {limit} MiB: is a quote or a line break missing? \
                 --max-record-mib N allows longer ones"
            )));
        }
        let length = match self.peeked.read(buffer)? {
            0 => self.input.read(buffer)?,
            peeked => peeked,
        };
        let mut head = self.tap.head.borrow_mut();
        // The head grows only while the reading has not left it behind.
        if head.len() as u64 == self.read && head.len() < HEAD_BYTES {
            let wanted = length.min(HEAD_BYTES - head.len());
            head.extend_from_slice(buffer.get(..wanted).unwrap_or_default());
        }
        self.read += length as u64;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_position_survive_a_skip() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("input");
        let bytes: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        for offset in [0, 1, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1, 199_999, 200_000] {
            let mut source = Source::open(&path, 1 << 20).unwrap();
            let tap = source.tap();
            assert_eq!(source.first_line_with(b"no such line").unwrap(), None);
            assert!(source.skip_to(offset as u64).unwrap());
            let mut rest = Vec::new();
            source.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, bytes[offset..], "{offset}");
            let head = offset.min(HEAD_BYTES);
            assert_eq!(tap.head_hash(head), fnv1a(&bytes[..head]), "{offset}");
        }
        assert!(!Source::open(&path, 1 << 20).unwrap().skip_to(200_001).unwrap());
    }

    #[test]
    fn reading_stops_when_no_record_ends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("input");
        std::fs::write(&path, vec![b'x'; 4 << 20]).unwrap();
        let mut source = Source::open(&path, 1 << 20).unwrap();
        let mut bytes = Vec::new();
        let error = source.read_to_end(&mut bytes).unwrap_err();
        assert!(error.to_string().contains("longer than 1 MiB"), "{error}");
        assert!(bytes.len() < 4 << 20);
    }
}
