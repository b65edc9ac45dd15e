//! `tidesdb inspect`: what is in a file of a database, part by part.
//!
//! One line for each part: as text, or as a JSON object with `--json`. Works on damaged files, and
//! on files that lie outside of a database.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::{Map, Value, json};
use tidesdb::Error;
use tidesdb::salvage::{self, Field, InspectOptions, Item};

use crate::args::EncodingArgs;
use crate::encoding::Encoding;
use crate::failure::{Failure, Result, judged};
use crate::table::printable;

/// Arguments of `inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A table, value log, log segment, manifest, CURRENT or CLOSED, the mark of a clean close
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Also show entries of tables, operations of the log and changes of the manifest
    #[arg(long, short)]
    keys: bool,
    /// Stop after this many lines
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u64>,
    /// Number of the file, where neither its name nor its content shows it
    #[arg(long, value_name = "N")]
    number: Option<u64>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    encoding: EncodingArgs,
}

/// Runs the command.
///
/// # Errors
/// When something is wrong with the file, after all of it was shown; those of standard output.
pub(crate) fn run(args: &InspectArgs) -> Result<()> {
    if args.file.is_dir() {
        let text = format!("{} is a directory, not a file of a database", args.file.display());
        return Err(Failure::new(text).hint("`tidesdb verify` and `tidesdb doctor` look at all"));
    }
    let encoding = args.encoding.encoding();
    let mut output = BufWriter::new(io::stdout().lock());
    let options = InspectOptions::default().entries(args.keys).number(args.number);
    let (mut left, mut problems, mut printed) = (args.limit.unwrap_or(u64::MAX), 0_u64, Ok(()));
    let shown = salvage::inspect(&args.file, options, &mut |item| {
        let Some(next) = left.checked_sub(1) else { return Err(Error::Cancelled) };
        left = next;
        problems += u64::from(item.problem.is_some());
        let line =
            if args.json { as_json(&item, encoding).to_string() } else { as_text(&item, encoding) };
        if printed.is_ok() {
            printed = writeln!(output, "{line}").map_err(|error| Failure::output(&error));
        }
        match &printed {
            Err(failure) if !failure.is_output_closed() => Err(Error::Cancelled),
            // Without a reader the problems are still counted.
            _ => Ok(()),
        }
    });
    let printed = printed.and_then(|()| output.flush().map_err(|error| Failure::output(&error)));
    let verdict = match (shown, problems) {
        (Err(other), _) if !matches!(other, Error::Cancelled) => Err(Failure::from(other)),
        (_, 0) => Ok(()),
        (_, 1) => Err(Failure::new("the file has 1 problem")),
        (_, problems) => Err(Failure::new(format!("the file has {problems} problems"))),
    };
    judged(printed, verdict)
}

fn encoded(bytes: &[u8], encoding: Encoding) -> String {
    let mut out = Vec::new();
    encoding.encode(bytes, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn as_text(item: &Item, encoding: Encoding) -> String {
    let place = item.offset.map_or(String::new(), |offset| offset.to_string());
    let mut line = format!("{place:>12}  {}", item.what);
    if let Some(bytes) = item.bytes {
        line.push_str(&format!("  {bytes} bytes"));
    }
    for (name, field) in &item.fields {
        let value = match field {
            Field::Number(number) => number.to_string(),
            Field::Text(text) => printable(text),
            Field::List(texts) => printable(&texts.join("; ")),
            Field::Bytes(bytes) => format!("'{}'", encoded(bytes, encoding)),
        };
        line.push_str(&format!("  {name}={value}"));
    }
    if let Some(problem) = &item.problem {
        line.push_str(&format!("  DAMAGED: {}", printable(problem)));
    }
    line
}

fn as_json(item: &Item, encoding: Encoding) -> Value {
    let mut fields = Map::new();
    for (name, field) in &item.fields {
        let value = match field {
            Field::Number(number) => json!(number),
            Field::Text(text) => json!(text),
            Field::List(texts) => json!(texts),
            Field::Bytes(bytes) => json!(encoded(bytes, encoding)),
        };
        fields.insert((*name).to_owned(), value);
    }
    json!({
        "what": item.what,
        "offset": item.offset,
        "bytes": item.bytes,
        "fields": fields,
        "problem": item.problem,
    })
}
