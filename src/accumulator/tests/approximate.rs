//! Error bounds of samples and sketches.

use super::*;

fn feed(accumulator: &mut Single, column: ArrayRef, first_arrival: u64) {
    accumulator.resize(1);
    let times = vec![0; column.len()];
    let rows = Rows {
        column: Some(&column),
        by: None,
        times: &times,
        first_arrival,
        blocks: &Block::cover(0..column.len()),
    };
    accumulator.update(&vec![0; column.len()], &rows);
}

fn over(function: &Function, values: &[f64], first_arrival: u64, seed: u64) -> Single {
    let mut all = accumulator(function, Some(&DataType::Float64), seed);
    feed(&mut all, Arc::new(Float64Array::from(values.to_vec())), first_arrival);
    all
}

fn value(accumulator: Single) -> f64 {
    accumulator.finish().unwrap().as_primitive::<Float64Type>().value(0)
}

/// The share of one side in a merged sample, read off its median: side a holds zeros, side b ones. For shares 1:3 the
/// q-quantile of the sample flips from 0 to 1 where q is the share of zeros.
#[test]
fn merged_samples_favour_no_side() {
    let (capacity, side_a, side_b) = (100, 1_000, 3_000);
    let trials = 400;
    let mut zeros = 0.0;
    for seed in 0..trials {
        let mut low = 0;
        let mut high = capacity;
        // The number of zeros z: the value of rank r is 0 exactly if r < z.
        while low < high {
            let rank = (low + high) / 2;
            let q = (rank as f64 + 0.5) / (capacity - 1) as f64;
            let function = Function::ReservoirQuantile { q: q.min(1.0), capacity };
            let mut merged = over(&function, &vec![0.0; side_a], 0, seed);
            merged.merge(&[0], &over(&function, &vec![1.0; side_b], side_a as u64, seed));
            if value(merged) == 0.0 { low = rank + 1 } else { high = rank }
        }
        zeros += low as f64;
    }
    // Hypergeometric: mean 100 * 1/4, variance 100 * 1/4 * 3/4 * (4000 - 100) / (4000 - 1).
    let mean = zeros / trials as f64;
    let sigma = (100.0 * 0.25 * 0.75 * 3900.0 / 3999.0 / trials as f64).sqrt();
    assert!((mean - 25.0).abs() < 4.0 * sigma, "{mean} zeros of 100, expected 25 within {}", 4.0 * sigma);
}

#[test]
fn a_sample_is_uniform_over_arrivals() {
    // A quarter of the rows is larger than the 0.75-quantile, whichever quarter: the sample of 400 of 10,000 has a rank
    // error of standard deviation sqrt(q (1 - q) / 400).
    for seed in 0..20 {
        let values: Vec<f64> = (0..10_000).map(f64::from).collect();
        let given = value(over(&Function::ReservoirQuantile { q: 0.75, capacity: 400 }, &values, 0, seed));
        let sigma = (0.75 * 0.25 / 400.0_f64).sqrt() * 10_000.0;
        assert!((given - 7_500.0).abs() < 4.0 * sigma, "{given} with seed {seed}");
    }
    let seeds = [1, 2].map(|seed| {
        let values: Vec<f64> = (0..10_000).map(f64::from).collect();
        value(over(&Function::ReservoirQuantile { q: 0.5, capacity: 50 }, &values, 0, seed))
    });
    assert_ne!(seeds[0], seeds[1], "the seed decides the sample");
}

#[test]
fn a_sample_does_not_allocate_its_capacity() {
    let function = Function::ReservoirQuantile { q: 0.5, capacity: 1 << 40 };
    assert!(over(&function, &[1.0, 2.0, 3.0], 0, 0).size() < 1_000);
    // sorted[floor(0.5 * 2)] of three; NaN is largest.
    assert_eq!(value(over(&function, &[3.0, 1.0, 2.0], 0, 0)), 2.0);
    assert_eq!(value(over(&function, &[f64::NAN, 1.0, 2.0], 0, 0)), 2.0);
}

fn distributions() -> [(&'static str, Vec<f64>); 3] {
    let mut random = Random(77);
    let mut draw =
        |shape: &dyn Fn(f64) -> f64| (0..20_000).map(|_| shape(random.float())).collect::<Vec<f64>>();
    [
        ("uniform, both signs", draw(&|u| 200.0 * u - 100.0)),
        ("exponential", draw(&|u| -(1.0 - u).ln())),
        // The whole range of floats: no bucket may collapse.
        ("log-uniform", draw(&|u| 10_f64.powf(600.0 * u - 300.0))),
    ]
}

#[test]
fn sketches_keep_their_error_bound() {
    for (name, mut values) in distributions() {
        let quantiles = [0.0, 0.001, 0.01, 0.1, 0.25, 0.4999, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0];
        let given = quantiles.map(|q| {
            let function = Function::Quantile(q);
            let (a, b) = values.split_at(7_000);
            let mut merged = over(&function, b, 0, 0);
            merged.merge(&[0], &over(&function, a, 0, 0));
            let given = value(merged);
            assert_eq!(
                given.to_bits(),
                value(over(&function, &values, 0, 0)).to_bits(),
                "{name}, {q}: order matters"
            );
            given
        });
        values.sort_by(f64::total_cmp);
        for (q, given) in quantiles.into_iter().zip(given) {
            let exact = values[(q * (values.len() - 1) as f64).floor() as usize];
            let error = (given - exact).abs();
            assert!(error <= exact.abs() * (1.0 / 129.0 + 1e-12), "{name}, {q}: {given}, exactly {exact}");
        }
    }
}

#[test]
fn sketches_take_every_float() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let values = [nan, inf, f64::MAX, f64::MIN, 2.0 * f64::MIN_POSITIVE, 5e-324, -0.0, 0.0, 1.0, -inf, -1.0];
    // Sorted: -inf, MIN, -1, then -0.0, 0.0 and the subnormal as zero, 2 MIN_POSITIVE, 1, MAX, inf, NaN.
    let zero = 0.0;
    let expected = [-inf, f64::MIN, -1.0, zero, zero, zero, 2.0 * f64::MIN_POSITIVE, 1.0, f64::MAX, inf, nan];
    for (rank, expected) in expected.into_iter().enumerate() {
        let function = Function::Quantile(rank as f64 / 10.0);
        let (forward, mut backward) = (over(&function, &values, 0, 0), values);
        backward.reverse();
        let given = value(forward);
        assert_eq!(
            given.to_bits(),
            value(over(&function, &backward, 0, 0)).to_bits(),
            "rank {rank}: order matters"
        );
        let close = (given - expected).abs() <= expected.abs() / 129.0 * (1.0 + 1e-9);
        assert!(
            close
                || given.to_bits() == expected.to_bits()
                || given.is_nan() && expected.is_nan()
                || given == expected,
            "rank {rank}: {given}, expected {expected}"
        );
    }
    // The outermost values are exact, not middles of buckets.
    assert_eq!(value(over(&Function::Quantile(1.0), &[1.0, 3.0], 0, 0)), 3.0);
    assert_eq!(value(over(&Function::Quantile(0.99), &[1.0, 3.0], 0, 0)), 1.0);
    // Also where the middle of their bucket lies within the values: those from 1 to 1 + 1/64 have 1 + 1/129 = 1.0078.
    let within = [-1.015, -1.001, 0.5, 1.001, 1.015];
    assert_eq!(value(over(&Function::Quantile(1.0), &within, 0, 0)), 1.015);
    assert_eq!(value(over(&Function::Quantile(0.0), &within, 0, 0)), -1.015);
    assert_eq!(value(over(&Function::Quantile(0.75), &within, 0, 0)), 1.0 + 1.0 / 129.0);
}

#[test]
fn sketches_find_the_documented_rank() {
    // Fifty values in buckets of their own; 1/49 * 49 is below 1 in floats.
    let values: Vec<f64> = (0..50).map(|i| 1.5_f64.powi(i)).collect();
    for (rank, exact) in values.iter().enumerate() {
        let given = value(over(&Function::Quantile((rank as f64 + 0.25) / 49.0), &values, 0, 0));
        assert!(
            (given - exact).abs() <= exact / 129.0 * (1.0 + 1e-9),
            "rank {rank}: {given}, exactly {exact}"
        );
    }
    // The middle of the one bucket is elsewhere, of the largest floats beyond them.
    for same in [7.0, f64::MAX, f64::MIN] {
        assert_eq!(value(over(&Function::Quantile(0.5), &[same; 3], 0, 0)), same);
    }
    // The smallest value is exact, but zeros are one.
    for zeros in [[0.0, -0.0], [-0.0, 0.0]] {
        assert_eq!(value(over(&Function::Quantile(0.0), &zeros, 0, 0)).to_bits(), 0);
    }
}

fn distinct(from: i64, to: i64) -> Single {
    let mut all = accumulator(&Function::ApproxDistinct, Some(&DataType::Int64), 0);
    feed(&mut all, Arc::new(Int64Array::from_iter_values(from..to)), 0);
    all
}

fn estimate(accumulator: Single) -> u64 {
    accumulator.finish().unwrap().as_primitive::<UInt64Type>().value(0)
}

#[test]
fn distinct_counts_keep_their_error_bound() {
    // 4 sigma of 1.04 / sqrt(4096); all values twice, in steps across every representation of the sketch.
    for n in [0, 1, 7, 8, 9, 300, 384, 385, 1_000, 10_000, 200_000] {
        let mut all = distinct(0, n);
        all.merge(&[0], &distinct(0, n));
        let (given, n) = (estimate(all), n as f64);
        assert!((given as f64 - n).abs() <= 4.0 * 1.04 / 64.0 * n, "{given} for {n}");
    }
}

#[test]
fn distinct_counts_do_not_depend_on_cuts_or_order() {
    for n in [5, 100, 383, 384, 385, 700, 5_000, 40_000_i64] {
        let whole = estimate(distinct(0, n));
        let cuts = [0, n / 7, n / 3, n / 2, n];
        let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]];
        for order in orders {
            let mut merged = distinct(0, 0);
            for part in order {
                merged.merge(&[0], &distinct(cuts[part], cuts[part + 1]));
            }
            assert_eq!(estimate(merged), whole, "{n} values merged in order {order:?}");
            // And as a tree.
            let part = |i: usize| distinct(cuts[order[i]], cuts[order[i] + 1]);
            let (mut left, mut right) = (part(0), part(2));
            left.merge(&[0], &part(1));
            right.merge(&[0], &part(3));
            left.merge(&[0], &right);
            assert_eq!(estimate(left), whole, "{n} values merged as a tree {order:?}");
        }
        let mut backward = accumulator(&Function::ApproxDistinct, Some(&DataType::Int64), 0);
        feed(&mut backward, Arc::new(Int64Array::from_iter_values((0..n).rev())), 0);
        assert_eq!(estimate(backward), whole, "{n} values backward");
    }
}

#[test]
fn equal_values_are_one_whatever_their_encoding() {
    let words = ["a", "b", "a", "ccc"];
    let plain: ArrayRef = Arc::new(StringArray::from(words.to_vec()));
    let view: ArrayRef = Arc::new(StringViewArray::from(words.to_vec()));
    let dictionary: ArrayRef = Arc::new(words.into_iter().collect::<DictionaryArray<Int32Type>>());
    for column in [plain, view, dictionary] {
        let mut all = accumulator(&Function::ApproxDistinct, Some(column.data_type()), 0);
        feed(&mut all, column, 0);
        assert_eq!(estimate(all), 3);
    }
    // One zero, one NaN, one infinity.
    let floats = [0.0, -0.0, f64::NAN, -f64::NAN, f64::from_bits(f64::NAN.to_bits() + 1), f64::INFINITY];
    assert_eq!(estimate(over(&Function::ApproxDistinct, &floats, 0, 0)), 3);
}
