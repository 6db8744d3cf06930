//! The order of numbers that are many and close together.

/// Below this many a comparison sort is faster.
const FEW: usize = 256;

/// Sorts by the number, and where numbers are equal by the place, in which the items are to be already: a radix sort from the
/// lowest byte of what the numbers are above the lowest one (Knuth, The Art of Computer Programming 3, section 5.2.5,
/// algorithm R).
pub(crate) fn sort(items: &mut Vec<(i64, u32)>) {
    if items.len() < FEW {
        return items.sort_unstable();
    }
    let numbers = || items.iter().map(|&(number, _)| number);
    let low = numbers().min().unwrap_or(0);
    let above = |number: i64| number.wrapping_sub(low) as u64;
    let span = above(numbers().max().unwrap_or(0));
    let mut sorted = items.clone();
    for shift in (0..u64::BITS).step_by(8).take_while(|shift| span >> shift > 0) {
        let digit = |number: i64| usize::from((above(number) >> shift) as u8);
        let mut starts = [0_u32; 256];
        items.iter().for_each(|&(number, _)| starts[digit(number)] += 1);
        let mut start = 0;
        for next in &mut starts {
            start += std::mem::replace(next, start);
        }
        for &item in items.iter() {
            let next = &mut starts[digit(item.0)];
            sorted[*next as usize] = item;
            *next += 1;
        }
        std::mem::swap(items, &mut sorted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_like_a_comparison() {
        for count in [0, 1, 2, 255, 256, 257, 5_000] {
            for (name, spread) in [("equal", 0), ("near", 7), ("wide", 45), ("all", 64)] {
                let numbers = (0..count).map(|i: u32| {
                    let mixed = u64::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678;
                    (mixed.checked_shr(64 - spread).unwrap_or(0) as i64).wrapping_sub(60)
                });
                let mut items: Vec<(i64, u32)> = numbers.zip(0..).collect();
                let mut expected = items.clone();
                expected.sort();
                sort(&mut items);
                assert_eq!(items, expected, "{count} numbers, {name}");
            }
        }
        let mut ends = [i64::MIN, i64::MAX, 0, -1].repeat(100).into_iter().zip(0..).collect();
        sort(&mut ends);
        assert_eq!((ends[0], ends[399]), ((i64::MIN, 0), (i64::MAX, 397)));
        assert!(ends.is_sorted());
    }
}
