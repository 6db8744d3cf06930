//! A process that does everything that a process can: it registers and deletes timers of both kinds, within firings too, keeps
//! a state and forgets it, hands rows back, and fails.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use highwater::process::{Keyed, KeyedProcess, Results, Rows, Timer};
use highwater::{Error, Result};

/// What is remembered of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) events: i64,
    pub(crate) fires: i64,
}

/// What happens to a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Row { time: i64, arg: i64 },
    Timer(i64),
    Clock(i64),
}

/// What is done then.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Do {
    Register(i64),
    Delete(i64),
    RegisterClock(i64),
    DeleteClock(i64),
    Touch,
    Clear,
    Emit,
    HandBack,
    Fail,
}

/// The same for engine and model. No chain of firings that register timers is endless, not even at the ends of time: what
/// registers a timer that can come to the same place again touches the state, and six touches are the end of it.
pub(crate) fn act(event: Event, fires: i64) -> Vec<Do> {
    use Do::*;
    let at = |time: i64, by: i64| time.saturating_add(by);
    match event {
        Event::Row { arg: i64::MIN, .. } => vec![Touch, Register(0), Clear, Emit, Fail],
        Event::Row { time, arg } => match arg.rem_euclid(9) {
            0 => vec![Touch, Register(at(time, arg % 50)), Emit],
            1 => vec![Register(at(time, -20)), Register(at(time, -21))],
            2 => vec![Delete(at(time, arg % 50)), Delete(at(time, -20))],
            3 => vec![Touch, Emit],
            4 => vec![Clear],
            5 => vec![RegisterClock(at(time, arg % 40)), Register(at(time, 1))],
            6 => vec![Emit, HandBack],
            7 => vec![Touch, Register(at(time, 5)), Register(at(time, 10)), Register(at(time, 10)), Emit],
            _ => vec![DeleteClock(at(time, arg % 40)), Register(time)],
        },
        Event::Timer(time) if fires < 6 => match time.rem_euclid(5) {
            0 => vec![Touch, Register(time), Emit],
            1 => vec![Touch, Emit, Register(at(time, 3)), Register(at(time, 34))],
            2 => vec![Touch, Delete(at(time, 1)), Register(at(time, -7)), Emit],
            3 => vec![Emit, Clear],
            _ => vec![RegisterClock(at(time, 20)), Emit],
        },
        Event::Clock(time) if fires < 6 && time % 2 != 0 => {
            vec![Touch, Emit, Register(time), RegisterClock(at(time, -7)), RegisterClock(at(time, 7))]
        }
        Event::Clock(time) if time % 2 == 0 => vec![Emit, Register(time), Delete(at(time, 1))],
        Event::Timer(_) | Event::Clock(_) => vec![Emit, Clear],
    }
}

/// A result: what has happened, when, by which watermark, and the state then.
pub(crate) fn result(event: Event, watermark: i64, count: &Count) -> [i64; 5] {
    let (kind, time) = match event {
        Event::Row { time, .. } => (0, time),
        Event::Timer(time) => (1, time),
        Event::Clock(time) => (2, time),
    };
    [kind, time, watermark, count.events, count.fires]
}

pub(crate) struct Script;

fn failed<T>(message: &str) -> Result<T> {
    Err(Error::Process { message: message.into() })
}

impl Script {
    /// Whether the row is to be handed back.
    fn act(event: Event, key: &mut Keyed<'_, Self>) -> Result<bool> {
        let mut hand_back = false;
        for action in act(event, key.peek().map_or(0, |count| count.fires)) {
            match action {
                Do::Register(time) => _ = key.register_timer(time),
                Do::Delete(time) => _ = key.delete_timer(time),
                Do::RegisterClock(time) => _ = key.register_clock_timer(time),
                Do::DeleteClock(time) => _ = key.delete_clock_timer(time),
                Do::Touch => {
                    key.count(0);
                    key.state().touch(event);
                }
                Do::Clear => key.clear(),
                Do::Emit => {
                    let count = key.peek().cloned().unwrap_or_default();
                    key.emit(result(event, key.watermark(), &count));
                }
                Do::HandBack => hand_back = true,
                Do::Fail => return failed("a row that it does not like"),
            }
        }
        Ok(hand_back)
    }
}

impl Count {
    pub(crate) fn touch(&mut self, event: Event) {
        self.events = self.events.saturating_add(1);
        self.fires = self.fires.saturating_add(i64::from(!matches!(event, Event::Row { .. })));
    }
}

impl KeyedProcess for Script {
    type State = Count;
    type Output = [i64; 5];

    fn output_schema(&self, _: &[SchemaRef]) -> Result<SchemaRef> {
        let fields = ["kind", "time", "watermark", "events", "fires"];
        Ok(Arc::new(Schema::new(fields.map(|name| Field::new(name, DataType::Int64, false)).to_vec())))
    }

    fn counters(&self) -> &'static [&'static str] {
        &["touched"]
    }

    fn rows(&self, rows: &mut Rows<'_, Self>) -> Result<()> {
        let args = rows.batch()["v0"].as_primitive::<Int64Type>();
        while let Some(mut row) = rows.next()? {
            let arg = if args.is_null(row.index) { 0 } else { args.value(row.index) };
            if Script::act(Event::Row { time: row.time, arg }, &mut row.key)? {
                row.hand_back();
            }
        }
        Ok(())
    }

    fn timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
        Script::act(Event::Timer(timer.time), key).map(drop)
    }

    fn clock_timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
        Script::act(Event::Clock(timer.time), key).map(drop)
    }

    fn results(&self, outputs: Vec<[i64; 5]>, _: &Results<'_>) -> Result<Vec<ArrayRef>> {
        let column = |number: usize| outputs.iter().map(move |result| result[number]);
        Ok((0..5).map(|number| Arc::new(Int64Array::from_iter_values(column(number))) as ArrayRef).collect())
    }

    fn save(&self, states: &[&Count]) -> Result<ArrayRef> {
        let texts = states.iter().map(|count| format!("{} {}", count.events, count.fires));
        Ok(Arc::new(StringArray::from_iter_values(texts)))
    }

    fn restore(&self, saved: &ArrayRef) -> Result<Vec<Count>> {
        let count = |text: Option<&str>| {
            let (events, fires) = text?.split_once(' ')?;
            Some(Count { events: events.parse().ok()?, fires: fires.parse().ok()? })
        };
        let counts: Option<Vec<Count>> =
            saved.as_string_opt::<i32>().and_then(|texts| texts.iter().map(count).collect());
        counts.map_or_else(|| failed("two numbers were expected"), Ok)
    }
}
