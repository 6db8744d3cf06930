//! Answers that are wrong in one place are found to be.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array};

use super::*;
use crate::bench::{Drive, Workload};
use crate::generate::Spec;

fn load(workload: Workload) -> Load {
    // so many keys that they are silent for longer than the gap of w5 now and then
    let keys = if workload == Workload::W5 { 1_000 } else { 20 };
    let spec = Spec { rows: 30_000, rate: 100, keys, ..Spec::new(workload.stream()) };
    Load::generate(&spec, workload.question(), 1_000).unwrap().with_partitions(2)
}

/// Checks the engine's answer after `change` has had its way with the results of each call.
fn check(load: &Load, change: &mut dyn FnMut(&mut Vec<RecordBatch>)) -> Verdict {
    let (mut drive, mut check) = (Drive::new(load).unwrap(), Check::new(load));
    for call in load.calls() {
        let mut results = drive.push(call).unwrap();
        change(&mut results);
        check.call(call, &results);
    }
    let mut results = drive.finish().unwrap();
    change(&mut results);
    check.finish(&results, drive.operator().metrics().total.dropped_late)
}

fn replace(batch: &mut RecordBatch, name: &str, column: ArrayRef) {
    let mut columns = batch.columns().to_vec();
    columns[batch.schema().index_of(name).unwrap()] = column;
    *batch = RecordBatch::try_new(batch.schema(), columns).unwrap();
}

#[test]
fn right_answers_are_right() {
    for workload in Workload::ALL {
        let verdict = check(&load(workload), &mut |_| {});
        assert_eq!(verdict.difference, None, "{workload:?}");
        assert_eq!(verdict.quantile_error.is_some(), workload == Workload::W2);
    }
}

/// The first difference when the first batch with results is changed.
fn first_difference(workload: Workload, change: &dyn Fn(&mut Vec<RecordBatch>)) -> String {
    let mut once = false;
    let verdict = check(&load(workload), &mut |results| {
        if !once && !results.is_empty() {
            once = true;
            change(results);
        }
    });
    verdict.difference.unwrap()
}

#[test]
fn a_number_that_is_wrong() {
    let count = |results: &mut Vec<RecordBatch>| {
        let counts = results[0]["count"].as_primitive::<Int64Type>();
        let wrong =
            counts.iter().enumerate().map(|(row, count)| count.map(|count| count + i64::from(row == 7)));
        let wrong = Arc::new(wrong.collect::<Int64Array>());
        replace(&mut results[0], "count", wrong);
    };
    let text = first_difference(Workload::W1, &count);
    assert!(text.starts_with("the window from 2024-01-01T00:00:00, key "), "{text}");
    assert!(text.contains(": count is "), "{text}");
    for name in ["sum", "min", "max"] {
        let last_bit = |results: &mut Vec<RecordBatch>| {
            let values = results[0][name].as_primitive::<arrow_array::types::Float64Type>();
            let wrong = values.iter().map(|value| value.map(f64::next_up)).collect::<Float64Array>();
            replace(&mut results[0], name, Arc::new(wrong));
        };
        let text = first_difference(Workload::W1, &last_bit);
        assert!(text.contains(&format!(": {name} is ")), "{text}");
    }
    let quantile = |results: &mut Vec<RecordBatch>| {
        let values = results[0]["p99"].as_primitive::<arrow_array::types::Float64Type>();
        let wrong = values.iter().map(|value| value.map(|value| value * 1.03)).collect::<Float64Array>();
        replace(&mut results[0], "p99", Arc::new(wrong));
    };
    let text = first_difference(Workload::W2, &quantile);
    assert!(text.contains(", model \"model-") && text.contains(": p99 is "), "{text}");
}

#[test]
fn results_that_are_missing_or_too_many() {
    let fewer = |results: &mut Vec<RecordBatch>| results[0] = results[0].slice(1, results[0].num_rows() - 1);
    let text = first_difference(Workload::W1, &fewer);
    assert!(text.contains("1 of its results are missing"), "{text}");
    let twice = |results: &mut Vec<RecordBatch>| results.insert(0, results[0].slice(0, 1));
    assert!(first_difference(Workload::W1, &twice).contains("not expected, or one twice"));
    let text = first_difference(Workload::Q7, &|results| results.clear());
    assert!(text.ends_with("has not fired"), "{text}");
    let text = first_difference(Workload::Q5, &|results| results[0] = results[0].slice(0, 0));
    assert!(text.contains("expected the window") || text.ends_with("has not fired"), "{text}");
}

#[test]
fn sessions_that_are_wrong() {
    use arrow_array::TimestampMillisecondArray;
    let moved = |name: &'static str| {
        move |results: &mut Vec<RecordBatch>| {
            let times = results[0][name].as_primitive::<TimestampMillisecondType>();
            let wrong = times.values().iter().enumerate().map(|(row, time)| time + i64::from(row == 0));
            let wrong = TimestampMillisecondArray::from_iter_values(wrong);
            replace(&mut results[0], name, Arc::new(wrong));
        }
    };
    for name in ["window_start", "window_end"] {
        let text = first_difference(Workload::W5, &moved(name));
        assert!(text.starts_with("the session from 2024-01-01T00:00:"), "{text}");
        assert!(text.ends_with(": a result that is not expected, or one twice"), "{text}");
    }
    let text = first_difference(Workload::W5, &|results| results.clear());
    assert!(text.contains(" sessions have not fired, one, key "), "{text}");
    let backwards = |results: &mut Vec<RecordBatch>| {
        let rows = results[0].num_rows();
        *results = (0..rows).rev().map(|row| results[0].slice(row, 1)).collect();
    };
    let text = first_difference(Workload::W5, &backwards);
    assert!(text.contains(" and comes behind one that ends at "), "{text}");
}

#[test]
fn the_bid_must_be_that_of_the_price() {
    for name in ["auction", "bidder"] {
        let other = |results: &mut Vec<RecordBatch>| {
            let wrong = results[0][name].as_primitive::<Int64Type>().unary(|value| value + 1);
            let wrong: arrow_array::PrimitiveArray<Int64Type> = wrong;
            replace(&mut results[0], name, Arc::new(wrong));
        };
        let text = first_difference(Workload::Q7, &other);
        assert!(text.contains(&format!(": {name} is ")), "{text}");
    }
}

#[test]
fn late_rows_are_counted() {
    let load = load(Workload::W1);
    let (mut drive, mut check) = (Drive::new(&load).unwrap(), Check::new(&load));
    for call in load.calls() {
        let results = drive.push(call).unwrap();
        check.call(call, &results);
    }
    let results = drive.finish().unwrap();
    let late = drive.operator().metrics().total.dropped_late;
    assert!(late > 0);
    let difference = check.finish(&results, late + 1).difference;
    assert_eq!(difference, Some(format!("{} rows are late, expected {late}", late + 1)));
}
