//! What is saved and restored goes on as if nothing had happened, and nothing else can be restored.

use std::collections::BTreeSet;

use super::*;
use crate::snapshot::{Record, record};

impl Single {
    fn restored(&self, saved: &ArrayRef, rows: u64) -> Result<Single, String> {
        let mut left = rows;
        Ok(self.with(self.states.restore(saved, &mut left)?))
    }
}

#[test]
fn a_restored_accumulator_goes_on_as_the_saved_one() {
    every_case(|function, batch, _| {
        let context = format!("{function:?} of {}", batch.column.data_type());
        let empty = batch.whole(function, 0, 0);
        let saved_empty = accumulator_of(function, batch).states.save().unwrap();
        for cut in [0, 9, batch.len()] {
            let mut states = batch.whole(function, 0, cut);
            let saved = states.states.save().unwrap();
            assert_eq!(
                saved.data_type(),
                saved_empty.data_type(),
                "{context}: one type for any number of slots"
            );
            assert_eq!(saved.len(), SLOTS, "{context}");
            let mut restored =
                empty.restored(&saved, cut as u64).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_eq!(&restored.states.save().unwrap(), &saved, "{context}: saved again");
            assert!(restored.magnitude() <= states.magnitude(), "{context}: a bound that is no wider");
            assert_eq!(finished(restored.clone()), finished(states.clone()), "{context}");
            batch.feed(&mut states, cut, batch.len());
            batch.feed(&mut restored, cut, batch.len());
            assert_eq!(
                finished(restored.clone()),
                finished(states.clone()),
                "{context}: more rows after {cut}"
            );
            // merged from either side
            let mut merged = [batch.whole(function, 0, 5), batch.whole(function, 0, 5)];
            merged[0].merge(&[3, 0, 1, 2], &states);
            merged[1].merge(&[3, 0, 1, 2], &restored);
            let [of_saved, of_restored] = merged;
            assert_eq!(finished(of_restored), finished(of_saved), "{context}: merged");
        }
    });
}

fn accumulator_of(function: &Function, batch: &Batch) -> Single {
    let input = Columns { value: Some(batch.column.data_type()), by: Some(batch.by.data_type()) };
    accumulator_by(function, input, 42)
}

#[test]
fn slices_of_a_saved_column_are_restored_too() {
    every_case(|function, batch, _| {
        let states = batch.whole(function, 0, batch.len());
        let saved = states.states.save().unwrap().slice(1, 2);
        let restored = states.restored(&saved, 1_000).unwrap();
        assert_eq!(finished(restored), finished(states.gather(&[1, 2])), "{function:?}");
    });
}

/// Every count that is saved is one of rows, so that no sum of counts can wrap later.
#[test]
fn no_more_rows_are_restored_than_were_taken() {
    let mut counting = BTreeSet::new();
    every_case(|function, batch, _| {
        let states = batch.whole(function, 0, batch.len());
        let saved = states.states.save().unwrap();
        let counted = states.restored(&saved, 22).is_err();
        if counted {
            counting.insert(format!("{function:?}"));
        }
    });
    let expected = ["Count", "CountAll", "Max", "Mean", "Min", "Quantile(0.3)", "Sum"];
    let variances = [(false, false), (false, true), (true, false), (true, true)]
        .map(|(sample, sqrt)| format!("Variance {{ sample: {sample}, sqrt: {sqrt} }}"));
    assert_eq!(counting, expected.map(String::from).into_iter().chain(variances).collect());
}

#[test]
fn sketches_of_any_size_are_restored() {
    for values in [0_u64, 1, 7, 8, 30, 150, 383, 400, 3_000, 100_000] {
        let column = |from: u64, to: u64| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(from..to)) };
        let empty = accumulator(&Function::ApproxDistinct, Some(&DataType::UInt64), 0);
        let feed = |states: &mut Single, column: ArrayRef| {
            states.resize(1);
            let times = vec![0; column.len()];
            let blocks = Block::cover(0..column.len());
            let rows =
                Rows { column: Some(&column), by: None, times: &times, first_arrival: 0, blocks: &blocks };
            states.update(&vec![0; column.len()], &rows);
        };
        let mut states = empty.clone();
        feed(&mut states, column(0, values));
        let saved = states.states.save().unwrap();
        let mut restored = empty.restored(&saved, values).unwrap();
        assert_eq!(&restored.states.save().unwrap(), &saved, "{values} values, saved again");
        let mut backward = empty.clone();
        feed(&mut backward, Arc::new(UInt64Array::from_iter_values((0..values).rev())));
        assert_eq!(&backward.states.save().unwrap(), &saved, "{values} values in another order");
        for states in [&mut states, &mut restored] {
            feed(states, column(values / 2, 2 * values + 5));
        }
        assert_eq!(finished(restored), finished(states), "{values} values");
    }
}

/// Flips every bit of sketches: each is refused, or is a sketch that can be used.
#[test]
fn no_bits_make_a_sketch_that_cannot_be_used() {
    for values in [3_u64, 200, 5_000] {
        let column: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..values));
        let batch = Batch {
            times: vec![0; column.len()],
            slots: vec![0; column.len()],
            by: column.clone(),
            column,
            star: false,
        };
        let mut states = batch.whole(&Function::ApproxDistinct, 0, values as usize);
        states = states.gather(&[0]);
        let saved = states.states.save().unwrap();
        let image = Record::of(&saved).unwrap().bytes("sketch").unwrap().value(0).to_vec();
        let (mut refused, step) = (0, if values == 5_000 { 37 } else { 1 });
        for bit in (0..8 * image.len()).step_by(step) {
            let mut image = image.clone();
            image[bit / 8] ^= 1 << (bit % 8);
            let sketch = Arc::new(LargeBinaryArray::from_iter_values([image]));
            match states.restored(&record(vec![("sketch", sketch)]).unwrap(), values) {
                Ok(mut restored) => {
                    batch.feed(&mut restored, 0, values as usize);
                    restored.finish().unwrap();
                }
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 32, "{values} values: only {refused} refused");
        for length in [0, 3, 8, image.len() / 2, image.len() - 1] {
            let sketch = Arc::new(LargeBinaryArray::from_iter_values([&image[..length]]));
            assert!(states.restored(&record(vec![("sketch", sketch)]).unwrap(), values).is_err());
        }
    }
}

/// A column replaced by another one.
fn with_column(saved: &ArrayRef, name: &str, column: ArrayRef) -> ArrayRef {
    let saved = saved.as_struct();
    let columns = saved.fields().iter().zip(saved.columns());
    let columns = columns.map(|(field, own)| {
        (field.name().as_str(), if field.name() == name { column.clone() } else { own.clone() })
    });
    record(columns.collect()).unwrap()
}

#[test]
fn states_that_cannot_be_are_refused() {
    let of = |function: Function, data_type: DataType| {
        let batch = Batch::random(&data_type, Kind::Small, false, 23, &mut Random(1));
        batch.whole(&function, 0, 23)
    };
    let refuses = |states: &Single, name: &str, column: ArrayRef, expected: &str| {
        let saved = with_column(&states.states.save().unwrap(), name, column);
        let error = states.restored(&saved, 23).err().unwrap_or_else(|| panic!("{name} was taken"));
        assert!(error.contains(expected), "{name}: {error}");
    };
    let sum = of(Function::Sum, DataType::Int64);
    refuses(&sum, "count", Arc::new(UInt64Array::from(vec![u64::MAX, 1, 0, 0])), "more rows");
    refuses(&sum, "count", Arc::new(Int64Array::from(vec![1, 1, 1, 1])), "column \"count\" is Int64");
    refuses(&sum, "count", Arc::new(UInt64Array::from(vec![None, Some(1), None, None])), "3 nulls");
    let huge = Decimal128Array::from(vec![i128::MAX, 0, 0, 0]).with_precision_and_scale(38, 0).unwrap();
    refuses(&sum, "sum", Arc::new(huge), "out of range");
    let max = of(Function::Max, DataType::Date32);
    refuses(&max, "max", Arc::new(Date32Array::from(vec![None; 4])), "null");
    refuses(&max, "max", Arc::new(Int32Array::from(vec![1; 4])), "Date32 were expected, not Int32");
    let first = of(Function::First, DataType::Int64);
    refuses(&first, "time", Arc::new(Int64Array::from(vec![None; 4])), "time without an arrival");
    refuses(&first, "value", Arc::new(Int64Array::from(vec![None; 4])), "without a place");
    let text = of(Function::First, DataType::Utf8);
    refuses(&text, "value", Arc::new(StringArray::from(vec![None::<&str>; 4])), "without a place");
    refuses(&text, "value", Arc::new(BinaryArray::from(vec![None; 4])), "Utf8 were expected, not Binary");
    let by = of(Function::MaxBy, DataType::Utf8);
    refuses(&by, "arrival", Arc::new(UInt64Array::from(vec![None; 4])), "time without an arrival");
    let sketch = of(Function::Quantile(0.5), DataType::Float64);
    refuses(&sketch, "first_positive", Arc::new(UInt32Array::from(vec![u32::MAX; 4])), "too many");
    refuses(&sketch, "min", Arc::new(Float64Array::from(vec![f64::NAN; 4])), "cannot be");
    refuses(&sketch, "max", Arc::new(Float64Array::from(vec![-1e300; 4])), "cannot be");
    let sample = of(Function::ReservoirQuantile { q: 0.5, capacity: 1000 }, DataType::Int64);
    let small = accumulator(&Function::ReservoirQuantile { q: 0.5, capacity: 2 }, Some(&DataType::Int64), 42);
    let error = small.restored(&sample.states.save().unwrap(), 23).err().unwrap();
    assert!(error.contains("no sample of 2"), "{error}");
}

/// Values that come back flattened are encoded to the bytes that they had.
#[test]
fn flattened_values_are_the_same_values() {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let field = Arc::new(arrow_schema::Field::new_list_field(dictionary, true));
    let words: DictionaryArray<Int8Type> = vec![Some("b"), None, Some("a"), Some("b")].into_iter().collect();
    let offsets = arrow_buffer::OffsetBuffer::new(ScalarBuffer::from(vec![0, 2, 2, 4, 4]));
    let nulls = NullBuffer::from(vec![true, true, true, false]);
    let column: ArrayRef = Arc::new(ListArray::new(field, offsets, Arc::new(words), Some(nulls)));
    let batch =
        Batch { times: vec![3, 2, 1, 0], slots: vec![0, 1, 2, 3], by: column.clone(), column, star: false };
    let states = batch.whole(&Function::Last, 0, 4);
    let restored = states.restored(&states.states.save().unwrap(), 4).unwrap();
    assert_eq!(&restored.states.save().unwrap(), &states.states.save().unwrap());
    assert_eq!(finished(restored), finished(states));
}
