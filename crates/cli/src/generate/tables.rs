//! Distributions as tables: a draw costs one multiplication and one look-up.

use super::draw::{scale, unit};

/// The distributions that a [`Quantiles`] table can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Exponential with mean 1.
    Exponential,
    /// exp of a normal variable with this mean and standard deviation.
    LogNormal(f64, f64),
    /// 10 to the power of a uniform variable between the two.
    PowerOfTen(f64, f64),
}

impl Shape {
    /// The quantile function, for `u` strictly between 0 and 1.
    pub fn quantile(self, u: f64) -> f64 {
        match self {
            Shape::Exponential => -libm::log1p(-u),
            Shape::LogNormal(mean, deviation) => libm::exp(mean + deviation * normal_quantile(u)),
            Shape::PowerOfTen(low, high) => libm::pow(10.0, low + (high - low) * u),
        }
    }
}

/// Solves `cdf(z) = u` by bisection: slow, obviously right, and needed only at the joints of a table.
fn normal_quantile(u: f64) -> f64 {
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if 0.5 * libm::erfc(-middle * std::f64::consts::FRAC_1_SQRT_2) < u {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// log2 of the number of pieces.
const PIECE_BITS: u32 = 12;
const PIECES: usize = 1 << PIECE_BITS;

/// A quantile function in 4,096 linear pieces of equal probability. The outermost two, where the function may go to
/// infinity, are computed exactly.
pub struct Quantiles {
    shape: Shape,
    /// Value at the left end of each piece, and what is added on the way to its right end.
    pieces: Box<[(f64, f64)]>,
}

impl Quantiles {
    /// Tabulates a distribution.
    pub fn new(shape: Shape) -> Self {
        let joints: Vec<f64> = (1..PIECES).map(|p| shape.quantile(p as f64 / PIECES as f64)).collect();
        let inner = joints.windows(2).map(|w| (w[0], w[1] - w[0]));
        let pieces = std::iter::once((0.0, 0.0)).chain(inner).chain([(0.0, 0.0)]).collect();
        Quantiles { shape, pieces }
    }

    /// The quantile at `bits / 2^64`.
    #[inline(always)]
    pub fn at(&self, bits: u64) -> f64 {
        let piece = (bits >> (64 - PIECE_BITS)) as usize;
        if piece == 0 || piece == PIECES - 1 {
            return self.exact(bits);
        }
        let (left, rise) = self.pieces[piece];
        left + rise * unit(bits << PIECE_BITS)
    }

    #[cold]
    fn exact(&self, bits: u64) -> f64 {
        // Half a step up, so that u is never 0 nor 1.
        self.shape.quantile((((bits >> 12) as f64) + 0.5) * (1.0 / (1_u64 << 52) as f64))
    }
}

/// A discrete distribution by Walker's alias method: each of n equally likely slots holds at most two outcomes.
pub struct Alias {
    slots: Box<[Slot]>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// The share of `first` in the slot, in units of 2^-32.
    share: u32,
    first: u32,
    second: u32,
}

impl Alias {
    /// Outcome `ids[r]` with a probability proportional to `weights[r]` (Vose's construction).
    pub fn new(weights: &[f64], ids: &[u32]) -> Self {
        let n = weights.len();
        let unit = n as f64 / weights.iter().sum::<f64>();
        let mut scaled: Vec<f64> = weights.iter().map(|w| w * unit).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|&r| scaled[r] < 1.0);
        let mut slots: Box<[Slot]> =
            (0..n).map(|r| Slot { share: u32::MAX, first: ids[r], second: ids[r] }).collect();
        while let (Some(&giver), Some(taker)) = (large.last(), small.pop()) {
            slots[taker].share = (scaled[taker] * 4_294_967_296.0) as u32;
            slots[taker].second = ids[giver];
            scaled[giver] -= 1.0 - scaled[taker];
            if scaled[giver] < 1.0 {
                large.pop();
                small.push(giver);
            }
        }
        Alias { slots }
    }

    /// Zipf: rank r (1, 2, ...) with a weight of `r^-exponent`; `ids` names the ranks.
    pub fn zipf(exponent: f64, ids: &[u32]) -> Self {
        let weights: Vec<f64> = (1..=ids.len()).map(|r| libm::pow(r as f64, -exponent)).collect();
        Alias::new(&weights, ids)
    }

    /// The outcome at `bits`.
    #[inline(always)]
    pub fn at(&self, bits: u64) -> u32 {
        let (slot, rest) = scale(bits, self.slots.len() as u64);
        let slot = self.slots[slot as usize];
        if ((rest >> 32) as u32) < slot.share { slot.first } else { slot.second }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::draw::{Column, Draw};

    #[test]
    fn tables_are_close_to_the_function() {
        let shapes = [Shape::Exponential, Shape::LogNormal(3.0, 1.0), Shape::PowerOfTen(2.0, 8.0)];
        for shape in shapes {
            let table = Quantiles::new(shape);
            for bits in (0..2000).map(|i| Draw::new(1, Column::Value).bits(i)) {
                let (got, exact) = (table.at(bits), shape.quantile(unit(bits).max(1e-16)));
                assert!((got - exact).abs() <= 0.02 * exact, "{shape:?} {bits}: {got} instead of {exact}");
            }
            assert!(table.at(0).is_finite() && table.at(u64::MAX).is_finite());
        }
    }

    #[test]
    fn normal_quantiles() {
        for (u, z) in [(0.5, 0.0), (0.975, 1.959963984540054), (0.001, -3.090232306167813)] {
            assert!((normal_quantile(u) - z).abs() < 1e-12, "{u}");
        }
    }

    #[test]
    fn alias_shares_follow_the_weights() {
        let alias = Alias::new(&[5.0, 1.0, 3.0, 1.0], &[10, 11, 12, 13]);
        let mut seen = [0_u32; 4];
        for i in 0..100_000 {
            seen[alias.at(Draw::new(9, Column::Key).bits(i)) as usize - 10] += 1;
        }
        for (count, expected) in seen.into_iter().zip([50_000.0, 10_000.0, 30_000.0, 10_000.0]) {
            assert!((f64::from(count) - expected).abs() < 700.0, "{seen:?}");
        }
    }
}
