//! What a user can rely on beyond results: errors and limits that change nothing, keys that are forgotten, rows that are left.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use highwater::process::{
    Keyed, KeyedProcess, ProcessLimits, ProcessOperator, Results, Rows, Timer, deduplicate,
};
use highwater::watermark::{END, NONE, WatermarkStrategy};
use highwater::{Error, Output, Result, TimeDelta};

use crate::common::{input, lines};

/// Registers a timer ten later than each row, of which it takes at most `most` a call; one at 13 fails, unless a row at 3 came
/// twice.
struct Strict {
    most: usize,
}

impl KeyedProcess for Strict {
    type State = i64;
    type Output = i64;

    fn output_schema(&self, inputs: &[SchemaRef]) -> Result<SchemaRef> {
        assert_eq!(inputs.len(), 1);
        Ok(Arc::new(Schema::new(vec![Field::new("at", DataType::Int64, false)])))
    }

    fn rows(&self, rows: &mut Rows<'_, Self>) -> Result<()> {
        for _ in 0..self.most {
            let Some(mut row) = rows.next()? else { break };
            let time = row.time;
            *row.key.state() += 1;
            row.key.register_timer(time + 10);
        }
        Ok(())
    }

    fn timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
        if timer.time == 13 && *key.state() < 2 {
            return Err(Error::Process { message: "thirteen".into() });
        }
        key.clear();
        key.emit(timer.time);
        Ok(())
    }

    fn results(&self, outputs: Vec<i64>, _: &Results<'_>) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Int64Array::from(outputs))])
    }
}

fn batch(rows: &[(i64, &str)]) -> RecordBatch {
    let times: Int64Array = rows.iter().map(|row| Some(row.0)).collect();
    let keys = StringArray::from_iter_values(rows.iter().map(|row| row.1));
    RecordBatch::try_from_iter([("ts", Arc::new(times) as ArrayRef), ("key", Arc::new(keys) as _)]).unwrap()
}

fn strict(threads: usize, most: usize, limits: ProcessLimits) -> ProcessOperator<Strict> {
    let input = input(&batch(&[]), 1, 0);
    ProcessOperator::builder(Strict { most }, input).threads(threads).limits(limits).build().unwrap()
}

fn fired(output: Output) -> Vec<String> {
    lines(&output.fired)
}

#[test]
fn a_timer_that_fails_leaves_everything_as_it_was() {
    for threads in [1, 3] {
        let mut operator = strict(threads, usize::MAX, ProcessLimits::default());
        let rows = batch(&[(1, "a"), (2, "b"), (3, "c"), (4, "d")]);
        assert!(operator.push(0, &rows).unwrap().is_empty());
        // timers at 11, 12, 13 and 14; the third of them fails, and so all of them wait on
        let thirteen = Error::Process { message: "thirteen".into() };
        for _ in 0..2 {
            assert_eq!(operator.push(0, &batch(&[(50, "e")])).unwrap_err(), thirteen);
            assert_eq!(operator.finish().unwrap_err(), thirteen);
            operator.validate();
            let metrics = operator.metrics();
            assert_eq!((metrics.timers, metrics.keys, metrics.timers_fired), (4, 4, 0));
            assert_eq!((metrics.watermark, metrics.inputs[0].total.rows_in), (3, 4));
        }
        assert!(operator.push(0, &batch(&[(3, "c")])).unwrap().is_empty());
        assert_eq!(fired(operator.finish().unwrap()), ["a 11", "b 12", "c 13", "d 14"]);
        assert_eq!(operator.metrics().keys, 0);
    }
}

#[test]
fn limits_are_errors_that_change_nothing() {
    for threads in [1, 2] {
        let none = ProcessLimits::default();
        let max_keys = ProcessLimits { max_keys: 2, ..none };
        let max_timers = ProcessLimits { max_timers: 2, ..none };
        for (limits, name) in [(max_keys, "max_keys"), (max_timers, "max_timers")] {
            let mut operator = strict(threads, usize::MAX, limits);
            assert!(operator.push(0, &batch(&[(1, "a"), (1, "b"), (1, "a")])).unwrap().is_empty());
            let error = operator.push(0, &batch(&[(2, "a"), (2, "c")])).unwrap_err();
            let needed = if name == "max_keys" { 3 } else { 4 };
            assert_eq!(error, Error::LimitReached { limit: name, needed, allowed: 2 });
            operator.validate();
            let metrics = operator.metrics();
            assert_eq!((metrics.keys, metrics.timers, metrics.watermark), (2, 2, 0));
            // as many again fit when those are gone
            assert_eq!(fired(operator.push(0, &batch(&[(30, "c"), (30, "d")])).unwrap()), ["a 11", "b 11"]);
        }
        let mut operator = strict(threads, usize::MAX, ProcessLimits { max_state_bytes: 64, ..none });
        let error = operator.push(0, &batch(&[(1, "a")])).unwrap_err();
        assert!(
            matches!(error, Error::LimitReached { limit: "max_state_bytes", allowed: 64, .. }),
            "{error}"
        );
        assert_eq!(operator.metrics().keys, 0);
    }
}

#[test]
fn rows_that_are_left_are_passed_over_but_not_the_timers_between_them() {
    let mut operator = strict(1, 1, ProcessLimits::default());
    let output = operator.push(0, &batch(&[(1, "a"), (20, "b"), (40, "c")])).unwrap();
    assert_eq!(fired(output), ["a 11"]);
    let metrics = operator.metrics();
    assert_eq!((metrics.keys, metrics.watermark, metrics.inputs[0].total.taken), (0, 39, 3));
}

#[test]
fn forgotten_keys_leave_nothing_behind() {
    for threads in [1, 3] {
        let input = input(&batch(&[]), 1, 0);
        let operator = deduplicate(input).within(TimeDelta::from_millis(2)).threads(threads);
        let mut operator = operator.build().unwrap();
        let mut most = 0;
        for call in 0..40 {
            let keys: Vec<String> = (0..5_000).map(|row| format!("key {call} {row}")).collect();
            let rows: Vec<_> =
                keys.iter().enumerate().map(|(row, key)| (5_000 * call + row as i64, key.as_str())).collect();
            let passed = operator.push(0, &batch(&rows)).unwrap();
            assert_eq!(passed.fired.iter().map(|batch| batch.num_rows()).sum::<usize>(), 5_000);
            operator.validate();
            most = most.max(operator.metrics().state_bytes);
            assert!(operator.metrics().keys <= 2);
        }
        // 200,000 keys of 20 bytes with room for each would be well over 20 MB
        assert!(most < 8_000_000, "{most}");
        // and a key that comes back is still found where it belongs
        let again = batch(&[(300_000, "key 1 1"), (300_000, "key 39 4999"), (300_001, "key 1 1")]);
        assert_eq!(lines(&operator.push(0, &again).unwrap().fired).len(), 2);
    }
}

#[test]
fn a_name_twice_and_a_wrong_batch_are_refused() {
    struct Twice;
    impl KeyedProcess for Twice {
        type State = ();
        type Output = ();
        fn output_schema(&self, _: &[SchemaRef]) -> Result<SchemaRef> {
            Ok(Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, false)])))
        }
        fn rows(&self, _: &mut Rows<'_, Self>) -> Result<()> {
            Ok(())
        }
        fn results(&self, _: Vec<()>, _: &Results<'_>) -> Result<Vec<ArrayRef>> {
            Ok(vec![])
        }
    }
    let error = ProcessOperator::builder(Twice, input(&batch(&[]), 1, 0)).build().unwrap_err();
    assert!(error.to_string().contains("output_schema: column \"key\" is not allowed"), "{error}");
    assert!(Twice.save(&[&()]).unwrap_err().to_string().contains("does not say how"));
    let nothing: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    assert_eq!(nothing.len(), 1);
    assert!(Twice.restore(&nothing).unwrap_err().to_string().contains("does not say how"));

    let mut operator = strict(2, usize::MAX, ProcessLimits::default());
    let other = RecordBatch::try_from_iter([("ts", nothing)]).unwrap();
    assert!(matches!(operator.push(0, &other).unwrap_err(), Error::SchemaMismatch { .. }));
    assert!(matches!(operator.push(1, &batch(&[])).unwrap_err(), Error::UnknownPartition { given: 1, .. }));
    assert!(matches!(operator.advance_watermark(0, 5).unwrap_err(), Error::WrongStrategy { .. }));
    assert_eq!(operator.current_watermark(), NONE);
}

/// Watermarks of the first operator are a row's time - 1; the second one lets one row of a key and 100 ms pass.
#[test]
fn results_are_judged_before_the_watermark_that_they_led_to() {
    let all = batch(&[]);
    let second = |limits| {
        let results = input(&all, 2, 0).watermark(WatermarkStrategy::explicit());
        deduplicate(results)
            .in_window(TimeDelta::from_millis(100), TimeDelta::ZERO)
            .limits(limits)
            .build()
            .unwrap()
    };
    let mut first = deduplicate(input(&all, 1, 0)).within(TimeDelta::from_millis(10)).build().unwrap();
    let mut next = second(ProcessLimits::default());
    // nothing is to be waited for on the other partition
    assert!(next.push_results(1, &Output::default(), END).unwrap().is_empty());
    let mut call = |rows: &[(i64, &str)]| {
        let output = first.push(0, &batch(rows)).unwrap();
        (output, first.current_watermark())
    };
    // all three pass, 5 and 20 are of one window, and 130 - 1 is the watermark
    let (results, watermark) = call(&[(5, "a"), (20, "a"), (130, "b")]);
    let output = next.push_results(0, &results, watermark).unwrap();
    assert_eq!((lines(&output.fired), output.late.len()), (vec!["5 a".into(), "130 b".into()], 0));
    assert_eq!((next.current_watermark(), next.metrics().keys), (129, 1));
    // a watermark that is none yet says nothing
    let nothing = next.push_results(0, &Output::default(), NONE).unwrap();
    assert!(nothing.is_empty() && next.current_watermark() == 129);

    // a call that fails has moved nothing: neither rows nor the watermark
    let mut limited = second(ProcessLimits { max_timers: 0, ..ProcessLimits::default() });
    let error = limited.push_results(0, &results, watermark).unwrap_err();
    // the other partition holds the watermark back: a waits for 99, b for 199
    assert_eq!(error, Error::LimitReached { limit: "max_timers", needed: 2, allowed: 0 });
    assert_eq!((limited.current_watermark(), limited.metrics().inputs[0].total.rows_in), (NONE, 0));
    limited.validate();
    // nor has one whose watermark would follow from its rows
    let mut bounded = deduplicate(input(&all, 1, 0)).within(TimeDelta::from_millis(10)).build().unwrap();
    assert!(bounded.push_results(0, &results, watermark).is_err());
    assert_eq!(bounded.metrics().inputs[0].total.rows_in, 0);

    let (results, watermark) = (first.finish().unwrap(), first.current_watermark());
    assert_eq!(watermark, END);
    assert!(next.push_results(0, &results, watermark).unwrap().is_empty());
    assert_eq!((next.current_watermark(), next.metrics().keys), (END, 0));
}
