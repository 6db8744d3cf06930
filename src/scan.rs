//! Scans of event times, for the widest vectors that the machine at hand has.
//!
//! The compiler vectorises these loops by itself once it may use the instructions; which set that is, is asked once
//! per call, and a call is worth at least a few dozen rows.

use multiversion::multiversion;

use crate::block::BLOCK;
use crate::key::{Code, Key};

/// Bit by bit: to read one takes fewer vector instructions than to shift it into place.
static BITS: [u64; BLOCK] = {
    let mut bits = [0; BLOCK];
    let mut bit = 0;
    while bit < BLOCK {
        bits[bit] = 1 << bit;
        bit += 1;
    }
    bits
};

/// The lowest and the highest time of some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) low: i64,
    pub(crate) high: i64,
}

/// The bounds of each block of 64 rows, the last of which may be shorter.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn bounds(times: &[i64]) -> Vec<Bounds> {
    let (whole, rest) = times.as_chunks::<BLOCK>();
    let mut all = Vec::with_capacity(whole.len() + 1);
    for block in whole {
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for &time in block {
            low = low.min(time);
            high = high.max(time);
        }
        all.push(Bounds { low, high });
    }
    if let (Some(&low), Some(&high)) = (rest.iter().min(), rest.iter().max()) {
        all.push(Bounds { low, high });
    }
    all
}

/// The highest of some times and another one.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn highest(times: &[i64], other: i64) -> i64 {
    times.iter().fold(other, |highest, &time| highest.max(time))
}

/// The lowest of some times; the end of time if there are none.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn lowest(times: &[i64]) -> i64 {
    times.iter().fold(i64::MAX, |lowest, &time| lowest.min(time))
}

/// The lowest and the highest of some codes, read as signed numbers; the wrong way round if there are none.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn range(codes: &[Code]) -> (i64, i64) {
    let signed = codes.iter().map(|&code| code as i64);
    signed.fold((i64::MAX, i64::MIN), |(low, high), code| (low.min(code), high.max(code)))
}

/// One bit for each time (at most 64) that is in `first..=last`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn within(times: &[i64], first: i64, last: i64) -> u64 {
    if first > last {
        return 0;
    }
    let span = last.wrapping_sub(first) as u64;
    let marked = |(&time, &bit): (&i64, &u64)| {
        let inside = time.wrapping_sub(first) as u64 <= span;
        if inside { bit } else { 0 }
    };
    times.iter().zip(&BITS).map(marked).fold(0, |bits, bit| bits | bit)
}

/// One bit for each value (at most 64) that is not above `low`, if `LOW`, or not below `high`, if `HIGH`. A NaN always has one.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn outside<N: Copy + PartialOrd, const LOW: bool, const HIGH: bool>(
    values: &[N],
    low: N,
    high: N,
) -> u64 {
    let marked = |(&value, &bit)| {
        let inside = (!LOW | (low < value)) & (!HIGH | (value < high));
        if inside { 0 } else { bit }
    };
    values.iter().zip(&BITS).map(marked).fold(0, |bits, bit| bits | bit)
}

/// One more than how far the code of each key is from `low`, and 0 for rows that are not meant; returns whether it is below
/// `span` for all that are; if not, some numbers mean nothing.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn distances<K: Key>(
    keys: &[K; BLOCK],
    rows: u64,
    low: Code,
    span: u64,
    distances: &mut [u32; BLOCK],
) -> bool {
    let distance = |key: K| key.code().wrapping_sub(low);
    let mut below = true;
    if rows == u64::MAX {
        for (&key, out) in keys.iter().zip(distances) {
            below &= distance(key) < span;
            *out = (distance(key) as u32).wrapping_add(1);
        }
    } else {
        for ((&key, out), bit) in keys.iter().zip(distances).zip(&BITS) {
            let meant = rows & bit != 0;
            below &= !meant | (distance(key) < span);
            *out = if meant { (distance(key) as u32).wrapping_add(1) } else { 0 };
        }
    }
    below
}

/// Whether something holds for all values.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn all<N: Copy, F: Fn(N) -> bool>(values: &[N], holds: F) -> bool {
    values.iter().fold(true, |all, &value| all & holds(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both bounds, one, and none, against what the bits mean.
    fn check_outside<N: Copy + PartialOrd + std::fmt::Debug>(values: &[N], low: N, high: N) {
        for len in 0..=values.len() {
            let some = &values[values.len() - len..];
            let by_definition = |inside: &dyn Fn(&N) -> bool| {
                (0..)
                    .zip(some)
                    .filter(|(_, value)| !inside(value))
                    .fold(0, |bits, (row, _)| bits | 1_u64 << row)
            };
            let context = format!("{low:?}, {high:?}, {some:?}");
            assert_eq!(
                outside::<N, true, true>(some, low, high),
                by_definition(&|v| low < *v && *v < high),
                "{context}"
            );
            assert_eq!(outside::<N, true, false>(some, low, high), by_definition(&|v| low < *v), "{context}");
            assert_eq!(
                outside::<N, false, true>(some, low, high),
                by_definition(&|v| *v < high),
                "{context}"
            );
        }
    }

    #[test]
    fn what_is_outside_of_bounds_has_a_bit() {
        let numbers: Vec<i64> =
            (0..64).map(|i: i64| i.wrapping_mul(0x5851_f42d_4c95_7f2d) >> (i % 40)).collect();
        for (low, high) in [(i64::MIN, i64::MAX), (-(1 << 40), 1 << 40), (5, -5), (numbers[9], numbers[30])] {
            check_outside(&numbers, low, high);
            check_outside(&numbers.iter().map(|&n| n as i32).collect::<Vec<_>>(), low as i32, high as i32);
            check_outside(&numbers.iter().map(|&n| n as u64).collect::<Vec<_>>(), low as u64, high as u64);
            check_outside(&numbers.iter().map(|&n| n.into()).collect::<Vec<i128>>(), low.into(), high.into());
            let mut floats: Vec<f64> = numbers.iter().map(|&number| number as f64).collect();
            floats[3..9].copy_from_slice(&[f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN]);
            for (low, high) in [(low as f64, high as f64), (-0.0, f64::NAN), (f64::NEG_INFINITY, 0.0)] {
                check_outside(&floats, low, high);
            }
        }
    }

    #[test]
    fn scans_agree_with_their_definitions() {
        let mut times: Vec<i64> =
            (0..64).map(|i: i64| i.wrapping_mul(0x5851_f42d_4c95_7f2d) >> (i % 40)).collect();
        times[7] = i64::MAX;
        times[23] = i64::MIN;
        for len in 0..=64 {
            let some = &times[64 - len..];
            for some in [some, &times.repeat(2)[len..]] {
                let expected = some.chunks(64).map(|block| Bounds {
                    low: block.iter().copied().min().unwrap(),
                    high: block.iter().copied().max().unwrap(),
                });
                assert_eq!(bounds(some), expected.collect::<Vec<_>>());
                for limit in [i64::MIN, 0, some.iter().copied().max().unwrap_or(0), i64::MAX] {
                    let below = |time| time < limit;
                    assert_eq!(all(some, below), some.iter().copied().all(below), "{some:?} below {limit}");
                }
                let codes: Vec<Code> = some.iter().map(|&time| time as Code).collect();
                let high = some.iter().copied().max().unwrap_or(i64::MIN);
                assert_eq!(range(&codes), (lowest(some), high));
                assert_eq!(lowest(some), some.iter().copied().min().unwrap_or(i64::MAX));
                for other in [i64::MIN, 0, i64::MAX] {
                    assert_eq!(highest(some, other), some.iter().copied().fold(other, i64::max));
                }
            }
            for (first, last) in [(i64::MIN, i64::MAX), (0, 1 << 40), (-5, 5), (3, 2), (i64::MAX, i64::MAX)] {
                let bits = some
                    .iter()
                    .enumerate()
                    .filter(|&(_, t)| (first..=last).contains(t))
                    .fold(0, |b, (i, _)| b | 1 << i);
                assert_eq!(within(some, first, last), bits, "{len} times in {first}..={last}");
            }
        }
    }
}
