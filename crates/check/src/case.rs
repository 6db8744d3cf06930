//! A case out of bytes.

use arbitrary::{Result, Unstructured};
use highwater_oracle::{
    Cadence, Function, Guard, LateFiring, NullPolicy, Op, Reactivation, Row, Spec, Strategy, Value, Windows,
};

use crate::vocabulary;

/// A specification, the types of its columns, and what is done.
#[derive(Clone, Debug)]
pub struct Case {
    /// What is asked, in ticks.
    pub spec: Spec,
    /// The Arrow side of it.
    pub shape: Shape,
    /// The calls. The last one ends the input.
    pub ops: Vec<Op>,
}

/// Types that the specification does not know of.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The event-time column.
    pub time: TimeType,
    /// The key columns.
    pub key: KeyShape,
    /// Whether results say how often they have fired before.
    pub numbered: bool,
    /// Whether floats are arbitrary. Sums then depend on the order of additions, and only the engine itself knows it.
    pub wild_floats: bool,
}

/// Event-time columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeType {
    /// Timestamp in seconds.
    Seconds,
    /// Timestamp in milliseconds with a zone.
    MillisInZone,
    /// Timestamp in microseconds.
    Micros,
    /// Timestamp in nanoseconds.
    Nanos,
    /// Int64 declared to count milliseconds.
    DeclaredMillis,
    /// Date64.
    Date64,
    /// Date32; its times fit 32 bits.
    Date32,
}

/// Key columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyShape {
    /// None at all.
    Unkeyed,
    /// One narrow integer.
    Int32,
    /// One wide integer.
    Int64,
    /// One float.
    Float64,
    /// One Boolean.
    Boolean,
    /// One string.
    Utf8,
    /// One string view.
    Utf8View,
    /// One dictionary of strings.
    Dictionary,
    /// An integer and a string.
    Pair,
    /// A float and a dictionary.
    FloatAndDictionary,
}

pub(crate) const TIMES: [TimeType; 7] = [
    TimeType::Seconds,
    TimeType::MillisInZone,
    TimeType::Micros,
    TimeType::Nanos,
    TimeType::DeclaredMillis,
    TimeType::Date64,
    TimeType::Date32,
];

pub(crate) const KEYS: [KeyShape; 10] = [
    KeyShape::Unkeyed,
    KeyShape::Int32,
    KeyShape::Int64,
    KeyShape::Float64,
    KeyShape::Boolean,
    KeyShape::Utf8,
    KeyShape::Utf8View,
    KeyShape::Dictionary,
    KeyShape::Pair,
    KeyShape::FloatAndDictionary,
];

/// Value columns of every case: 0 is Int64, 1 is Float64, 2 is Utf8.
pub(crate) const VALUE_COLUMNS: usize = 3;

impl Case {
    /// A case, the same for the same bytes. Few bytes make a short one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Case> {
        let u = &mut Unstructured::new(bytes);
        let time = *u.choose(&TIMES)?;
        let shape =
            Shape { time, key: *u.choose(&KEYS)?, numbered: u.ratio(1, 3)?, wild_floats: u.ratio(1, 3)? };
        let spec = spec(u, time)?;
        let mut maker = Maker::new(u, &spec, &shape)?;
        let mut ops = Vec::new();
        while !u.is_empty() && ops.len() < 60 {
            ops.push(maker.op(u)?);
        }
        ops.push(Op::Finish);
        if u.ratio(1, 8)? {
            let rows = vec![maker.row(u)?];
            ops.push(Op::Push(0, rows));
        }
        Ok(Case { spec, shape, ops })
    }
}

pub(crate) fn spec(u: &mut Unstructured<'_>, time: TimeType) -> Result<Spec> {
    let explicit = u.ratio(1, 5)?;
    let strategy = match u.int_in_range(0..=7)? {
        _ if explicit => Strategy::Explicit,
        0 => Strategy::Ascending,
        1 => Strategy::Delay(small(u, 0, 12)?),
        2 => Strategy::Punctuated,
        3 => Strategy::Bounded(if u.ratio(1, 10)? { i64::MAX } else { 0 }),
        _ => Strategy::Bounded(small(u, 0, 20)?),
    };
    let cadence = match u.int_in_range(0..=9)? {
        0 => Cadence::EveryBatch,
        1 => Cadence::OnRequest,
        2 => Cadence::Every(small(u, 0, 15)?),
        _ => Cadence::EveryRow,
    };
    let aggregates = (0..u.int_in_range(1..=4)?).map(|_| aggregate(u)).collect::<Result<Vec<_>>>()?;
    let window = vocabulary::windows(u, time)?;
    let spec = Spec {
        allowed_lateness: match u.int_in_range(0..=9)? {
            0..=4 => 0,
            9 => i64::MAX,
            _ => small(u, 1, 40)?,
        },
        strategy,
        cadence,
        reactivation: if u.arbitrary()? { Reactivation::WhenCaughtUp } else { Reactivation::AtOnce },
        partitions: *u.choose(&[1, 1, 2, 3, 5, 18])?,
        idle_timeout: if u.ratio(1, 4)? { Some(small(u, 1, 20)?) } else { None },
        null_policy: match u.int_in_range(0..=5)? {
            0 => NullPolicy::Error,
            1 => NullPolicy::Drop,
            _ => NullPolicy::Reject,
        },
        guard: match u.int_in_range(0..=7)? {
            0 => Guard::IngestTime(small(u, 0, 30)?),
            1 => Guard::Clock(small(u, 0, 30)?),
            _ => Guard::None,
        },
        late_firing: if u.arbitrary()? { LateFiring::Coalesced } else { LateFiring::PerRow },
        aggregates,
        ..Spec::over(window)
    };
    vocabulary::firing(u, spec)
}

fn aggregate(u: &mut Unstructured<'_>) -> Result<(Function, usize)> {
    let column = u.int_in_range(0..=VALUE_COLUMNS - 1)?;
    let number = column % 2;
    Ok(match u.int_in_range(0..=11)? {
        0 => (Function::CountAll, 0),
        1 => (Function::Count, column),
        2 | 3 => (Function::Sum, number),
        4 => (Function::Min, column),
        5 => (Function::Max, column),
        6 => (Function::Mean, number),
        7 => (Function::First, column),
        8 => (Function::Last, column),
        9 => (Function::MaxBy(u.int_in_range(0..=1)?), column),
        10 => (Function::MinBy(u.int_in_range(0..=1)?), column),
        _ => (Function::Quantile(*u.choose(&[0.0, 0.5, 0.99, 1.0])?), number),
    })
}

/// Where on the time line it happens.
fn origin(u: &mut Unstructured<'_>, time: TimeType) -> Result<i64> {
    let (low, high) = match time {
        TimeType::Date32 => (i32::MIN as i64, i32::MAX as i64),
        _ => (i64::MIN, i64::MAX),
    };
    Ok(match u.int_in_range(0..=9)? {
        0 => low,
        1 => high,
        2 => low + small(u, 0, 60)?,
        3 => high - small(u, 0, 60)?,
        4 => 1_700_000_000,
        _ => 0,
    })
}

/// Makes rows and calls.
pub(crate) struct Maker<'a> {
    spec: &'a Spec,
    shape: &'a Shape,
    origin: i64,
    now: i64,
}

impl<'a> Maker<'a> {
    pub(crate) fn new(u: &mut Unstructured<'_>, spec: &'a Spec, shape: &'a Shape) -> Result<Self> {
        let origin = origin(u, shape.time)?;
        Ok(Maker { spec, shape, origin, now: origin })
    }

    fn op(&mut self, u: &mut Unstructured<'_>) -> Result<Op> {
        let p = u.int_in_range(0..=self.spec.partitions - 1)?;
        Ok(match u.int_in_range(0..=19)? {
            0 => Op::MarkIdle(p),
            1 => Op::MarkActive(p),
            2 => Op::AdvanceClock(self.reading(u)?),
            3 => Op::EmitWatermarks,
            4 if u.ratio(1, 4)? => Op::FinishPartition(p),
            5 | 6 => {
                let batches = u.int_in_range(0..=4)?;
                let batch = |u: &mut Unstructured<'_>, maker: &mut Self| {
                    Ok((u.int_in_range(0..=maker.spec.partitions - 1)?, maker.rows(u)?))
                };
                Op::PushAll((0..batches).map(|_| batch(u, self)).collect::<Result<_>>()?)
            }
            7..=10 if self.spec.strategy == Strategy::Explicit => Op::Watermark(p, self.time(u)?),
            _ => Op::Push(p, self.rows(u)?),
        })
    }

    /// The clock goes forward on the whole.
    pub(crate) fn reading(&mut self, u: &mut Unstructured<'_>) -> Result<i64> {
        self.now = self.now.saturating_add(small(u, -2, 30)?);
        Ok(self.now)
    }

    pub(crate) fn rows(&mut self, u: &mut Unstructured<'_>) -> Result<Vec<Row>> {
        let rows = if u.ratio(1, 12)? { u.int_in_range(64..=400)? } else { u.int_in_range(0..=12)? };
        (0..rows).map(|_| self.row(u)).collect()
    }

    fn row(&mut self, u: &mut Unstructured<'_>) -> Result<Row> {
        let time = self.time(u)?;
        Ok(Row {
            time: if u.ratio(1, 20)? { None } else { Some(time) },
            key: self.key(u)?,
            values: self.values(u)?,
            ingest_time: if u.ratio(1, 20)? {
                None
            } else {
                Some(self.clip(time.saturating_add(small(u, -40, 10)?)))
            },
            marker: if u.ratio(1, 5)? {
                Some(self.clip(time.saturating_sub(small(u, 0, 12)?)))
            } else {
                None
            },
        })
    }

    /// Time goes forward on the whole, with steps back, jumps, and now and then an extreme.
    pub(crate) fn time(&mut self, u: &mut Unstructured<'_>) -> Result<i64> {
        let (forward, back) = match u.int_in_range(0..=63)? {
            0 => return Ok(self.clip(*u.choose(&[i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1, 0])?)),
            1 => (small(u, 0, 2_000)?, 0),
            2..=5 => (small(u, 0, 30)?, small(u, 0, 60)?),
            6..=15 => (0, small(u, 0, 40)?),
            _ => (small(u, 0, 3)?, small(u, 0, 3)?),
        };
        self.origin = self.clip(self.origin.saturating_add(forward));
        Ok(self.clip(self.origin.saturating_sub(back)))
    }

    fn clip(&self, time: i64) -> i64 {
        match self.shape.time {
            TimeType::Date32 => time.clamp(i32::MIN as i64, i32::MAX as i64),
            // two windows of a series can look alike at the top, and firings of both in one call cannot be told apart
            _ if matches!(self.spec.window, Windows::Cumulate { .. }) => time.min(i64::MAX - 100),
            _ => time,
        }
    }

    fn key(&self, u: &mut Unstructured<'_>) -> Result<Vec<Value>> {
        let text = |u: &mut Unstructured<'_>| -> Result<Value> {
            Ok(match u.int_in_range(0..=6)? {
                0 => Value::Null,
                1 => Value::Text(String::new()),
                n => Value::Text(
                    ["acme", "globex", "a longer key than any view holds inline", "é", "acme "][n - 2].into(),
                ),
            })
        };
        let float = |u: &mut Unstructured<'_>| -> Result<Value> {
            let floats = [0.0, -0.0, f64::NAN, -f64::NAN, 1.5, f64::INFINITY];
            Ok(if u.ratio(1, 7)? { Value::Null } else { Value::Float(*u.choose(&floats)?) })
        };
        Ok(match self.shape.key {
            KeyShape::Unkeyed => vec![],
            KeyShape::Int32 if u.ratio(1, 12)? => vec![Value::Null],
            KeyShape::Int32 => vec![Value::Int(small(u, -3, 5)?)],
            KeyShape::Int64 if u.ratio(1, 12)? => vec![Value::Null],
            KeyShape::Int64 if u.ratio(1, 6)? => {
                vec![Value::Int(*u.choose(&[i64::MIN, i64::MAX, 1 << 40, -1])?)]
            }
            KeyShape::Int64 => vec![Value::Int(small(u, 0, 6)? * 1_000_003)],
            KeyShape::Float64 => vec![float(u)?],
            KeyShape::Boolean if u.ratio(1, 12)? => vec![Value::Null],
            KeyShape::Boolean => vec![Value::Bool(u.arbitrary()?)],
            KeyShape::Utf8 | KeyShape::Utf8View | KeyShape::Dictionary => vec![text(u)?],
            KeyShape::Pair => vec![Value::Int(small(u, 0, 2)?), text(u)?],
            KeyShape::FloatAndDictionary => vec![float(u)?, text(u)?],
        })
    }

    fn values(&self, u: &mut Unstructured<'_>) -> Result<Vec<Value>> {
        let is_gap = matches!(self.spec.window, Windows::SessionByValue { .. });
        let int = match u.int_in_range(0..=30)? {
            0..=29 if is_gap => Value::Int(small(u, 1, 30)?),
            _ if is_gap => Value::Int(i64::MAX),
            0 | 1 => Value::Null,
            2 => Value::Int(*u.choose(&[i64::MIN, i64::MAX, i64::MAX - 1])?),
            _ => Value::Int(small(u, -100, 100)?),
        };
        let float = match u.int_in_range(0..=12)? {
            0 => Value::Null,
            _ if self.shape.wild_floats => Value::Float(f64::from_bits(u.arbitrary()?)),
            1 => Value::Float(-0.0),
            // multiples of 1/64: sums are exact in any order
            _ => Value::Float(small(u, -500, 500)? as f64 / 64.0),
        };
        let text = match u.int_in_range(0..=5)? {
            0 => Value::Null,
            n => Value::Text(["", "a", "b", "bb", "z"][n - 1].into()),
        };
        Ok(vec![int, float, text])
    }
}

pub(crate) fn small(u: &mut Unstructured<'_>, low: i64, high: i64) -> Result<i64> {
    u.int_in_range(low..=high)
}
