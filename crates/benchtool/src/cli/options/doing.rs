//! What a test does, by a name: a workload of our own, or a preset that another tool named.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use clap::builder::TypedValueParser;

use crate::spec::Workload;
use crate::suites::presets;

/// A workload of our own, or a preset by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doing {
    /// One of ours.
    Plain(Workload),
    /// One that another tool named.
    Preset(&'static str),
}

/// Reads a workload's name; clap suggests similar ones.
#[derive(Clone)]
pub(super) struct DoingParser;

impl TypedValueParser for DoingParser {
    type Value = Doing;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Doing, clap::Error> {
        let names: Vec<PossibleValue> = self.names().collect();
        let parser = clap::builder::PossibleValuesParser::new(names);
        let name = parser.parse_ref(command, argument, value)?;
        let preset = presets::PRESETS.iter().find(|preset| preset.0 == name);
        match (Workload::from_str(&name, true), preset) {
            (Ok(workload), _) => Ok(Doing::Plain(workload)),
            (Err(_), Some(preset)) => Ok(Doing::Preset(preset.0)),
            (Err(_), None) => {
                Err(command.clone().error(clap::error::ErrorKind::InvalidValue, name))
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names()))
    }
}

impl DoingParser {
    fn names(&self) -> impl Iterator<Item = PossibleValue> + use<> {
        let own = Workload::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let presets = presets::PRESETS
            .iter()
            .map(|(name, _, origin)| PossibleValue::new(*name).help(format!("from {origin}")));
        own.chain(presets)
    }
}
