//! Measuring: operations and their latencies (`recorder`), the process (`process`), directories
//! (`disk`).

pub(crate) mod disk;
pub(crate) mod process;
pub(crate) mod recorder;
