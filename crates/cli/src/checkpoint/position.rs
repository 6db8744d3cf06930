//! Where the inputs and the clock of a replay stand, as JSON.

use serde_json::{Value, json};

use crate::clock::ReplayClock;
use crate::input::Mark;
use crate::interleave::{Standing, Taken};

/// Where a run stands between two calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) inputs: Standing,
    clock: Option<Clock>,
}

/// What a replay's clock has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Clock {
    now: Option<i64>,
    deadline: i64,
    heard: Vec<Option<i64>>,
}

impl Position {
    pub(crate) fn new(inputs: Standing, clock: Option<&ReplayClock>) -> Self {
        let clock = clock.map(|clock| {
            let (now, deadline, heard) = clock.seen();
            Clock { now, deadline, heard: heard.to_vec() }
        });
        Position { inputs, clock }
    }

    /// Gives a clock what this one has seen.
    pub(crate) fn set(&self, clock: ReplayClock) -> ReplayClock {
        match &self.clock {
            Some(Clock { now, deadline, heard }) => clock.having_seen(*now, *deadline, heard.clone()),
            None => clock,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let taken = self.inputs.taken.iter().map(|Taken { rows, largest, mark }| {
            json!({"rows": rows, "largest_ingest": largest, "read_from": {"byte": mark.bytes, "row": mark.rows}})
        });
        let clock = self
            .clock
            .as_ref()
            .map(|Clock { now, deadline, heard }| json!({"now": now, "deadline": deadline, "heard": heard}));
        json!({
            "inputs": taken.collect::<Vec<_>>(),
            "line": self.inputs.line,
            "ended": self.inputs.ended,
            "clock": clock,
        })
    }

    /// What [`to_json`](Position::to_json) made; `None` if it did not make this.
    pub(super) fn of_json(value: &Value) -> Option<Self> {
        let taken: Option<Vec<Taken>> = value["inputs"].as_array()?.iter().map(taken).collect();
        let taken = taken?;
        let numbers = |name: &str| -> Option<Vec<usize>> {
            let numbers = value[name].as_array()?.iter().map(|number| usize::try_from(number.as_u64()?).ok());
            numbers.map(|number| number.filter(|&number| number < taken.len())).collect()
        };
        let (line, ended) = (numbers("line")?, numbers("ended")?);
        let clock = match &value["clock"] {
            Value::Null => None,
            clock => Some(Clock {
                now: time(&clock["now"])?,
                deadline: clock["deadline"].as_i64()?,
                heard: clock["heard"].as_array()?.iter().map(time).collect::<Option<_>>()?,
            }),
        };
        Some(Position { inputs: Standing { taken, line, ended }, clock })
    }
}

fn taken(value: &Value) -> Option<Taken> {
    let mark = &value["read_from"];
    Some(Taken {
        rows: value["rows"].as_u64()?,
        largest: value["largest_ingest"].as_i64()?,
        mark: Mark { bytes: mark["byte"].as_u64()?, rows: mark["row"].as_u64()? },
    })
}

/// A time that may be none; `None` for what is neither.
fn time(value: &Value) -> Option<Option<i64>> {
    if value.is_null() { Some(None) } else { value.as_i64().map(Some) }
}

#[cfg(test)]
mod tests {
    use highwater::{TickUnit, TimeDelta};

    use super::*;

    #[test]
    fn a_position_comes_back_from_its_json() {
        let second = TickUnit::Second;
        let clock = || ReplayClock::new(TimeDelta::from_secs(10), second, second, 2).unwrap();
        let mut moved = clock();
        moved.steps(0, &[5, 7], |_| true, &mut Vec::new());
        moved.finish(1);
        let mark = Mark { bytes: 9, rows: 3 };
        let taken = vec![Taken { rows: 4, largest: 7, mark }, Taken::default()];
        let inputs = Standing { taken, line: vec![0], ended: vec![1] };
        for (clock, start) in [(Some(&moved), clock()), (None, clock())] {
            let position = Position::new(inputs.clone(), clock);
            let text = position.to_json().to_string();
            let back = Position::of_json(&serde_json::from_str(&text).unwrap()).unwrap();
            assert_eq!(back, position, "{text}");
            let seen = clock.map_or(start.seen(), ReplayClock::seen);
            assert_eq!(
                back.set(ReplayClock::new(TimeDelta::from_secs(10), second, second, 2).unwrap()).seen(),
                seen
            );
        }
        assert_eq!(Position::of_json(&json!({"inputs": [], "line": [0], "ended": [], "clock": null})), None);
    }
}
