//! A merger of watermarks, slow and obvious.

use highwater::watermark::{END, NONE, Reactivation};

use super::merge::Merger;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Active,
    Idle,
    Ended,
    Removed,
}

#[derive(Clone, Copy, Debug)]
struct Input {
    watermark: i64,
    status: Status,
    /// Active, and not one that has yet to catch up.
    counts: bool,
}

/// A naive merger: all inputs are looked at, every time. It follows the rules for an input that has ended, or Flink's, to
/// which the end is a watermark like any other.
pub(crate) struct Naive {
    rule: Reactivation,
    end_is_a_watermark: bool,
    inputs: Vec<Input>,
    merged: i64,
}

impl Naive {
    pub(crate) fn new(inputs: usize, rule: Reactivation, end_is_a_watermark: bool) -> Naive {
        let mut naive = Naive { rule, end_is_a_watermark, inputs: Vec::new(), merged: NONE };
        (0..inputs).for_each(|_| _ = naive.add());
        naive
    }

    fn watermarks(&self, which: impl Fn(&Input) -> bool) -> impl Iterator<Item = i64> {
        self.inputs.iter().filter(move |input| which(input)).map(|input| input.watermark)
    }

    fn any(&self, status: Status) -> bool {
        self.inputs.iter().any(|input| input.status == status)
    }

    fn highest(&self) -> i64 {
        self.watermarks(|input| input.status == Status::Idle).max().unwrap_or(NONE)
    }

    fn raise(&mut self, to: i64) {
        self.merged = self.merged.max(to);
    }

    fn leave(&mut self, p: usize, status: Status) {
        let held = self.inputs[p].watermark == self.merged;
        (self.inputs[p].status, self.inputs[p].counts) = (status, false);
        if self.rule == Reactivation::AtOnce {
            self.refresh();
        } else if !self.any(Status::Active) && self.any(Status::Idle) {
            if held {
                self.raise(self.highest());
            }
        } else if held || status == Status::Ended {
            self.refresh();
        }
    }

    /// The end of an input, by our rules.
    fn end(&mut self, p: usize) {
        match self.inputs[p].status {
            Status::Active => self.leave(p, Status::Ended),
            Status::Idle => {
                self.inputs[p].status = Status::Ended;
                if self.any(Status::Active) || !self.any(Status::Idle) {
                    self.refresh();
                }
            }
            Status::Ended | Status::Removed => {}
        }
    }

    /// Takes the news in; whether it was any.
    fn take(&mut self, p: usize, watermark: i64) -> bool {
        if self.inputs[p].status == Status::Idle && self.rule == Reactivation::AtOnce {
            self.mark_active(p);
        }
        let input = &mut self.inputs[p];
        if input.status != Status::Active || watermark <= input.watermark {
            return false;
        }
        input.watermark = watermark;
        input.counts |= watermark >= self.merged;
        true
    }
}

impl Merger for Naive {
    fn set(&mut self, p: usize, watermark: i64) {
        self.take(p, watermark);
    }
    fn advance(&mut self, p: usize, watermark: i64) {
        if watermark == END && !self.end_is_a_watermark {
            self.end(p);
        } else if self.take(p, watermark)
            && (self.rule == Reactivation::WhenCaughtUp || watermark > self.merged)
        {
            self.refresh();
        }
    }
    fn refresh(&mut self) {
        let target = if self.any(Status::Active) {
            self.watermarks(|input| input.counts).min().unwrap_or(NONE)
        } else if self.any(Status::Idle) {
            if self.rule == Reactivation::AtOnce { self.highest() } else { NONE }
        } else if self.any(Status::Ended) {
            END
        } else {
            NONE
        };
        self.raise(target);
    }
    fn mark_idle(&mut self, p: usize) {
        if self.inputs[p].status == Status::Active {
            // An ended input that is idle is still at the end, and the highest.
            self.leave(p, Status::Idle);
        }
    }
    fn mark_active(&mut self, p: usize) {
        if self.inputs[p].status == Status::Idle {
            let counts = self.rule == Reactivation::AtOnce || self.inputs[p].watermark >= self.merged;
            (self.inputs[p].status, self.inputs[p].counts) = (Status::Active, counts);
        }
    }
    fn add(&mut self) -> usize {
        let counts = self.rule == Reactivation::AtOnce || self.merged == NONE;
        self.inputs.push(Input { watermark: NONE, status: Status::Active, counts });
        self.inputs.len() - 1
    }
    fn remove(&mut self, p: usize) {
        (self.inputs[p].status, self.inputs[p].counts) = (Status::Removed, false);
    }
    fn merged(&self) -> i64 {
        self.merged
    }
    fn is_idle(&self) -> bool {
        !self.any(Status::Active) && self.any(Status::Idle)
    }
}
