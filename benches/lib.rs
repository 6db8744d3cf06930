//! Workloads for the benches: those of `highwater bench`, in the shapes that every change is measured on.

use highwater::TimeDelta;
use highwater_cli::bench::{Function, Load, Question, Windows, Workload, inspected};
use highwater_cli::generate::{Disorder, KeyType, Spec};

mod gateway;
mod rules;
mod snapshots;
mod timers;

pub use gateway::{Gateway, gateway};
pub use rules::{Ruled, ruled};
pub use snapshots::{Held, held};
pub use timers::{Timers, timers};

/// Rows a batch.
const BATCH_ROWS: usize = 65_536;

/// A workload with changes to its rows and to what is asked of them.
fn shape(
    workload: Workload,
    rows: u64,
    batch_rows: usize,
    change: impl FnOnce(&mut Spec, &mut Question),
) -> Load {
    let (mut spec, mut question) = (Spec { rows, ..Spec::new(workload.stream()) }, workload.question());
    change(&mut spec, &mut question);
    let load = Load::generate(&spec, question, batch_rows);
    load.unwrap_or_else(|error| unreachable!("a fixed specification is valid: {error:?}"))
}

fn aligned(size: TimeDelta, slide: TimeDelta) -> Windows {
    Windows::Aligned { size, slide }
}

/// Whole workloads, `rows` rows each: `<window>/<keys>/<disorder>`.
pub fn loads(rows: u64) -> Vec<(String, Load)> {
    use Workload::{W1, W3, W4, W5};
    let all = |name: &str, workload, change: fn(&mut Spec, &mut Question)| {
        (name.to_string(), shape(workload, rows, BATCH_ROWS, change))
    };
    vec![
        all("tumbling_1m/1000_i32/jitter", W1, |_, _| {}),
        all("tumbling_1m/1000_i32/none", W1, |spec, _| spec.disorder = Disorder::NONE),
        all("tumbling_1m/1000_utf8/jitter", W1, |spec, _| spec.key_type = KeyType::Utf8),
        all("tumbling_1m/1000_dictionary/jitter", W1, |spec, _| spec.key_type = KeyType::Dictionary),
        all("tumbling_10s/1000000_i64/jitter", W3, |_, _| {}),
        all("sliding_24h_15m/1000_i32/jitter", W4, |_, _| {}),
        all("sliding_5m_1m/1000_i32/jitter", W1, |_, question| {
            question.windows = aligned(TimeDelta::from_mins(5), TimeDelta::from_mins(1));
        }),
        all("session_30s/100000_i64/jitter", W5, |_, _| {}),
        // a key has a row every ten seconds on average, so that one session in twenty rows ends
        all("session_30s/1000_i64/jitter", W5, |spec, _| (spec.rate, spec.keys) = (100, 1_000)),
        // a row in five comes behind the watermark, but most find an open session, and many make one of two
        all("session_30s/1000_i64/bridges", W5, |spec, _| {
            (spec.rate, spec.keys, spec.disorder.straggler_share) = (50, 1_000, 0.2);
            (spec.disorder.straggler_min_ms, spec.disorder.straggler_max_ms) = (20_000, 50_000);
        }),
    ]
}

/// The stages of a row's way: `<stage>/<variant>`. Each load is the one before with more to do, so that the difference of
/// neighbours is what a stage costs: an unkeyed count is routing, a keyed one adds the lookup of keys, other functions
/// their updates, shorter windows more firing.
pub fn stages(rows: u64) -> Vec<(String, Load)> {
    use Function::{Count, Max, Mean, Min, Quantile, Sum};
    let stage = |name: &str, change: &dyn Fn(&mut Spec, &mut Question)| {
        let change = |spec: &mut Spec, question: &mut Question| {
            (question.value, question.functions) = (None, vec![(Count, "count")]);
            change(spec, question);
        };
        (name.to_string(), shape(Workload::W1, rows, BATCH_ROWS, change))
    };
    let keys = |name: &str, key_type| stage(name, &move |spec, _| spec.key_type = key_type);
    let functions = |name: &str, functions: &[(Function, &'static str)]| {
        stage(name, &|_, question| {
            (question.value, question.functions) = (Some("value"), functions.to_vec());
        })
    };
    let four = [(Count, "count"), (Sum, "sum"), (Min, "min"), (Max, "max")];
    let seconds = |name: &str, size, slide| {
        stage(name, &move |_, question| {
            question.windows = aligned(TimeDelta::from_secs(size), TimeDelta::from_secs(slide));
            (question.value, question.functions) = (Some("value"), four.to_vec());
        })
    };
    vec![
        stage("route/in_order", &|spec, question| (spec.disorder, question.key) = (Disorder::NONE, None)),
        stage("route/jitter", &|_, question| question.key = None),
        keys("keys/i32", KeyType::I32),
        keys("keys/i64", KeyType::I64),
        keys("keys/dictionary", KeyType::Dictionary),
        keys("keys/utf8", KeyType::Utf8),
        functions("aggregate/sum", &four[1..2]),
        functions("aggregate/min_max", &four[2..]),
        functions("aggregate/all_four", &four),
        functions("aggregate/mean", &[(Mean, "mean")]),
        functions("aggregate/quantile", &[(Quantile(0.99), "p99")]),
        seconds("fire/tumbling_1s", 1, 1),
        seconds("fire/sliding_60s_1s", 60, 1),
        stage("late/bound_0", &|_, question| question.bound = TimeDelta::ZERO),
    ]
}

/// The same work with one thing growing: `<what>/<n>`. A call has one small batch of every partition.
pub fn growth(rows: u64) -> Vec<(String, Load)> {
    let mut all = Vec::new();
    let mut grow = |what: &str, n: u64, batch_rows, change: &dyn Fn(&mut Spec, &mut Question)| {
        all.push((format!("{what}/{n}"), shape(Workload::W1, rows, batch_rows, change)));
    };
    for partitions in [1, 100, 10_000] {
        grow("partitions", partitions, 64, &|_, _| {});
    }
    for keys in [10, 1_000, 100_000, 10_000_000] {
        grow("keys", keys, BATCH_ROWS, &|spec, _| (spec.keys, spec.zipf) = (keys, 0.0));
    }
    for open in [1, 100, 10_000] {
        grow("open_windows", open, 1_024, &|spec, question| {
            (spec.disorder, spec.keys) = (Disorder::NONE, 10);
            question.windows = aligned(TimeDelta::from_millis(20), TimeDelta::from_millis(20));
            question.bound = TimeDelta::from_millis(20 * open as i64);
        });
    }
    for percent in [0, 1, 10] {
        grow("late_percent", percent, BATCH_ROWS, &|spec, _| {
            // later than a window and the bound: dropped
            (spec.disorder.straggler_min_ms, spec.disorder.straggler_max_ms) = (120_000, 180_000);
            spec.disorder.straggler_share = percent as f64 / 100.0;
        });
    }
    for ratio in [1, 5, 96, 1_440] {
        // slow, so that many of the longest windows begin and end
        grow("size_over_slide", ratio, BATCH_ROWS, &|spec, question| {
            (spec.rate, spec.keys) = (10, 20);
            question.windows = aligned(TimeDelta::from_mins(ratio as i64), TimeDelta::from_mins(1));
        });
    }
    let partitions = |(name, load): (String, Load)| match name.strip_prefix("partitions/").map(str::parse) {
        Some(Ok(partitions)) => (name, load.with_partitions(partitions)),
        _ => (name, load),
    };
    all.into_iter().map(partitions).collect()
}

/// Compares the engine's answer with loops over the rows. Panics where they differ.
pub fn check(name: &str, load: &Load) {
    let difference = match inspected(load, true, || None, |_| Ok(())) {
        Ok(inspected) => inspected.verdict.and_then(|verdict| verdict.difference),
        Err(failure) => Some(format!("{failure:?}")),
    };
    assert_eq!(difference, None, "{name}");
}
