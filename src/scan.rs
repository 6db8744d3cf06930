//! Scans of event times, for the widest vectors that the machine at hand has.
//!
//! The compiler vectorises these loops by itself once it may use the instructions; which set that is, is asked once
//! per call, and a call is worth at least a few dozen rows.

use multiversion::multiversion;

use crate::block::BLOCK;

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

/// One bit for each time (at most 64) that is in `first..=last`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn within(times: &[i64], first: i64, last: i64) -> u64 {
    if first > last {
        return 0;
    }
    let span = last.wrapping_sub(first) as u64;
    let mut bits = 0;
    for (row, &time) in times.iter().enumerate() {
        let inside = time.wrapping_sub(first) as u64 <= span;
        bits |= u64::from(inside) << row;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

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
