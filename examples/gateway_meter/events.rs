//! What the gateway says, as columns: one row for each start of a request, and one for its end or failure.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_schema::ArrowError;

/// What has happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A tenant has asked.
    RequestStarted,
    /// The model has answered.
    RequestCompleted,
    /// The model has failed to.
    ModelError,
}

impl Kind {
    /// The name in the column `event`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::RequestStarted => "RequestStarted",
            Kind::RequestCompleted => "RequestCompleted",
            Kind::ModelError => "ModelError",
        }
    }
}

/// An event. Tokens are known when the model has answered, latency and status at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// What has happened.
    pub(crate) kind: Kind,
    /// To which request.
    pub(crate) request_id: String,
    /// Who asked.
    pub(crate) tenant_id: &'static str,
    /// Which model was asked.
    pub(crate) model: &'static str,
    /// When, in milliseconds since 1970.
    pub(crate) ts: i64,
    /// Tokens in.
    pub(crate) prompt_tokens: Option<i64>,
    /// Tokens out.
    pub(crate) completion_tokens: Option<i64>,
    /// From start to end.
    pub(crate) latency_ms: Option<i64>,
    /// HTTP status.
    pub(crate) status: Option<i32>,
}

/// Events as the rows of a batch.
pub(crate) fn to_batch(events: &[Event]) -> Result<RecordBatch, ArrowError> {
    let text = |get: fn(&Event) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(events.iter().map(get)))
    };
    let number = |get: fn(&Event) -> Option<i64>| -> ArrayRef {
        Arc::new(events.iter().map(get).collect::<Int64Array>())
    };
    let ts = TimestampMillisecondArray::from_iter_values(events.iter().map(|event| event.ts));
    let status = events.iter().map(|event| event.status).collect::<Int32Array>();
    RecordBatch::try_from_iter_with_nullable([
        ("event", text(|event| event.kind.name()), false),
        ("request_id", text(|event| &event.request_id), false),
        ("tenant_id", text(|event| event.tenant_id), false),
        ("model", text(|event| event.model), false),
        ("ts", Arc::new(ts), false),
        ("prompt_tokens", number(|event| event.prompt_tokens), true),
        ("completion_tokens", number(|event| event.completion_tokens), true),
        ("latency_ms", number(|event| event.latency_ms), true),
        ("status", Arc::new(status), true),
    ])
}
