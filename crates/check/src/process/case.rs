//! A case out of bytes.

use arbitrary::{Result, Unstructured};
use highwater_oracle::{Cadence, Op, Row, Spec, Strategy, Windows};

use crate::case::{KEYS, Maker, Shape, TIMES, small, spec};

/// What is done with the rows, the inputs they come from, and the calls.
#[derive(Clone, Debug)]
pub struct ProcessCase {
    pub(crate) task: Task,
    /// What is asked of each input; windows mean nothing.
    pub(crate) inputs: Vec<Spec>,
    pub(crate) shape: Shape,
    pub(crate) calls: Vec<Call>,
}

/// What is done with the rows. All lengths are in ticks.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// Everything that a process can do.
    Script,
    Pairs {
        timeout: i64,
    },
    Deduplicate {
        size: i64,
        offset: i64,
        lateness: i64,
    },
    /// Duplicates are less than the horizon apart.
    Within {
        horizon: i64,
        lateness: i64,
    },
    Interval {
        lower: i64,
        upper: i64,
        left_outer: bool,
    },
    Window {
        size: i64,
        offset: i64,
    },
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// Batches, each of an input's partition.
    Push(Vec<(usize, usize, Vec<Row>)>),
    /// News of one input.
    Of(usize, Op),
    /// News of all inputs: the clock, emission, the end.
    All(Op),
}

impl ProcessCase {
    /// Whether rows may be cut into batches in any way, with the same answer.
    pub(crate) fn may_be_cut(&self) -> bool {
        self.inputs.iter().all(|spec| spec.cadence != Cadence::EveryBatch)
    }

    /// A case, the same for the same bytes. Few bytes make a short one.
    pub fn from_bytes(bytes: &[u8]) -> Result<ProcessCase> {
        let u = &mut Unstructured::new(bytes);
        let task = match u.int_in_range(0..=11)? {
            0..=4 => Task::Script,
            5 => Task::Pairs { timeout: small(u, 0, 60)? },
            6 => Task::Deduplicate {
                size: small(u, 1, 40)?,
                offset: small(u, -50, 50)?,
                lateness: *u.choose(&[0, 0, 7, i64::MAX])?,
            },
            7 => Task::Within {
                horizon: if u.ratio(1, 10)? { i64::MAX } else { small(u, 1, 40)? },
                lateness: *u.choose(&[0, 0, 7, i64::MAX])?,
            },
            8..=10 => {
                let lower = small(u, -30, 20)?;
                Task::Interval { lower, upper: lower + small(u, 0, 40)?, left_outer: u.arbitrary()? }
            }
            _ => Task::Window { size: small(u, 1, 40)?, offset: small(u, -50, 50)? },
        };
        let inputs = if matches!(task, Task::Interval { .. } | Task::Window { .. }) { 2 } else { 1 };
        // days are shown clipped, and that is not what this is about
        let time = *u.choose(&TIMES[..5])?;
        let shape = Shape { time, key: *u.choose(&KEYS)?, numbered: false, wild_floats: false };
        let inputs: Vec<Spec> = (0..inputs)
            .map(|_| {
                let spec = spec(u, time)?;
                Ok(Spec {
                    strategy: spec.strategy,
                    cadence: if u.ratio(1, 8)? { Cadence::EveryBatch } else { spec.cadence },
                    reactivation: spec.reactivation,
                    partitions: spec.partitions.min(3),
                    idle_timeout: spec.idle_timeout,
                    null_policy: spec.null_policy,
                    guard: spec.guard,
                    ..Spec::over(Windows::Global)
                })
            })
            .collect::<Result<_>>()?;
        let mut maker = Maker::new(u, &inputs[0], &shape)?;
        let mut calls = Vec::new();
        while !u.is_empty() && calls.len() < 60 {
            calls.push(call(u, &inputs, &mut maker)?);
        }
        calls.push(Call::All(Op::Finish));
        if u.ratio(1, 8)? {
            calls.push(push(u, &inputs, &mut maker, 1)?);
        }
        Ok(ProcessCase { task, inputs, shape, calls })
    }
}

fn push(u: &mut Unstructured<'_>, inputs: &[Spec], maker: &mut Maker<'_>, batches: usize) -> Result<Call> {
    let batch = |u: &mut Unstructured<'_>, maker: &mut Maker<'_>| {
        let input = u.int_in_range(0..=inputs.len() - 1)?;
        Ok((input, u.int_in_range(0..=inputs[input].partitions - 1)?, maker.rows(u)?))
    };
    Ok(Call::Push((0..batches).map(|_| batch(u, maker)).collect::<Result<_>>()?))
}

fn call(u: &mut Unstructured<'_>, inputs: &[Spec], maker: &mut Maker<'_>) -> Result<Call> {
    let input = u.int_in_range(0..=inputs.len() - 1)?;
    let p = u.int_in_range(0..=inputs[input].partitions - 1)?;
    Ok(match u.int_in_range(0..=19)? {
        0 => Call::Of(input, Op::MarkIdle(p)),
        1 => Call::Of(input, Op::MarkActive(p)),
        2 | 3 => Call::All(Op::AdvanceClock(maker.reading(u)?)),
        4 => Call::All(Op::EmitWatermarks),
        5 if u.ratio(1, 4)? => Call::Of(input, Op::FinishPartition(p)),
        6..=8 => {
            let batches = u.int_in_range(0..=4)?;
            push(u, inputs, maker, batches)?
        }
        9..=12 if inputs[input].strategy == Strategy::Explicit => {
            Call::Of(input, Op::Watermark(p, maker.time(u)?))
        }
        _ => push(u, inputs, maker, 1)?,
    })
}
