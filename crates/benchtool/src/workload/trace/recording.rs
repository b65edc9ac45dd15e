//! An engine that writes down what it is asked to do.
//!
//! Wraps another engine; each call is passed on and, if it succeeded, written as one line. Calls
//! that traces cannot express (expiry, ranges of deletes, families, transactions) are passed on and
//! not written. Lines of several threads are written one after another under a lock.

use super::format::{Change, Line};
use bench_compare::engine::{
    Capabilities, Direction, Engine, EngineError, EngineStats, Op, Result, RowVisitor, ScanRequest,
    Session, SessionMode, ValueVisitor,
};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;

/// A recorded engine.
pub(crate) struct Recording {
    engine: Box<dyn Engine>,
    file: Mutex<BufWriter<File>>,
}

impl Recording {
    /// Records what `engine` is asked from now on into a new file.
    pub(crate) fn new(engine: Box<dyn Engine>, path: &Path) -> Result<Self> {
        let file = File::create(path)
            .map_err(|error| EngineError::from_call(&path.display().to_string(), error))?;
        Ok(Self { engine, file: Mutex::new(BufWriter::new(file)) })
    }

    fn write(&self, line: &Line) -> Result<()> {
        let text = line.to_text().map_err(EngineError::new)?;
        let mut file = self.file.lock().map_err(|_| EngineError::new("the recorder panicked"))?;
        writeln!(file, "{text}").map_err(|error| EngineError::from_call("trace", error))
    }

    fn flush_file(&self) -> Result<()> {
        let mut file = self.file.lock().map_err(|_| EngineError::new("the recorder panicked"))?;
        file.flush().map_err(|error| EngineError::from_call("trace", error))
    }
}

impl Engine for Recording {
    fn session<'a>(&'a self, mode: SessionMode) -> Result<Box<dyn Session + 'a>> {
        Ok(Box::new(RecordingSession { recording: self, session: self.engine.session(mode)? }))
    }

    fn settle(&self) -> Result<()> {
        self.engine.settle()
    }

    fn flush(&self) -> Result<()> {
        self.engine.flush()
    }

    fn compact(&self) -> Result<()> {
        self.engine.compact()
    }

    fn sync_now(&self) -> Result<()> {
        self.engine.sync_now()
    }

    fn differences(&self) -> Vec<String> {
        self.engine.differences()
    }

    fn stats(&self) -> Result<EngineStats> {
        self.engine.stats()
    }

    fn capabilities(&self) -> Capabilities {
        let plain = Capabilities { families: false, transactions: false, ..Capabilities::PLAIN };
        let engine = self.engine.capabilities();
        Capabilities { stores_data: engine.stores_data, compact: engine.compact, ..plain }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.flush_file()?;
        self.engine.close()
    }
}

struct RecordingSession<'a> {
    recording: &'a Recording,
    session: Box<dyn Session + 'a>,
}

impl Session for RecordingSession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        self.session.write_batch(ops)?;
        let change = |op: &Op<'_>| match *op {
            Op::Put { key, value } => {
                Some(Change::Put(key.to_vec(), u32::try_from(value.len()).unwrap_or(u32::MAX)))
            }
            Op::Delete { key } => Some(Change::Delete(key.to_vec())),
            Op::PutExpiring { .. } | Op::DeleteRange { .. } => None,
        };
        let changes: Vec<Change> = ops.iter().filter_map(change).collect();
        if changes.is_empty() { Ok(()) } else { self.recording.write(&Line::Write(changes)) }
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let there = self.session.get(key, found)?;
        self.recording.write(&Line::Get(key.to_vec()))?;
        Ok(there)
    }

    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()> {
        let mut rows = 0;
        self.session.scan(request, &mut |key, value| {
            rows += 1;
            visit(key, value)
        })?;
        let start = request.start.map(<[u8]>::to_vec);
        let reverse = request.direction == Direction::Reverse;
        self.recording.write(&Line::Scan { start, rows: rows.max(1), reverse })
    }
}
