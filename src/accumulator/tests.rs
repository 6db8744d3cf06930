//! Laws that every accumulator keeps over every type, against a naive reference that reads values from raw bytes.

mod approximate;
mod saved;
mod values;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::TimeUnit;
use half::f16;

use super::plan::Plan;
use super::*;

/// The accumulator of a lone aggregate, and the part of it that the aggregate is.
struct Single {
    states: Box<dyn Accumulator>,
    part: Part,
}

fn accumulator(function: &Function, input: Option<&DataType>, seed: u64) -> Single {
    accumulator_by(function, Columns { value: input, by: None }, seed)
}

fn accumulator_by(function: &Function, input: Columns<&DataType>, seed: u64) -> Single {
    let call = Call { function: function.clone(), input: input.map(|&data_type| (0, data_type.clone())) };
    let mut plan = plan(&[call], seed);
    assert_eq!(plan.accumulators.len(), 1);
    Single { states: plan.accumulators.remove(0).1, part: plan.outputs[0].part }
}

impl Single {
    fn with(&self, states: Box<dyn Accumulator>) -> Single {
        Single { states, part: self.part }
    }
    fn resize(&mut self, slots: usize) {
        self.states.resize(slots);
    }
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>) {
        self.states.update(slots, rows);
    }
    fn update_one(&mut self, zeros: &[u32], rows: &Rows<'_>) {
        self.states.update_one(zeros, rows);
    }
    fn merge(&mut self, slots: &[u32], other: &Single) {
        self.states.merge(slots, other.states.as_ref());
    }
    fn gather(&self, slots: &[u32]) -> Single {
        self.with(self.states.gather(slots))
    }
    fn append(&mut self, other: &Single) {
        self.states.append(other.states.as_ref());
    }
    fn finish(&self) -> Result<ArrayRef, FinishError> {
        self.states.finish(self.part)
    }
    fn size(&self) -> usize {
        self.states.size()
    }
    fn magnitude(&self) -> u128 {
        self.states.magnitude()
    }
    fn clone(&self) -> Single {
        self.with(self.states.boxed_clone())
    }
}

/// A small generator, so that every failure comes back.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
    fn float(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A value as the reference sees it. Floats compare by rule 27.
#[derive(Clone, Debug, PartialEq)]
enum Scalar {
    Null,
    Int(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

impl Scalar {
    /// The documented order, spelled out without any trick on bits.
    fn cmp(&self, other: &Scalar) -> std::cmp::Ordering {
        match (self, other) {
            (Scalar::Int(a), Scalar::Int(b)) => a.cmp(b),
            (Scalar::Bytes(a), Scalar::Bytes(b)) => a.cmp(b),
            (Scalar::Float(a), Scalar::Float(b)) => match (a.is_nan(), b.is_nan()) {
                (false, false) if *a == *b => b.is_sign_negative().cmp(&a.is_sign_negative()),
                (false, false) => a.partial_cmp(b).unwrap(),
                (a, b) => a.cmp(&b),
            },
            _ => panic!("{self:?} and {other:?} are of different types"),
        }
    }
    fn same(&self, other: &Scalar) -> bool {
        self == other && (*self == Scalar::Null || self.cmp(other).is_eq())
            || matches!((self, other), (Scalar::Float(a), Scalar::Float(b)) if a.is_nan() && b.is_nan())
    }
    fn float(&self, data_type: &DataType) -> f64 {
        match (self, data_type) {
            (Scalar::Int(value), DataType::Decimal128(_, scale)) => {
                *value as f64 / 10_f64.powi(i32::from(*scale))
            }
            (Scalar::Int(value), _) => *value as f64,
            (Scalar::Float(value), _) => *value,
            _ => panic!("{self:?} is not a number"),
        }
    }
}

/// A value of any column, from its bytes.
fn scalar(array: &ArrayRef, row: usize) -> Scalar {
    if array.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return Scalar::Null;
    }
    let data_type = array.data_type();
    if let Some(width) = data_type.primitive_width() {
        let data = array.to_data();
        let bytes = &data.buffers()[0].as_slice()[(data.offset() + row) * width..][..width];
        let signed = !data_type.is_unsigned_integer() && bytes[width - 1] >> 7 == 1;
        let mut all = [if signed { 255 } else { 0 }; 16];
        all[..width].copy_from_slice(bytes);
        let value = i128::from_le_bytes(all);
        return match data_type {
            DataType::Float16 => Scalar::Float(f16::from_bits(value as u16).to_f64()),
            DataType::Float32 => Scalar::Float(f32::from_bits(value as u32).into()),
            DataType::Float64 => Scalar::Float(f64::from_bits(value as u64)),
            _ => Scalar::Int(value),
        };
    }
    Scalar::Bytes(match data_type {
        DataType::Boolean => vec![u8::from(array.as_boolean().value(row))],
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into(),
        DataType::Utf8View => array.as_string_view().value(row).into(),
        DataType::Binary => array.as_binary::<i32>().value(row).into(),
        DataType::LargeBinary => array.as_binary::<i64>().value(row).into(),
        DataType::BinaryView => array.as_binary_view().value(row).into(),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row).into(),
        DataType::Dictionary(..) => {
            let keys = array.as_any_dictionary().normalized_keys();
            return scalar(array.as_any_dictionary().values(), keys[row]);
        }
        _ => format!("{:?}", array.slice(row, 1)).into(),
    })
}

/// Every type that any aggregate takes.
fn types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64];
    types.extend([Decimal128(20, 3), Decimal128(38, 0), Boolean, Date32, Date64]);
    types.extend([Utf8, LargeUtf8, Utf8View, Binary, LargeBinary, BinaryView, FixedSizeBinary(4)]);
    types.extend([Time32(TimeUnit::Second), Time32(TimeUnit::Millisecond)]);
    types.extend([Time64(TimeUnit::Microsecond), Time64(TimeUnit::Nanosecond)]);
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        types.extend([Timestamp(unit, None), Timestamp(unit, Some("Europe/Berlin".into())), Duration(unit)]);
    }
    types.extend([Utf8, Int64, Float64].map(|values| Dictionary(Box::new(Int16), Box::new(values))));
    types.push(List(Arc::new(arrow_schema::Field::new_list_field(Int32, true))));
    types
}

/// Which values a random column has.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// Small whole numbers: every float operation on them is exact.
    Small,
    /// Both ends of the type, zeros, NaN.
    Extreme,
}

fn primitive<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> ArrayRef {
    let values = ScalarBuffer::from(values);
    Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(data_type.clone()))
}

fn floats(data_type: &DataType, values: Vec<f64>, nulls: Option<NullBuffer>) -> ArrayRef {
    match data_type {
        DataType::Float16 => {
            primitive::<Float16Type>(values.into_iter().map(f16::from_f64).collect(), nulls, data_type)
        }
        DataType::Float32 => {
            primitive::<Float32Type>(values.iter().map(|&v| v as f32).collect(), nulls, data_type)
        }
        _ => primitive::<Float64Type>(values, nulls, data_type),
    }
}

/// A column whose value under a null is as random as any other.
fn column(data_type: &DataType, kind: Kind, nulls: bool, rows: usize, random: &mut Random) -> ArrayRef {
    use DataType::*;
    let valid: Vec<bool> = (0..rows).map(|_| !nulls || random.below(3) > 0).collect();
    let small: Vec<i64> = (0..rows)
        .map(|_| random.below(40) as i64 - if data_type.is_unsigned_integer() { 0 } else { 20 })
        .collect();
    let nulls = nulls.then(|| NullBuffer::from(valid.clone()));
    let extreme = kind == Kind::Extreme;
    let mut ends = |low: i128, high: i128| -> Vec<i128> {
        let ends = [low, high, low + 1, high - 1, 0, 1, 7];
        small.iter().map(|&value| if extreme { random.pick(&ends) } else { value.into() }).collect()
    };
    let width = data_type.primitive_width().unwrap_or(0);
    match data_type {
        Int8 => primitive::<Int8Type>(ends(-128, 127).iter().map(|&v| v as i8).collect(), nulls, data_type),
        UInt8 => primitive::<UInt8Type>(ends(0, 255).iter().map(|&v| v as u8).collect(), nulls, data_type),
        Int16 => {
            primitive::<Int16Type>(ends(-32768, 32767).iter().map(|&v| v as i16).collect(), nulls, data_type)
        }
        UInt16 => {
            primitive::<UInt16Type>(ends(0, 65535).iter().map(|&v| v as u16).collect(), nulls, data_type)
        }
        UInt32 => primitive::<UInt32Type>(
            ends(0, u32::MAX.into()).iter().map(|&v| v as u32).collect(),
            nulls,
            data_type,
        ),
        UInt64 => primitive::<UInt64Type>(
            ends(0, u64::MAX.into()).iter().map(|&v| v as u64).collect(),
            nulls,
            data_type,
        ),
        Decimal128(precision, _) => {
            let most = 10_i128.pow(u32::from(*precision)) - 1;
            primitive::<Decimal128Type>(ends(-most, most), nulls, data_type)
        }
        Float16 | Float32 | Float64 => {
            let ends =
                [f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 5e-324, 60000.0, -1.5];
            let values = small.iter().map(|&v| if extreme { random.pick(&ends) } else { v as f64 });
            let values: Vec<f64> = values.collect();
            floats(data_type, values, nulls)
        }
        _ if width == 4 => {
            let data = ends(i32::MIN.into(), i32::MAX.into()).iter().map(|&v| v as i32).collect();
            let base = primitive::<Int32Type>(data, nulls, &Int32).to_data();
            make_array(base.into_builder().data_type(data_type.clone()).build().unwrap())
        }
        _ if width == 8 => {
            let data = ends(i64::MIN.into(), i64::MAX.into()).iter().map(|&v| v as i64).collect();
            let base = primitive::<Int64Type>(data, nulls, &Int64).to_data();
            make_array(base.into_builder().data_type(data_type.clone()).build().unwrap())
        }
        _ => composite(data_type, &small, &valid, random),
    }
}

fn composite(data_type: &DataType, small: &[i64], valid: &[bool], random: &mut Random) -> ArrayRef {
    use DataType::*;
    let text = |v: &i64| {
        if *v == 0 { String::new() } else { format!("é\0 long enough to leave a view {v}") }
    };
    let cells = small.iter().zip(valid).map(|(value, valid)| valid.then_some(value));
    let texts: Vec<Option<String>> = cells.clone().map(|cell| cell.map(text)).collect();
    let bytes = || texts.iter().map(|cell| cell.as_ref().map(|text| text.as_bytes()));
    match data_type {
        Boolean => Arc::new(cells.map(|cell| cell.map(|v| v % 2 == 0)).collect::<BooleanArray>()),
        Utf8 => Arc::new(StringArray::from(texts)),
        LargeUtf8 => Arc::new(LargeStringArray::from(texts)),
        Utf8View => Arc::new(StringViewArray::from_iter(texts.iter().map(Option::as_deref))),
        Binary => Arc::new(BinaryArray::from_iter(bytes())),
        LargeBinary => Arc::new(LargeBinaryArray::from_iter(bytes())),
        BinaryView => Arc::new(BinaryViewArray::from_iter(bytes())),
        FixedSizeBinary(size) => {
            let cells = cells.map(|cell| cell.map(|v| (*v as i32).to_be_bytes()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells, *size).unwrap())
        }
        Dictionary(_, values) => {
            // Nulls among the keys and among the values.
            let values = column(values, Kind::Small, true, 12, random);
            let keys = cells.map(|cell| cell.map(|v| v.rem_euclid(12) as i16)).collect();
            Arc::new(DictionaryArray::<Int16Type>::new(keys, values))
        }
        List(_) => {
            let lists =
                cells.map(|cell| cell.map(|&v| (0..v.rem_euclid(4)).map(move |i| Some((v + i) as i32))));
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))
        }
        other => panic!("no random column of {other}"),
    }
}

/// Rows with their slots; the last slot never gets any.
struct Batch {
    column: ArrayRef,
    /// What `max_by` and `min_by` choose by.
    by: ArrayRef,
    times: Vec<i64>,
    slots: Vec<u32>,
    /// For `count(*)`: no column.
    star: bool,
}

const SLOTS: usize = 4;

impl Batch {
    fn random(data_type: &DataType, kind: Kind, nulls: bool, rows: usize, random: &mut Random) -> Batch {
        Batch {
            column: column(data_type, kind, nulls, rows, random),
            by: {
                let types = [DataType::Int32, DataType::Float64, DataType::Decimal128(20, 3)];
                let dictionary = |values| DataType::Dictionary(Box::new(DataType::Int16), Box::new(values));
                let nested = dictionary(dictionary(DataType::Int64));
                let [int, float, decimal] = types;
                let of = [int, float.clone(), decimal, dictionary(float), nested];
                column(&of[random.below(of.len() as u64) as usize], kind, nulls, rows, random)
            },
            times: (0..rows).map(|_| random.pick(&[i64::MIN, -3, 0, 5, i64::MAX])).collect(),
            slots: (0..rows).map(|_| random.below(SLOTS as u64 - 1) as u32).collect(),
            star: false,
        }
    }
    fn len(&self) -> usize {
        self.times.len()
    }
    /// Feeds rows `from..to` in blocks of up to three: cut out as a batch of their own, or in place if `from` is odd.
    fn feed(&self, accumulator: &mut Single, from: usize, to: usize) {
        accumulator.resize(SLOTS);
        let start = if from % 2 == 1 { 0 } else { from };
        let (column, by) = (self.column.slice(start, to - start), self.by.slice(start, to - start));
        let block = |row: usize| Block { start: row - start, rows: (1 << (to - row).min(3)) - 1 };
        let blocks: Vec<_> = (from..to).step_by(3).map(block).collect();
        let rows = Rows {
            column: (!self.star).then_some(&column),
            by: Some(&by),
            times: &self.times[start..to],
            first_arrival: 100 + start as u64,
            blocks: &blocks,
        };
        accumulator.update(&self.slots[from..to], &rows);
    }
    fn whole(&self, function: &Function, from: usize, to: usize) -> Single {
        let input = Columns { value: Some(self.column.data_type()), by: Some(self.by.data_type()) };
        let mut accumulator = accumulator_by(function, input, 42);
        self.feed(&mut accumulator, from, to);
        accumulator
    }
    /// The value in the row of a slot that is chosen, spelled out: the best `by`, then the earliest time, then the first
    /// row.
    fn chosen(&self, slot: usize, largest: bool) -> Scalar {
        let mut best: Option<(usize, Scalar)> = None;
        for row in (0..self.len()).filter(|&row| self.slots[row] as usize == slot) {
            let by = scalar(&self.by, row);
            if by == Scalar::Null {
                continue;
            }
            let wins = best.as_ref().is_none_or(|(held, held_by)| {
                let order = if largest { by.cmp(held_by) } else { held_by.cmp(&by) };
                order.is_gt() || order.is_eq() && self.times[row] < self.times[*held]
            });
            if wins {
                best = Some((row, by));
            }
        }
        best.map_or(Scalar::Null, |(row, _)| scalar(&self.column, row))
    }
    /// The values of a slot that are not null, with time and row, in order.
    fn of(&self, slot: usize) -> Vec<(i64, usize, Scalar)> {
        (0..self.len())
            .filter(|&row| self.slots[row] as usize == slot)
            .map(|row| (self.times[row], row, scalar(&self.column, row)))
            .filter(|(_, _, value)| *value != Scalar::Null)
            .collect()
    }
}

fn functions() -> Vec<Function> {
    use Function::*;
    let mut all =
        vec![CountAll, Count, Sum, Min, Max, Mean, First, Last, MaxBy, MinBy, Quantile(0.3), ApproxDistinct];
    for (sample, sqrt) in [(true, false), (true, true), (false, false), (false, true)] {
        all.push(Variance { sample, sqrt });
    }
    all.extend([
        ReservoirQuantile { q: 0.6, capacity: 1000 },
        ReservoirQuantile { q: 0.6, capacity: 2 },
        Custom(Arc::new(Rowwise)),
    ]);
    all
}

/// A user's function that sees every row: positions and values, in the order given.
#[derive(Debug)]
struct Rowwise;

impl crate::AggregateFunction for Rowwise {
    type State = String;
    fn return_type(&self, _: &DataType) -> Result<DataType, String> {
        Ok(DataType::Utf8)
    }
    fn create(&self) -> String {
        String::new()
    }
    fn add(&self, state: &mut String, input: &ArrayRef, row: usize, at: RowPosition) {
        *state += &format!("{}@{}:{:?};", at.time, at.arrival, scalar(input, row));
    }
    fn merge(&self, state: &mut String, other: &String) {
        *state += other;
    }
    fn finish(&self, states: &[String]) -> Result<ArrayRef, String> {
        Ok(Arc::new(StringArray::from_iter_values(states)))
    }
    fn save(&self, states: &[String]) -> Result<ArrayRef, String> {
        Ok(Arc::new(StringArray::from_iter_values(states)))
    }
    fn restore(&self, saved: &ArrayRef) -> Result<Vec<String>, String> {
        let states = saved.as_string_opt::<i32>().ok_or("strings were expected")?;
        Ok(states.iter().map(|state| state.unwrap_or_default().to_string()).collect())
    }
    fn heap_size(&self, state: &String) -> usize {
        state.capacity()
    }
}

/// What the function should give for the values of one slot. `None` where only a tolerance can say; see `near`.
fn reference(
    function: &Function,
    data_type: &DataType,
    rows: usize,
    values: &[(i64, usize, Scalar)],
) -> Option<Scalar> {
    let scalars = || values.iter().map(|(_, _, value)| value);
    let floats = || scalars().map(|value| value.float(data_type));
    let n = values.len();
    let or_null = |value: Option<Scalar>| Some(value.unwrap_or(Scalar::Null));
    match function {
        Function::CountAll => Some(Scalar::Int(rows as i128)),
        Function::Count => Some(Scalar::Int(n as i128)),
        Function::Min => or_null(scalars().min_by(|a, b| a.cmp(b)).cloned()),
        Function::Max => or_null(scalars().max_by(|a, b| a.cmp(b)).cloned()),
        Function::First => or_null(values.iter().min_by_key(|row| (row.0, row.1)).map(|row| row.2.clone())),
        Function::Last => or_null(values.iter().max_by_key(|row| (row.0, row.1)).map(|row| row.2.clone())),
        // Compared with the one that saw every row in order.
        Function::Custom(_) => None,
        _ if n == 0 && !matches!(function, Function::ApproxDistinct) => Some(Scalar::Null),
        Function::Sum => Some(match scalars().next()? {
            Scalar::Int(_) => {
                Scalar::Int(scalars().map(|v| if let Scalar::Int(v) = v { *v } else { 0 }).sum())
            }
            _ => Scalar::Float(floats().sum()),
        }),
        Function::Mean => match scalars().next()? {
            // The sum is exact, and so its quotient is rounded once.
            Scalar::Int(_) if matches!(data_type, DataType::Decimal128(..)) => None,
            _ => Some(Scalar::Float(floats().sum::<f64>() / n as f64)),
        },
        Function::ReservoirQuantile { q, capacity: 1000 } => {
            let mut sorted: Vec<_> = floats().map(Scalar::Float).collect();
            sorted.sort_by(Scalar::cmp);
            Some(sorted[(q * (n - 1) as f64).floor() as usize].clone())
        }
        Function::ApproxDistinct => {
            let mut distinct: Vec<&Scalar> = Vec::new();
            for value in scalars() {
                let zero_or_nan = |a: &Scalar, b: &Scalar| a == b || a.same(b);
                if !distinct.iter().any(|seen| zero_or_nan(seen, value)) {
                    distinct.push(value);
                }
            }
            Some(Scalar::Int(distinct.len() as i128))
        }
        _ => None,
    }
}

/// The reference where rounding or the sketch allows a tolerance: value and relative error.
fn near(function: &Function, data_type: &DataType, values: &[(i64, usize, Scalar)]) -> Option<(f64, f64)> {
    let mut floats: Vec<f64> = values.iter().map(|(_, _, value)| value.float(data_type)).collect();
    let n = floats.len() as f64;
    let mean = floats.iter().sum::<f64>() / n;
    match function {
        Function::Mean => Some((mean, 1e-14)),
        Function::Variance { sample, sqrt } => {
            let degrees = if *sample { n - 1.0 } else { n };
            let variance = floats.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / degrees;
            Some((if *sqrt { variance.sqrt() } else { variance }, 1e-12)).filter(|_| degrees > 0.0)
        }
        Function::Quantile(q) => {
            floats.sort_by(f64::total_cmp);
            Some((floats[(q * (n - 1.0)).floor() as usize], 1.0 / 129.0 + 1e-9))
        }
        _ => None,
    }
}

/// Every function with every type it takes, random columns of it with and without nulls.
fn every_case(mut check: impl FnMut(&Function, &Batch, Kind)) {
    let mut cases = 0;
    for data_type in types() {
        for function in functions() {
            let Ok(output) = output_type(&function, Some(&data_type)) else { continue };
            for (kind, nulls, seed) in [
                (Kind::Small, false, 1),
                (Kind::Small, true, 2),
                (Kind::Extreme, false, 3),
                (Kind::Extreme, true, 4),
            ] {
                let mut batch = Batch::random(&data_type, kind, nulls, 23, &mut Random(seed));
                batch.star = matches!(function, Function::CountAll);
                check(&function, &batch, kind);
                if let Ok(column) = batch.whole(&function, 0, 23).finish() {
                    assert_eq!(*column.data_type(), output, "{function:?} of {data_type}");
                }
                cases += 1;
            }
        }
    }
    assert!(cases > 1000, "only {cases} cases");
}

/// The finished column or the error, as something to compare bit by bit.
fn finished(accumulator: Single) -> Result<ArrayRef, String> {
    accumulator.finish().map_err(|error| format!("{error:?}"))
}

#[test]
fn updates_in_pieces_are_one_update() {
    every_case(|function, batch, _| {
        let whole = finished(batch.whole(function, 0, batch.len()));
        for cut in 0..=batch.len() {
            let mut pieces = batch.whole(function, 0, cut);
            batch.feed(&mut pieces, cut, batch.len());
            assert_eq!(finished(pieces), whole, "{function:?} of {} cut at {cut}", batch.column.data_type());
        }
    });
}

#[test]
fn aggregates_share_the_state_of_their_own_column_only() {
    let functions = [Function::Sum, Function::Min, Function::Max, Function::Mean, Function::Count];
    let functions = functions.into_iter().chain([Function::Quantile(0.5), Function::Quantile(0.9)]);
    let of = |column: usize| Columns { value: Some((column, DataType::Float64)), by: None };
    let mut calls: Vec<Call> = functions
        .flat_map(|function| [0, 1].map(|column| Call { function: function.clone(), input: of(column) }))
        .collect();
    calls.push(Call { function: Function::CountAll, input: Columns { value: None, by: None } });
    let Plan { accumulators, outputs } = plan(&calls, 0);
    // a summary and a sketch of each column; count(*) is read from a summary
    assert_eq!(accumulators.len(), 4);
    for (call, output) in calls.iter().zip(&outputs) {
        let reads = accumulators[output.accumulator].0.value;
        assert!(call.input.value.is_none() || reads == call.input.value.as_ref().map(|(column, _)| *column));
    }
    assert_eq!(outputs.last().map(|output| output.part), Some(Part::Rows));
}

/// Uses every verb: rows that are cleared away again, two halves merged, slots picked and put behind the others.
fn every_verb(mut states: Single, batch: &Batch) -> Single {
    batch.feed(&mut states, 0, batch.len());
    states.states.clear();
    let mut second = states.clone();
    batch.feed(&mut states, 0, 9);
    batch.feed(&mut second, 9, batch.len());
    states.merge(&[0, 1, 2, 3], &second);
    let mut all = states.gather(&[2, 0, 1, 3]);
    all.append(&states.gather(&[1, 2]));
    all
}

#[test]
fn aggregates_that_share_a_state_give_what_each_gives_alone() {
    let kinds = [(Kind::Small, false, 5), (Kind::Small, true, 6), (Kind::Extreme, true, 7)];
    for (data_type, (kind, nulls, seed)) in
        types().into_iter().flat_map(|t| kinds.map(|kind| (t.clone(), kind)))
    {
        let mut batch = Batch::random(&data_type, kind, nulls, 23, &mut Random(seed));
        let mut functions = functions();
        functions.extend([Function::Quantile(0.9), Function::Sum]);
        functions.retain(|function| output_type(function, Some(&data_type)).is_ok());
        let call = |function: &Function| {
            let by = matches!(function, Function::MaxBy | Function::MinBy);
            let value = (!matches!(function, Function::CountAll)).then(|| (0, data_type.clone()));
            let by = by.then(|| (1, batch.by.data_type().clone()));
            Call { function: function.clone(), input: Columns { value, by } }
        };
        let calls: Vec<Call> = functions.iter().map(call).collect();
        let Plan { accumulators, outputs } = plan(&calls, 42);
        let mut shared = Vec::new();
        for (columns, states) in accumulators {
            batch.star = columns.value.is_none();
            shared.push(every_verb(Single { states, part: Part::Only }, &batch));
        }
        for (function, output) in functions.iter().zip(outputs) {
            batch.star = matches!(function, Function::CountAll);
            let input = Columns { value: Some(&data_type), by: Some(batch.by.data_type()) };
            let alone = every_verb(accumulator_by(function, input, 42), &batch);
            let states = &shared[output.accumulator];
            let together = Single { states: states.states.boxed_clone(), part: output.part };
            assert_eq!(finished(together), finished(alone), "{function:?} of {data_type}, {kind:?}");
        }
    }
}

#[test]
fn a_cleared_accumulator_is_a_new_one() {
    every_case(|function, batch, _| {
        let context = format!("{function:?} of {}", batch.column.data_type());
        let mut reused = batch.whole(function, 0, batch.len());
        reused.states.clear();
        assert_eq!(reused.states.len(), 0, "{context}");
        batch.feed(&mut reused, 3, 14);
        let fresh = batch.whole(function, 3, 14);
        assert_eq!(reused.magnitude(), fresh.magnitude(), "{context}");
        assert_eq!(finished(reused), finished(fresh), "{context}");
    });
}

/// All that an array consists of.
fn bits(array: ArrayRef) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter([("", array)]).unwrap();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn slots_can_be_given_to_others() {
    every_case(|function, batch, _| {
        let context = format!("{function:?} of {}", batch.column.data_type());
        let (new, mut reset) = (batch.whole(function, 0, 0), batch.whole(function, 0, batch.len()));
        let mut expected = new.clone();
        expected.merge(&[1, 3], &reset.gather(&[1, 3]));
        reset.states.reset(&[2, 0]);
        assert_eq!(finished(reset.clone()), finished(expected.clone()), "{context}");
        batch.feed(&mut reset, 3, 14);
        batch.feed(&mut expected, 3, 14);
        assert_eq!(finished(reset.clone()), finished(expected), "{context}");
        // what states hold beside themselves is known again
        reset.states.reset(&[0, 1, 2, 3]);
        // in a snapshot even the bits below a null are the same
        let saved = |of: &Single| of.states.save().map(bits);
        assert_eq!(saved(&reset), saved(&new), "{context}");
        if let Function::Custom(_) = function {
            assert_eq!(reset.size(), new.size(), "{context}");
        }
    });
}

#[test]
fn merging_equals_the_reference() {
    every_case(|function, batch, kind| {
        let data_type = batch.column.data_type();
        let hydrated = if let DataType::Dictionary(_, values) = data_type { values } else { data_type };
        let floats = hydrated.is_floating();
        let extreme = kind == Kind::Extreme;
        let float_sum = floats && extreme && matches!(function, Function::Sum | Function::Mean);
        let variance = matches!(function, Function::Variance { .. });
        // The reference is naive: it adds in floats, and knows no infinite squares.
        let beyond_reference =
            extreme && (float_sum || variance || matches!(function, Function::Mean | Function::Quantile(_)));
        for cut in [0, 1, 9, 16, batch.len()] {
            let context = format!("{function:?} of {data_type}, {kind:?}, merged at {cut}");
            let mut merged = batch.whole(function, 0, cut);
            merged.merge(&[0, 1, 2, 3], &batch.whole(function, cut, batch.len()));
            let column = finished(merged);
            if !variance && !float_sum {
                assert_eq!(column, finished(batch.whole(function, 0, batch.len())), "{context}");
            }
            let Ok(column) = column else { continue };
            for slot in 0..SLOTS {
                let (given, values) = (scalar(&column, slot), batch.of(slot));
                let rows = batch.slots.iter().filter(|&&row| row as usize == slot).count();
                if beyond_reference {
                    continue;
                }
                if let Function::MaxBy | Function::MinBy = function {
                    let expected = batch.chosen(slot, matches!(function, Function::MaxBy));
                    let same = given == expected || given.same(&expected);
                    assert!(same, "{context} by {:?}: {given:?}, not {expected:?}", batch.by);
                    continue;
                }
                if let Some(expected) = reference(function, hydrated, rows, &values) {
                    assert!(given.same(&expected), "{context}: {given:?}, not {expected:?}, from {values:?}");
                } else if values.is_empty() {
                    continue;
                } else if matches!(
                    function,
                    Function::Mean | Function::Variance { .. } | Function::Quantile(_)
                ) {
                    let Some((expected, error)) = near(function, hydrated, &values) else {
                        assert_eq!(given, Scalar::Null, "{context}");
                        continue;
                    };
                    let given = given.float(&DataType::Float64);
                    assert!(
                        (given - expected).abs() <= error * expected.abs(),
                        "{context}: {given}, not {expected}"
                    );
                }
            }
        }
    });
}

#[test]
fn merging_is_associative() {
    every_case(|function, batch, kind| {
        if kind == Kind::Extreme && matches!(function, Function::Sum | Function::Mean) {
            return;
        }
        if matches!(function, Function::Variance { .. }) {
            return;
        }
        let part = |from, to| batch.whole(function, from, to);
        let mut left = part(0, 7);
        left.merge(&[0, 1, 2, 3], &part(7, 15));
        left.merge(&[0, 1, 2, 3], &part(15, 23));
        let mut tail = part(7, 15);
        tail.merge(&[0, 1, 2, 3], &part(15, 23));
        let mut right = part(0, 7);
        right.merge(&[0, 1, 2, 3], &tail);
        assert_eq!(finished(left), finished(right), "{function:?} of {}", batch.column.data_type());
    });
}

#[test]
fn an_empty_side_changes_no_bit() {
    every_case(|function, batch, _| {
        let whole = batch.whole(function, 0, batch.len());
        let expected = finished(whole.clone());
        let mut into_empty = batch.whole(function, 0, 0);
        into_empty.merge(&[0, 1, 2, 3], &whole);
        let mut from_empty = whole;
        from_empty.merge(&[0, 1, 2, 3], &batch.whole(function, 0, 0));
        let context = format!("{function:?} of {}", batch.column.data_type());
        assert_eq!(finished(into_empty), expected, "{context}");
        assert_eq!(finished(from_empty), expected, "{context}");
    });
}

#[test]
fn slots_can_be_moved() {
    every_case(|function, batch, _| {
        let context = format!("{function:?} of {}", batch.column.data_type());
        let half = batch.whole(function, 0, 12);
        // Cut apart, put together and grown in between, then updated further: as if nothing had happened.
        let mut moved = half.gather(&[0, 1]);
        moved.append(&half.gather(&[2]));
        moved.resize(1);
        assert_eq!(moved.states.len(), 3, "{context}");
        batch.feed(&mut moved, 12, batch.len());
        let whole = finished(batch.whole(function, 0, batch.len()));
        assert_eq!(finished(moved.clone()), whole, "{context}");
        // A copy goes its own way.
        let copy = moved.clone();
        batch.feed(&mut moved, 0, 12);
        assert_eq!(finished(copy.clone()), whole, "{context}");
        // Slots that have seen nothing are moved as such.
        let mut halves = copy.gather(&[0, 1]);
        halves.append(&copy.gather(&[2, 3]));
        assert_eq!(finished(halves), whole, "{context}");
        // Any order, any selection; merging can lead slots elsewhere.
        let mut swapped = batch.whole(function, 0, 0);
        swapped.merge(&[2, 1, 0], &copy.gather(&[2, 1, 0]));
        assert_eq!(finished(swapped), whole, "{context}");
        if let (Ok(column), Ok(whole)) = (finished(copy.gather(&[3, 1])), whole) {
            assert_eq!(column.len(), 2, "{context}");
            assert!(
                column.slice(0, 1) == whole.slice(3, 1) && column.slice(1, 1) == whole.slice(1, 1),
                "{context}"
            );
        }
    });
}

/// Rows with a slot each, folded, and more rows folded into those: as if each had been taken in at the slot of its key.
#[test]
fn rows_that_are_folded_leave_the_bits_of_rows_that_are_taken_in() {
    let mut additive = 0;
    every_case(|function, batch, _| {
        let context = format!("{function:?} of {}", batch.column.data_type());
        let mut folded = batch.whole(function, 0, 0).gather(&[]);
        let mut keys: Vec<u64> = Vec::new();
        for (from, to) in [(0, 12), (12, batch.len())] {
            let slots = keys.len() as u32..(keys.len() + to - from) as u32;
            keys.extend(batch.slots[from..to].iter().map(|&slot| u64::from(slot)));
            folded.resize(keys.len());
            let rows = Rows {
                column: (!batch.star).then_some(&batch.column),
                by: Some(&batch.by),
                times: &batch.times,
                first_arrival: 100,
                blocks: &[Block { start: from, rows: (1 << (to - from)) - 1 }],
            };
            folded.update(&slots.collect::<Vec<_>>(), &rows);
            let Some(states) = folded.states.as_additive() else { return };
            let repeats = Repeats::of(&keys, &[], &[]);
            states.fold(&repeats);
            repeats.take_out(&mut keys);
        }
        additive += 1;
        let slots: Vec<u32> = keys.iter().map(|&key| key as u32).collect();
        let expected = batch.whole(function, 0, batch.len()).gather(&slots);
        assert_eq!(folded.magnitude(), expected.magnitude(), "{context}");
        assert_eq!(folded.states.save().map(bits), expected.states.save().map(bits), "{context}");
        assert_eq!(finished(folded), finished(expected), "{context}");
    });
    assert!(additive > 400, "only {additive} cases");
}

/// Whole blocks and others, with and without nulls: the same bits and the same bound, whichever way rows come to slot 0.
#[test]
fn one_slot_at_once_changes_no_bit() {
    let mut random = Random(5);
    let wild = |nulls: bool, random: &mut Random| {
        let mut value = || {
            let value = f64::from_bits(random.next());
            if random.below(9) > 0 { value % 1e9 / 7.0 } else { value }
        };
        let values: Vec<f64> = (0..300).map(|_| value()).collect();
        let valid = nulls.then(|| (0..300).map(|_| random.below(9) > 0).collect::<NullBuffer>());
        Arc::new(Float64Array::new(values.into(), valid)) as ArrayRef
    };
    for function in functions() {
        for data_type in types() {
            if output_type(&function, Some(&data_type)).is_err() {
                continue;
            }
            for (kind, nulls) in [(Kind::Small, false), (Kind::Extreme, false), (Kind::Extreme, true)] {
                let mut batch = Batch::random(&data_type, kind, nulls, 300, &mut random);
                if data_type == DataType::Float64 {
                    batch.column = wild(nulls, &mut random);
                }
                same_in_one_slot(&function, &batch, &mut random);
            }
        }
    }
}

fn same_in_one_slot(function: &Function, batch: &Batch, random: &mut Random) {
    let mut row_by_row = batch.whole(function, 0, 0);
    let mut at_once = row_by_row.clone();
    let blocks = Block::cover(10..280);
    let some: Vec<_> =
        blocks.iter().map(|block| Block { rows: block.rows & random.next() | 1, ..*block }).collect();
    // Nothing, all, some, and a block in the middle.
    for blocks in [&[], blocks.as_slice(), &some, &blocks[2..3]] {
        let zeros = vec![0; blocks.iter().map(Block::len).sum()];
        let rows = Rows {
            column: (!matches!(function, Function::CountAll)).then_some(&batch.column),
            by: Some(&batch.by),
            times: &batch.times,
            first_arrival: random.below(1000),
            blocks,
        };
        row_by_row.update(&zeros, &rows);
        at_once.update_one(&zeros, &rows);
        let context = format!("{function:?} of {}", batch.column.data_type());
        assert_eq!(at_once.magnitude(), row_by_row.magnitude(), "{context}");
        assert_eq!(finished(at_once.clone()), finished(row_by_row.clone()), "{context}");
    }
}
