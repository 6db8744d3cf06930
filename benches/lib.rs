//! Workloads for the benches: those of `highwater bench`, in the shapes that every change is measured on.

use highwater::TimeDelta;
use highwater_cli::bench::{Load, Workload, inspected};
use highwater_cli::generate::{Disorder, KeyType, Spec};

/// Rows a batch.
const BATCH_ROWS: usize = 65_536;

/// The rows of each shape, `rows` of them, with its name: `<window>/<keys>/<disorder>`.
pub fn loads(rows: u64) -> Vec<(&'static str, Load)> {
    use Workload::{W1, W3, W4};
    let shape = |name, workload: Workload, slide: Option<(i64, i64)>, change: &dyn Fn(&mut Spec)| {
        let mut spec = Spec { rows, ..Spec::new(workload.stream()) };
        change(&mut spec);
        let mut question = workload.question();
        if let Some((size, slide)) = slide {
            (question.size, question.slide) = (TimeDelta::from_mins(size), TimeDelta::from_mins(slide));
        }
        let load = Load::generate(&spec, question, BATCH_ROWS);
        (name, load.unwrap_or_else(|error| unreachable!("a fixed specification is valid: {error:?}")))
    };
    let keys = |key_type| move |spec: &mut Spec| spec.key_type = key_type;
    vec![
        shape("tumbling_1m/1000_i32/jitter", W1, None, &|_| {}),
        shape("tumbling_1m/1000_i32/none", W1, None, &|spec| spec.disorder = Disorder::NONE),
        shape("tumbling_1m/1000_utf8/jitter", W1, None, &keys(KeyType::Utf8)),
        shape("tumbling_1m/1000_dictionary/jitter", W1, None, &keys(KeyType::Dictionary)),
        shape("tumbling_10s/1000000_i64/jitter", W3, None, &|_| {}),
        shape("sliding_24h_15m/1000_i32/jitter", W4, None, &|_| {}),
        shape("sliding_5m_1m/1000_i32/jitter", W1, Some((5, 1)), &|_| {}),
    ]
}

/// Compares the engine's answer with loops over the rows. Panics where they differ.
pub fn check(name: &str, load: &Load) {
    let difference = match inspected(load, true, || None, |_| Ok(())) {
        Ok(inspected) => inspected.verdict.and_then(|verdict| verdict.difference),
        Err(failure) => Some(format!("{failure:?}")),
    };
    assert_eq!(difference, None, "{name}");
}
