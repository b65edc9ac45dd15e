//! Spans and events for the crate `tracing`: openings, background work, waits of commits, copies.
//!
//! They exist with the cargo feature `tracing` alone. Without it a span is a value without size,
//! its fields are not computed, and events go to the listener and the log of events only.
//!
//! A span is entered by the thread that does the work, and left when the value is dropped. Parts
//! of flushes and compactions that other threads take over are not in it.

/// Enters a span of a level, which lasts until the value is dropped. Fields are shown as they
/// display.
#[cfg(feature = "tracing")]
macro_rules! span {
    ($level:ident, $name:literal $(, $field:ident = $value:expr)* $(,)?) => {
        ::tracing::span!(
            target: "tidesdb", ::tracing::Level::$level, $name $(, $field = %$value)*
        ).entered()
    };
}

/// Nothing, where the feature is off.
#[cfg(not(feature = "tracing"))]
macro_rules! span {
    ($level:ident, $name:literal $(, $field:ident = $value:expr)* $(,)?) => {{
        // A function that is never called: the values are checked and not computed.
        let _fields = || { $(let _ = &$value;)* };
        $crate::telemetry::spans::EnteredSpan
    }};
}

#[cfg(feature = "tracing")]
pub(crate) use ::tracing::span::EnteredSpan;
pub(crate) use span;

/// Stands for a span where there are none.
#[cfg(not(feature = "tracing"))]
#[derive(Debug)]
pub(crate) struct EnteredSpan;

#[cfg(feature = "tracing")]
pub(crate) use self::events::{report, wants};

/// Whether events of a level go anywhere.
#[cfg(not(feature = "tracing"))]
pub(crate) const fn wants(_level: tidesdb_base::event::LogLevel) -> bool {
    false
}

/// Passes an event on.
#[cfg(not(feature = "tracing"))]
pub(crate) const fn report(_event: &tidesdb_base::event::Event) {}

#[cfg(feature = "tracing")]
mod events {
    use tidesdb_base::event::{Event, LogLevel};
    use tracing::Level;

    /// What an event is called, and the fields that a program would look for.
    #[derive(Default)]
    struct Fields<'a> {
        name: &'static str,
        family: Option<&'a str>,
        operation: Option<&'static str>,
        micros: Option<u64>,
        bytes: Option<u64>,
    }

    impl<'a> Fields<'a> {
        fn of(event: &'a Event) -> Self {
            let named = |name, family| Self { name, family: Some(family), ..Self::default() };
            let plain = |name| Self { name, ..Self::default() };
            match event {
                Event::WritesSlowed { family, .. } => named("writes_slowed", family),
                Event::WriterWaited { family, milliseconds, .. } => {
                    Self { micros: Some(milliseconds * 1000), ..named("writer_waited", family) }
                }
                Event::MemoryLevelChanged { used_bytes, .. } => {
                    Self { bytes: Some(*used_bytes), ..plain("memory_level_changed") }
                }
                Event::BackgroundFailed { family, .. } => named("background_failed", family),
                Event::CommitsLeftOut { bytes, .. } => {
                    Self { bytes: Some(*bytes), ..plain("commits_left_out") }
                }
                Event::Opened { milliseconds, .. } => {
                    Self { micros: Some(milliseconds * 1000), ..plain("opened") }
                }
                Event::Closed => plain("closed"),
                Event::FamilyCreated { family } => named("family_created", family),
                Event::FamilyDropped { family } => named("family_dropped", family),
                Event::FamilyRenamed { new, .. } => named("family_renamed", new),
                Event::FunctionPanicked { function } => named("function_panicked", function),
                Event::Flushed { family, bytes, milliseconds, .. } => Self {
                    bytes: Some(*bytes),
                    micros: Some(milliseconds * 1000),
                    ..named("flushed", family)
                },
                Event::Compacted { family, bytes, milliseconds } => Self {
                    bytes: Some(*bytes),
                    micros: Some(milliseconds * 1000),
                    ..named("compacted", family)
                },
                Event::SlowOperation { operation, family, bytes, micros, .. } => Self {
                    operation: Some(operation.name()),
                    micros: Some(*micros),
                    bytes: Some(*bytes),
                    ..named("slow_operation", family)
                },
                _ => plain("other"),
            }
        }
    }

    /// Whether events of a level go anywhere.
    pub(crate) fn wants(level: LogLevel) -> bool {
        match level {
            LogLevel::Error => tracing::enabled!(target: "tidesdb", Level::ERROR),
            LogLevel::Warn => tracing::enabled!(target: "tidesdb", Level::WARN),
            LogLevel::Info => tracing::enabled!(target: "tidesdb", Level::INFO),
            _ => tracing::enabled!(target: "tidesdb", Level::DEBUG),
        }
    }

    /// Passes an event on.
    pub(crate) fn report(reported: &Event) {
        let Fields { name, family, operation, micros, bytes } = Fields::of(reported);
        // The level of a place in the source is fixed.
        macro_rules! at {
            ($level:ident) => {
                tracing::event!(
                    target: "tidesdb", Level::$level,
                    event = name, family, operation, micros, bytes, "{reported}"
                )
            };
        }
        match reported.level() {
            LogLevel::Error => at!(ERROR),
            LogLevel::Warn => at!(WARN),
            LogLevel::Info => at!(INFO),
            _ => at!(DEBUG),
        }
    }
}

#[cfg(all(test, not(feature = "tracing")))]
mod tests {
    use super::*;

    #[test]
    fn without_the_feature_a_span_is_nothing_and_its_fields_are_not_computed() {
        let computed = std::cell::Cell::new(0);
        let count = || computed.replace(computed.get() + 1);
        let span = span!(INFO, "flush", family = "f", bytes = count());
        assert_eq!((size_of_val(&span), computed.get()), (0, 0));
        assert!(!wants(tidesdb_base::event::LogLevel::Error));
    }
}
