//! Values worked out by hand.

use super::*;

/// One slot that has seen all of `column`, at times 0, 1, 2 and so on.
fn one_slot(function: &Function, column: ArrayRef) -> Single {
    let batch = Batch {
        times: (0..column.len() as i64).collect(),
        slots: vec![0; column.len()],
        by: column.clone(),
        column,
        star: matches!(function, Function::CountAll),
    };
    batch.whole(function, 0, batch.len()).gather(&[0])
}

fn result(function: &Function, column: impl Array + 'static) -> ArrayRef {
    one_slot(function, Arc::new(column)).finish().unwrap()
}

fn float(function: &Function, column: impl Array + 'static) -> f64 {
    result(function, column).as_primitive::<Float64Type>().value(0)
}

fn overflow(function: &Function, column: impl Array + 'static) -> (usize, String) {
    match one_slot(function, Arc::new(column)).finish() {
        Err(FinishError::Overflow { slot, value }) => (slot, value),
        other => panic!("expected an overflow, not {other:?}"),
    }
}

#[test]
fn counts() {
    let column = Int32Array::from(vec![Some(7), None, Some(7)]);
    assert_eq!(result(&Function::CountAll, column.clone()).as_primitive::<Int64Type>().value(0), 3);
    assert_eq!(result(&Function::Count, column).as_primitive::<Int64Type>().value(0), 2);
    // The null is in the values of the dictionary, not in the keys.
    let values = Arc::new(StringArray::from(vec![Some("a"), None]));
    let dictionary = DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0, 1, 0, 1]), values);
    assert_eq!(result(&Function::Count, dictionary).as_primitive::<Int64Type>().value(0), 2);
}

#[test]
fn integer_sums_never_wrap() {
    let (max, min) = (i64::MAX, i64::MIN);
    // On the way beyond i64 and back: MAX + 1 - 1.
    let there_and_back = result(&Function::Sum, Int64Array::from(vec![max, 1, -1]));
    assert_eq!(there_and_back.as_primitive::<Int64Type>().value(0), max);
    // 2^63 - 1 + 1 = 2^63; -2^63 - 1.
    assert_eq!(overflow(&Function::Sum, Int64Array::from(vec![max, 1])).1, "9223372036854775808");
    assert_eq!(overflow(&Function::Sum, Int64Array::from(vec![min, -1])).1, "-9223372036854775809");
    // 2 (2^64 - 1) = 2^65 - 2.
    let most = UInt64Array::from(vec![u64::MAX, u64::MAX]);
    assert_eq!(overflow(&Function::Sum, most).1, "36893488147419103230");
    // 3 * 255 = 765 does not fit the input, but the output.
    let bytes = result(&Function::Sum, UInt8Array::from(vec![255; 3]));
    assert_eq!(bytes.as_primitive::<UInt64Type>().value(0), 765);
}

#[test]
fn an_overflow_names_its_slot() {
    let mut sums = accumulator(&Function::Sum, Some(&DataType::Int64), 0);
    sums.resize(3);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1, i64::MAX, i64::MAX]));
    let blocks = [Block::one(0), Block { start: 1, rows: 0b11 }];
    let rows = Rows { column: Some(&column), by: None, times: &[0; 3], first_arrival: 0, blocks: &blocks };
    sums.update(&[0, 2, 2], &rows);
    assert!(matches!(sums.finish(), Err(FinishError::Overflow { slot: 2, .. })));
}

#[test]
fn decimal_sums_have_38_digits() {
    let decimals = |values: Vec<i128>| Decimal128Array::from(values).with_precision_and_scale(38, 2).unwrap();
    let most = 10_i128.pow(38) - 1;
    let back = result(&Function::Sum, decimals(vec![most, most, -most]));
    assert_eq!(back.as_primitive::<Decimal128Type>().value(0), most);
    // 999...9.99 + 0.01 = 1 and 38 zeros, two of them behind the point.
    let (_, value) = overflow(&Function::Sum, decimals(vec![most, 1]));
    assert_eq!(value, format!("1{}.00", "0".repeat(36)));
    // More than i128 holds (1.7e38): 3 * (10^38 - 1).
    let (_, value) = overflow(&Function::Sum, decimals(vec![most; 3]));
    assert_eq!(value, format!("2{}.97", "9".repeat(36)));
    assert_eq!(
        output_type(&Function::Sum, Some(&DataType::Decimal128(10, 2))),
        Ok(DataType::Decimal128(38, 2))
    );
}

#[test]
fn the_magnitude_bounds_every_slot() {
    let bound = |column: ArrayRef| one_slot(&Function::Sum, column).magnitude();
    for values in [vec![i64::MIN, i64::MIN], vec![i64::MAX, -1, 5], vec![0, 0], vec![-128, 127]] {
        let sum: u128 = values.iter().map(|value| u128::from(value.unsigned_abs())).sum();
        let given = bound(Arc::new(Int64Array::from(values.clone())));
        assert!(given >= sum, "{given} for {values:?}");
        // Within a factor of two of count times largest, so that ordinary sums are known to fit.
        let most = values.iter().map(|value| value.unsigned_abs()).max().unwrap();
        assert!(given <= 2 * (u128::from(most) + 1) * values.len() as u128, "{given} for {values:?}");
    }
    let unsigned = bound(Arc::new(UInt64Array::from(vec![u64::MAX, u64::MAX - 1, 1 << 63])));
    assert!(unsigned >= 2 * u128::from(u64::MAX));
    assert_eq!(bound(Arc::new(Float64Array::from(vec![1e300]))), 0);
    // Merged slots are still bounded.
    let mut sums = one_slot(&Function::Sum, Arc::new(Int64Array::from(vec![1 << 40])));
    sums.append(&one_slot(&Function::Sum, Arc::new(Int64Array::from(vec![1 << 41]))));
    let mut merged = one_slot(&Function::Sum, Arc::new(Int64Array::from(vec![1_i64])));
    merged.merge(&[0, 0], &sums);
    assert!(merged.magnitude() > (1 << 40) + (1 << 41));
    assert_eq!(
        one_slot(&Function::Custom(Arc::new(Rowwise)), Arc::new(Int64Array::from(vec![1]))).magnitude(),
        u128::MAX
    );
}

#[test]
fn float_sums_add_in_order() {
    // (1e16 + 1) + 1 loses both ones to rounding; (1 + 1) + 1e16 loses none.
    assert_eq!(float(&Function::Sum, Float64Array::from(vec![1e16, 1.0, 1.0])), 1e16);
    assert_eq!(float(&Function::Sum, Float64Array::from(vec![1.0, 1.0, 1e16])), 1e16 + 2.0);
    // Sixteen bits add as 64: 60000 + 60000 is beyond Float16.
    let sixteen = Float16Array::from(vec![f16::from_f64(60000.0); 2]);
    assert_eq!(float(&Function::Sum, sixteen), 2.0 * f16::from_f64(60000.0).to_f64());
    let zero = float(&Function::Sum, Float64Array::from(vec![-0.0]));
    assert!(zero == 0.0 && zero.is_sign_negative());
}

#[test]
fn nan_is_largest_and_negative_zero_below_zero() {
    let nan = f64::NAN;
    let cases: [(&[f64], f64, f64); 6] = [
        (&[1.0, nan, -1.0], -1.0, nan),
        (&[nan, nan], nan, nan),
        (&[-nan, f64::INFINITY], f64::INFINITY, nan),
        (&[0.0, -0.0], -0.0, 0.0),
        (&[-0.0, 0.0], -0.0, 0.0),
        (&[f64::NEG_INFINITY], f64::NEG_INFINITY, f64::NEG_INFINITY),
    ];
    for (values, min, max) in cases {
        let column = || Float64Array::from(values.to_vec());
        // All NaN come out as one, so bits can be compared.
        assert_eq!(float(&Function::Min, column()).to_bits(), min.to_bits(), "min of {values:?}");
        assert_eq!(float(&Function::Max, column()).to_bits(), max.to_bits(), "max of {values:?}");
    }
}

/// Values that the machine's own maximum would order otherwise come before, between and after ordinary ones, and a summary
/// learns of them in every way that it can.
#[test]
fn extremes_do_not_depend_on_what_came_with_a_value() {
    let pieces: [&[f64]; 6] =
        [&[1.5, -2.0, 1.5], &[0.0], &[-0.0], &[f64::NAN, -7.0], &[f64::INFINITY], &[f64::NEG_INFINITY]];
    for data_type in [DataType::Float16, DataType::Float32, DataType::Float64] {
        for number in 0..6 * 6 * 6 {
            let [first, second, third] = [1, 6, 36].map(|place| pieces[number / place % 6]);
            let values = [first, second, third].concat();
            let (one, two, len) = (first.len(), first.len() + second.len(), values.len());
            let column = floats(&data_type, values.clone(), None);
            let batch =
                Batch { by: column.clone(), column, times: vec![0; len], slots: vec![0; len], star: false };
            for function in [Function::Min, Function::Max] {
                let piece = |from, to| batch.whole(&function, from, to);
                let more = |mut states: Single, from, to| {
                    batch.feed(&mut states, from, to);
                    states
                };
                let restored = |states: Single| {
                    let saved = states.states.save().unwrap();
                    states.with(states.states.restore(&saved, &mut 100).unwrap())
                };
                let merged = |mut states: Single, other: Single| {
                    states.merge(&[0, 1, 2, 3], &other);
                    states
                };
                let appended = |states: Single| {
                    let mut both = piece(0, 0);
                    both.append(&states);
                    both.gather(&[4, 5, 6, 7])
                };
                let alone = |mut states: Single, from, to: usize| {
                    let blocks = [Block { start: from, rows: (1 << (to - from)) - 1 }];
                    let column = Some(&batch.column);
                    let rows =
                        Rows { column, by: None, times: &batch.times, first_arrival: 0, blocks: &blocks };
                    states.update_one(&vec![0; to - from], &rows);
                    states
                };
                let ways = [
                    ("updates", more(more(piece(0, one), one, two), two, len)),
                    ("a merge", more(merged(piece(0, one), piece(one, two)), two, len)),
                    ("a restored state", more(restored(more(piece(0, one), one, two)), two, len)),
                    ("an appended state", more(appended(more(piece(0, one), one, two)), two, len)),
                    ("one slot alone", more(alone(piece(0, one), one, two), two, len)),
                    ("one slot alone at the end", alone(more(piece(0, one), one, two), two, len)),
                ];
                let seen: Vec<_> = (0..len).map(|row| (0, row, scalar(&batch.column, row))).collect();
                let expected = reference(&function, &data_type, len, &seen).unwrap();
                for (way, states) in ways {
                    let given = scalar(&states.finish().unwrap(), 0);
                    assert!(given.same(&expected), "{function:?} of {values:?}, {way}: {given:?}");
                }
            }
        }
    }
}

#[test]
fn extremes_that_equal_the_start_are_values() {
    // A slot starts from the worst value: one that has seen it must differ from one that has seen nothing.
    let worst = result(&Function::Min, Int64Array::from(vec![Some(i64::MAX), None]));
    assert!(worst.is_valid(0) && worst.as_primitive::<Int64Type>().value(0) == i64::MAX);
    assert!(result(&Function::Max, Int64Array::from(vec![None, None])).is_null(0));
    assert!(result(&Function::Sum, Float64Array::from(vec![None, None])).is_null(0));
}

#[test]
fn means_are_rounded_once() {
    // (1 + 2) / 2.
    assert_eq!(float(&Function::Mean, Int64Array::from(vec![1, 2])), 1.5);
    // -7 / 3.
    assert_eq!(float(&Function::Mean, Int64Array::from(vec![-3, -3, -1])), -7.0 / 3.0);
    // The sum is 2^64 + 1, which a float would round to 2^64; a half of it is 2^63 + 0.5, which rounds to 2^63.
    assert_eq!(
        float(&Function::Mean, Int64Array::from(vec![i64::MAX, i64::MAX, 3])),
        (2.0_f64.powi(64) + 1.0) / 3.0
    );
    // 3 (2^53 + 1) / 3 = 2^53 + 1 lies between two floats: to even. One more in the sum, and it is above the middle.
    let odd = (1_i64 << 53) + 1;
    assert_eq!(float(&Function::Mean, Int64Array::from(vec![odd, odd, odd])), 2.0_f64.powi(53));
    assert_eq!(float(&Function::Mean, Int64Array::from(vec![odd, odd, odd + 1])), 2.0_f64.powi(53) + 2.0);
    // (3 (2^63 + 2^10) + 1) / 3 is a third above the middle of two floats 2^11 apart: up, not to even.
    let middle = (1_u64 << 63) + (1 << 10);
    let above = UInt64Array::from(vec![middle, middle, middle + 1]);
    assert_eq!(float(&Function::Mean, above), 2.0_f64.powi(63) + 2.0_f64.powi(11));
    // (12.34 + 12.36) / 2 = 12.35.
    let decimals = Decimal128Array::from(vec![1234, 1236]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(float(&Function::Mean, decimals), 12.35);
    // Three values that sum to more than i128 holds.
    let most = 10_i128.pow(38) - 1;
    let decimals = Decimal128Array::from(vec![most; 3]).with_precision_and_scale(38, 0).unwrap();
    assert!((float(&Function::Mean, decimals) / 1e38 - 1.0).abs() < 1e-15);
    let decimals = Decimal128Array::from(vec![-most; 3]).with_precision_and_scale(38, 0).unwrap();
    assert!((float(&Function::Mean, decimals) / -1e38 - 1.0).abs() < 1e-15);
}

#[test]
fn variances() {
    let variance = |sample, sqrt| Function::Variance { sample, sqrt };
    let column = || Float64Array::from(vec![2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
    // Mean 5; squared distances 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32; 32 / 8 = 4, 32 / 7.
    let close = |given: f64, expected: f64| {
        assert!((given - expected).abs() < 1e-14 * expected, "{given}, not {expected}")
    };
    close(float(&variance(false, false), column()), 4.0);
    close(float(&variance(false, true), column()), 2.0);
    close(float(&variance(true, false), column()), 32.0 / 7.0);
    close(float(&variance(true, true), column()), (32.0_f64 / 7.0).sqrt());
    // Far from zero, where the difference of squares would lose everything: 1e9 + {4, 7, 13, 16}, mean + 10,
    // squares 36 + 9 + 9 + 36 = 90, / 3 = 30.
    let far = Int64Array::from([4, 7, 13, 16].map(|v| 1_000_000_000 + v).to_vec());
    close(float(&variance(true, false), far), 30.0);
    // One value: no degree of freedom for a sample.
    assert!(result(&variance(true, false), Int64Array::from(vec![5])).is_null(0));
    assert_eq!(float(&variance(false, false), Int64Array::from(vec![5])), 0.0);
    // Taken over as it is: the formula for merging would square 1e200.
    let mut taken = one_slot(&variance(false, false), Arc::new(Float64Array::new_null(1)));
    taken.merge(&[0], &one_slot(&variance(false, false), Arc::new(Float64Array::from(vec![1e200]))));
    assert_eq!(scalar(&taken.finish().unwrap(), 0), Scalar::Float(0.0));
    // Decimals are scaled: 1.0 and 3.0 have variance 1 around 2.
    let decimals = Decimal128Array::from(vec![10, 30]).with_precision_and_scale(4, 1).unwrap();
    close(float(&variance(false, false), decimals), 1.0);
}

#[test]
fn first_and_last_go_by_time_then_arrival() {
    let column: ArrayRef =
        Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, Some("c"), Some("d")]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(3), Some(4)]));
    // Time 9 is largest but null; of the two at time 5 the later arrival is last, of those at 1 the earlier is first.
    let times = vec![5, 1, 9, 5, 1];
    for column in [column, numbers] {
        let batch = Batch {
            column: column.clone(),
            by: column.clone(),
            times: times.clone(),
            slots: vec![0; 5],
            star: false,
        };
        // The second half is fed first: arrival numbers decide, not the order of calls.
        let run = |function| {
            let mut all = batch.whole(&function, 2, 5);
            batch.feed(&mut all, 0, 2);
            all.finish().unwrap().slice(0, 1)
        };
        assert_eq!(&run(Function::First), &column.slice(1, 1));
        assert_eq!(&run(Function::Last), &column.slice(3, 1));
    }
}

/// The value that each of `max_by` and `min_by` chooses from one slot. Rows after `cut` are fed first, as another partition
/// could, then merged with the others.
fn chosen(column: &ArrayRef, by: ArrayRef, times: Vec<i64>, cut: usize) -> [Scalar; 2] {
    let batch = Batch { column: column.clone(), by, slots: vec![0; times.len()], times, star: false };
    [Function::MaxBy, Function::MinBy].map(|function| {
        let mut all = batch.whole(&function, cut, batch.len());
        all.merge(&[0, 1, 2, 3], &batch.whole(&function, 0, cut));
        let merged = scalar(&all.finish().unwrap(), 0);
        let mut one = batch.whole(&function, cut, batch.len());
        batch.feed(&mut one, 0, cut);
        assert_eq!(scalar(&one.finish().unwrap(), 0), merged, "{function:?}");
        merged
    })
}

#[test]
fn max_by_goes_by_value_then_time_then_arrival() {
    let names: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d", "e"]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]));
    let text = |letter: &str| Scalar::Bytes(letter.into());
    for cut in 0..=5 {
        // 9 is largest in rows b, d and e; of these d and e stand at time 3 and b at 7; d arrived before e. 4 is smallest, only
        // in c.
        let by: ArrayRef = Arc::new(Int32Array::from(vec![5, 9, 4, 9, 9]));
        let times = vec![0, 7, 1, 3, 3];
        assert_eq!(chosen(&names, by.clone(), times.clone(), cut), [text("d"), text("c")]);
        assert_eq!(chosen(&numbers, by, times, cut), [Scalar::Int(4), Scalar::Int(3)]);
        // All NaN are one, above infinity: b at time 1 before a at 2. -0.0 is below 0.0, though d is earlier.
        let floats = vec![f64::NAN, -f64::NAN, f64::INFINITY, 0.0, -0.0];
        let by: ArrayRef = Arc::new(Float64Array::from(floats));
        assert_eq!(chosen(&names, by.clone(), vec![2, 1, 0, 0, 5], cut), [text("b"), text("e")]);
        // Nothing but NaN, and nothing but the lowest float: row a by arrival.
        for only in [f64::NAN, f64::NEG_INFINITY] {
            let by: ArrayRef = Arc::new(Float64Array::from(vec![only; 5]));
            assert_eq!(chosen(&names, by, vec![8; 5], cut), [text("a"), text("a")]);
        }
    }
}

#[test]
fn max_by_skips_nulls_of_by_alone() {
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("c"), None]));
    let numbers: ArrayRef = Arc::new(Int8Array::from(vec![Some(1), None, Some(3), None]));
    for cut in 0..=4 {
        // The largest, 9, stands beside a null; the smallest, 1, beside the third value.
        let by: ArrayRef = Arc::new(UInt8Array::from(vec![None, Some(9), Some(1), None]));
        let expected = [Scalar::Null, Scalar::Bytes("c".into())];
        assert_eq!(chosen(&names, by.clone(), vec![0, 1, 2, 3], cut), expected);
        assert_eq!(chosen(&numbers, by, vec![0, 1, 2, 3], cut), [Scalar::Null, Scalar::Int(3)]);
        // A value that was held gives way to a null: 5 beside "c", then 6 beside null.
        let by: ArrayRef = Arc::new(UInt8Array::from(vec![None, None, Some(5), Some(6)]));
        assert_eq!(chosen(&names, by, vec![0; 4], cut)[0], Scalar::Null);
        // No row can be chosen.
        let by: ArrayRef = Arc::new(UInt8Array::new_null(4));
        assert_eq!(chosen(&names, by, vec![0; 4], cut), [Scalar::Null, Scalar::Null]);
    }
}

#[test]
fn bytes_that_max_by_has_dropped_are_given_back() {
    let by: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let column: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1000), "y".into()]));
    let batch = Batch { column, by, times: vec![0, 0], slots: vec![0, 0], star: false };
    let mut longest = batch.whole(&Function::MaxBy, 0, 1);
    let large = longest.size();
    batch.feed(&mut longest, 1, 2);
    assert_eq!(large - longest.size(), 999);
}

#[test]
fn the_ends_of_time_are_times() {
    // An empty slot starts from these very places, and must neither win over a row there nor overwrite it.
    for (time, arrival, function) in [(i64::MIN, 0, Function::Last), (i64::MAX, u64::MAX, Function::First)] {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let blocks = [Block::one(0)];
        let rows =
            Rows { column: Some(&column), by: None, times: &[time], first_arrival: arrival, blocks: &blocks };
        let mut slot = accumulator(&function, Some(&DataType::Int64), 0);
        slot.resize(1);
        let empty = slot.clone();
        slot.update(&[0], &rows);
        slot.merge(&[0], &empty);
        assert_eq!(scalar(&slot.finish().unwrap(), 0), Scalar::Int(7));
    }
}

#[test]
fn refusals_say_what_is_allowed() {
    let refused = |function, data_type: DataType| output_type(&function, Some(&data_type)).unwrap_err();
    assert!(refused(Function::Sum, DataType::Utf8).contains("integers"));
    assert!(refused(Function::Mean, DataType::Boolean).contains("Decimal128"));
    assert!(refused(Function::Sum, DataType::Date32).contains("integers"));
    let list = DataType::new_list(DataType::Int32, true);
    assert!(refused(Function::Min, list).contains("strings"));
    assert!(refused(Function::Quantile(1.5), DataType::Int64).contains("0 to 1, not 1.5"));
    assert!(refused(Function::Quantile(f64::NAN), DataType::Int64).contains("0 to 1"));
    let none = Function::ReservoirQuantile { q: 0.5, capacity: 0 };
    assert!(refused(none, DataType::Int64).contains("at least 1"));
    assert!(output_type(&Function::Sum, None).is_err());
    for data_type in [DataType::Utf8, DataType::Boolean, DataType::Binary] {
        let of = DataType::Dictionary(Box::new(DataType::Int8), Box::new(data_type.clone()));
        assert_eq!(check_by(&data_type), Err(BY.to_string()));
        assert_eq!(check_by(&of), Err(BY.to_string()));
    }
    assert_eq!(check_by(&DataType::Date32), Ok(()));
}

#[test]
fn heap_is_counted_as_it_grows() {
    let batch = Batch::random(&DataType::Int64, Kind::Small, true, 50, &mut Random(9));
    let function = Function::Custom(Arc::new(Rowwise));
    let mut states = batch.whole(&function, 0, 25);
    states.merge(&[0, 1, 2, 3], &batch.whole(&function, 25, 50));
    states.append(&batch.whole(&function, 0, 50));
    // A copy counts afresh; its strings have no spare room.
    let (grown, fresh) = (states.size(), states.clone().size());
    let text: usize = states.finish().unwrap().as_string::<i32>().iter().flatten().map(str::len).sum();
    assert_eq!(fresh, 8 * size_of::<String>() + text);
    assert!(grown >= fresh && grown < 3 * fresh, "{grown} for {fresh}");
    let mut merged = batch.whole(&function, 0, 0);
    let (empty, full) = (merged.size(), batch.whole(&function, 0, 50));
    merged.merge(&[0, 1, 2, 3], &full);
    assert!(merged.size() - empty >= full.clone().size() - 4 * size_of::<String>());
}
