//! What commands work on: the database, the family, keys and how they are written.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::database::KeyRange;
use crate::encoding::Encoding;
use crate::failure::{Failure, Result};

/// Which database.
#[derive(Debug, Args)]
pub(crate) struct DatabaseArgs {
    /// Its directory, from the argument that all commands share.
    #[arg(skip)]
    pub(crate) db: PathBuf,
}

/// Which column family of which database.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// The database.
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Column family
    #[arg(long, short, value_name = "NAME", default_value = "default")]
    pub(crate) family: String,
}

/// How bytes are written as text.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct EncodingArgs {
    /// Keys and values are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Keys and values are base64
    #[arg(long)]
    base64: bool,
    /// Keys and values on the command line are taken as they are, without escapes
    #[arg(long)]
    raw: bool,
}

impl EncodingArgs {
    /// The encoding asked for.
    pub(crate) fn encoding(&self) -> Encoding {
        match (self.hex, self.base64) {
            (true, _) => Encoding::Hex,
            (false, true) => Encoding::Base64,
            (false, false) => Encoding::Text,
        }
    }

    /// Whether a backslash begins an escape.
    pub(crate) fn takes_escapes(&self) -> bool {
        !self.raw && self.encoding() == Encoding::Text
    }

    /// The bytes that an argument stands for. `what` names it in messages.
    ///
    /// # Errors
    /// A usage failure when it is not of the form asked for.
    pub(crate) fn decode(&self, what: &str, argument: &OsString) -> Result<Vec<u8>> {
        self.decode_bytes(what, argument.as_encoded_bytes())
    }

    /// As [`EncodingArgs::decode`], of text that is no argument.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn decode_bytes(&self, what: &str, text: &[u8]) -> Result<Vec<u8>> {
        if self.raw {
            return Ok(text.to_vec());
        }
        let (encoding, mut bytes) = (self.encoding(), Vec::new());
        encoding.decode(text, &mut bytes).map_err(|error| {
            let form = encoding.name();
            Failure::usage(format!("the {what} is no valid {form}: {error}"))
        })?;
        Ok(bytes)
    }
}

/// Which keys.
#[derive(Debug, Args)]
pub(crate) struct RangeArgs {
    /// Only keys that begin with this
    #[arg(long, short, value_name = "PREFIX")]
    prefix: Option<OsString>,
    /// The smallest key, included
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// The key to stop at, excluded
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
}

impl RangeArgs {
    /// Those of a command that takes two bounds and no prefix.
    pub(crate) fn between(from: &Option<OsString>, to: &Option<OsString>) -> Self {
        Self { prefix: None, from: from.clone(), to: to.clone() }
    }

    /// The range asked for.
    ///
    /// # Errors
    /// A usage failure when a bound is not of the form asked for.
    pub(crate) fn range(&self, encoding: &EncodingArgs) -> Result<KeyRange> {
        let decode = |what, bound: &Option<OsString>| {
            bound.as_ref().map(|argument| encoding.decode(what, argument)).transpose()
        };
        // An empty prefix or lower bound bounds nothing, in whatever order of keys.
        let some = |bound: Option<Vec<u8>>| bound.filter(|key| !key.is_empty());
        let to = decode("upper bound", &self.to)?;
        if to.as_ref().is_some_and(Vec::is_empty) {
            return Err(Failure::usage("the upper bound is empty")
                .hint("without --to the range goes to the last key"));
        }
        Ok(KeyRange {
            prefix: some(decode("prefix", &self.prefix)?),
            from: some(decode("lower bound", &self.from)?),
            to,
        })
    }
}
