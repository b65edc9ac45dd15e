//! Column families: their state, and the handle that users hold.

mod handle;
mod state;

pub use self::handle::Family;
pub(crate) use self::state::{FamilyState, View};
