//! When results are given, and what they say: the flags, and what they mean to the engine.

use clap::{Args, ValueEnum};
use highwater::{ResultMode, TimeDelta, Trigger};

use crate::args::WindowArgs;
use crate::duration;
use crate::failure::{Failure, Outcome};

/// When results are given.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Firing (by default once, when the watermark passes the end of a window, and for late rows)"
)]
pub struct FiringArgs {
    /// Also after every N rows of a key in a window, until it ends
    #[arg(long, value_name = "N", group = "trigger", value_parser = clap::value_parser!(u64).range(1..))]
    pub early_count: Option<u64>,
    /// Also whenever the watermark passes a multiple of D, until the window ends
    #[arg(long, value_name = "D", group = "trigger", value_parser = duration::parse_length)]
    pub early_every: Option<TimeDelta>,
    /// Only after every N rows of a key in a window: fewer at its end are in no result
    #[arg(long, value_name = "N", group = "trigger", value_parser = clap::value_parser!(u64).range(1..))]
    pub trigger_count: Option<u64>,
    /// Only when COLUMN has risen by more than THRESHOLD since the last firing of its window
    #[arg(long, value_name = "COLUMN,THRESHOLD", group = "trigger", value_parser = Delta::parse)]
    pub trigger_delta: Option<Delta>,
    /// Empty a window after each firing
    #[arg(long)]
    pub purging: bool,
    /// What a firing holds in relation to the one before it
    #[arg(long, value_enum, value_name = "MODE", default_value = "accumulate")]
    pub mode: Mode,
    /// Add the column `firing`: early, on_time or late
    #[arg(long)]
    pub firing: bool,
    /// Add the column `firing_number`: how often the key's window has fired before
    #[arg(long)]
    pub firing_number: bool,
    /// Add the column `window_time`, an event time for windows over results: one tick before the end
    #[arg(long)]
    pub window_time: bool,
}

/// What a firing holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// All there is in the window
    Accumulate,
    /// What has come since the firing before it
    Discard,
    /// All there is; the result that it replaces comes first, marked in the column `retraction`
    Retract,
}

/// A column, and by how much it rises.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// The name of the column.
    pub column: String,
    /// A firing takes more than this.
    pub threshold: f64,
}

impl Delta {
    /// Reads `COLUMN,THRESHOLD`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(',').filter(|(column, _)| !column.is_empty());
        let threshold = |text: &str| text.trim().parse::<f64>().ok().filter(|number| !number.is_nan());
        parts
            .and_then(|(column, number)| Some(Delta { column: column.into(), threshold: threshold(number)? }))
            .ok_or_else(|| {
                format!("{text:?} is not COLUMN,THRESHOLD; write it as in odometer,100 or usd,0.5")
            })
    }
}

impl FiringArgs {
    /// The flag that says when windows fire, if there is one.
    pub(crate) fn flag(&self) -> Option<&'static str> {
        match self {
            FiringArgs { early_count: Some(_), .. } => Some("--early-count"),
            FiringArgs { early_every: Some(_), .. } => Some("--early-every"),
            FiringArgs { trigger_count: Some(_), .. } => Some("--trigger-count"),
            FiringArgs { trigger_delta: Some(_), .. } => Some("--trigger-delta"),
            _ => None,
        }
    }

    pub(crate) fn trigger(&self) -> Trigger {
        let trigger = match self {
            FiringArgs { early_count: Some(rows), .. } => Trigger::early_count(*rows),
            FiringArgs { early_every: Some(interval), .. } => Trigger::early_event_time(*interval),
            FiringArgs { trigger_count: Some(rows), .. } => Trigger::count(*rows),
            FiringArgs { trigger_delta: Some(Delta { column, threshold }), .. } => {
                Trigger::delta(column, *threshold)
            }
            _ => Trigger::event_time(),
        };
        if self.purging { trigger.purging() } else { trigger }
    }

    pub(crate) fn mode(&self) -> ResultMode {
        match self.mode {
            Mode::Accumulate => ResultMode::Accumulate,
            Mode::Discard => ResultMode::Discard,
            Mode::Retract => ResultMode::Retract,
        }
    }
}

/// Flags that are each right, and wrong together.
pub(crate) fn refuse_contradictions(args: &WindowArgs) -> Outcome<()> {
    let WindowArgs { shape, firing, watermark, .. } = args;
    let windows = shape.flag().unwrap_or_default();
    let refuse = |flag: &str, other: &str, why: &str| {
        Err(Failure::usage(format_args!("{flag} and {other} do not go together: {why}")))
    };
    let mode = match firing.mode {
        Mode::Accumulate => None,
        Mode::Discard => Some("--mode discard"),
        Mode::Retract => Some("--mode retract"),
    };
    let purging = firing.purging.then_some("--purging");
    if let (true, Some(flag)) = (shape.count.is_some(), firing.flag().or(purging).or(mode)) {
        return refuse(
            flag,
            windows,
            "a window of so many rows fires once, when it is full or at the end of input",
        );
    }
    if shape.has_no_late_rows() && watermark.lateness.is_some() {
        return refuse("--lateness", windows, "rows are never late for these windows");
    }
    if shape.is_session() && firing.trigger_delta.is_some() {
        return refuse(
            "--trigger-delta",
            windows,
            "what a column was at the last firing of two sessions cannot be merged",
        );
    }
    match (purging, firing.mode) {
        (Some(flag), Mode::Retract) => refuse(
            flag,
            "--mode retract",
            "what a window gave before it was emptied is not replaced by anything",
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_are_a_column_and_a_number() {
        let delta = |column: &str, threshold| Ok(Delta { column: column.into(), threshold });
        assert_eq!(Delta::parse("usd,0.5"), delta("usd", 0.5));
        assert_eq!(Delta::parse("km, so far,-1"), delta("km, so far", -1.0));
        for text in ["usd", "usd,", ",1", "usd,much", "usd,nan"] {
            let error = format!("{text:?} is not COLUMN,THRESHOLD; write it as in odometer,100 or usd,0.5");
            assert_eq!(Delta::parse(text), Err(error));
        }
    }
}
