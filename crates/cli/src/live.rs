//! Pipes whose rows come in their own time: when they are read, and when the clock must be looked at.
//!
//! A thread reads, so that the run can go on when nothing comes. Rows are pushed as they come, at the time that the clock
//! shows then; when none come, the run sleeps until the next moment at which the operator has something to do.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow_array::RecordBatch;
use highwater::{TickUnit, TimeDelta};

use crate::args::WindowArgs;
use crate::failure::{Failure, Outcome};
use crate::input::{Batches, is_regular_file, is_stdin};

/// Batches that have been read and not been taken yet.
const WAITING: usize = 4;

/// Without anything to do the run sleeps so long, and then again.
const LONG: i128 = TimeDelta::from_hours(1).as_nanos();

impl WindowArgs {
    /// The flag that asks for the clock of the machine, if there is one.
    pub(crate) fn clock_flag(&self) -> Option<&'static str> {
        let quiet = self.watermark.flush_after_quiet.map(|_| "--flush-after-quiet");
        quiet.or(self.firing.early_clock.map(|_| "--early-clock"))
    }
}

/// Refuses what cannot be read by the clock.
pub(crate) fn check(args: &WindowArgs) -> Outcome<()> {
    let Some(flag) = args.clock_flag() else { return Ok(()) };
    let others = [
        ("--idle", args.watermark.idle.is_some(), "its clock is the ingest time"),
        ("--checkpoint", args.checkpoint.checkpoint.is_some(), "what came when cannot be repeated"),
        ("--partition-by", args.input.partition_by.is_some(), "it reads the input twice"),
    ];
    if let Some((other, _, why)) = others.iter().find(|(_, given, _)| *given) {
        return Err(Failure::usage(format_args!("{flag} and {other} do not go together: {why}")));
    }
    match args.inputs.as_slice() {
        [input] if is_stdin(input) || !is_regular_file(input) => Ok(()),
        [input] => Err(Failure::usage(format_args!(
            "{flag}: {} is a file, which never keeps anybody waiting; allowed is a pipe, as in - for standard input",
            input.display()
        ))),
        inputs => Err(Failure::usage(format_args!(
            "{flag}: {} inputs are given; allowed is one, a pipe, as in - for standard input",
            inputs.len()
        ))),
    }
}

/// Reads in a thread of its own. The last thing that comes is the end or a failure.
pub(crate) fn read(mut batches: Box<dyn Batches>) -> Receiver<Outcome<Option<RecordBatch>>> {
    let (sender, receiver) = sync_channel(WAITING);
    thread::spawn(move || {
        loop {
            let next = batches.next();
            let more = matches!(next, Ok(Some(_)));
            if sender.send(next).is_err() || !more {
                return;
            }
        }
    });
    receiver
}

/// When the operator wants to know the time.
#[derive(Debug)]
pub(crate) struct Alarm {
    unit: TickUnit,
    /// In nanoseconds, as all times here.
    quiet: Option<i128>,
    early: Option<i128>,
    /// When rows came last; none have, or what they left open has been flushed.
    heard: Option<i128>,
}

/// What the clock of the machine shows, in nanoseconds since 1970.
pub(crate) fn now() -> i128 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    }
}

impl Alarm {
    pub(crate) fn new(args: &WindowArgs, unit: TickUnit) -> Self {
        Alarm {
            unit,
            quiet: args.watermark.flush_after_quiet.map(TimeDelta::as_nanos),
            early: args.firing.early_clock.map(TimeDelta::as_nanos),
            heard: None,
        }
    }

    /// A reading of the clock as ticks of event time.
    pub(crate) fn ticks(&self, now: i128) -> i64 {
        let ticks = now.div_euclid(self.unit.nanos());
        ticks.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// Rows have come.
    pub(crate) fn hear(&mut self, now: i128) {
        self.heard = Some(now);
    }

    /// How long there will be nothing to do unless rows come. Quiet is more than the timeout, which shows at the next tick.
    pub(crate) fn sleep(&mut self, now: i128) -> Duration {
        let tick = self.unit.nanos();
        let floor = |time: i128| time.div_euclid(tick) * tick;
        let flush = self.heard.zip(self.quiet).map(|(heard, quiet)| floor(heard) + quiet + tick);
        if flush.is_some_and(|flush| flush <= now) {
            self.heard = None;
        }
        let flush = flush.filter(|&flush| flush > now);
        let early = self.early.map(|interval| (now.div_euclid(interval) + 1) * interval);
        let next = flush.into_iter().chain(early).min().unwrap_or(now + LONG);
        Duration::from_nanos(u64::try_from((next - now).clamp(1, LONG)).unwrap_or(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wakes_when_there_is_something_to_do() {
        let ms = 1_000_000;
        let mut alarm =
            Alarm { unit: TickUnit::Millisecond, quiet: Some(50 * ms), early: Some(40 * ms), heard: None };
        let sleep = |alarm: &mut Alarm, now: i128| alarm.sleep(now).as_nanos() as i128;
        // 1,010 ms: the next multiple of 40 is 1,040
        assert_eq!(sleep(&mut alarm, 1_010 * ms), 30 * ms);
        assert_eq!(sleep(&mut alarm, 1_040 * ms), 40 * ms);
        // rows at 1,041.5 count as of 1,041; 1,092 is the first reading more than 50 later, 1,080 the next multiple
        alarm.hear(1_041 * ms + ms / 2);
        assert_eq!(sleep(&mut alarm, 1_042 * ms), 38 * ms);
        assert_eq!(sleep(&mut alarm, 1_081 * ms), 11 * ms);
        // flushed at 1,092: now only 1,120 is waited for
        assert_eq!(sleep(&mut alarm, 1_092 * ms), 28 * ms);
        assert_eq!(sleep(&mut alarm, 1_093 * ms), 27 * ms);
        // nothing but quiet: an hour, then until quiet, then an hour
        let mut alarm = Alarm { unit: TickUnit::Second, quiet: Some(5_000 * ms), early: None, heard: None };
        assert_eq!(sleep(&mut alarm, 0), LONG);
        alarm.hear(1_999 * ms);
        assert_eq!(sleep(&mut alarm, 2_000 * ms), 5_000 * ms);
        assert_eq!(sleep(&mut alarm, 7_000 * ms), LONG);
    }

    #[test]
    fn readings_are_floored_to_ticks() {
        let alarm = |unit| Alarm { unit, quiet: None, early: None, heard: None };
        assert_eq!(alarm(TickUnit::Second).ticks(1_999_999_999), 1);
        assert_eq!(alarm(TickUnit::Second).ticks(-1), -1);
        assert_eq!(alarm(TickUnit::Nanosecond).ticks(i128::MAX), i64::MAX);
    }
}
