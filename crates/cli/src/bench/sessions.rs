//! The sessions that must come out, row by row and without any of the engine's code.
//!
//! ```text
//! for each row (partition p, time t, key k), in the order in which rows are pushed:
//!     merge [t, t + gap) with all open sessions of k that overlap or touch it
//!     late, if there are none and t + gap - 1 <= W
//!     W advances;   a session is due, and takes no more rows, when its end - 1 <= W
//! ```

use std::collections::HashMap;

use super::tally::{Tally, Values};
use super::watermarks::Watermarks;

/// A session's key, start and end, which lies a gap behind its last row.
pub(super) type Place = (i64, i64, i64);

/// Sessions that are still to fire. All times are milliseconds.
pub(super) struct Sessions {
    gap: i64,
    watermarks: Watermarks,
    /// By key; some may have become due since.
    open: HashMap<i64, Vec<Session>>,
    /// Those that have been found to be due.
    due: HashMap<Place, Tally>,
    /// Rows that joined no session.
    pub(super) late: u64,
}

struct Session {
    start: i64,
    end: i64,
    tally: Tally,
}

impl Sessions {
    pub(super) fn new(gap: i64, bound: i64, partitions: usize) -> Self {
        let watermarks = Watermarks::new(bound, partitions);
        Sessions { gap, watermarks, open: HashMap::new(), due: HashMap::new(), late: 0 }
    }

    /// Takes a row.
    pub(super) fn row(&mut self, partition: usize, time: i64, key: i64, values: &Values<'_>, row: usize) {
        let watermark = self.watermarks.merged;
        let sessions = self.open.entry(key).or_default();
        set_aside(key, sessions, watermark, &mut self.due);
        let mut whole = Session { start: time, end: time + self.gap, tally: Tally::default() };
        whole.tally.add(values, row);
        sessions.retain(|session| {
            let apart = session.end < time || time + self.gap < session.start;
            if !apart {
                whole.start = whole.start.min(session.start);
                whole.end = whole.end.max(session.end);
                whole.tally.merge(&session.tally);
            }
            apart
        });
        if whole.end - 1 > watermark {
            sessions.push(whole);
        } else {
            self.late += 1;
        }
        self.watermarks.advance(partition, time);
    }

    /// Ends the input: everything is due.
    pub(super) fn finish(&mut self) {
        self.watermarks.finish();
    }

    /// The sessions that have become due since the last call.
    pub(super) fn take_due(&mut self) -> HashMap<Place, Tally> {
        let (watermark, due) = (self.watermarks.merged, &mut self.due);
        self.open.retain(|&key, sessions| {
            set_aside(key, sessions, watermark, due);
            !sessions.is_empty()
        });
        std::mem::take(due)
    }
}

/// Moves sessions that are due.
fn set_aside(key: i64, sessions: &mut Vec<Session>, watermark: i64, due: &mut HashMap<Place, Tally>) {
    for session in sessions.extract_if(.., |session| session.end - 1 <= watermark) {
        due.insert((key, session.start, session.end), session.tally);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(sessions: &mut Sessions) -> Vec<(Place, i64)> {
        let mut due: Vec<_> =
            sessions.take_due().into_iter().map(|(place, tally)| (place, tally.count)).collect();
        due.sort_unstable();
        due
    }

    fn sessions(gap: i64, bound: i64, rows: &[(i64, i64)]) -> Sessions {
        let mut sessions = Sessions::new(gap, bound, 1);
        rows.iter().for_each(|&(time, key)| sessions.row(0, time, key, &Values::NONE, 0));
        sessions
    }

    /// With a gap of 10, rows at 0, 30, and 20 are apart from 0 but not from 30; 10 touches 0 and 20, so all are one.
    #[test]
    fn a_row_between_sessions_makes_them_one() {
        let mut apart = sessions(10, 100, &[(0, 7), (30, 7), (20, 7), (0, 8), (11, 8)]);
        assert_eq!(due(&mut apart), []);
        apart.finish();
        let expected = [((7, 0, 10), 1), ((7, 20, 40), 2), ((8, 0, 10), 1), ((8, 11, 21), 1)];
        assert_eq!(due(&mut apart), expected);
        let mut joined = sessions(10, 100, &[(0, 7), (30, 7), (20, 7), (10, 7)]);
        joined.finish();
        assert_eq!(due(&mut joined), [((7, 0, 40), 4)]);
        assert_eq!(due(&mut joined), []);
    }

    /// With a gap of 10 and no bound, W is 24 after the row at 25 of another key: [5, 15) is due. The row at 14 is late and touches
    /// nothing, for its end - 1 is 23; that at 15 ends at 24, and is late too; that at 16 is late, but opens a session, which the
    /// row at 5 does not touch.
    #[test]
    fn rows_are_judged_by_the_session_that_they_make() {
        let mut sessions = sessions(10, 0, &[(5, 7), (25, 8), (14, 7), (15, 7), (16, 7), (5, 7)]);
        assert_eq!(due(&mut sessions), [((7, 5, 15), 1)]);
        assert_eq!(sessions.late, 3);
        // it takes the row at 6, which would be late by itself
        sessions.row(0, 6, 7, &Values::NONE, 0);
        sessions.finish();
        assert_eq!(due(&mut sessions), [((7, 6, 26), 2), ((8, 25, 35), 1)]);
        assert_eq!(sessions.late, 3);
    }
}
