//! Values and their two orders.

use std::cmp::Ordering;

/// A key or value cell.
///
/// `==` and `<` are those of keys: NaN equals NaN and is the largest float, `-0.0` and `0.0` are one. Nulls come
/// first; values of different types are ordered by type, so that there is an order at all.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string, ordered by its bytes.
    Text(String),
}

impl Value {
    /// The order of `min` and `max`: that of keys, except that `-0.0` lies below `0.0`.
    pub fn exact_cmp(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Float(a), Value::Float(b)) if *a == 0.0 && *b == 0.0 => {
                b.is_sign_negative().cmp(&a.is_sign_negative())
            }
            _ => self.cmp(other),
        }
    }

    /// Whether this is a null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The value as a float, if it is a number.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Value::Int(i) => Some(*i as f64),
            Value::Float(f) => Some(*f),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Int(_) => 2,
            Value::Float(_) => 3,
            Value::Text(_) => 4,
        }
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            // Only NaN has no place in the order of floats: it goes last, beside other NaNs.
            (Value::Float(a), Value::Float(b)) => {
                a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}
