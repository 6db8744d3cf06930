//! Watermarks against what Flink answered, and against their own naive reading.

mod golden;
mod merge_properties;
mod partition_properties;

/// A seeded source of test data (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Less than `end`, which is more than zero.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A time: mostly one of few, so that times meet; now and then an extreme one.
    fn time(&mut self, range: usize) -> i64 {
        match self.below(40) {
            0 => i64::MIN + self.below(3) as i64,
            1 => i64::MAX - self.below(3) as i64,
            _ => self.below(range) as i64 - range as i64 / 3,
        }
    }
}
