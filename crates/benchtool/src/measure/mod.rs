//! Measuring: operations and their latencies (`recorder`, `series`, `measured`), the process
//! (`process`), directories (`disk`) and the devices under them (`device`), numbers over time
//! (`timeline`), and all that a job observes for the reports (`observed`).

pub(crate) mod device;
pub(crate) mod disk;
pub(crate) mod measured;
pub(crate) mod observed;
pub(crate) mod process;
pub(crate) mod recorder;
pub(crate) mod series;
pub(crate) mod timeline;
