//! When results are given, and what they say: the flags, and what they mean to the engine.

use clap::{Args, ValueEnum};
use highwater::{Evictor, ResultMode, TimeDelta, Trigger};

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
    /// Also whenever the clock of the machine passes a multiple of D, if rows of a key have come from a pipe since then
    #[arg(long, value_name = "D", group = "trigger", value_parser = duration::parse_length)]
    pub early_clock: Option<TimeDelta>,
    /// Only after every N rows of a key in a window: fewer at its end are in no result
    #[arg(long, value_name = "N", group = "trigger", value_parser = clap::value_parser!(u64).range(1..))]
    pub trigger_count: Option<u64>,
    /// Only when COLUMN has risen by more than THRESHOLD since the last firing of its window
    #[arg(long, value_name = "COLUMN,THRESHOLD", group = "trigger", value_parser = Delta::parse)]
    pub trigger_delta: Option<Delta>,
    /// Empty a window after each firing
    #[arg(long)]
    pub purging: bool,
    /// Before a window fires, remove all rows of a key but the last N
    #[arg(long, value_name = "N", group = "evictor", value_parser = clap::value_parser!(u64).range(1..))]
    pub evict_count: Option<u64>,
    /// Before a window fires, remove the rows of a key that are D or more before its latest
    #[arg(long, value_name = "D", group = "evictor", value_parser = duration::parse_length)]
    pub evict_time: Option<TimeDelta>,
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
            FiringArgs { early_clock: Some(_), .. } => Some("--early-clock"),
            FiringArgs { trigger_count: Some(_), .. } => Some("--trigger-count"),
            FiringArgs { trigger_delta: Some(_), .. } => Some("--trigger-delta"),
            _ => None,
        }
    }

    pub(crate) fn trigger(&self) -> Trigger {
        let trigger = match self {
            FiringArgs { early_count: Some(rows), .. } => Trigger::early_count(*rows),
            FiringArgs { early_every: Some(interval), .. } => Trigger::early_event_time(*interval),
            FiringArgs { early_clock: Some(interval), .. } => Trigger::early_clock(*interval),
            FiringArgs { trigger_count: Some(rows), .. } => Trigger::count(*rows),
            FiringArgs { trigger_delta: Some(Delta { column, threshold }), .. } => {
                Trigger::delta(column, *threshold)
            }
            _ => Trigger::event_time(),
        };
        if self.purging { trigger.purging() } else { trigger }
    }

    /// The flag that says which rows windows keep, if there is one.
    pub(crate) fn evictor_flag(&self) -> Option<&'static str> {
        let count = self.evict_count.map(|_| "--evict-count");
        count.or(self.evict_time.map(|_| "--evict-time"))
    }

    pub(crate) fn evictor(&self) -> Option<Evictor> {
        self.evict_count.map(Evictor::count).or(self.evict_time.map(Evictor::time))
    }

    /// The flag that asks for a mode other than the usual one.
    fn mode_flag(&self) -> Option<&'static str> {
        match self.mode {
            Mode::Accumulate => None,
            Mode::Discard => Some("--mode discard"),
            Mode::Retract => Some("--mode retract"),
        }
    }

    fn purging_flag(&self) -> Option<&'static str> {
        self.purging.then_some("--purging")
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
    refuse_names(args)?;
    let refuse = |flag: &str, other: &str, why: &str| {
        Err(Failure::usage(format_args!("{flag} and {other} do not go together: {why}")))
    };
    let (mode, purging) = (firing.mode_flag(), firing.purging_flag());
    if let (true, Some(flag)) = (shape.count.is_some(), firing.flag().or(purging).or(mode)) {
        return refuse(
            flag,
            windows,
            "a window of so many rows fires once, when it is full or at the end of input",
        );
    }
    if let (true, Some(flag)) = (shape.count.is_some(), firing.evictor_flag()) {
        return refuse(
            flag,
            windows,
            "a window of so many rows has those; --global with --trigger-count may keep fewer",
        );
    }
    if let (Some(_), Some(flag)) = (shape.top, refused_by_top(args)) {
        return refuse("--top", flag, "windows whose keys fire one by one have no results to compare");
    }
    if let (Some(flag), true) =
        (watermark.flush_after_quiet.map(|_| "--flush-after-quiet"), shape.has_no_late_rows())
    {
        return refuse(flag, windows, "these windows have no end that the watermark could be raised to");
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

/// What makes windows fire key by key.
fn refused_by_top(args: &WindowArgs) -> Option<&'static str> {
    let WindowArgs { shape, firing, .. } = args;
    let windows = (shape.is_session() || shape.has_no_late_rows()).then(|| shape.flag()).flatten();
    let (mode, purging) = (firing.mode_flag(), firing.purging_flag());
    let number = firing.firing_number.then_some("--firing-number");
    windows.or(firing.flag()).or(firing.evictor_flag()).or(mode).or(purging).or(number)
}

/// Keys whose columns results could not tell from others.
fn refuse_names(args: &WindowArgs) -> Outcome<()> {
    let WindowArgs { shape, firing, .. } = args;
    if let Some((_, key)) = shape.key.iter().enumerate().find(|(at, key)| shape.key[..*at].contains(key)) {
        return Err(Failure::usage(format_args!("--key {key} is given twice")));
    }
    let own = [
        ("window_start", true),
        ("window_end", true),
        ("window_time", firing.window_time),
        ("firing", firing.firing),
        ("firing_number", firing.firing_number),
        ("retraction", firing.mode == Mode::Retract),
    ];
    let clash = own.iter().find(|(name, there)| *there && shape.key.iter().any(|key| key == name));
    clash.map_or(Ok(()), |(name, _)| {
        Err(Failure::usage(format_args!(
            "--key {name}: results have a column {name} of their own; give the column another name in the input"
        )))
    })
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
