//! Measuring: operations and their latencies (`recorder`), the process (`process`), directories
//! (`disk`), figures over time (`timeline`), and all that a job observes for the reports
//! (`observed`).

pub(crate) mod disk;
pub(crate) mod observed;
pub(crate) mod process;
pub(crate) mod recorder;
pub(crate) mod timeline;
