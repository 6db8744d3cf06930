//! What the clocks of a zone show, over all of time.
//!
//! Times are whole seconds: those of the time line count from 1970-01-01 UTC, local ones from 1970-01-01 on the clock. Between
//! two changes of the clock they differ by a constant, so a zone is a table of offsets, and all questions are answered by
//! arithmetic on it. The clock goes forward and back at changes:
//!
//! ```text
//! local        /             /
//!      b _ _ _/    a _ _ /| /
//!      a _ _ |          / |/
//!           /        b /  |
//!          /
//!      a is followed by b: what lies between is jumped over, or comes twice
//! ```

use std::ops::Range;

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;

use crate::error::{Error, Result};

/// Before all times of the calendar, and safe to calculate with.
const EVER: i64 = i64::MIN / 4;

/// The clocks of a zone.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    pieces: Vec<Piece>,
}

/// A time without changes.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: i64,
    offset: i64,
    /// All local seconds that have been shown before are below this.
    shown_before: i64,
}

impl Clock {
    /// The clocks of an IANA zone, by the database that comes with the crate: the answer does not depend on the machine.
    pub(super) fn of(zone: &str) -> Result<Clock> {
        let database = TimeZoneDatabase::bundled();
        let found = database.get(zone).ok().filter(|found| !found.is_unknown());
        let found = found.ok_or_else(|| {
            let names: Vec<String> = database.available().map(|name| name.to_string()).collect();
            let like = similar(zone, names.iter().map(String::as_str));
            let like = like.map_or(String::new(), |like| format!("; did you mean {like}?"));
            Error::invalid("window zone", zone, format!("the name of an IANA time zone{like}"))
        })?;
        let offset = i64::from(found.to_offset(Timestamp::MIN).seconds());
        let mut pieces = vec![Piece { start: EVER, offset, shown_before: EVER }];
        for change in found.following(Timestamp::MIN) {
            let (start, offset) = (change.timestamp().as_second(), i64::from(change.offset().seconds()));
            if let Some(&last) = pieces.last()
                && last.offset != offset
            {
                let shown_before = last.shown_before.max(start + last.offset);
                pieces.push(Piece { start, offset, shown_before });
            }
        }
        Ok(Clock { pieces })
    }

    /// Whether the clock always shows UTC.
    pub(super) fn is_utc(&self) -> bool {
        self.pieces.iter().all(|piece| piece.offset == 0)
    }

    fn piece_at(&self, second: i64) -> usize {
        self.pieces[1..].partition_point(|piece| piece.start <= second)
    }

    /// What the clock shows.
    pub(super) fn shows(&self, second: i64) -> i64 {
        second + self.pieces[self.piece_at(second)].offset
    }

    /// The highest local time that the clock has shown until then.
    pub(super) fn has_shown(&self, second: i64) -> i64 {
        let piece = self.pieces[self.piece_at(second)];
        (second + piece.offset).max(piece.shown_before - 1)
    }

    /// When the clock first shows this local time or a later one.
    pub(super) fn first_showing(&self, local: i64) -> i64 {
        let piece = self.pieces[self.pieces[1..].partition_point(|next| next.shown_before <= local)];
        piece.start.max(local - piece.offset)
    }

    /// The time around `second` in which the clock shows what lies in `shown`, up to where it leaves it or begins it anew.
    pub(super) fn stretch(&self, second: i64, shown: &Range<i64>) -> Range<i64> {
        let here = self.piece_at(second);
        let mut number = here;
        let start = loop {
            let piece = self.pieces[number];
            let begins = shown.start - piece.offset;
            if begins >= piece.start {
                break begins;
            }
            number -= 1;
            if !shown.contains(&(piece.start + self.pieces[number].offset - 1)) {
                break piece.start;
            }
        };
        number = here;
        let end = loop {
            let ends = shown.end - self.pieces[number].offset;
            number += 1;
            let Some(next) = self.pieces.get(number).filter(|next| next.start <= ends) else { break ends };
            let shows = next.start + next.offset;
            if shows == shown.start || !shown.contains(&shows) {
                break next.start;
            }
        };
        start..end
    }
}

/// The name that is most like the given one: one that ends with it, or one that a few letters make of it.
fn similar<'a>(given: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let given = given.to_lowercase().replace(' ', "_");
    let city = |name: &str| name.to_lowercase().rsplit('/').next().is_some_and(|city| city == given);
    names.clone().find(|name| city(name)).or_else(|| {
        let near = names.map(|name| (edits(&given, &name.to_lowercase()), name));
        near.min().filter(|(edits, _)| *edits * 3 <= given.len()).map(|(_, name)| name)
    })
}

/// How many letters must be put in, left out or changed to make one word of the other.
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.bytes().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_nearly_right_are_suggested() {
        let refused = |zone: &str| Clock::of(zone).unwrap_err().to_string();
        for (given, meant) in [
            ("Berlin", "Europe/Berlin"),
            ("new york", "America/New_York"),
            ("Europe/Berlim", "Europe/Berlin"),
            ("Amerika/Sao_Paulo", "America/Sao_Paulo"),
        ] {
            let text = refused(given);
            assert!(text.contains(given) && text.contains(&format!("did you mean {meant}?")), "{text}");
        }
        assert!(!refused("+02:00").contains("did you mean"));
        assert!(!refused("").contains("did you mean"));
        assert!(Clock::of("europe/berlin").is_ok());
    }
}
