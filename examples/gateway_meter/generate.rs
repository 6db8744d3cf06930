//! Events made up from a seed: the same for everybody, in the order in which a consumer would get them.
//!
//! * Delivery takes up to two seconds; one event in fifty sits in a retry buffer, for up to 30 seconds. Events of a request
//!   are in one partition, and stay in order.
//! * One request in 500 never ends: its worker crashed. One end in 200 is delivered twice.
//! * `lyra-code` is ill in minutes 8 and 9: one request in five fails.
//! * Partition 5 delivers nothing in minutes 12 to 15, and then everything at once.
//! * In minute 5 somebody's clock is a year ahead: one start that nobody can use, on partition 3.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::events::{Event, Kind, to_batch};
use crate::prices::{MODELS, Model};

/// How many partitions the events come on.
pub(crate) const PARTITIONS: usize = 8;
/// When the first request starts: 2026-01-15 10:00 UTC.
pub(crate) const START: i64 = 1_768_471_200_000;
/// A minute of event time.
pub(crate) const MINUTE: i64 = 60_000;

const SECOND: i64 = 1_000;
const YEAR: i64 = 365 * 24 * 60 * MINUTE;
const STALLED: usize = 5;
const TENANTS: [&str; 10] =
    ["acme", "acme", "acme", "acme", "globex", "globex", "globex", "initech", "initech", "umbrella"];

/// How much to make up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    /// Other seeds, other requests.
    pub(crate) seed: u64,
    /// How long requests start.
    pub(crate) minutes: i64,
    /// How many in each minute.
    pub(crate) requests_per_minute: i64,
}

/// An event, and when and where it arrives.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// When, in milliseconds since 1970.
    pub(crate) arrival: i64,
    /// Where.
    pub(crate) partition: usize,
    /// What.
    pub(crate) event: Event,
}

/// What has been made up, so that the job can be held against it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truth {
    /// Requests that started.
    pub(crate) requests: u64,
    /// Requests that were answered.
    pub(crate) answered: u64,
    /// Requests that failed.
    pub(crate) failed: u64,
    /// Requests that never end.
    pub(crate) crashed: u64,
    /// Ends that are delivered a second time.
    pub(crate) repeated: u64,
    /// What all answers cost, in millionths of a dollar.
    pub(crate) micro_usd: i128,
}

/// The events of a workload in the order of their arrival, and the truth about them.
pub(crate) fn generate(workload: &Workload) -> (Vec<Delivery>, Truth) {
    let mut random = Random(workload.seed);
    let (mut deliveries, mut truth) = (Vec::new(), Truth::default());
    for number in 0..workload.minutes * workload.requests_per_minute {
        let ts = START + number * MINUTE / workload.requests_per_minute;
        request(number, ts, &mut random, &mut deliveries, &mut truth);
    }
    deliveries.push(poison());
    deliveries.sort_by_key(|delivery| delivery.arrival);
    let (stall, wake) = (START + 12 * MINUTE, START + 16 * MINUTE);
    for delivery in &mut deliveries {
        if delivery.partition == STALLED && (stall..wake).contains(&delivery.arrival) {
            delivery.arrival = wake;
        }
    }
    deliveries.sort_by_key(|delivery| delivery.arrival);
    (deliveries, truth)
}

/// What arrived within a second: the clock at its end, and a batch for each partition that had something.
pub(crate) struct Second {
    /// Milliseconds since 1970.
    pub(crate) clock: i64,
    /// Partitions and their rows.
    pub(crate) batches: Vec<(usize, RecordBatch)>,
}

/// Deliveries as a consumer polls them: every second.
pub(crate) fn seconds(deliveries: &[Delivery]) -> Result<Vec<Second>, ArrowError> {
    let second = |delivery: &Delivery| delivery.arrival.div_euclid(SECOND) + 1;
    let poll = |polled: &[Delivery]| {
        let mut partitions = BTreeMap::<usize, Vec<Event>>::new();
        for delivery in polled {
            partitions.entry(delivery.partition).or_default().push(delivery.event.clone());
        }
        let batches = partitions.into_iter().map(|(partition, events)| Ok((partition, to_batch(&events)?)));
        Ok(Second {
            clock: second(&polled[0]) * SECOND,
            batches: batches.collect::<Result<_, ArrowError>>()?,
        })
    };
    deliveries.chunk_by(|one, next| second(one) == second(next)).map(poll).collect()
}

fn request(number: i64, ts: i64, random: &mut Random, deliveries: &mut Vec<Delivery>, truth: &mut Truth) {
    let partition = number as usize % PARTITIONS;
    let tenant_id = TENANTS[random.below(10) as usize];
    let model = match random.below(20) {
        0..10 => &MODELS[0],
        10..15 => &MODELS[1],
        15..18 => &MODELS[2],
        _ => &MODELS[3],
    };
    let start = Event {
        kind: Kind::RequestStarted,
        request_id: format!("req-{number:06}"),
        tenant_id,
        model: model.name,
        ts,
        prompt_tokens: None,
        completion_tokens: None,
        latency_ms: None,
        status: None,
    };
    let end = end(&start, model, random);
    let started = ts + delay(random);
    deliveries.push(Delivery { arrival: started, partition, event: start });
    truth.requests += 1;
    if random.below(500) == 0 {
        truth.crashed += 1;
        return;
    }
    let arrival = started.max(end.ts + delay(random));
    match end.kind {
        Kind::ModelError => truth.failed += 1,
        _ => truth.answered += 1,
    }
    if let (Some(prompt), Some(completion)) = (end.prompt_tokens, end.completion_tokens) {
        truth.micro_usd += model.micro_usd(prompt, completion);
    }
    if random.below(200) == 0 {
        truth.repeated += 1;
        let again = Delivery { arrival: arrival + random.below(5_000), partition, event: end.clone() };
        deliveries.push(again);
    }
    deliveries.push(Delivery { arrival, partition, event: end });
}

/// How a request ends, if it does.
fn end(start: &Event, model: &Model, random: &mut Random) -> Event {
    let minute = (start.ts - START) / MINUTE;
    let failures = if model.name == "lyra-code" && (8..10).contains(&minute) { 200 } else { 15 };
    if random.below(1_000) < failures {
        let latency_ms = 25 + random.below(400);
        return Event {
            kind: Kind::ModelError,
            ts: start.ts + latency_ms,
            latency_ms: Some(latency_ms),
            status: Some([429, 500, 503][random.below(3) as usize]),
            ..start.clone()
        };
    }
    let prompt_tokens = (50 + random.below(4_000)) * if random.below(20) == 0 { 20 } else { 1 };
    let longest = if random.below(20) == 0 { 2_000 } else { 600 };
    let completion_tokens = 1 + random.below(longest);
    let pace = model.ms_per_token * (75 + random.below(50));
    let latency_ms = 180 + prompt_tokens / 50 + completion_tokens * pace / 100;
    Event {
        kind: Kind::RequestCompleted,
        ts: start.ts + latency_ms,
        prompt_tokens: Some(prompt_tokens),
        completion_tokens: Some(completion_tokens),
        latency_ms: Some(latency_ms),
        status: Some(200),
        ..start.clone()
    }
}

/// How long an event takes to arrive.
fn delay(random: &mut Random) -> i64 {
    match random.below(50) {
        0 => 2 * SECOND + random.below(28 * SECOND + 1),
        _ => random.below(2 * SECOND),
    }
}

fn poison() -> Delivery {
    let arrival = START + 5 * MINUTE;
    let event = Event {
        kind: Kind::RequestStarted,
        request_id: "req-poison".into(),
        tenant_id: "globex",
        model: MODELS[0].name,
        ts: arrival + YEAR,
        prompt_tokens: None,
        completion_tokens: None,
        latency_ms: None,
        status: None,
    };
    Delivery { arrival, partition: 3, event }
}

/// SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
struct Random(u64);

impl Random {
    /// A number from 0 up to, but not including, `bound`.
    fn below(&mut self, bound: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        ((u128::from(bits) * bound as u128) >> 64) as i64
    }
}
