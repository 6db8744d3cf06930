//! From arrivals to record batches.
//!
//! Every workload has the same frame: its leading columns (gateway only), `ts`, `ingest_ts` and `partition` on request,
//! the other columns. Arrivals come in order, and every value is a function of the event number: nothing is
//! ever moved, each column is computed in place by a loop of its own.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float64Array, Int8Array, Int32Array, Int64Array, RecordBatch, TimestampMillisecondArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};

use super::arrivals::{Arrival, Timeline};
use super::draw::{Column, Draw};
use super::gateway::{self, Requests};
use super::keys::{self, KeyColumn};
use super::spec::{PoisonKind, Spec, Workload};
use super::tables::{Quantiles, Shape};

/// As an offset: a name would need a time zone database to be read again.
const UTC: &str = "+00:00";
/// 2999-01-01T00:00:00Z
const POISON_MS: i64 = 32_472_144_000_000;

/// The columns of a stream.
pub fn schema(spec: &Spec) -> SchemaRef {
    let gateway = spec.workload == Workload::Gateway;
    // Requests carry a zone, so that text formats say which; the benchmark workloads count plain milliseconds.
    let time = DataType::Timestamp(TimeUnit::Millisecond, gateway.then(|| UTC.into()));
    let mut fields = if gateway { gateway::head_fields() } else { Vec::new() };
    fields.push(Field::new("ts", time.clone(), spec.has_null_times()));
    if spec.ingest_column {
        fields.push(Field::new("ingest_ts", time, false));
    }
    if spec.partition_column {
        fields.push(Field::new("partition", DataType::Int32, false));
    }
    let key = || keys::data_type(spec.key_type);
    fields.extend(match spec.workload {
        Workload::W1 | Workload::W3 | Workload::W4 | Workload::W5 => {
            vec![Field::new("key", key(), false), Field::new("value", DataType::Float64, false)]
        }
        Workload::W2 => {
            vec![Field::new("model", key(), false), Field::new("value", DataType::Float64, false)]
        }
        Workload::Nexmark => {
            ["auction", "bidder", "price"].map(|name| Field::new(name, DataType::Int64, false)).to_vec()
        }
        Workload::Ysb => {
            vec![Field::new("ad_id", DataType::Int32, false), Field::new("event_type", DataType::Int8, false)]
        }
        Workload::Gateway => gateway::tail_fields(),
    });
    Arc::new(Schema::new(fields))
}

/// The table of the `ysb` workload: `ad_id` to `campaign_id`, ten ads to a campaign, by a seeded permutation. For a valid
/// specification.
pub fn campaigns(spec: &Spec) -> Result<RecordBatch, ArrowError> {
    let ads = spec.keys as i32;
    let order = Draw::new(spec.seed, Column::Campaign).permutation(ads as u32);
    let campaigns = order.into_iter().map(|place| (place / 10) as i32);
    let field = |name| Field::new(name, DataType::Int32, false);
    let schema = Schema::new(vec![field("ad_id"), field("campaign_id")]);
    let ids = Int32Array::from_iter_values(0..ads);
    RecordBatch::try_new(
        Arc::new(schema),
        vec![Arc::new(ids), Arc::new(Int32Array::from_iter_values(campaigns))],
    )
}

/// Turns arrivals into batches.
pub(crate) struct Columns {
    schema: SchemaRef,
    spec: Spec,
    kind: Kind,
}

enum Kind {
    Keyed { key: KeyColumn, value: Draw, values: Quantiles },
    Bids { hot: Draw, key: Draw, bidder: Draw, price: Draw, prices: Quantiles },
    Ads { ad: Draw, event_type: Draw, ads: u64 },
    Gateway(Box<Requests>),
}

impl Columns {
    pub(crate) fn new(spec: &Spec) -> Self {
        let draw = |column| Draw::new(spec.seed, column);
        let kind = match spec.workload {
            Workload::W1 | Workload::W2 | Workload::W3 | Workload::W4 | Workload::W5 => Kind::Keyed {
                key: KeyColumn::new(spec),
                value: draw(Column::Value),
                values: Quantiles::new(Shape::LogNormal(3.0, 1.0)),
            },
            Workload::Nexmark => Kind::Bids {
                hot: draw(Column::Hot),
                key: draw(Column::Key),
                bidder: draw(Column::Bidder),
                price: draw(Column::Price),
                prices: Quantiles::new(Shape::PowerOfTen(2.0, 8.0)),
            },
            Workload::Ysb => {
                Kind::Ads { ad: draw(Column::Key), event_type: draw(Column::EventType), ads: spec.keys }
            }
            Workload::Gateway => Kind::Gateway(Box::new(Requests::new(spec))),
        };
        Columns { schema: schema(spec), spec: spec.clone(), kind }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn batch(&self, timeline: &Timeline, rows: &[Arrival]) -> Result<RecordBatch, ArrowError> {
        let mut columns = match &self.kind {
            Kind::Gateway(requests) => requests.head(rows),
            _ => Vec::new(),
        };
        columns.push(self.times(timeline, rows));
        if self.spec.ingest_column {
            let start = self.spec.start_ms;
            let times = rows.iter().map(|row| start + (row.at_us / 1000) as i64).collect();
            columns.push(self.time_array(times, None));
        }
        if self.spec.partition_column {
            let partitions = rows.iter().map(|row| timeline.partition(row.event) as i32);
            columns.push(Arc::new(Int32Array::from_iter_values(partitions)));
        }
        columns.extend(self.kind.tail(rows)?);
        RecordBatch::try_new(self.schema.clone(), columns)
    }

    fn times(&self, timeline: &Timeline, rows: &[Arrival]) -> ArrayRef {
        let start = self.spec.start_ms;
        let mut times: Vec<i64> =
            rows.iter().map(|row| start + timeline.event_ms(row.event) as i64).collect();
        let Some(poison) = self.spec.poison else {
            return self.time_array(times, None);
        };
        let mut valid = vec![true; rows.len()];
        for (row, arrival) in rows.iter().enumerate() {
            match poison.at(arrival.event) {
                Some(PoisonKind::Null) => valid[row] = false,
                Some(_) => times[row] = POISON_MS + timeline.event_ms(arrival.event) as i64,
                None => {}
            }
        }
        let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
        self.time_array(times, nulls)
    }

    fn time_array(&self, times: Vec<i64>, nulls: Option<NullBuffer>) -> ArrayRef {
        let array = TimestampMillisecondArray::new(times.into(), nulls);
        match self.kind {
            Kind::Gateway(_) => Arc::new(array.with_timezone(UTC)),
            _ => Arc::new(array),
        }
    }
}

impl Kind {
    /// The columns behind the times.
    fn tail(&self, rows: &[Arrival]) -> Result<Vec<ArrayRef>, ArrowError> {
        Ok(match self {
            Kind::Keyed { key, value, values } => {
                let sixty_fourths = |i| (values.at(value.bits(i)) * 64.0 + 0.5) as i64 as f64 / 64.0;
                let values: Vec<f64> = rows.iter().map(|row| sixty_fourths(row.event)).collect();
                vec![key.array(rows)?, Arc::new(Float64Array::from(values))]
            }
            Kind::Bids { hot, key, bidder, price, prices } => {
                let int64 = |get: &dyn Fn(u64) -> i64| -> ArrayRef {
                    Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| get(row.event))))
                };
                vec![
                    int64(&|i| auction(i, *hot, *key)),
                    int64(&|i| 1000 + (i / 46) as i64 - bidder.below(i, 1000) as i64),
                    int64(&|i| (prices.at(price.bits(i)) + 0.5) as i64),
                ]
            }
            Kind::Ads { ad, event_type, ads } => {
                let ad_ids: Vec<i32> = rows.iter().map(|row| ad.below(row.event, *ads) as i32).collect();
                let types: Vec<i8> = rows.iter().map(|row| event_type.below(row.event, 3) as i8).collect();
                vec![Arc::new(Int32Array::from(ad_ids)), Arc::new(Int8Array::from(types))]
            }
            Kind::Gateway(requests) => requests.tail(rows),
        })
    }
}

/// NEXMark makes 46 bids and 3 auctions out of 50 events. Half of the bids go to the hot auction (a multiple
/// of 100), the others to one of the last hundred.
fn auction(i: u64, hot: Draw, key: Draw) -> i64 {
    let last = 1000 + (i * 3 / 46) as i64;
    if hot.bits(i) >> 63 == 0 { last / 100 * 100 } else { last - key.below(i, 100) as i64 }
}
