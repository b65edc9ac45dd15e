//! Where events go: the log of events, the crate `tracing`, and the listener of the options.

use std::cell::Cell;

use tidesdb_base::event::{Event, EventListener, LogLevel};
use tidesdb_base::options::DbOptions;

use crate::event_log::EventLog;
use crate::spans;
use crate::user_code::call_out;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Events {
    log: Option<EventLog>,
    listener: Option<EventListener>,
    /// The least level that the listener is told of.
    listener_level: LogLevel,
}

impl Events {
    pub(crate) fn new(log: Option<EventLog>, options: &DbOptions) -> Self {
        let listener = options.event_listener.clone();
        Self { log, listener, listener_level: options.event_listener_level }
    }

    /// Whether an event of this level is told to any listener.
    pub(crate) fn are_told(&self, level: LogLevel) -> bool {
        spans::wants(level)
            || self.log.as_ref().is_some_and(|log| log.wants(level))
            || (self.listener.is_some() && level >= self.listener_level)
    }

    /// Writes an event to the log of events, and passes it on to `tracing`. The listener, which may
    /// use the database, is not told.
    pub(crate) fn write(&self, event: &Event) {
        if let Some(log) = &self.log {
            log.write(event);
        }
        call_out(|| spans::tell(event));
    }

    /// Tells an event to all. Events that the listener itself causes are not passed on to it: it
    /// would be called within itself.
    #[cold]
    pub(crate) fn tell(&self, event: &Event) {
        thread_local! {
            static LISTENING: Cell<bool> = const { Cell::new(false) };
        }
        self.write(event);
        let Some(listener) = &self.listener else { return };
        if event.level() < self.listener_level {
            return;
        }
        if !LISTENING.replace(true) {
            call_out(|| listener.tell(event));
            LISTENING.set(false);
        }
    }
}
