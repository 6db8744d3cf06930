//! Values, keys and aggregates.

use std::cmp::Ordering;

use highwater_oracle::{Function, Op, Row, Spec, Strategy, Value};

use crate::Checked;
use Value::{Float, Int, Null};

fn text(s: &str) -> Value {
    Value::Text(s.to_owned())
}

/// The function over rows of `(time, value)`, all in one window.
fn over(function: Function, rows: &[(i64, Value)]) -> Value {
    let aggregates = vec![(function, 0)];
    let mut oracle = Checked::new(Spec { aggregates, strategy: Strategy::Explicit, ..Spec::tumbling(100) });
    let row = |(time, value): &(i64, Value)| Row {
        time: Some(*time),
        values: vec![value.clone()],
        ..Row::default()
    };
    oracle.apply(Op::Push(0, rows.iter().map(row).collect()));
    oracle.apply(Op::Finish).fired.remove(0).values.remove(0)
}

/// The function over these values, all at time 0.
fn of(function: Function, values: &[Value]) -> Value {
    over(function, &values.iter().map(|v| (0, v.clone())).collect::<Vec<_>>())
}

#[test]
fn floats_are_ordered_totally() {
    let nan = Float(f64::NAN);
    assert_eq!(nan, Float(-f64::NAN));
    assert!(nan > Float(f64::INFINITY));
    assert_eq!(Float(-0.0), Float(0.0));
    assert_eq!(Float(-0.0).exact_cmp(&Float(0.0)), Ordering::Less);
    assert_eq!(Float(0.0).exact_cmp(&Float(-0.0)), Ordering::Greater);
    assert_eq!(Float(-0.0).exact_cmp(&Float(-0.0)), Ordering::Equal);
    assert_eq!(Float(1.0).exact_cmp(&Float(-0.0)), Ordering::Greater);
    assert_eq!(nan.exact_cmp(&nan), Ordering::Equal);
}

#[test]
fn keys_join_zeros_nans_and_nulls() {
    let mut oracle = Checked::new(Spec::tumbling(100));
    let keys = [Float(-0.0), Float(f64::NAN), Null, Float(0.0), Float(-f64::NAN), Null];
    let rows = keys.map(|key| Row { time: Some(0), key: vec![key], ..Row::default() });
    oracle.apply(Op::Push(0, rows.to_vec()));
    let fired: Vec<_> = oracle.apply(Op::Finish).fired.into_iter().map(|f| (f.key, f.values)).collect();
    let twice = |key: Value| (vec![key], vec![Int(2)]);
    assert_eq!(fired, [twice(Null), twice(Float(0.0)), twice(Float(f64::NAN))]);
}

#[test]
fn max_by_takes_the_row_with_the_largest_other_value() {
    // of rows (time, by, value), all in one window
    let over = |function: Function, rows: &[(i64, Value, Value)]| {
        let aggregates = vec![(function, 1)];
        let mut oracle =
            Checked::new(Spec { aggregates, strategy: Strategy::Explicit, ..Spec::tumbling(100) });
        let row = |(time, by, value): &(i64, Value, Value)| Row {
            time: Some(*time),
            values: vec![by.clone(), value.clone()],
            ..Row::default()
        };
        oracle.apply(Op::Push(0, rows.iter().map(row).collect()));
        oracle.apply(Op::Finish).fired.remove(0).values.remove(0)
    };
    let rows =
        [(5, Int(1), text("a")), (5, Int(9), text("b")), (3, Int(9), text("c")), (3, Int(9), text("d"))];
    assert_eq!(over(Function::MaxBy(0), &rows), text("c"), "9 three times, twice at time 3");
    assert_eq!(over(Function::MinBy(0), &rows), text("a"));
    let nulls = [(0, Null, text("a")), (1, Int(2), Null), (2, Int(1), text("c"))];
    assert_eq!(over(Function::MaxBy(0), &nulls), Null, "the value beside 2");
    assert_eq!(over(Function::MinBy(0), &nulls), text("c"));
    assert_eq!(over(Function::MaxBy(0), &nulls[..1]), Null, "no row to choose");
    let floats = [(0, Float(0.0), Int(1)), (1, Float(-0.0), Int(2)), (1, Float(f64::NAN), Int(3))];
    assert_eq!(over(Function::MaxBy(0), &floats), Int(3));
    assert_eq!(over(Function::MinBy(0), &floats), Int(2));
}

#[test]
fn nulls_are_skipped_by_all_but_count_all() {
    let some = [Null, Int(4), Null, Int(1)];
    assert_eq!(of(Function::CountAll, &some), Int(4));
    assert_eq!(of(Function::Count, &some), Int(2));
    assert_eq!(of(Function::Sum, &some), Int(5));
    assert_eq!(of(Function::Min, &some), Int(1));
    assert_eq!(of(Function::Max, &some), Int(4));
    assert_eq!(of(Function::Mean, &some), Float(2.5));
    // Mean 2.5, squares 2.25 + 2.25 = 4.5, divided by 2 - 1.
    assert_eq!(of(Function::Variance, &some), Float(4.5));
    assert_eq!(of(Function::First, &some), Int(4));
    assert_eq!(of(Function::Last, &some), Int(1));
    assert_eq!(of(Function::Members, &some), text("0,1,2,3"));
}

#[test]
fn only_nulls_give_null_and_a_count_of_zero() {
    let none = [Null, Null];
    assert_eq!(of(Function::CountAll, &none), Int(2));
    assert_eq!(of(Function::Count, &none), Int(0));
    let functions = [Function::Sum, Function::Min, Function::Max, Function::Mean, Function::Variance];
    for function in functions.into_iter().chain([Function::First, Function::Last, Function::Quantile(0.5)]) {
        assert_eq!(of(function, &none), Null);
    }
    assert_eq!(of(Function::Variance, &[Int(5)]), Null);
}

#[test]
fn min_and_max_know_two_zeros_and_nan() {
    let negative = |value: Value| matches!(value, Float(f) if f == 0.0 && f.is_sign_negative());
    assert!(negative(of(Function::Min, &[Float(0.0), Float(-0.0)])));
    assert!(!negative(of(Function::Max, &[Float(0.0), Float(-0.0)])));
    assert_eq!(of(Function::Max, &[Float(f64::INFINITY), Float(f64::NAN)]), Float(f64::NAN));
    assert_eq!(of(Function::Min, &[Float(f64::NAN), Float(f64::INFINITY)]), Float(f64::INFINITY));
    assert_eq!(of(Function::Max, &[text("b"), text("ab")]), text("b"));
}

#[test]
fn integers_are_summed_exactly() {
    // The partial sum leaves i64 and comes back.
    assert_eq!(of(Function::Sum, &[Int(i64::MAX), Int(1), Int(-2)]), Int(i64::MAX - 1));
    assert_eq!(of(Function::Sum, &[Float(0.5), Float(0.25)]), Float(0.75));
    // (2^63 - 1 + 2^63 - 1) / 2, rounded to a float: 2^63.
    assert_eq!(of(Function::Mean, &[Int(i64::MAX), Int(i64::MAX)]), Float(9223372036854775808.0));
}

#[test]
fn first_and_last_go_by_time_then_arrival() {
    let rows = [(5, Int(0)), (3, Int(1)), (3, Int(2)), (5, Int(3)), (4, Int(4))];
    assert_eq!(over(Function::First, &rows), Int(1));
    assert_eq!(over(Function::Last, &rows), Int(3));
    // A null is not a value: the next one counts.
    assert_eq!(over(Function::First, &[(1, Null), (2, Int(8))]), Int(8));
}

#[test]
fn a_quantile_is_a_value_of_the_window() {
    // Sorted 10, 20, 30, 40: 0.5 * 3 = 1.5 gives s[1], 0.99 * 3 = 2.97 gives s[2], 1.0 gives s[3].
    let values = [Int(40), Int(10), Null, Int(30), Int(20)];
    assert_eq!(of(Function::Quantile(0.5), &values), Int(20));
    assert_eq!(of(Function::Quantile(0.99), &values), Int(30));
    assert_eq!(of(Function::Quantile(1.0), &values), Int(40));
}
