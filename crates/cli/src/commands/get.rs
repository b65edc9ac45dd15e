//! `tidesdb get`: prints the value of a key.
//!
//! The value's bytes are printed as they are, so that output can be redirected into a file; only
//! at a terminal a line break follows. With --hex or --base64 the value is printed in that form,
//! as one line.

use std::io::{self, IsTerminal, Write};

use crate::args::GetArgs;
use crate::database::{self, Access};
use crate::encoding::Encoding;
use crate::failure::{Failure, Result};

/// Runs the command.
///
/// # Errors
/// When the key is absent, and those of the engine and of standard output.
pub(crate) fn run(args: &GetArgs) -> Result<()> {
    let key = args.encoding.decode("key", &args.key)?;
    let db = database::open(&args.target.database.db, Access::Read)?;
    let family = database::family(&db, &args.target.family)?;
    let Some(mut value) = family.get(&key)? else {
        return Err(Failure::not_found());
    };
    let encoding = args.encoding.encoding();
    let mut output = io::stdout().lock();
    if encoding == Encoding::Text {
        if output.is_terminal() && !value.ends_with(b"\n") {
            value.push(b'\n');
        }
    } else {
        let mut text = Vec::new();
        encoding.encode(&value, &mut text);
        text.push(b'\n');
        value = text;
    }
    output.write_all(&value).and_then(|()| output.flush()).map_err(|error| Failure::output(&error))
}
