//! Generators behind their cadence against the literal reading of the rules, under any cut into batches.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};

use super::super::*;
use super::Random;
use crate::{TickUnit, TimeDelta};

/// Goes back: the last row's time, or the column's value where there is one.
#[derive(Clone, Debug)]
struct LastSeen(i64);

impl WatermarkGenerator for LastSeen {
    fn on_event(&mut self, timestamp: i64, batch: &RecordBatch, row: usize) {
        let column = batch.column(1).as_any().downcast_ref::<Int64Array>().expect("an Int64 column");
        self.0 = column.iter().nth(row).flatten().unwrap_or(timestamp);
    }
    fn watermark(&self) -> i64 {
        self.0
    }
    fn boxed_clone(&self) -> Box<dyn WatermarkGenerator> {
        Box::new(self.clone())
    }
}

fn ms(ticks: i64) -> TimeDelta {
    TimeDelta::from_millis(ticks)
}

fn strategies() -> Vec<WatermarkStrategy> {
    vec![
        WatermarkStrategy::ascending(),
        WatermarkStrategy::bounded_out_of_orderness(ms(5)),
        WatermarkStrategy::bounded_out_of_orderness(ms(i64::MAX)),
        WatermarkStrategy::delay(ms(0)),
        WatermarkStrategy::delay(ms(5)),
        WatermarkStrategy::explicit(),
        WatermarkStrategy::punctuated("flag"),
        WatermarkStrategy::punctuated("time"),
        WatermarkStrategy::custom(LastSeen(NONE)),
    ]
}

const CADENCES: [Cadence; 5] = [
    Cadence::EveryRow,
    Cadence::Every(TimeDelta::ZERO),
    Cadence::Every(TimeDelta::from_millis(4)),
    Cadence::OnRequest,
    Cadence::EveryBatch,
];

struct Rows {
    times: Vec<i64>,
    flags: Vec<Option<bool>>,
    marks: Vec<Option<i64>>,
}

impl Rows {
    fn new(random: &mut Random, rows: usize) -> Rows {
        Rows {
            times: (0..rows).map(|row| random.time(20 + row)).collect(),
            flags: (0..rows).map(|_| [None, Some(false), Some(true)][random.below(3)]).collect(),
            marks: (0..rows).map(|row| (random.below(3) == 0).then(|| random.time(20 + row))).collect(),
        }
    }

    fn batch(&self, rows: std::ops::Range<usize>) -> RecordBatch {
        let flags: ArrayRef = Arc::new(BooleanArray::from(self.flags.clone()));
        let marks: ArrayRef = Arc::new(Int64Array::from(self.marks.clone()));
        let whole = RecordBatch::try_from_iter([("flag", flags), ("time", marks)]).expect("two columns");
        whole.slice(rows.start, rows.len())
    }

    /// What row `row` makes its generator propose, given the highest time and mark and the last row.
    fn marker(&self, strategy: &WatermarkStrategy, row: usize) -> Option<i64> {
        match strategy.marker_column()? {
            "flag" => (self.flags[row] == Some(true)).then_some(self.times[row]),
            _ => self.marks[row],
        }
    }
}

/// The rules, one after the other.
struct Literal<'a> {
    strategy: &'a WatermarkStrategy,
    cadence: Cadence,
    max: Option<i64>,
    highest_marker: i64,
    last_seen: i64,
    emitted: i64,
    regressions: u64,
}

impl Literal<'_> {
    fn proposal(&self) -> i64 {
        let behind =
            |lag: i128| self.max.map_or(NONE, |max| i64::try_from(i128::from(max) - lag).unwrap_or(NONE));
        let proposal = match self.strategy {
            WatermarkStrategy::BoundedOutOfOrderness(bound) => behind(bound.as_nanos() / 1_000_000 + 1),
            WatermarkStrategy::Ascending => behind(1),
            WatermarkStrategy::Delay(delay) => behind(delay.as_nanos() / 1_000_000),
            WatermarkStrategy::Explicit => NONE,
            WatermarkStrategy::Punctuated(_) => self.highest_marker,
            WatermarkStrategy::Custom(_) => self.last_seen,
        };
        proposal.min(END - 1)
    }

    fn asked(&mut self, ahead_by_more_than: i64) {
        let proposal = self.proposal();
        if matches!(self.strategy, WatermarkStrategy::Custom(_)) && proposal < self.emitted {
            self.regressions += 1;
        }
        let ahead = i128::from(proposal) - i128::from(self.emitted);
        if self.emitted == NONE || ahead > i128::from(ahead_by_more_than) {
            self.emitted = self.emitted.max(proposal);
        }
    }

    fn row(&mut self, rows: &Rows, row: usize) {
        self.max = self.max.max(Some(rows.times[row]));
        self.last_seen = rows.marks[row].unwrap_or(rows.times[row]);
        if let Some(marker) = rows.marker(self.strategy, row) {
            self.regressions += u64::from(marker < self.emitted);
            self.highest_marker = self.highest_marker.max(marker);
        }
        match self.cadence {
            Cadence::EveryRow => self.asked(0),
            Cadence::Every(interval) => {
                self.asked(i64::try_from(interval.as_nanos() / 1_000_000).expect("short"))
            }
            Cadence::EveryBatch | Cadence::OnRequest => {}
        }
    }

    fn emit(&mut self) {
        if matches!(self.cadence, Cadence::EveryRow | Cadence::Every(_)) {
            self.emitted = self.emitted.max(self.proposal());
        } else {
            self.asked(0);
        }
    }
}

fn run(random: &mut Random, strategy: &WatermarkStrategy, cadence: Cadence, whole: bool) {
    let count = random.below(60);
    let rows = Rows::new(random, count);
    let mut partition =
        PartitionWatermark::new(strategy, cadence, "ts", TickUnit::Millisecond).expect("valid");
    let mut literal = Literal {
        strategy,
        cadence,
        max: None,
        highest_marker: NONE,
        last_seen: NONE,
        emitted: NONE,
        regressions: 0,
    };
    let mut start = 0;
    while start < count {
        let end = if whole { count } else { start + random.below(count - start + 1) };
        let times = &rows.times[start..end];
        let batch = rows.batch(start..end);
        let marker = strategy.marker_column().map(|name| batch.column_by_name(name).expect("a column"));
        let before = partition.observe(times, &batch, marker).watermarks(times);
        for row in start..end {
            assert_eq!(before[row - start], literal.emitted, "{strategy:?} {cadence:?} row {row}");
            literal.row(&rows, row);
        }
        if cadence == Cadence::EveryBatch && start < end {
            literal.asked(0);
        }
        match random.below(6) {
            0 => {
                partition.emit();
                literal.emit();
            }
            1 => {
                let watermark = random.time(40);
                partition.explicit(watermark);
                literal.regressions += u64::from(watermark < literal.emitted);
                literal.emitted = literal.emitted.max(watermark.min(END - 1));
            }
            _ => {}
        }
        assert_eq!(partition.emitted(), literal.emitted, "{strategy:?} {cadence:?}");
        assert_eq!(partition.regressions(), literal.regressions, "{strategy:?} {cadence:?}");
        start = end;
    }
}

#[test]
fn any_cut_gives_the_literal_answer() {
    for seed in 0..150 {
        let mut random = Random(seed);
        for strategy in strategies() {
            for cadence in CADENCES {
                run(&mut random, &strategy, cadence, seed % 3 == 0);
            }
        }
    }
}

#[test]
fn closed_forms_where_promised() {
    let batch = Rows { times: vec![], flags: vec![None; 3], marks: vec![None; 3] }.batch(0..3);
    let observe = |strategy: &WatermarkStrategy, cadence| {
        let mut partition =
            PartitionWatermark::new(strategy, cadence, "ts", TickUnit::Millisecond).expect("valid");
        partition.observe(&[3, 1, 2], &batch, Some(batch.column(0)))
    };
    for strategy in strategies() {
        let lag = match strategy {
            WatermarkStrategy::BoundedOutOfOrderness(bound) => Some((bound.as_nanos() / 1_000_000, true)),
            WatermarkStrategy::Ascending => Some((0, true)),
            WatermarkStrategy::Delay(delay) => Some((delay.as_nanos() / 1_000_000, false)),
            _ => None,
        };
        if let Some((ticks, inclusive)) = lag {
            let lag = Lag { ticks: i64::try_from(ticks).expect("as given"), inclusive };
            assert_eq!(observe(&strategy, Cadence::EveryRow), Before::RunningMax { max: NONE, lag });
        }
        for cadence in [Cadence::OnRequest, Cadence::EveryBatch] {
            assert_eq!(observe(&strategy, cadence), Before::Constant(NONE));
        }
    }
    assert_eq!(observe(&WatermarkStrategy::explicit(), Cadence::EveryRow), Before::Constant(NONE));
}

/// An explicit watermark ahead of the rows holds until they have caught up, and then the closed form is back.
#[test]
fn explicit_overtakes_rows() {
    let batch = Rows { times: vec![], flags: vec![None; 3], marks: vec![None; 3] }.batch(0..3);
    let strategy = WatermarkStrategy::delay(ms(0));
    let mut partition =
        PartitionWatermark::new(&strategy, Cadence::EveryRow, "ts", TickUnit::Millisecond).expect("valid");
    partition.explicit(10);
    assert_eq!(partition.observe(&[3, 11, 5], &batch, None), Before::Each(vec![10, 10, 11]));
    assert!(matches!(partition.observe(&[3, 11, 12], &batch, None), Before::RunningMax { max: 11, .. }));
    assert_eq!((partition.emitted(), partition.regressions()), (12, 0));
}

#[test]
fn durations_are_whole_ticks_and_not_negative() {
    let new =
        |strategy, cadence| PartitionWatermark::new(&strategy, cadence, "ts", TickUnit::Second).map(|_| ());
    let half = TimeDelta::from_millis(500);
    for (strategy, cadence, parameter) in [
        (WatermarkStrategy::bounded_out_of_orderness(half), Cadence::EveryRow, "bounded_out_of_orderness"),
        (WatermarkStrategy::delay(half), Cadence::EveryRow, "watermark delay"),
        (WatermarkStrategy::delay(-TimeDelta::from_secs(1)), Cadence::EveryRow, "watermark delay"),
        (WatermarkStrategy::ascending(), Cadence::Every(half), "cadence interval"),
    ] {
        let error = new(strategy, cadence).expect_err("refused").to_string();
        assert!(error.starts_with(parameter), "{error}");
    }
    assert_eq!(
        new(WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_days(1)), Cadence::EveryRow),
        Ok(())
    );
}
