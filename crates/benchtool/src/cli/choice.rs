//! Which engines are run.

use bench_compare::EngineInfo;

use super::arguments::CommonOptions;
use crate::engines;
use crate::spec::Setup;

/// Engines of the benchmark's own tests, which are not listed.
const HIDDEN: [&str; 8] = [
    "memory",
    "broken-drops",
    "broken-stale",
    "broken-deletes",
    "broken-seek",
    "broken-updates",
    "broken-expiry",
    "broken-tidesdb",
];

/// The engines to run: the named ones, or all that are available.
pub(super) fn choose_engines(options: &CommonOptions) -> Result<Vec<EngineInfo>, String> {
    let mut setup = Setup::default();
    options.machine.enter(&mut setup);
    let known = engines::catalogue(&setup);
    if options.engine.is_empty() {
        let extra = ["null", "rocksdb-tuned", crate::ours::TRANSACTIONS];
        let usable = |engine: &EngineInfo| {
            engine.available.is_ok()
                && !extra.contains(&engine.name)
                && engines::check_library(&setup, engine.name).is_ok()
        };
        return Ok(known.into_iter().filter(usable).collect());
    }
    let mut chosen = Vec::new();
    for name in &options.engine {
        let found = known.iter().find(|engine| engine.name == name);
        let engine = match (found, HIDDEN.iter().find(|hidden| *hidden == name)) {
            (Some(engine), _) => engine.clone(),
            (None, Some(hidden)) => EngineInfo {
                name: hidden,
                version: String::new(),
                available: Ok(()),
                unequal: "a test object of the benchmark".to_owned(),
            },
            (None, None) => {
                let names: Vec<&str> = known.iter().map(|engine| engine.name).collect();
                return Err(format!("no engine {name:?}; there are: {}", names.join(", ")));
            }
        };
        if let Err(reason) = &engine.available {
            return Err(format!("engine {name} cannot be used: {reason}"));
        }
        if chosen.iter().any(|other: &EngineInfo| other.name == engine.name) {
            return Err(format!("engine {name} is named twice"));
        }
        engines::check_library(&setup, name)
            .map_err(|reason| format!("engine {name} cannot be used: {reason}"))?;
        chosen.push(engine);
    }
    Ok(chosen)
}
