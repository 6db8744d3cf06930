//! Counter-based random draws: SplitMix64 with random access.
//!
//! SplitMix64 adds a constant to its state and scrambles the sum; its output `i` is therefore
//! `mix(state + i * GAMMA)`, which needs none of the outputs before it. One sequence per (seed, column) makes every
//! value a pure function of (seed, column, row), whatever else is generated, and in which order.

/// The increment of SplitMix64: 2^64 divided by the golden ratio, made odd.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Names the independent sequences of one seed. The numbers are part of the format: changing one changes the stream.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub enum Column {
    /// The ordinary delay.
    Delay = 1,
    /// Whether the row is a straggler.
    Straggler = 2,
    /// By how much a straggler is late.
    StragglerDelay = 3,
    /// The partition.
    Partition = 4,
    /// Which id the key of a rank has.
    KeyOrder = 5,
    /// The key.
    Key = 6,
    /// The value.
    Value = 7,
    /// Which of two populations a bid goes to.
    Hot = 8,
    /// The bidder.
    Bidder = 9,
    /// The price of a bid.
    Price = 10,
    /// The kind of an ad event.
    EventType = 11,
    /// The campaign of an ad.
    Campaign = 12,
    /// The model of a request.
    Model = 13,
    /// Tokens in.
    Prompt = 14,
    /// Tokens out.
    Completion = 15,
    /// How long a request took.
    Latency = 16,
    /// How a request ended.
    Status = 17,
}

/// One sequence of draws.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    state: u64,
}

impl Draw {
    /// The sequence of `column` under `seed`.
    pub fn new(seed: u64, column: Column) -> Self {
        Draw { state: mix(seed ^ mix((column as u64).wrapping_mul(GAMMA))) }
    }

    /// 64 random bits for row `i`.
    #[inline(always)]
    pub fn bits(self, i: u64) -> u64 {
        mix(self.state.wrapping_add(i.wrapping_add(1).wrapping_mul(GAMMA)))
    }

    /// A number in [0, 1) for row `i`, a multiple of 2^-53.
    #[inline(always)]
    pub fn unit(self, i: u64) -> f64 {
        unit(self.bits(i))
    }

    /// A whole number in `0..n` for row `i`.
    #[inline(always)]
    pub fn below(self, i: u64, n: u64) -> u64 {
        scale(self.bits(i), n).0
    }

    /// A permutation of `0..n` (Fisher-Yates, from the top).
    pub fn permutation(self, n: u32) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..n).collect();
        for i in (1..ids.len()).rev() {
            ids.swap(i, self.below(i as u64, i as u64 + 1) as usize);
        }
        ids
    }
}

/// The top 53 bits as a number in [0, 1).
#[inline(always)]
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// `bits / 2^64 * n` as (whole part, fraction in units of 2^-64).
#[inline(always)]
pub(crate) fn scale(bits: u64, n: u64) -> (u64, u64) {
    let product = u128::from(bits) * u128::from(n);
    ((product >> 64) as u64, product as u64)
}

/// The output function of SplitMix64.
#[inline(always)]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_splitmix64() {
        // The published outputs for the state 1234567.
        let published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431];
        let draw = Draw { state: 1_234_567 };
        for (i, expected) in published.into_iter().enumerate() {
            assert_eq!(draw.bits(i as u64), expected);
        }
    }

    #[test]
    fn permutations_permute() {
        let mut ids = Draw::new(3, Column::KeyOrder).permutation(1000);
        assert_ne!(ids, (0..1000).collect::<Vec<_>>());
        ids.sort_unstable();
        assert_eq!(ids, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn units_fill_the_interval() {
        let draw = Draw::new(1, Column::Value);
        let mean = (0..100_000).map(|i| draw.unit(i)).sum::<f64>() / 100_000.0;
        assert!((mean - 0.5).abs() < 0.004, "{mean}");
        assert!((0..100_000).all(|i| (0.0..1.0).contains(&draw.unit(i)) && draw.below(i, 7) < 7));
    }
}
