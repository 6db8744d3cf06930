//! The merge against a second, naive one: no trees, no counts, everything looked up where it is needed.

use super::super::*;
use super::Random;
use crate::watermark::PartitionStatus::{Active, Finished, Idle, Removed};

#[derive(Clone, Debug)]
struct Naive {
    rule: Reactivation,
    inputs: Vec<Input>,
    free: Vec<usize>,
    merged: i64,
}

#[derive(Clone, Debug)]
struct Input {
    watermark: i64,
    status: PartitionStatus,
    /// Has yet to catch up.
    behind: bool,
}

impl Naive {
    fn new(rule: Reactivation) -> Naive {
        Naive { rule, inputs: Vec::new(), free: Vec::new(), merged: NONE }
    }

    fn catches_up(&self) -> bool {
        self.rule == Reactivation::WhenCaughtUp
    }

    fn with(&self, statuses: &[PartitionStatus]) -> Vec<usize> {
        (0..self.inputs.len()).filter(|&p| statuses.contains(&self.inputs[p].status)).collect()
    }

    fn counting(&self) -> Vec<usize> {
        self.with(&[Active]).into_iter().filter(|&p| !self.inputs[p].behind).collect()
    }

    fn min(&self, among: &[usize]) -> Option<i64> {
        among.iter().map(|&p| self.inputs[p].watermark).min()
    }

    fn max_of_idle(&self) -> i64 {
        self.with(&[Idle]).iter().map(|&p| self.inputs[p].watermark).max().unwrap_or(NONE)
    }

    fn refresh(&mut self) {
        let all_finished = self.with(&[Active, Idle]).is_empty() && !self.with(&[Finished]).is_empty();
        let target = if all_finished {
            END
        } else if let Some(min) = self.min(&self.counting()) {
            min
        } else if !self.catches_up() {
            self.max_of_idle()
        } else {
            NONE
        };
        self.merged = self.merged.max(target);
    }

    fn set(&mut self, p: usize, watermark: i64) -> bool {
        if self.inputs[p].status == Idle && !self.catches_up() {
            self.inputs[p].status = Active;
        }
        if self.inputs[p].status != Active || watermark <= self.inputs[p].watermark {
            return false;
        }
        self.inputs[p].watermark = watermark;
        if watermark >= self.merged {
            self.inputs[p].behind = false;
        }
        true
    }

    fn advance(&mut self, p: usize, watermark: i64) {
        if self.set(p, watermark) && (self.catches_up() || watermark > self.merged) {
            self.refresh();
        }
    }

    fn leave(&mut self, p: usize, status: PartitionStatus) {
        let held = self.inputs[p].watermark == self.merged;
        let was_active = self.inputs[p].status == Active;
        self.inputs[p] = Input { watermark: self.inputs[p].watermark, status, behind: false };
        if status == Finished {
            self.inputs[p].watermark = END;
        }
        let all_idle = self.with(&[Active]).is_empty() && !self.with(&[Idle]).is_empty();
        if !self.catches_up() {
            self.refresh();
        } else if !all_idle {
            if held || status == Finished {
                self.refresh();
            }
        } else if was_active && held {
            self.merged = self.merged.max(self.max_of_idle());
        }
    }

    fn mark_idle(&mut self, p: usize) {
        if self.inputs[p].status == Active {
            self.leave(p, Idle);
        }
    }

    fn mark_active(&mut self, p: usize) {
        if self.inputs[p].status == Idle {
            self.inputs[p].status = Active;
            self.inputs[p].behind = self.catches_up() && self.inputs[p].watermark < self.merged;
        }
    }

    fn finish(&mut self, p: usize) {
        if matches!(self.inputs[p].status, Active | Idle) {
            self.leave(p, Finished);
        }
    }

    fn add(&mut self) -> usize {
        let input =
            Input { watermark: NONE, status: Active, behind: self.catches_up() && self.merged > NONE };
        let p = self.free.pop().unwrap_or(self.inputs.len());
        if p < self.inputs.len() {
            self.inputs[p] = input;
        } else {
            self.inputs.push(input);
        }
        p
    }

    fn remove(&mut self, p: usize) {
        if self.inputs[p].status == Removed {
            return;
        }
        self.free.push(p);
        if self.catches_up() && self.inputs[p].status == Active {
            self.leave(p, Removed);
        } else {
            self.inputs[p].status = Removed;
        }
    }
}

fn compare(merge: &WatermarkMerge, naive: &Naive) {
    merge.validate();
    assert_eq!(merge.merged(), naive.merged);
    assert_eq!(merge.is_idle(), naive.with(&[Active]).is_empty() && !naive.with(&[Idle]).is_empty());
    let counting = naive.counting();
    let mut refreshed = naive.clone();
    refreshed.refresh();
    assert_eq!(merge.is_pending(), refreshed.merged > naive.merged);
    let candidates = if counting.is_empty() { naive.with(&[Active]) } else { counting.clone() };
    let lowest = candidates.into_iter().min_by_key(|&p| naive.inputs[p].watermark);
    assert_eq!(merge.holding_back(), lowest);
    for (p, input) in naive.inputs.iter().enumerate() {
        assert_eq!((merge.watermark(p), merge.status(p)), (input.watermark, input.status), "partition {p}");
        assert_eq!(merge.is_aligned(p), counting.contains(&p), "partition {p}");
        let others: Vec<usize> = counting.iter().copied().filter(|&other| other != p).collect();
        assert_eq!(merge.others_minimum(p), naive.min(&others).unwrap_or(END), "partition {p}");
    }
}

/// What a caller may rely on who moves one partition through many watermarks at once.
fn check_foresight(merge: &WatermarkMerge, p: usize, low: i64, high: i64) {
    if merge.is_pending() || low >= high || high == END {
        return;
    }
    let mut stepwise = merge.clone();
    stepwise.advance(p, low);
    stepwise.advance(p, high);
    let mut at_once = merge.clone();
    at_once.set(p, high);
    at_once.refresh();
    assert_eq!(stepwise.merged(), at_once.merged(), "two steps or one");
    assert_eq!(stepwise.is_aligned(p), at_once.is_aligned(p), "two steps or one");
    if merge.is_aligned(p) {
        let foreseen = merge.merged().max(high.max(merge.watermark(p)).min(merge.others_minimum(p)));
        assert_eq!(at_once.merged(), foreseen, "the formula of others_minimum");
    }
}

#[test]
fn agrees_with_the_naive_merge() {
    let mut ended = 0;
    for seed in 0..600 {
        let mut random = Random(seed);
        let rule = if seed % 2 == 0 { Reactivation::WhenCaughtUp } else { Reactivation::AtOnce };
        let partitions = random.below(9);
        let mut merge = WatermarkMerge::new(partitions, rule);
        let mut naive = Naive::new(rule);
        for p in 0..partitions {
            assert_eq!(naive.add(), p);
        }
        let finishing = random.below(3);
        for step in 0..300 {
            let before = merge.merged();
            let (p, operation) = (random.below(naive.inputs.len().max(1)), random.below(100));
            let range = 20 + step;
            let watermark = random.time(range).min(END - 1);
            if naive.inputs.is_empty() || operation == 0 {
                assert_eq!(merge.add(), naive.add());
                continue;
            }
            check_foresight(&merge, p, watermark, random.time(range));
            let told = match operation {
                1..50 => {
                    naive.advance(p, watermark);
                    Some(merge.advance(p, watermark))
                }
                50..60 => {
                    assert_eq!(merge.set(p, watermark), naive.set(p, watermark));
                    None
                }
                60..65 => {
                    naive.refresh();
                    Some(merge.refresh())
                }
                65..80 => {
                    naive.mark_idle(p);
                    Some(merge.mark_idle(p))
                }
                80..97 => {
                    naive.mark_active(p);
                    merge.mark_active(p);
                    Some(false)
                }
                97.. if random.below(3) < finishing => {
                    naive.finish(p);
                    Some(if random.below(2) == 0 { merge.finish(p) } else { merge.advance(p, END) })
                }
                _ if random.below(4) == 0 => {
                    naive.remove(p);
                    Some(merge.remove(p))
                }
                _ => None,
            };
            assert!(merge.merged() >= before, "never back");
            assert_eq!(
                told.unwrap_or(false),
                merge.merged() > before,
                "seed {seed} step {step} operation {operation}"
            );
            compare(&merge, &naive);
        }
        ended += usize::from(merge.merged() == END);
    }
    assert!(ended > 20, "only {ended} runs came to their end");
}

/// Who finishes, who is left, and what comes out.
#[test]
fn finished_partitions_are_left_out() {
    let start = |rule| {
        let mut merge = WatermarkMerge::new(3, rule);
        for (p, watermark) in [(0, 10), (1, 20), (2, 30)] {
            merge.advance(p, watermark);
        }
        merge
    };
    for rule in [Reactivation::WhenCaughtUp, Reactivation::AtOnce] {
        // The last active one stood at the merged watermark: the maximum of the idle comes out, not END.
        let mut merge = start(rule);
        merge.finish(2);
        merge.mark_idle(1);
        assert_eq!(merge.merged(), 10);
        assert!(merge.mark_idle(0));
        assert_eq!((merge.merged(), merge.is_idle()), (20, true));
        // An idle one finishes without waking up; the last to finish is the end of input.
        assert!(!merge.finish(1));
        assert!(merge.finish(0));
        assert_eq!((merge.merged(), merge.is_idle(), merge.holding_back()), (END, false, None));

        // Finishing as the last active one is like going idle.
        let mut merge = start(rule);
        merge.mark_idle(2);
        merge.mark_idle(1);
        assert!(merge.finish(0));
        assert_eq!(merge.merged(), 30);
    }
    for (rule, set_free, with_others) in
        [(Reactivation::WhenCaughtUp, 20, 30), (Reactivation::AtOnce, 30, 20)]
    {
        // Partition 0 is back, at 10, while the merged watermark is 20.
        let mut merge = start(rule);
        merge.mark_idle(0);
        merge.mark_active(0);
        assert_eq!((merge.merged(), merge.is_aligned(0)), (20, rule == Reactivation::AtOnce));
        // Where it has yet to catch up it holds nothing back, so its end sets nothing free.
        let mut last = merge.clone();
        last.mark_idle(2);
        last.mark_idle(1);
        last.finish(0);
        assert_eq!(last.merged(), set_free);
        // Where others are active, the end of one leaves the minimum to those of them that count.
        merge.finish(1);
        assert_eq!(merge.merged(), with_others);
    }
}

#[test]
fn nobody_at_all() {
    let mut merge = WatermarkMerge::new(0, Reactivation::AtOnce);
    assert!(!merge.refresh());
    assert_eq!((merge.merged(), merge.holding_back(), merge.is_idle()), (NONE, None, false));
    let p = merge.add();
    merge.advance(p, 5);
    merge.remove(p);
    assert!(!merge.refresh());
    assert_eq!((merge.merged(), merge.status(p)), (5, Removed));
    assert_eq!(merge.add(), p, "numbers are used again");
    assert_eq!((merge.watermark(p), merge.merged()), (NONE, 5));
}
