//! The requests that a gateway in front of language models has completed: one row per request.
//!
//! ```text
//! request_id         req-<number of the event>
//! tenant_id          Zipf over acme, globex, initech, umbrella, ...
//! model              one of four, in shares of 50, 25, 15 and 10 %
//! prompt_tokens      lognormal, median 22,026, at most 200,000
//! completion_tokens  lognormal, median 403, at most 8,192; 0 for a failed request
//! latency_ms         180 + prompt / 50 + completion * pace of the model * (0.75 to 1.25); quick for failed requests
//! status             200, or in 3 % of the cases 429, 500 or 503
//! usd                by the prices of the model, rounded up to the next 1/16 dollar; 0 for a failed request
//! ```
//!
//! Sixteenths of a dollar are exact in binary: sums of `usd` do not depend on the order of the rows, and print short.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};

use super::arrivals::Arrival;
use super::draw::{Column, Draw};
use super::keys::Picker;
use super::spec::Spec;
use super::tables::{Alias, Quantiles, Shape};

/// A model and what it costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// Dollars for a million tokens of the prompt.
    pub usd_per_million_prompt: f64,
    /// Dollars for a million tokens of the answer.
    pub usd_per_million_completion: f64,
    /// How long it takes to write a token.
    pub ms_per_token: f64,
    share: f64,
}

/// The models of the gateway.
pub const MODELS: [Model; 4] = [
    model("orion-medium", 3.0, 15.0, 11.0, 0.50),
    model("orion-mini", 0.8, 4.0, 5.0, 0.25),
    model("lyra-code", 5.0, 25.0, 14.0, 0.15),
    model("orion-large", 15.0, 75.0, 22.0, 0.10),
];

const fn model(name: &'static str, prompt: f64, completion: f64, ms_per_token: f64, share: f64) -> Model {
    Model {
        name,
        usd_per_million_prompt: prompt,
        usd_per_million_completion: completion,
        ms_per_token,
        share,
    }
}

impl Model {
    /// The price of a request: what the tokens cost, rounded up to the next 1/16 dollar.
    pub fn usd(&self, prompt_tokens: i64, completion_tokens: i64) -> f64 {
        let millionths = prompt_tokens as f64 * self.usd_per_million_prompt
            + completion_tokens as f64 * self.usd_per_million_completion;
        (millionths * 16.0 / 1e6).ceil() / 16.0
    }
}

const TENANTS: [&str; 12] = [
    "acme",
    "globex",
    "initech",
    "umbrella",
    "hooli",
    "stark",
    "wayne",
    "cyberdyne",
    "tyrell",
    "wonka",
    "soylent",
    "aperture",
];

/// The name of a tenant: `acme` is the largest.
pub fn tenant(number: u64) -> String {
    TENANTS.get(number as usize).map_or_else(|| format!("tenant-{number}"), |&name| name.to_owned())
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// The model that answered.
    pub model: &'static Model,
    /// Tokens in.
    pub prompt_tokens: i64,
    /// Tokens out.
    pub completion_tokens: i64,
    /// From the start of the request to its end, which is the time of the row.
    pub latency_ms: i64,
    /// HTTP status.
    pub status: i32,
}

/// Draws requests: each is a pure function of its number.
pub struct Requests {
    tenants: Picker,
    names: Vec<String>,
    models: Alias,
    prompt: Quantiles,
    completion: Quantiles,
    draws: [Draw; 5],
}

impl Requests {
    /// The requests of a valid specification.
    pub fn new(spec: &Spec) -> Self {
        let draw = |column| Draw::new(spec.seed, column);
        Requests {
            tenants: Picker::new(spec, false),
            names: (0..spec.keys).map(tenant).collect(),
            models: Alias::new(&MODELS.map(|model| model.share), &[0, 1, 2, 3]),
            prompt: Quantiles::new(Shape::LogNormal(10.0, 0.8)),
            completion: Quantiles::new(Shape::LogNormal(6.0, 0.9)),
            draws: [
                draw(Column::Model),
                draw(Column::Prompt),
                draw(Column::Completion),
                draw(Column::Latency),
                draw(Column::Status),
            ],
        }
    }

    /// Request number `i`.
    pub fn request(&self, i: u64) -> Request {
        let [model, prompt, completion, latency, status] = self.draws;
        let model = &MODELS[self.models.at(model.bits(i)) as usize];
        let prompt_tokens = (self.prompt.at(prompt.bits(i)) as i64).clamp(1, 200_000);
        let status = match status.below(i, 1000) {
            0..15 => 429,
            15..22 => 500,
            22..30 => 503,
            _ => 200,
        };
        let luck = latency.unit(i);
        if status != 200 {
            let latency_ms = 25 + (400.0 * luck) as i64;
            return Request { model, prompt_tokens, completion_tokens: 0, latency_ms, status };
        }
        let completion_tokens = (self.completion.at(completion.bits(i)) as i64).clamp(1, 8_192);
        let writing = completion_tokens as f64 * model.ms_per_token * (0.75 + 0.5 * luck);
        let latency_ms = 180 + prompt_tokens / 50 + writing as i64;
        Request { model, prompt_tokens, completion_tokens, latency_ms, status }
    }

    pub(crate) fn head(&self, rows: &[Arrival]) -> Vec<ArrayRef> {
        let ids = rows.iter().map(|row| format!("req-{:08}", row.event));
        let tenants = self.tenants.map(rows, |tenant| self.names[tenant as usize].as_str());
        let models =
            rows.iter().map(|row| MODELS[self.models.at(self.draws[0].bits(row.event)) as usize].name);
        vec![
            Arc::new(StringArray::from_iter_values(ids)),
            Arc::new(StringArray::from(tenants)),
            Arc::new(StringArray::from_iter_values(models)),
        ]
    }

    pub(crate) fn tail(&self, rows: &[Arrival]) -> Vec<ArrayRef> {
        let requests: Vec<Request> = rows.iter().map(|row| self.request(row.event)).collect();
        let int64 = |get: fn(&Request) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(requests.iter().map(get)))
        };
        vec![
            int64(|r| r.prompt_tokens),
            int64(|r| r.completion_tokens),
            int64(|r| r.latency_ms),
            Arc::new(Int32Array::from_iter_values(requests.iter().map(|r| r.status))),
            Arc::new(Float64Array::from_iter_values(requests.iter().map(Request::usd))),
        ]
    }
}

impl Request {
    /// What the tenant pays: nothing for a failed request.
    pub fn usd(&self) -> f64 {
        if self.status == 200 { self.model.usd(self.prompt_tokens, self.completion_tokens) } else { 0.0 }
    }
}

/// The columns in front of the times.
pub(crate) fn head_fields() -> Vec<Field> {
    ["request_id", "tenant_id", "model"].map(|name| Field::new(name, DataType::Utf8, false)).to_vec()
}

/// The columns behind the times.
pub(crate) fn tail_fields() -> Vec<Field> {
    vec![
        Field::new("prompt_tokens", DataType::Int64, false),
        Field::new("completion_tokens", DataType::Int64, false),
        Field::new("latency_ms", DataType::Int64, false),
        Field::new("status", DataType::Int32, false),
        Field::new("usd", DataType::Float64, false),
    ]
}
