//! The clock of a replay: where runs of rows must be cut so that idleness is judged as row by row.
//!
//! The rule is simple: **the clock stands at a row's ingest time when that row is pushed.** A call per row would be slow,
//! so rows are pushed together where that cannot be told from the outside: no partition's timeout ends between them,
//! the partition itself is not silent for so long, and the last of them are pushed at their own ingest time, for
//! that is when the partition was last heard of.

use highwater::{TickUnit, TimeDelta};

/// A thing to do with some rows of one partition, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Set the clock.
    Clock(i64),
    /// Push so many rows from there.
    Push { start: usize, length: usize },
}

/// Knows when the timeout of each partition ends.
#[derive(Debug)]
pub(crate) struct ReplayClock {
    timeout: i64,
    ingest: TickUnit,
    event: TickUnit,
    now: Option<i64>,
    /// When a partition was last heard of; `None` once it has finished.
    heard: Vec<Option<i64>>,
    /// No timeout that is still running ends before this.
    deadline: i64,
}

impl ReplayClock {
    /// A clock in ticks of event time; `None` if the timeout is not a whole number of them.
    pub(crate) fn new(timeout: TimeDelta, ingest: TickUnit, event: TickUnit, partitions: usize) -> Option<Self> {
        let timeout = i64::try_from(timeout.ticks(event)?).unwrap_or(i64::MAX);
        Some(ReplayClock {
            timeout,
            ingest,
            event,
            now: None,
            heard: vec![Some(i64::MIN); partitions],
            deadline: i64::MIN,
        })
    }

    fn event_ticks(&self, ingest: i64) -> i64 {
        if self.ingest == self.event {
            return ingest;
        }
        let ticks = (i128::from(ingest) * self.ingest.nanos()).div_euclid(self.event.nanos());
        ticks.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// A partition has no more rows.
    pub(crate) fn finish(&mut self, partition: usize) {
        self.heard[partition] = None;
    }

    fn set(&mut self, now: i64, steps: &mut Vec<Step>) {
        if self.now.is_none() {
            // The timeouts of all partitions start with the clock.
            self.heard.iter_mut().flatten().for_each(|heard| *heard = now);
        }
        if self.now != Some(now) {
            self.now = Some(now);
            steps.push(Step::Clock(now));
        }
        if self.deadline <= now {
            let ends = self.heard.iter().flatten().map(|heard| heard.saturating_add(self.timeout));
            self.deadline = ends.filter(|&end| end > now).min().unwrap_or(i64::MAX);
        }
    }

    /// What to do with rows of a partition that were received at these times, which never fall.
    pub(crate) fn steps(&mut self, partition: usize, ingest: &[i64], steps: &mut Vec<Step>) {
        let times: Vec<i64> = ingest.iter().map(|&time| self.event_ticks(time)).collect();
        let mut start = 0;
        while start < times.len() {
            self.set(times[start], steps);
            let quiet = |row: usize| times[row].saturating_sub(times[row - 1]) >= self.timeout;
            let end = (start + 1..times.len())
                .find(|&row| times[row] >= self.deadline || quiet(row))
                .unwrap_or(times.len());
            let last = times[end - 1];
            let tail = start + times[start..end].partition_point(|&time| time < last);
            if tail > start {
                steps.push(Step::Push { start, length: tail - start });
                self.set(last, steps);
            }
            steps.push(Step::Push { start: tail, length: end - tail });
            self.heard[partition] = Some(last);
            self.deadline = self.deadline.min(last.saturating_add(self.timeout));
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(clock: &mut ReplayClock, partition: usize, times: &[i64]) -> Vec<Step> {
        let mut steps = Vec::new();
        clock.steps(partition, times, &mut steps);
        steps
    }

    fn push(start: usize, length: usize) -> Step {
        Step::Push { start, length }
    }

    #[test]
    fn runs_are_cut_where_a_timeout_ends() {
        let ms = TickUnit::Millisecond;
        let mut clock = ReplayClock::new(TimeDelta::from_millis(10), ms, ms, 2).unwrap();
        // partition 1 is silent from the start, at 100: idle from 110 on
        assert_eq!(
            steps(&mut clock, 0, &[100, 104, 109, 111, 112]),
            [
                Step::Clock(100),
                push(0, 2),
                Step::Clock(109),
                push(2, 1),
                Step::Clock(111),
                push(3, 1),
                Step::Clock(112),
                push(4, 1)
            ]
        );
        // a gap in a partition's own rows
        assert_eq!(steps(&mut clock, 0, &[113, 113, 130]), [Step::Clock(113), push(0, 2), Step::Clock(130), push(2, 1)]);
        // at the same time, the clock need not be set again
        assert_eq!(steps(&mut clock, 1, &[130, 130]), [push(0, 2)]);
    }

    #[test]
    fn a_finished_partition_has_no_timeout() {
        let ms = TickUnit::Millisecond;
        let mut clock = ReplayClock::new(TimeDelta::from_millis(10), ms, ms, 2).unwrap();
        clock.finish(1);
        assert_eq!(
            steps(&mut clock, 0, &[0, 9, 18, 27]),
            // its own timeout, which starts anew with each row, is all that is looked at
            [Step::Clock(0), push(0, 1), Step::Clock(9), push(1, 1), Step::Clock(18), push(2, 1), Step::Clock(27), push(3, 1)]
        );
    }

    #[test]
    fn ingest_time_is_floored_to_ticks_of_event_time() {
        let mut clock =
            ReplayClock::new(TimeDelta::from_secs(10), TickUnit::Millisecond, TickUnit::Second, 1).unwrap();
        assert_eq!(steps(&mut clock, 0, &[-1, 1_500]), [Step::Clock(-1), push(0, 1), Step::Clock(1), push(1, 1)]);
        assert!(ReplayClock::new(TimeDelta::from_millis(5), TickUnit::Second, TickUnit::Second, 1).is_none());
    }
}
