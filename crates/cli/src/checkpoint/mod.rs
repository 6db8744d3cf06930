//! `--checkpoint`: a run that can be killed at any moment and goes on where it was.
//!
//! ```text
//! DIR/checkpoint.json    the command, the inputs, where each of them stands, and how long each output is
//! DIR/operator-N.arrow   the operator's snapshot that it names
//! DIR/lock               held by the run
//! ```
//!
//! The rename of `checkpoint.json` is the one moment at which a checkpoint becomes true. Everything that it names is on the
//! disk by then, and nothing that the one before it names has been touched: outputs have only grown.

mod command;
mod kept;
mod position;

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use highwater::WindowOperator;
use serde_json::{Map, Value, json};

pub(crate) use command::flags;
pub(crate) use kept::{Committed, Kept};
pub(crate) use position::Position;

use crate::args::WindowArgs;
use crate::failure::{Failure, Outcome};
use crate::output::directory_of;
use crate::plan::Plan;

const FORMAT: &str = "highwater checkpoint";
/// Counted up with every change that older readers would not understand.
const VERSION: u64 = 2;
const STATE: &str = "checkpoint.json";
const SUM: &str = "crc32";

/// The directory of a run's checkpoints.
pub(crate) struct Checkpoints {
    directory: PathBuf,
    /// What each of them says of the command and its inputs.
    head: Map<String, Value>,
    number: u64,
    saved: Option<Value>,
    /// Held until the end of the process, however it ends.
    _lock: File,
}

/// Where the run went on from.
pub(crate) struct Saved {
    /// The operator's snapshot.
    pub(crate) operator: Vec<u8>,
    pub(crate) position: Position,
    outputs: Value,
}

impl Saved {
    /// What was committed of an output.
    pub(crate) fn committed(&self, flag: &str) -> Option<Committed> {
        let output = &self.outputs[flag];
        let crc = output["crc32"].as_u64().and_then(|crc| u32::try_from(crc).ok());
        Some(Committed { bytes: output["bytes"].as_u64()?, crc: crc? })
    }
}

impl Checkpoints {
    /// Opens the directory that the command asks for, and makes it if need be. `given` is what [`flags`] has found.
    pub(crate) fn open(args: &WindowArgs, plan: &Plan, given: &[(String, String)]) -> Outcome<Option<Self>> {
        let Some(directory) = &args.checkpoint.checkpoint else { return Ok(None) };
        command::check(args, plan)?;
        let failure = |error: io::Error| Failure::at(directory.display(), error);
        fs::create_dir_all(directory).map_err(failure)?;
        let lock = File::create(directory.join("lock")).map_err(failure)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Failure::at(directory.display(), "another run is using it"),
            TryLockError::Error(error) => failure(error),
        })?;
        let inputs = command::inputs(args)?;
        let saved = read(directory)?;
        if let Some(saved) = &saved
            && let Some(difference) = command::difference(saved, given, &inputs)
        {
            return Err(Failure::usage(format_args!(
                "--checkpoint {}: {difference}; give the same command again, or another directory",
                directory.display()
            )));
        }
        let mut head = Map::new();
        head.insert("format".into(), json!(FORMAT));
        head.insert("version".into(), json!(VERSION));
        let flags = given.iter().map(|(flag, value)| (flag.clone(), json!(value)));
        head.insert("command".into(), Value::Object(flags.collect()));
        head.insert("inputs".into(), inputs);
        let number = saved.as_ref().and_then(|saved| saved["number"].as_u64()).unwrap_or(0);
        Ok(Some(Checkpoints { directory: directory.clone(), head, number, saved, _lock: lock }))
    }

    /// Whether the run is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.saved.as_ref().is_some_and(|saved| saved["complete"] == json!(true))
    }

    /// The last checkpoint of an earlier run, if there is one.
    pub(crate) fn saved(&self) -> Outcome<Option<Saved>> {
        let Some(saved) = &self.saved else { return Ok(None) };
        let position = Position::of_json(&saved["position"]).ok_or_else(|| {
            unreadable(&self.directory.join(STATE), "it does not say where the inputs stood")
        })?;
        let path = self.directory.join(operator_file(self.number));
        let operator = fs::read(&path).map_err(|error| unreadable(&path, &error.to_string()))?;
        Ok(Some(Saved { operator, position, outputs: saved["outputs"].clone() }))
    }

    /// Writes a checkpoint of a run whose outputs have been committed.
    pub(crate) fn write(
        &mut self,
        operator: &WindowOperator,
        position: &Position,
        outputs: &[(&str, Committed)],
    ) -> Outcome<()> {
        let number = self.number + 1;
        let path = self.directory.join(operator_file(number));
        let snapshot = || -> Result<(), String> {
            let file = File::create(&path).map_err(|error| error.to_string())?;
            let mut buffered = io::BufWriter::new(&file);
            operator.snapshot_to(&mut buffered).map_err(|error| error.to_string())?;
            buffered.flush().and_then(|()| file.sync_all()).map_err(|error| error.to_string())
        };
        snapshot().map_err(|text| Failure::at(path.display(), format_args!("cannot be written: {text}")))?;
        let committed = outputs.iter().map(|(flag, committed)| {
            (flag.to_string(), json!({"bytes": committed.bytes, "crc32": committed.crc}))
        });
        let mut state = self.head.clone();
        state.insert("complete".into(), json!(false));
        state.insert("number".into(), json!(number));
        state.insert("position".into(), position.to_json());
        state.insert("outputs".into(), Value::Object(committed.collect()));
        self.replace(state)?;
        // nothing names the one before any more; should it stay, it does no harm
        drop(fs::remove_file(self.directory.join(operator_file(self.number))));
        self.number = number;
        Ok(())
    }

    /// Says that the run is complete and all its outputs are in their places.
    pub(crate) fn complete(&mut self) -> Outcome<()> {
        let mut state = self.head.clone();
        state.insert("complete".into(), json!(true));
        self.replace(state)?;
        drop(fs::remove_file(self.directory.join(operator_file(self.number))));
        Ok(())
    }

    /// Puts another `checkpoint.json` in the place of the one that there is, at once or not at all.
    fn replace(&self, mut state: Map<String, Value>) -> Outcome<()> {
        let sum = sum_of(&state);
        state.insert(SUM.into(), json!(sum));
        let (path, new) = (self.directory.join(STATE), self.directory.join("checkpoint.json.new"));
        let write = || -> io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(format!("{:#}\n", Value::Object(state)).as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(|error| Failure::at(path.display(), format_args!("cannot be written: {error}")))?;
        sync_directory_of(&path)
    }
}

/// The checksum of all that it says but the checksum.
fn sum_of(state: &Map<String, Value>) -> u32 {
    let said = state.iter().filter(|(name, _)| *name != SUM);
    crc32fast::hash(json!(said.collect::<Vec<_>>()).to_string().as_bytes())
}

fn operator_file(number: u64) -> String {
    format!("operator-{number}.arrow")
}

fn unreadable(path: &Path, reason: &str) -> Failure {
    Failure::at(path.display(), format_args!("{reason}; remove the directory to start over"))
}

/// The checkpoint in a directory, if there is one.
fn read(directory: &Path) -> Outcome<Option<Value>> {
    let path = directory.join(STATE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::at(path.display(), error)),
    };
    let state: Value = serde_json::from_str(&text)
        .map_err(|error| unreadable(&path, &format!("it is no checkpoint: {error}")))?;
    if state["format"] != json!(FORMAT) {
        return Err(unreadable(&path, "it is no checkpoint"));
    }
    match state["version"].as_u64() {
        Some(VERSION)
            if state.as_object().map(sum_of) != state[SUM].as_u64().and_then(|sum| sum.try_into().ok()) =>
        {
            Err(unreadable(&path, "it has been changed since it was written"))
        }
        Some(VERSION) => Ok(Some(state)),
        version => Err(unreadable(
            &path,
            &format!("version {} of checkpoints is not known here", version.unwrap_or_default()),
        )),
    }
}

/// Makes new names in a file's directory outlast a crash of the machine.
fn sync_directory_of(path: &Path) -> Outcome<()> {
    let directory = directory_of(path);
    // other systems cannot open a directory, and need not
    if cfg!(unix) {
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|error| Failure::at(directory.display(), error))?;
    }
    Ok(())
}
