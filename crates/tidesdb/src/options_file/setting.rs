//! One setting: its name and its value as the options' own text has them.

use tidesdb_base::limits::MIN_LOG_SEGMENT_BYTES;

use crate::{DbOptions, Error, FamilyOptions};

use super::accepted;

/// What the names of properties begin with.
pub(super) const PROPERTY: &str = "property.";

/// What a setting is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Database,
    Family,
}

impl Scope {
    /// All settings with their defaults. They give the names, and of what kind the values are.
    pub(super) fn defaults(self) -> Vec<Setting> {
        of_text(&match self {
            Self::Database => DbOptions::default().to_text(),
            // What is not set has no line, but a name and values that it takes.
            Self::Family => FamilyOptions::default().min_disk_space(0).to_text(),
        })
    }

    fn check(self, line: &str) -> Result<(), Error> {
        match self {
            // What other lines of the file set may allow a smaller budget than the defaults do;
            // whether all go together shows when they are put in.
            Self::Database => {
                let options = DbOptions::default().log_segment_bytes(MIN_LOG_SEGMENT_BYTES);
                options.with_text(line).map(drop)
            }
            Self::Family => FamilyOptions::from_text(line).map(drop),
        }
    }
}

/// A name and a value of an options file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub name: String,
    pub value: String,
}

impl Setting {
    /// The setting, if there is one of that name which takes that value. Otherwise what is wrong.
    pub(super) fn checked(scope: Scope, name: &str, value: &str) -> Result<Self, String> {
        let setting = |value: String| Self { name: name.to_owned(), value };
        if scope == Scope::Family
            && let Some(property) = name.strip_prefix(PROPERTY)
        {
            let setting = setting(quoted(value));
            return match scope.check(&setting.line()) {
                Ok(()) => Ok(setting),
                Err(_) => Err(format!("'{property}' is no name for a property")),
            };
        }
        let defaults = scope.defaults();
        let Some(default) = defaults.iter().find(|default| default.name == name) else {
            let names: Vec<&str> = defaults.iter().map(|default| default.name.as_str()).collect();
            let names = names.join(", ");
            return Err(format!("there is no setting '{name}'; settings are: {names}"));
        };
        let setting = setting(accepted::normalised(&default.value, value));
        match scope.check(&setting.line()) {
            Ok(()) => Ok(setting),
            Err(Error::InvalidOptions(problems))
                if problems.iter().all(|problem| problem.contains("must")) =>
            {
                Err(problems.join(", "))
            }
            Err(_) => {
                let taken = accepted::description(name, &default.value);
                Err(format!("'{value}' is no value of {name}, which takes {taken}"))
            }
        }
    }

    /// As a line of the options' text.
    pub(super) fn line(&self) -> String {
        format!("{} = {}", self.name, self.value)
    }

    /// Name and text of a property; `None` for settings of the engine.
    pub(super) fn property(&self) -> Option<(String, String)> {
        self.name.strip_prefix(PROPERTY)?;
        FamilyOptions::from_text(&self.line()).ok()?.properties.pop_first()
    }
}

/// A property's text on one line.
fn quoted(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
    format!("\"{value}\"")
}

/// The settings of an options' text.
pub(super) fn of_text(text: &str) -> Vec<Setting> {
    let pairs = text.lines().filter_map(|line| line.split_once(" = "));
    pairs.map(|(name, value)| Setting { name: name.to_owned(), value: value.to_owned() }).collect()
}

/// The settings as an options' text.
pub(super) fn text(settings: &[Setting]) -> String {
    settings.iter().map(|setting| setting.line() + "\n").collect()
}
