//! Windows, triggers, evictors and modes of a case, and the same for the engine.

use arbitrary::{Result, Unstructured};
use highwater::{Evictor, TimeDelta, Trigger, Window, WindowOperatorBuilder};
use highwater_oracle::{self as oracle, Eviction, ResultMode, Spec, Windows};

use crate::case::{TimeType, small};

/// Any windows. Half of them are aligned.
pub(crate) fn windows(u: &mut Unstructured<'_>, time: TimeType) -> Result<Windows> {
    let size = small(u, 1, 24)?;
    let huge = time != TimeType::Date32 && u.ratio(1, 40)?;
    let offset = if u.ratio(1, 2)? { 0 } else { small(u, -40, 40)? };
    Ok(match u.int_in_range(0..=11)? {
        0..=5 => {
            let slide = if u.ratio(1, 3)? { size } else { small(u, 1, 24)? };
            Windows::Aligned {
                size: if huge { i64::MAX / small(u, 1, 4)? } else { size },
                slide: if huge { i64::MAX / small(u, 1, 9)? } else { slide },
                offset,
            }
        }
        6 => {
            let size = if huge { i64::MAX / small(u, 1, 4)? } else { size };
            let step = if huge { i64::MAX / small(u, 1, 9)? } else { small(u, 1, 24)? };
            Windows::Cumulate { size, step: step.min(size), offset }
        }
        7 | 8 => Windows::Session { gap: if huge { i64::MAX - small(u, 0, 9)? } else { size } },
        9 => Windows::SessionByValue { column: 0 },
        10 => Windows::Global,
        _ => {
            let (size, slide) = (small(u, 1, 6)? as u64, small(u, 1, 6)? as u64);
            Windows::Count { size, slide: if u.arbitrary()? { size } else { slide } }
        }
    })
}

/// Half of all cases fire by event time and no more.
pub(crate) fn firing(u: &mut Unstructured<'_>, spec: Spec) -> Result<Spec> {
    if matches!(spec.window, Windows::Count { .. }) || u.ratio(1, 2)? {
        return Ok(spec);
    }
    let sessions = matches!(spec.window, Windows::Session { .. } | Windows::SessionByValue { .. });
    let trigger = match u.int_in_range(0..=7)? {
        0 => oracle::Trigger::EarlyCount(small(u, 1, 4)? as u64),
        1 => oracle::Trigger::EarlyEventTime(small(u, 1, 20)?),
        2 => oracle::Trigger::EarlyClock(small(u, 1, 20)?),
        3 => oracle::Trigger::Count(small(u, 0, 4)? as u64),
        4 if !sessions => {
            oracle::Trigger::Delta { column: u.int_in_range(0..=1)?, threshold: small(u, -4, 40)? as f64 }
        }
        _ => oracle::Trigger::EventTime,
    };
    let rule = match u.int_in_range(0..=12)? {
        0 => Some(Eviction::Count(small(u, 0, 4)? as u64)),
        1 => Some(Eviction::Time(small(u, 0, 12)?)),
        2 => Some(Eviction::Delta { column: u.int_in_range(0..=1)?, threshold: small(u, -4, 40)? as f64 }),
        _ => None,
    };
    // a day that goes by in early firings, each once for every interval, is nothing but slow
    let explosive = matches!(spec.window, Windows::Global | Windows::SessionByValue { .. })
        || matches!(spec.window, Windows::Aligned { size, .. } | Windows::Cumulate { size, .. } if size > 1_000)
        || matches!(spec.window, Windows::Session { gap } if gap > 1_000);
    let by_interval = matches!(trigger, oracle::Trigger::EarlyEventTime(_));
    let purging = u.ratio(1, 5)?;
    let modes = [ResultMode::Accumulate, ResultMode::Discard, ResultMode::Retract];
    Ok(Spec {
        trigger: if explosive && by_interval { oracle::Trigger::EventTime } else { trigger },
        purging,
        evictor: rule.map(|rule| Ok(oracle::Evictor { rule, after: u.arbitrary()? })).transpose()?,
        result_mode: *u.choose(if purging { &modes[..2] } else { &modes })?,
        quiet_flush: if u.ratio(1, 6)? { Some(small(u, 0, 30)?) } else { None },
        ..spec
    })
}

/// Tells the engine.
pub(crate) fn build(
    builder: WindowOperatorBuilder,
    spec: &Spec,
    span: impl Fn(i64) -> TimeDelta,
) -> WindowOperatorBuilder {
    let mut builder = builder.window(window(&spec.window, &span)).trigger(trigger(spec, &span)).result_mode(
        match spec.result_mode {
            ResultMode::Accumulate => highwater::ResultMode::Accumulate,
            ResultMode::Discard => highwater::ResultMode::Discard,
            ResultMode::Retract => highwater::ResultMode::Retract,
        },
    );
    if let Some(evictor) = &spec.evictor {
        let evicting = match &evictor.rule {
            Eviction::Count(rows) => Evictor::count(*rows),
            Eviction::Time(keep) => Evictor::time(span(*keep)),
            Eviction::Delta { column, threshold } => Evictor::delta(format!("v{column}"), *threshold),
        };
        builder = builder.evictor(if evictor.after { evicting.after() } else { evicting });
    }
    match spec.quiet_flush {
        Some(timeout) => builder.flush_after_quiet(span(timeout)),
        None => builder,
    }
}

fn window(windows: &Windows, span: impl Fn(i64) -> TimeDelta) -> Window {
    match windows {
        Windows::Aligned { size, slide, offset } => {
            Window::sliding(span(*size), span(*slide)).offset(span(*offset))
        }
        Windows::Cumulate { size, step, offset } => {
            Window::cumulate(span(*size), span(*step)).offset(span(*offset))
        }
        Windows::Session { gap } => Window::session(span(*gap)),
        Windows::SessionByValue { column } => Window::session_by(format!("v{column}")),
        Windows::Global => Window::global(),
        Windows::Count { size, slide } => Window::count_sliding(*size, *slide),
        Windows::Calendar { .. } => unreachable!("no case has calendar windows"),
    }
}

fn trigger(spec: &Spec, span: impl Fn(i64) -> TimeDelta) -> Trigger {
    let trigger = match &spec.trigger {
        oracle::Trigger::EventTime => Trigger::event_time(),
        oracle::Trigger::EarlyCount(rows) => Trigger::early_count(*rows),
        oracle::Trigger::EarlyEventTime(interval) => Trigger::early_event_time(span(*interval)),
        oracle::Trigger::EarlyClock(interval) => Trigger::early_clock(span(*interval)),
        oracle::Trigger::Count(rows) => Trigger::count(*rows),
        oracle::Trigger::Delta { column, threshold } => Trigger::delta(format!("v{column}"), *threshold),
        oracle::Trigger::Never => unreachable!("no case never fires"),
    };
    if spec.purging { trigger.purging() } else { trigger }
}
