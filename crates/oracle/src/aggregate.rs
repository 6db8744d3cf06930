//! A result, from scratch.

use std::cmp::Ordering;

use crate::{Function, Value};

/// A row as a window keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// The running number.
    pub(crate) row: u64,
    pub(crate) time: i64,
    pub(crate) values: Vec<Value>,
}

/// The function's value over the rows of one key in one window, in order of arrival.
pub(crate) fn aggregate(function: &Function, column: usize, rows: &[Stored]) -> Result<Value, String> {
    // The rows with a value in this column: Members, CountAll, MaxBy and MinBy look at the others too.
    let has_value = |r: &&Stored| r.values.get(column).is_some_and(|v| !v.is_null());
    let present: Vec<&Stored> = rows.iter().filter(has_value).collect();
    let values: Vec<&Value> = present.iter().map(|r| &r.values[column]).collect();
    let or_null = |value: Option<&Value>| value.cloned().unwrap_or_default();
    Ok(match function {
        Function::CountAll => Value::Int(rows.len() as i64),
        Function::Members => {
            Value::Text(rows.iter().map(|r| r.row.to_string()).collect::<Vec<_>>().join(","))
        }
        Function::Count => Value::Int(values.len() as i64),
        Function::Min => or_null(values.into_iter().min_by(|a, b| a.exact_cmp(b))),
        Function::Max => or_null(values.into_iter().max_by(|a, b| a.exact_cmp(b))),
        // Of equals, `min_by_key` gives the first and `max_by_key` the last.
        Function::First => or_null(present.iter().min_by_key(|r| r.time).map(|r| &r.values[column])),
        Function::Last => or_null(present.iter().max_by_key(|r| r.time).map(|r| &r.values[column])),
        Function::MaxBy(by) => chosen(rows, column, *by, |a, b| b.exact_cmp(a)),
        Function::MinBy(by) => chosen(rows, column, *by, Value::exact_cmp),
        Function::Sum => sum(&values)?,
        Function::Mean => match values.len() {
            0 => Value::Null,
            n => Value::Float(total(&values)? / n as f64),
        },
        Function::Variance => variance(&values)?,
        Function::Quantile(q) => {
            let mut sorted = values;
            sorted.sort_by(|a, b| a.exact_cmp(b));
            match sorted.len() {
                0 => Value::Null,
                n => sorted[(q * (n - 1) as f64) as usize].clone(),
            }
        }
    })
}

/// The value of `column` in the row whose `by` comes first in this order. Of equals, `min_by` gives the first to arrive.
fn chosen(rows: &[Stored], column: usize, by: usize, order: fn(&Value, &Value) -> Ordering) -> Value {
    rows.iter()
        .filter(|r| !r.values[by].is_null())
        .min_by(|a, b| order(&a.values[by], &b.values[by]).then(a.time.cmp(&b.time)))
        .map(|r| r.values[column].clone())
        .unwrap_or_default()
}

fn sum(values: &[&Value]) -> Result<Value, String> {
    match values {
        [] => Ok(Value::Null),
        [Value::Int(_), ..] => {
            let exact = integers(values)?;
            i64::try_from(exact).map(Value::Int).map_err(|_| format!("the sum {exact} does not fit i64"))
        }
        _ => total(values).map(Value::Float),
    }
}

/// The sum as a float: of integers exact and then rounded once, of floats one after the other.
fn total(values: &[&Value]) -> Result<f64, String> {
    match values {
        [Value::Int(_), ..] => Ok(integers(values)? as f64),
        _ => Ok(floats(values)?.iter().fold(0.0, |sum, x| sum + x)),
    }
}

/// Two passes: the mean, then the squared distances from it.
fn variance(values: &[&Value]) -> Result<Value, String> {
    let n = values.len();
    if n < 2 {
        return Ok(Value::Null);
    }
    let mean = total(values)? / n as f64;
    let squares: f64 = floats(values)?.iter().map(|x| (x - mean) * (x - mean)).sum();
    Ok(Value::Float(squares / (n - 1) as f64))
}

fn integers(values: &[&Value]) -> Result<i128, String> {
    let mut exact = 0;
    for value in values {
        match value {
            Value::Int(i) => exact += i128::from(*i),
            other => return Err(format!("{other:?} is not an integer like the values before it")),
        }
    }
    Ok(exact)
}

fn floats(values: &[&Value]) -> Result<Vec<f64>, String> {
    let number = |value: &&Value| match value {
        Value::Int(i) => Ok(*i as f64),
        Value::Float(f) => Ok(*f),
        other => Err(format!("{other:?} is not a number")),
    };
    values.iter().map(number).collect()
}
