//! From requests to charges: what a user computes between two operators.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{Array, Decimal128Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::events::Kind;
use crate::job::Result;
use crate::prices::Model;

/// Dollars, exact to a millionth.
const USD: DataType = DataType::Decimal128(18, 6);

/// A charge: when the request ended, whose it was, what it cost. A failed one costs nothing, and has no latency.
pub(crate) fn charge_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("request_id", DataType::Utf8, false),
        Field::new("tenant_id", DataType::Utf8, false),
        Field::new("model", DataType::Utf8, false),
        Field::new("usd", USD, false),
        Field::new("latency_ms", DataType::Int64, true),
        Field::new("failed", DataType::Int64, false),
    ]))
}

/// The charges of requests that have ended. Abandoned ones are not charged.
pub(crate) fn charges(requests: &RecordBatch) -> Result<RecordBatch> {
    let ended = requests["ended"].as_primitive::<TimestampMillisecondType>();
    let rows: Vec<usize> = (0..requests.num_rows()).filter(|&row| ended.is_valid(row)).collect();
    let text = |name: &str| -> Vec<&str> {
        let column = requests[name].as_string::<i32>();
        rows.iter().map(|&row| column.value(row)).collect()
    };
    let number = |name: &str| -> Vec<Option<i64>> {
        let column = requests[name].as_primitive::<Int64Type>();
        rows.iter().map(|&row| column.is_valid(row).then(|| column.value(row))).collect()
    };
    let failed: Vec<bool> = text("event").iter().map(|&event| event == Kind::ModelError.name()).collect();
    let models = text("model");
    let tokens = number("prompt_tokens").into_iter().zip(number("completion_tokens"));
    let price = |(&name, (prompt, completion)): (&&str, (Option<i64>, Option<i64>))| {
        let model = Model::find(name).ok_or_else(|| format!("model {name:?} has no price"))?;
        Ok(model.micro_usd(prompt.unwrap_or(0), completion.unwrap_or(0)))
    };
    let micros = models.iter().zip(tokens).map(price).collect::<Result<Vec<i128>>>()?;
    let latency = number("latency_ms").into_iter().zip(&failed);
    let columns = vec![
        Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|&row| ended.value(row)))) as _,
        Arc::new(StringArray::from(text("request_id"))) as _,
        Arc::new(StringArray::from(text("tenant_id"))) as _,
        Arc::new(StringArray::from(models)) as _,
        Arc::new(Decimal128Array::from(micros).with_data_type(USD)) as _,
        Arc::new(latency.map(|(ms, &failed)| ms.filter(|_| !failed)).collect::<Int64Array>()) as _,
        Arc::new(Int64Array::from_iter_values(failed.into_iter().map(i64::from))) as _,
    ];
    Ok(RecordBatch::try_new(charge_schema(), columns)?)
}
