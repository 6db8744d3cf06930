//! One watermark out of many.

use crate::{MAX, NONE, Reactivation};

/// The merged watermark of several partitions.
///
/// Both rules are Flink's: `WhenCaughtUp` is `StatusWatermarkValve` (inputs of an operator), `AtOnce` is
/// `CombinedWatermarkStatus` (splits of a source, the two inputs of a join). They agree that the merged watermark is
/// the minimum over the active partitions, that one which has not spoken holds it at `NONE`, and that it never goes
/// back. One thing is not Flink's: a finished partition is left out altogether, where Flink lets it stand at `MAX`,
/// which would end the stream when the others merely go idle.
#[derive(Clone, Debug)]
pub struct Merge {
    rule: Reactivation,
    inputs: Vec<Input>,
    merged: i64,
}

#[derive(Clone, Debug)]
struct Input {
    watermark: i64,
    idle: bool,
    finished: bool,
    /// Part of the minimum. Differs from "active" only under `WhenCaughtUp`, for one that woke up behind.
    aligned: bool,
}

impl Merge {
    /// All partitions active, none has spoken.
    pub fn new(partitions: usize, rule: Reactivation) -> Merge {
        let input = Input { watermark: NONE, idle: false, finished: false, aligned: true };
        Merge { rule, inputs: vec![input; partitions], merged: NONE }
    }

    /// The merged watermark.
    pub fn watermark(&self) -> i64 {
        self.merged
    }

    /// The partition's own watermark; `MAX` once it has finished.
    pub fn own(&self, p: usize) -> i64 {
        if self.inputs[p].finished { MAX } else { self.inputs[p].watermark }
    }

    /// Whether the partition is idle; one that has finished is not.
    pub fn is_idle(&self, p: usize) -> bool {
        self.inputs[p].idle && !self.inputs[p].finished
    }

    /// Whether the partition has finished.
    pub fn is_finished(&self, p: usize) -> bool {
        self.inputs[p].finished
    }

    /// Whether every partition that has not finished is idle, and there is one.
    pub fn all_idle(&self) -> bool {
        self.unfinished().count() > 0 && self.unfinished().all(|input| input.idle)
    }

    /// The partition says `w`, which is less than `MAX`. If it is idle, `WhenCaughtUp` ignores that; `AtOnce` takes it
    /// as a sign of life.
    pub fn set(&mut self, p: usize, w: i64) {
        if self.record(p, w) {
            self.recompute();
        }
    }

    /// Like [`set`](Merge::set), but the merged watermark does not move before the next
    /// [`recompute`](Merge::recompute). Tells whether the partition's own watermark rose.
    pub fn record(&mut self, p: usize, w: i64) -> bool {
        let merged = self.merged;
        let input = &mut self.inputs[p];
        match self.rule {
            _ if input.finished => return false,
            Reactivation::WhenCaughtUp if input.idle => return false,
            Reactivation::WhenCaughtUp => {}
            Reactivation::AtOnce => (input.idle, input.aligned) = (false, true),
        }
        if w <= input.watermark {
            return false;
        }
        input.watermark = w;
        input.aligned |= w >= merged;
        true
    }

    /// The partition goes idle and leaves the minimum.
    pub fn idle(&mut self, p: usize) {
        let was_active = self.record_idle(p);
        // Saying it twice matters only to `AtOnce`, and only if something was recorded meanwhile.
        if was_active || self.rule == Reactivation::AtOnce {
            self.left(p);
        }
    }

    /// Like [`idle`](Merge::idle), but the merged watermark does not move before the next
    /// [`recompute`](Merge::recompute). Tells whether the partition was active.
    pub fn record_idle(&mut self, p: usize) -> bool {
        let input = &mut self.inputs[p];
        if input.finished || input.idle {
            return false;
        }
        (input.idle, input.aligned) = (true, false);
        true
    }

    /// The partition is active again. That alone never moves the merged watermark; but `AtOnce` takes the opportunity
    /// to recompute, which shows if something was [recorded](Merge::record) before.
    pub fn active(&mut self, p: usize) {
        let input = &mut self.inputs[p];
        if input.finished {
            return;
        }
        let was_idle = input.idle;
        input.idle = false;
        match self.rule {
            Reactivation::WhenCaughtUp if was_idle => input.aligned = input.watermark >= self.merged,
            Reactivation::WhenCaughtUp => {}
            Reactivation::AtOnce => {
                input.aligned = true;
                self.recompute();
            }
        }
    }

    /// The partition has ended, for good. Like a last word of `MAX` if others are active; as if it had gone idle if
    /// no other is.
    pub fn finish(&mut self, p: usize) {
        if self.inputs[p].finished {
            return;
        }
        let was_active = !self.inputs[p].idle;
        (self.inputs[p].finished, self.inputs[p].aligned) = (true, false);
        if !self.all_idle() {
            self.recompute();
        } else if was_active {
            self.left(p);
        }
    }

    /// Moves the merged watermark up to the minimum over the aligned partitions; if there are none because all are
    /// idle, `AtOnce` takes the maximum. When all have finished it is `MAX`.
    pub fn recompute(&mut self) {
        if self.unfinished().count() == 0 {
            self.merged = MAX;
        } else if let Some(min) = self.aligned().map(|input| input.watermark).min() {
            self.merged = self.merged.max(min);
        } else if self.rule == Reactivation::AtOnce {
            self.flush();
        }
    }

    /// What follows when `p` has left the minimum. `WhenCaughtUp` looks further only if it was `p` that held the
    /// merged watermark; if no active one remains, all that the others ever said may then come out.
    fn left(&mut self, p: usize) {
        match self.rule {
            Reactivation::AtOnce => self.recompute(),
            Reactivation::WhenCaughtUp if self.inputs[p].watermark != self.merged => {}
            Reactivation::WhenCaughtUp if self.all_idle() => self.flush(),
            Reactivation::WhenCaughtUp => self.recompute(),
        }
    }

    /// All idle: the merged watermark moves to the maximum.
    fn flush(&mut self) {
        let max = self.unfinished().map(|input| input.watermark).max();
        self.merged = self.merged.max(max.unwrap_or(NONE));
    }

    fn unfinished(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter().filter(|input| !input.finished)
    }

    fn aligned(&self) -> impl Iterator<Item = &Input> {
        self.unfinished().filter(|input| input.aligned)
    }

    /// Panics if an invariant does not hold.
    pub fn validate(&self) {
        for input in &self.inputs {
            assert!(
                !(input.aligned && (input.idle || input.finished)),
                "only active ones are aligned: {self:?}"
            );
            match self.rule {
                Reactivation::WhenCaughtUp => assert!(
                    !input.aligned || self.merged <= input.watermark,
                    "the merged watermark is ahead of an aligned partition: {self:?}"
                ),
                Reactivation::AtOnce => assert!(
                    input.aligned || input.idle || input.finished,
                    "an active partition is not part of the minimum: {self:?}"
                ),
            }
        }
        let ended = self.unfinished().count() == 0;
        assert_eq!(self.merged == MAX, ended, "MAX is the end of input, and nothing else is: {self:?}");
    }
}
