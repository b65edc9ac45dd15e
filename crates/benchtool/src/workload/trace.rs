//! Recorded operations: the file format, the recorder, and the replay.
//!
//! A trace is a text file with one JSON object per line (`docs/formats/trace.md`). [`Recording`]
//! wraps an engine and writes a line for every call; [`replay`] repeats the lines on another
//! engine, or the same, and checks each result against a model of what the lines before have
//! written. Values are not recorded, only their sizes: a replay makes them up from key and version.
//!
//! Threads: a recorder serialises lines with a lock, which is why a recorded run is slower. A
//! replay on several threads gives each the keys of its share, so lines of one key keep their
//! order.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod format;
mod recording;
mod replay;

pub(crate) use format::read_lines;
pub(crate) use recording::Recording;
pub(crate) use replay::{Model, replay, verify_model};
