//! Which rows are a sign of life of their partition.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use highwater::{TickUnit, WindowOperator};

use crate::args::WindowArgs;
use crate::engine;
use crate::failure::{Failure, Outcome};
use crate::window::index_of;

/// Which rows the operator will accept: only those are a sign of life.
pub(crate) struct Guard {
    time: usize,
    time_unit: TickUnit,
    pub(crate) ingest: Option<(usize, TickUnit)>,
    /// `--max-future` in nanoseconds.
    max_future: Option<i128>,
}

impl Guard {
    pub(crate) fn new(args: &WindowArgs, schema: &SchemaRef, operator: &WindowOperator) -> Outcome<Self> {
        let ingest = match &args.input.ingest_time {
            None => None,
            Some(column) => {
                let index = index_of(schema, column);
                Some((index, engine::ingest_unit(operator, schema.field(index).data_type(), column)?))
            }
        };
        Ok(Guard {
            time: index_of(schema, &args.input.time),
            time_unit: operator.tick_unit(),
            ingest,
            max_future: args.input.max_future.map(highwater::TimeDelta::as_nanos),
        })
    }

    pub(crate) fn accepted(&self, batch: &RecordBatch) -> Outcome<Vec<bool>> {
        let ticks =
            |column: usize| arrow_cast::cast(batch.column(column), &DataType::Int64).map_err(Failure::run);
        let times = ticks(self.time)?;
        let times = times.as_primitive::<Int64Type>();
        let mut accepted: Vec<bool> = (0..times.len()).map(|row| times.is_valid(row)).collect();
        if let (Some((column, unit)), Some(max_future)) = (self.ingest, self.max_future) {
            let ingest = ticks(column)?;
            let ingest = ingest.as_primitive::<Int64Type>();
            for (row, accepted) in accepted.iter_mut().enumerate() {
                let latest = (i128::from(ingest.value(row)) * unit.nanos()).saturating_add(max_future);
                let time = i128::from(times.value(row)) * self.time_unit.nanos();
                *accepted &= ingest.is_valid(row) && time <= latest;
            }
        }
        Ok(accepted)
    }
}
