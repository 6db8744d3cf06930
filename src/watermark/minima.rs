//! A tournament of minima.

/// The minimum over a growing number of places, any of which may change: a complete binary tree whose inner nodes
/// hold the smaller of their two children. A change, and the minimum over all places but one, take O(log n); the
/// minimum over all takes O(1). Vacant places hold `i64::MAX`.
///
/// Not a heap (Flink's valve keeps one): a heap would need to know where each partition is in it, and could not leave
/// one out.
#[derive(Clone, Debug)]
pub(super) struct Minima {
    /// `nodes[1]` is the root, the children of `i` are `2i` and `2i + 1`, the leaves are the upper half.
    nodes: Vec<i64>,
}

pub(super) const VACANT: i64 = i64::MAX;

impl Minima {
    /// All places vacant.
    pub(super) fn new(places: usize) -> Self {
        Minima { nodes: vec![VACANT; 2 * places.next_power_of_two()] }
    }

    fn leaves(&self) -> usize {
        self.nodes.len() / 2
    }

    /// Makes room for so many places, by doubling.
    pub(super) fn grow(&mut self, places: usize) {
        if places <= self.leaves() {
            return;
        }
        let mut grown = Minima::new(places);
        let leaves = grown.leaves();
        grown.nodes[leaves..leaves + self.leaves()].copy_from_slice(&self.nodes[self.leaves()..]);
        for node in (1..leaves).rev() {
            grown.nodes[node] = grown.nodes[2 * node].min(grown.nodes[2 * node + 1]);
        }
        *self = grown;
    }

    pub(super) fn set(&mut self, place: usize, value: i64) {
        let mut node = self.leaves() + place;
        self.nodes[node] = value;
        while node > 1 {
            let smaller = self.nodes[node].min(self.nodes[node ^ 1]);
            node /= 2;
            if self.nodes[node] == smaller {
                return;
            }
            self.nodes[node] = smaller;
        }
    }

    /// The minimum; `VACANT` if there is none.
    pub(super) fn min(&self) -> i64 {
        self.nodes[1]
    }

    /// The minimum over all places but this one: the smallest of the siblings on the way up.
    pub(super) fn min_without(&self, place: usize) -> i64 {
        let mut node = self.leaves() + place;
        let mut min = VACANT;
        while node > 1 {
            min = min.min(self.nodes[node ^ 1]);
            node /= 2;
        }
        min
    }

    /// The first place that holds the minimum; `None` if all are vacant.
    pub(super) fn first_min(&self) -> Option<usize> {
        if self.min() == VACANT {
            return None;
        }
        let mut node = 1;
        while node < self.leaves() {
            node *= 2;
            if self.nodes[node] > self.min() {
                node += 1;
            }
        }
        Some(node - self.leaves())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_scan() {
        for places in [0, 1, 2, 3, 7, 8, 9] {
            let mut tree = Minima::new(places);
            let mut plain = vec![VACANT; places];
            let mut random = 0x9E37_79B9_u64;
            for _ in 0..500 {
                if plain.is_empty() || plain.len() < 40 && random.is_multiple_of(13) {
                    plain.push(VACANT);
                    tree.grow(plain.len());
                }
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let place = (random >> 33) as usize % plain.len();
                let value = if random >> 62 == 0 { VACANT } else { (random >> 40) as i64 % 9 };
                plain[place] = value;
                tree.set(place, value);
                let min = plain.iter().copied().min().unwrap_or(VACANT);
                assert_eq!(tree.min(), min);
                let first = plain.iter().position(|&v| v == min).filter(|_| min != VACANT);
                assert_eq!(tree.first_min(), first);
                for place in 0..plain.len() {
                    let others = plain.iter().enumerate().filter(|(other, _)| *other != place);
                    assert_eq!(tree.min_without(place), others.map(|(_, v)| *v).min().unwrap_or(VACANT));
                }
            }
        }
    }
}
