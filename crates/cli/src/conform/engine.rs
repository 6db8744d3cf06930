//! The engine, driven by a trace's input.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use highwater::watermark::{Cadence, END, NONE, Reactivation, WatermarkStrategy};
use highwater::{Aggregate, LATE_WATERMARK, LateFiring, Output, TimeDelta, Window, WindowOperator};

use super::answer::{Answer, Column, Firing, Kind, Value};
use super::functions::{CountDistinct, Members, Percentile};
use super::grid::{Form, Shape};
use super::trace::{Item, Row};
use super::when::{Evictor, Trigger};

/// What to build, from a trace's specification.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) shape: Shape,
    pub(crate) lateness: i64,
    pub(crate) trigger: Trigger,
    pub(crate) evictor: Option<Evictor>,
    pub(crate) strategy: WatermarkStrategy,
    pub(crate) cadence: Cadence,
    pub(crate) partitions: usize,
    pub(crate) reactivation: Reactivation,
    pub(crate) keyed: bool,
    pub(crate) columns: Vec<Column>,
    /// Rows at or before the watermark never reach the operator.
    pub(crate) filter_late: bool,
}

/// What the engine did with an input.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// With firings in the engine's own order.
    pub(crate) answer: Answer,
    /// The merged watermark before each row.
    pub(crate) seen: Vec<(usize, i64)>,
    pub(crate) dropped: u64,
    pub(crate) no_window: u64,
    /// Input indices of the rows that were filtered.
    pub(crate) filtered: Vec<usize>,
}

/// The shape as the engine's windows.
pub(crate) fn window(shape: Shape) -> Window {
    let ms = TimeDelta::from_millis;
    let window = match shape.form {
        Form::Tumbling => Window::tumbling(ms(shape.size)),
        Form::Sliding => Window::sliding(ms(shape.size), ms(shape.slide)),
        Form::Cumulate => Window::cumulate(ms(shape.size), ms(shape.slide)),
        Form::Session => Window::session(ms(shape.size)),
        Form::SessionByValue => Window::session_by("value"),
        Form::Global => Window::global(),
    };
    window.offset(ms(shape.offset))
}

fn schema() -> SchemaRef {
    let int = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![
        int("ts"),
        Field::new("key", DataType::Utf8, false),
        int("value"),
        int("index"),
    ]))
}

fn aggregate(column: &Column, rows: usize) -> Aggregate {
    let aggregate = match column {
        Column::Count => Aggregate::count_all(),
        Column::Sum => Aggregate::sum("value"),
        Column::Min => Aggregate::min("value"),
        Column::Max => Aggregate::max("value"),
        // A sample of all rows is exact.
        Column::Quantile(_, q) => Aggregate::reservoir_quantile("value", *q, rows + 1),
        Column::Members => Aggregate::custom("members", Members, "index"),
        Column::Avg => Aggregate::mean("value"),
        Column::CountDistinct => Aggregate::custom("count_distinct", CountDistinct, "value"),
        Column::Percentile(name, q) => Aggregate::custom(name, Percentile(*q), "value"),
    };
    aggregate.alias(column.name())
}

impl Setup {
    /// The operator, or why the engine refuses.
    pub(crate) fn build(&self, rows: usize) -> highwater::Result<WindowOperator> {
        let builder = WindowOperator::builder(schema())
            .event_time("ts")
            .event_time_unit(TimeUnit::Millisecond)
            .window(window(self.shape))
            .watermark(self.strategy.clone())
            .cadence(self.cadence)
            .partitions(self.partitions)
            .reactivation(self.reactivation)
            .allowed_lateness(TimeDelta::from_millis(self.lateness))
            .trigger(self.trigger.engines())
            .late_firing(LateFiring::PerRow)
            .firing_column(true);
        let builder = if self.keyed { builder.key("key") } else { builder };
        let builder = match self.evictor {
            Some(evictor) => builder.evictor(evictor.engines()),
            None => builder,
        };
        self.columns
            .iter()
            .fold(builder, |builder, column| builder.aggregate(aggregate(column, rows)))
            .build()
    }
}

/// A run of the engine over one input.
pub(crate) struct Driver<'a> {
    setup: &'a Setup,
    input: &'a [Item],
    operator: WindowOperator,
    /// All rows of the input, and where each item's row is among them.
    rows: RecordBatch,
    positions: Vec<usize>,
    /// Partitions marked idle, to which a valve lets no watermark through.
    idle: BTreeSet<usize>,
    replay: Replay,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(setup: &'a Setup, input: &'a [Item]) -> Result<Driver<'a>, String> {
        let mut positions = Vec::with_capacity(input.len());
        let mut rows: Vec<(usize, &Row)> = Vec::new();
        for (index, item) in input.iter().enumerate() {
            positions.push(rows.len());
            if let Item::Row(row) = item {
                rows.push((index, row));
            }
        }
        let ints = |read: fn(&(usize, &Row)) -> i64| -> ArrayRef {
            Arc::new(
                rows.iter().map(read).collect::<Vec<i64>>().into_iter().map(Some).collect::<Int64Array>(),
            )
        };
        let keys = StringArray::from_iter_values(rows.iter().map(|(_, row)| &row.key));
        let columns: Vec<ArrayRef> = vec![
            ints(|(_, row)| row.ts),
            Arc::new(keys),
            ints(|(_, row)| row.value),
            ints(|(index, _)| *index as i64),
        ];
        let operator = setup.build(rows.len()).map_err(|error| format!("the engine refuses: {error}"))?;
        let rows = RecordBatch::try_new(schema(), columns).map_err(|error| error.to_string())?;
        let (idle, replay) = (BTreeSet::new(), Replay::default());
        Ok(Driver { setup, input, operator, rows, positions, idle, replay })
    }

    /// Each row in a call of its own, so that it is known what every output is due to.
    pub(crate) fn row_by_row(mut self) -> Result<Replay, String> {
        for (index, item) in self.input.iter().enumerate() {
            let before = self.operator.current_watermark();
            let output = match item {
                Item::Row(row) => {
                    self.replay.seen.push((index, before));
                    if self.setup.filter_late && before != NONE && row.ts <= before {
                        self.replay.filtered.push(index);
                        continue;
                    }
                    self.operator.push(row.partition, &self.rows.slice(self.positions[index], 1))
                }
                other => self.call(other)?,
            };
            let output = output.map_err(|error| format!("input {index}: {error}"))?;
            self.record(index, before, &output)?;
        }
        self.account()?;
        Ok(self.replay)
    }

    /// Rows of one partition that follow each other in one call. Which row causes an output is not known then: all is
    /// said to happen at item 0.
    pub(crate) fn in_runs(mut self) -> Result<Replay, String> {
        let mut index = 0;
        while let Some(item) = self.input.get(index) {
            let before = self.operator.current_watermark();
            let (next, output) = match item {
                Item::Row(row) => {
                    let same = |item: &&Item| matches!(item, Item::Row(r) if r.partition == row.partition);
                    let length = self.input[index..].iter().take_while(same).count();
                    let batch = self.rows.slice(self.positions[index], length);
                    (index + length, self.operator.push(row.partition, &batch))
                }
                other => (index + 1, self.call(other)?),
            };
            let output = output.map_err(|error| format!("input {index}: {error}"))?;
            self.record_output(0, before, &output)?;
            index = next;
        }
        self.account()?;
        Ok(self.replay)
    }

    fn call(&mut self, item: &Item) -> Result<highwater::Result<Output>, String> {
        let behind_valve = self.setup.reactivation == Reactivation::WhenCaughtUp;
        Ok(match item {
            Item::Watermark { partition, .. } if behind_valve && self.idle.contains(partition) => {
                Ok(Output::default())
            }
            Item::Watermark { partition, value, .. } => self.operator.advance_watermark(*partition, *value),
            Item::Idle { partition, .. } => {
                self.idle.insert(*partition);
                self.operator.mark_idle(*partition)
            }
            Item::Active(partition) => {
                self.idle.remove(partition);
                self.operator.mark_active(*partition)
            }
            Item::Periodic => self.operator.emit_watermarks(),
            Item::End => self.operator.finish(),
            other => return Err(format!("{other:?} does not belong into a stream of windows")),
        })
    }

    fn record(&mut self, index: usize, before: i64, output: &Output) -> Result<(), String> {
        let after = self.operator.current_watermark();
        if after < before {
            return Err(format!("input {index}: the watermark went back from {before} to {after}"));
        }
        if after != before {
            self.replay.answer.watermarks.push((index, after));
        }
        for late in &output.late {
            let lost_to = late.column_by_name(LATE_WATERMARK).ok_or("late rows without their watermark")?;
            if lost_to.as_primitive::<Int64Type>().values().iter().any(|&watermark| watermark != before) {
                return Err(format!("input {index}: the late row names another watermark than {before}"));
            }
        }
        self.record_output(index, before, output)
    }

    fn record_output(&mut self, index: usize, before: i64, output: &Output) -> Result<(), String> {
        let after = self.operator.current_watermark();
        for late in &output.late {
            let indices = late.column_by_name("index").ok_or("late rows without their columns")?;
            let indices = indices.as_primitive::<Int64Type>().values();
            self.replay.answer.late.extend(indices.iter().map(|&index| index as usize));
        }
        if !output.rejected.is_empty() {
            return Err(format!("input {index}: the engine rejects a row"));
        }
        for batch in &output.fired {
            let fired = firings(batch, self.setup)?;
            self.replay.answer.firings.extend(fired.into_iter().map(|mut firing| {
                firing.at = index;
                // A row's own firings come before the watermark that it leads to.
                let by_row = match firing.kind {
                    Kind::Early => self.setup.trigger.is_early_by_row(),
                    Kind::Late => true,
                    Kind::OnTime => false,
                };
                firing.watermark = if by_row { before } else { after };
                firing
            }));
        }
        Ok(())
    }

    /// Every row is in one counter, and every dropped one was handed over.
    fn account(&mut self) -> Result<(), String> {
        let counts = self.operator.metrics().total;
        let pushed = (self.rows.num_rows() - self.replay.filtered.len()) as u64;
        let accounted = counts.taken + counts.dropped_late + counts.no_window;
        if counts.rows_in != pushed || accounted != pushed {
            return Err(format!("of {pushed} rows the engine accounts for {accounted}: {counts:?}"));
        }
        if counts.dropped_late != self.replay.answer.late.len() as u64 {
            let handed = self.replay.answer.late.len();
            return Err(format!("{} rows were dropped, {handed} handed over", counts.dropped_late));
        }
        (self.replay.dropped, self.replay.no_window) = (counts.dropped_late, counts.no_window);
        if self.input.last() == Some(&Item::End) && self.operator.current_watermark() != END {
            return Err("the end of input is not the end of time".into());
        }
        Ok(())
    }
}

/// The rows of a batch of results, with no word yet on what caused them.
fn firings(batch: &RecordBatch, setup: &Setup) -> Result<Vec<Firing>, String> {
    let named = |name: &str| {
        batch.column_by_name(name).ok_or_else(|| format!("the engine's results have no column {name:?}"))
    };
    let (starts, ends) = (named("window_start")?, named("window_end")?);
    let (starts, ends) = (starts.as_primitive::<Int64Type>(), ends.as_primitive::<Int64Type>());
    let labels = named("firing")?.as_string::<i32>();
    let keys = if setup.keyed { Some(named("key")?.as_string::<i32>()) } else { None };
    let results = setup.columns.iter().map(|column| named(column.name())).collect::<Result<Vec<_>, _>>()?;
    let firing = |row: usize| {
        let kind = match labels.value(row) {
            "early" => Kind::Early,
            "late" => Kind::Late,
            "on_time" => Kind::OnTime,
            other => return Err(format!("an unexpected firing: {other}")),
        };
        Ok(Firing {
            at: 0,
            kind,
            end: ends.value(row),
            start: starts.value(row),
            key: keys.map(|keys| keys.value(row).to_owned()),
            watermark: NONE,
            values: (setup.columns.iter().zip(&results))
                .map(|(column, result)| value(column, result, row))
                .collect::<Result<_, _>>()?,
        })
    };
    (0..batch.num_rows()).map(firing).collect()
}

fn value(of: &Column, column: &ArrayRef, row: usize) -> Result<Value, String> {
    if column.is_null(row) {
        return Err("an unexpected null".into());
    }
    Ok(match column.data_type() {
        DataType::Int64 => Value::Int(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 if matches!(of, Column::Percentile(..)) => {
            Value::near(column.as_primitive::<Float64Type>().value(row))
        }
        // Of whole numbers: an exact quantile is one, and Flink's average drops the fraction.
        DataType::Float64 => Value::Int(column.as_primitive::<Float64Type>().value(row) as i64),
        DataType::List(_) => {
            Value::List(column.as_list::<i32>().value(row).as_primitive::<Int64Type>().values().to_vec())
        }
        other => return Err(format!("an unexpected result type: {other}")),
    })
}
