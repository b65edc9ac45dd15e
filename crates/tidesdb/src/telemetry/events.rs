//! Where events go: the log of events, the crate `tracing`, and the listener of the options.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tidesdb_base::event::{Event, EventListener, LogLevel};
use tidesdb_base::options::DbOptions;
use tidesdb_base::user_code::{FirstPanic, call_out};

use crate::telemetry::event_log::EventLog;
use crate::telemetry::spans;

/// Reports events to the log of events, to `tracing` and to the listener.
#[derive(Debug)]
pub(crate) struct Events {
    log: Option<Arc<EventLog>>,
    listener: Option<Arc<Listener>>,
    /// The least level that the listener is called for.
    listener_level: LogLevel,
}

impl Events {
    pub(crate) fn new(log: Option<EventLog>, options: &DbOptions) -> Self {
        let log = log.map(Arc::new);
        let listener = options.event_listener.clone().map(|function| {
            Arc::new(Listener { function, log: log.clone(), panicked: FirstPanic::default() })
        });
        Self { log, listener, listener_level: options.event_listener_level }
    }

    /// Whether an event of this level goes anywhere.
    pub(crate) fn are_wanted(&self, level: LogLevel) -> bool {
        spans::wants(level)
            || self.log.as_ref().is_some_and(|log| log.wants(level))
            || (self.listener.is_some() && level >= self.listener_level)
    }

    /// Writes an event to the log of events, and passes it on to `tracing`. The listener, which may
    /// use the database, is not called.
    pub(crate) fn write(&self, event: &Event) {
        write_to(self.log.as_deref(), event);
    }

    /// Reports an event to all. Events that the listener itself causes are not passed on to it: it
    /// would be called within itself.
    #[cold]
    pub(crate) fn report(&self, event: &Event) {
        self.write(event);
        let Some(listener) = &self.listener else { return };
        if event.level() < self.listener_level || LISTENING.get() {
            return;
        }
        // A thread that is ending can hold nothing back.
        let is_held = HELD.try_with(|held| match &mut *held.borrow_mut() {
            Some(held) => {
                held.push((Arc::clone(listener), event.clone()));
                true
            }
            None => false,
        });
        if !is_held.unwrap_or(false) {
            listener.call(event);
        }
    }
}

fn write_to(log: Option<&EventLog>, event: &Event) {
    if let Some(log) = log {
        log.write(event);
    }
    call_out(|| spans::report(event));
}

/// The listener of a database, which may be called after others have let go of its events.
#[derive(Debug)]
struct Listener {
    function: EventListener,
    /// Where its first panic is written.
    log: Option<Arc<EventLog>>,
    panicked: FirstPanic,
}

impl Listener {
    fn call(&self, event: &Event) {
        LISTENING.set(true);
        let panicked = self.panicked.call_out(|| self.function.call(event));
        LISTENING.set(false);
        if panicked {
            let function = "the event listener".to_owned();
            write_to(self.log.as_deref(), &Event::FunctionPanicked { function });
        }
    }
}

/// Events with the listeners that they are for; none while they are not held back.
type HeldBack = Option<Vec<(Arc<Listener>, Event)>>;

thread_local! {
    /// This thread is within a call of a listener.
    static LISTENING: Cell<bool> = const { Cell::new(false) };
    /// Events that listeners are called with later, while this thread holds them back.
    static HELD: RefCell<HeldBack> = const { RefCell::new(None) };
}

/// While this lives, its thread calls no listener: events are reported when it is dropped. For work
/// that reports events with a lock held: make this first, so that it goes last.
#[derive(Debug)]
#[must_use = "dropping it reports the events"]
pub(crate) struct HeldEvents {
    /// Otherwise another one, made before, reports them.
    is_outermost: bool,
}

impl HeldEvents {
    /// Holds the thread's events back.
    pub(crate) fn new() -> Self {
        let first = |held: &RefCell<HeldBack>| {
            let mut held = held.borrow_mut();
            let is_first = held.is_none();
            held.get_or_insert_default();
            is_first
        };
        Self { is_outermost: HELD.try_with(first).unwrap_or(false) }
    }
}

impl Drop for HeldEvents {
    fn drop(&mut self) {
        if self.is_outermost {
            let held = HELD.try_with(RefCell::take).ok().flatten();
            for (listener, event) in held.unwrap_or_default() {
                listener.call(&event);
            }
        }
    }
}
