//! Calls of functions that the application has given the database.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls a function of the user's. A panic ends here: it must neither undo what the engine has done
/// nor meet another one. The process's panic hook has reported it by then.
pub(crate) fn call_out(function: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(function));
}
