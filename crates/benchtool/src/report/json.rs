//! The JSON report: the machine, the engines, and every row with its job and result.

use crate::orchestrate::Run;
use bench_compare::EngineInfo;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Writes all rows of a run.
pub(crate) fn write(path: &Path, runs: &[Run], engines: &[EngineInfo]) -> Result<(), String> {
    let engines: Vec<Value> = engines
        .iter()
        .map(|engine| {
            json!({
                "name": engine.name,
                "version": engine.version,
                "not_equal": engine.unequal,
            })
        })
        .collect();
    let report = json!({
        "schema": 1,
        "environment": environment(),
        "engines": engines,
        "runs": runs,
    });
    let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn environment() -> Value {
    let read = |name: &str| fs::read_to_string(name).unwrap_or_default();
    let value_of = |text: &str, label: &str| {
        let line = text.lines().find(|line| line.starts_with(label));
        let value = line.and_then(|line| line.split(':').nth(1));
        value.unwrap_or_default().trim().to_owned()
    };
    json!({
        "tool": env!("CARGO_PKG_VERSION"),
        "cpu": value_of(&read("/proc/cpuinfo"), "model name"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": value_of(&read("/proc/meminfo"), "MemTotal"),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}
