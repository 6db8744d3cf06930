//! The clock of a replay: where runs of rows must be cut so that idleness is judged as row by row.
//!
//! The rule is simple: **the clock stands at a row's ingest time when that row is pushed.** A call per row would be slow,
//! so rows are pushed together where that cannot be told from the outside: no partition's timeout ends between them,
//! and the last of them that counts as a sign of life is pushed at its own ingest time. A rejected row is none.

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
    pub(crate) fn new(
        timeout: TimeDelta,
        ingest: TickUnit,
        event: TickUnit,
        partitions: usize,
    ) -> Option<Self> {
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

    /// What it has seen: the time it stands at, the end of the next timeout, and when each partition was last heard of.
    pub(crate) fn seen(&self) -> (Option<i64>, i64, &[Option<i64>]) {
        (self.now, self.deadline, &self.heard)
    }

    /// The same clock, having seen that.
    pub(crate) fn having_seen(self, now: Option<i64>, deadline: i64, heard: Vec<Option<i64>>) -> Self {
        ReplayClock { now, deadline, heard, ..self }
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
        if self.deadline < now {
            let ends = self.heard.iter().flatten().map(|heard| heard.saturating_add(self.timeout));
            self.deadline = ends.filter(|&end| end >= now).min().unwrap_or(i64::MAX);
        }
    }

    /// What to do with rows of a partition that were received at these times, which never fall. `alive` says whether a row
    /// is a sign of life.
    pub(crate) fn steps(
        &mut self,
        partition: usize,
        ingest: &[i64],
        alive: impl Fn(usize) -> bool,
        steps: &mut Vec<Step>,
    ) {
        let times: Vec<i64> = ingest.iter().map(|&time| self.event_ticks(time)).collect();
        let mut start = 0;
        while start < times.len() {
            self.set(times[start], steps);
            let (mut end, mut last_alive) = (start, None);
            while end < times.len() {
                let own = last_alive.map_or(i64::MAX, |row: usize| times[row].saturating_add(self.timeout));
                if end > start && times[end] > self.deadline.min(own) {
                    break;
                }
                last_alive = if alive(end) { Some(end) } else { last_alive };
                end += 1;
            }
            if let Some(row) = last_alive {
                let heard = times[row];
                let tail = start + times[start..end].partition_point(|&time| time < heard);
                if tail > start {
                    steps.push(Step::Push { start, length: tail - start });
                    self.set(heard, steps);
                    start = tail;
                }
                self.heard[partition] = Some(heard);
                self.deadline = self.deadline.min(heard.saturating_add(self.timeout));
            }
            steps.push(Step::Push { start, length: end - start });
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(partitions: usize) -> ReplayClock {
        let ms = TickUnit::Millisecond;
        ReplayClock::new(TimeDelta::from_millis(10), ms, ms, partitions).unwrap()
    }

    /// Steps as text: `@100` sets the clock, `0+2` pushes two rows from row 0.
    fn steps(clock: &mut ReplayClock, partition: usize, times: &[i64], rejected: &[usize]) -> String {
        let mut steps = Vec::new();
        clock.steps(partition, times, |row| !rejected.contains(&row), &mut steps);
        let text = steps.iter().map(|step| match step {
            Step::Clock(now) => format!("@{now}"),
            Step::Push { start, length } => format!("{start}+{length}"),
        });
        text.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn runs_are_cut_where_a_timeout_ends() {
        let mut clock = clock(2);
        // partition 1 is silent from the start, at 100: at 110 it is not idle yet, at 111 it is
        assert_eq!(
            steps(&mut clock, 0, &[100, 104, 110, 111, 112], &[]),
            "@100 0+2 @110 2+1 @111 3+1 @112 4+1"
        );
        // a gap in a partition's own rows
        assert_eq!(steps(&mut clock, 0, &[113, 113, 130], &[]), "@113 0+2 @130 2+1");
        // at the same time, the clock need not be set again
        assert_eq!(steps(&mut clock, 1, &[130, 130], &[]), "0+2");
    }

    #[test]
    fn a_rejected_row_is_no_sign_of_life() {
        // the partition was last heard of at 5, and is idle from 16 on
        assert_eq!(steps(&mut clock(1), 0, &[0, 5, 9, 15, 16], &[2, 3, 4]), "@0 0+1 @5 1+2 @15 3+1 @16 4+1");
        assert_eq!(steps(&mut clock(1), 0, &[0, 5, 9, 15, 16], &[0, 1, 2, 3, 4]), "@0 0+3 @15 3+2");
    }

    #[test]
    fn a_finished_partition_has_no_timeout() {
        let mut clock = clock(2);
        clock.finish(1);
        // the own timeout starts anew with each row
        assert_eq!(steps(&mut clock, 0, &[0, 9, 19, 28], &[]), "@0 0+1 @9 1+1 @19 2+1 @28 3+1");
    }

    #[test]
    fn ingest_time_is_floored_to_ticks_of_event_time() {
        let (ms, s) = (TickUnit::Millisecond, TickUnit::Second);
        let mut clock = ReplayClock::new(TimeDelta::from_secs(10), ms, s, 1).unwrap();
        assert_eq!(steps(&mut clock, 0, &[-1, 1_500], &[]), "@-1 0+1 @1 1+1");
        assert!(ReplayClock::new(TimeDelta::from_millis(5), s, s, 1).is_none());
    }
}
