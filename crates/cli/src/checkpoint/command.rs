//! What a checkpoint belongs to: the command, and the inputs as they were.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use clap::{ArgMatches, CommandFactory};
use serde_json::{Value, json};

use super::kept::sum;
use crate::args::{Cli, OutputFormat, WindowArgs};
use crate::failure::{Failure, Outcome};
use crate::input::is_regular_file;
use crate::output::is_stdout;
use crate::plan::Plan;

/// Flags that the output does not depend on.
const FREE: [&str; 9] = [
    "threads",
    "batch_rows",
    "max_open_slices",
    "max_keys",
    "max_state_bytes",
    "quiet",
    "stats",
    "checkpoint",
    "checkpoint_every",
];

/// Bytes at either end of an input by which it is known again.
const ENDS: u64 = 64 << 10;

/// The flags that the output depends on, and what they were given or are by default.
pub(crate) fn flags(given: &ArgMatches) -> Vec<(String, String)> {
    let command = Cli::command();
    let arguments = command.find_subcommand("window").into_iter().flat_map(|window| window.get_arguments());
    let asked = arguments.filter(|argument| !FREE.contains(&argument.get_id().as_str()));
    asked
        .filter_map(|argument| {
            let values = given.try_get_raw(argument.get_id().as_str()).ok().flatten()?;
            let values: Vec<_> = values.map(|value| value.to_string_lossy().into_owned()).collect();
            let name = argument.get_long().map_or_else(|| "INPUT".into(), |long| format!("--{long}"));
            Some((name, values.join(" ")))
        })
        .collect()
}

/// Refuses inputs and outputs that a run cannot go on with.
pub(super) fn check(args: &WindowArgs, plan: &Plan) -> Outcome<()> {
    if let Some(path) = args.inputs.iter().find(|path| !is_regular_file(path)) {
        return Err(Failure::usage(format_args!(
            "--checkpoint: {} is not a file, and what has been read of it cannot be read again",
            if path.as_os_str() == "-" { "standard input".into() } else { path.display().to_string() }
        )));
    }
    let outputs = [
        ("--out", Some(&args.output.out), Some(plan.out)),
        ("--late", args.output.late.as_ref(), plan.late),
        ("--rejected", args.output.rejected.as_ref(), plan.rejected),
    ];
    for (flag, path, format) in outputs {
        let Some((path, format)) = path.zip(format) else { continue };
        let reason = if is_stdout(path) {
            "standard output cannot be cut back to what was committed".into()
        } else if !matches!(format, OutputFormat::Csv | OutputFormat::Ndjson) {
            format!("{} cannot be cut back to what was committed", path.display())
        } else if path.exists() && !is_regular_file(path) {
            format!("{} is not a file", path.display())
        } else {
            continue;
        };
        return Err(Failure::usage(format_args!(
            "--checkpoint: {reason}; {flag} must be a file in CSV or NDJSON (.csv, .ndjson)"
        )));
    }
    Ok(())
}

/// What the inputs are: their sizes, and a checksum of their ends.
pub(super) fn inputs(args: &WindowArgs) -> Outcome<Value> {
    let known = |path: &std::path::PathBuf| {
        let (bytes, crc) = ends(path).map_err(|error| Failure::at(path.display(), error))?;
        Ok(json!({"path": path.to_string_lossy(), "bytes": bytes, "crc32_of_ends": crc}))
    };
    args.inputs.iter().map(known).collect()
}

fn ends(path: &Path) -> io::Result<(u64, u32)> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let (mut hasher, _) = sum(&mut (&file).take(ENDS))?;
    file.seek(SeekFrom::Start(bytes.saturating_sub(ENDS)))?;
    hasher.combine(&sum(&mut file)?.0);
    Ok((bytes, hasher.finalize()))
}

/// In what this command differs from the one that the checkpoint is of.
pub(super) fn difference(saved: &Value, given: &[(String, String)], inputs: &Value) -> Option<String> {
    let before = |flag: &str| saved["command"][flag].as_str();
    for (flag, value) in given {
        match before(flag) {
            Some(taken) if taken == value => {}
            Some(taken) => {
                return Some(format!(
                    "{flag} is {value} here, but was {taken} when the checkpoint was written"
                ));
            }
            None => return Some(format!("{flag} {value} was not there when the checkpoint was written")),
        }
    }
    let taken = saved["command"].as_object().into_iter().flatten();
    for (flag, value) in taken {
        if given.iter().all(|(known, _)| known != flag) {
            let value = value.as_str().unwrap_or_default();
            return Some(format!(
                "{flag} {value} is missing here, but was there when the checkpoint was written"
            ));
        }
    }
    let changed =
        inputs.as_array()?.iter().zip(saved["inputs"].as_array()?).find(|(now, then)| now != then)?;
    let path = changed.0["path"].as_str().unwrap_or_default();
    Some(match (changed.0["bytes"].as_u64(), changed.1["bytes"].as_u64()) {
        (Some(now), Some(then)) if now != then => {
            format!("{path} has {now} bytes, but had {then} when the checkpoint was written")
        }
        _ => format!("{path} is not the file that it was when the checkpoint was written"),
    })
}
