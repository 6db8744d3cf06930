//! Windows that cumulate, and windows of the calendar, through the operator. What should come out is worked out in comments.
#![expect(clippy::unwrap_used, reason = "a test that panics has found something")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Float64Type, Int64Type, TimestampMillisecondType, TimestampSecondType};
use arrow_array::{
    ArrayRef, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
    TimestampSecondArray,
};
use highwater::watermark::WatermarkStrategy;
use highwater::{
    Aggregate, CalendarUnit, LateFiring, Output, TimeDelta, Weekday, Window, WindowOperator,
    WindowOperatorBuilder,
};
use jiff::Timestamp;

const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

fn rows(rows: &[(i64, &str, i64)]) -> RecordBatch {
    let times: Vec<i64> = rows.iter().map(|row| row.0).collect();
    let values: Vec<i64> = rows.iter().map(|row| row.2).collect();
    RecordBatch::try_from_iter([
        ("ts", Arc::new(TimestampMillisecondArray::from(times)) as ArrayRef),
        ("key", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.1)))),
        ("value", Arc::new(Int64Array::from(values))),
    ])
    .unwrap()
}

fn builder(batch: &RecordBatch, window: Window) -> WindowOperatorBuilder {
    WindowOperator::builder(batch.schema())
        .event_time("ts")
        .key("key")
        .window(window)
        .watermark(WatermarkStrategy::ascending())
        .aggregate(Aggregate::sum("value").alias("sum"))
        .firing_column(true)
}

/// `start-end key=sum firing` of everything fired.
fn fired(output: &Output) -> Vec<String> {
    let mut all = vec![];
    for batch in &output.fired {
        let keys = batch["key"].as_string::<i32>();
        let starts = batch["window_start"].as_primitive::<TimestampMillisecondType>();
        let ends = batch["window_end"].as_primitive::<TimestampMillisecondType>();
        let sums = batch["sum"].as_primitive::<Int64Type>();
        let firings = batch["firing"].as_string::<i32>();
        for row in 0..batch.num_rows() {
            let (start, end, key) = (starts.value(row), ends.value(row), keys.value(row));
            all.push(format!("{start}-{end} {key}={} {}", sums.value(row), firings.value(row)));
        }
    }
    all
}

#[test]
fn cumulating_windows_fire_at_every_step_from_the_first_row_on() {
    // blocks of 60 by steps of 20: b comes in the second step, nobody in the third
    let batch = rows(&[(1, "a", 1), (25, "b", 10), (30, "a", 100), (125, "c", 7)]);
    let mut operator = builder(&batch, Window::cumulate(MS(60), MS(20))).build().unwrap();
    // W = 124: the windows of the block from 0 are due, those of 120 not
    assert_eq!(
        fired(&operator.push(0, &batch).unwrap()),
        [
            "0-20 a=1 on_time",
            "0-40 a=101 on_time",
            "0-40 b=10 on_time",
            "0-60 a=101 on_time",
            "0-60 b=10 on_time"
        ]
    );
    operator.validate();
    let rest = fired(&operator.finish().unwrap());
    assert_eq!(rest, ["120-140 c=7 on_time", "120-160 c=7 on_time", "120-180 c=7 on_time"]);
}

#[test]
fn the_last_step_is_shorter_if_the_size_is_no_multiple() {
    // from -15, 25 long, by 10: ends at -5, 5, 10
    let batch = rows(&[(-15, "a", 1), (-6, "a", 10), (-5, "a", 100), (9, "a", 1000), (10, "a", 5)]);
    let window = Window::cumulate(MS(25), MS(10)).offset(MS(10));
    let mut operator = builder(&batch, window).build().unwrap();
    let mut all = fired(&operator.push(0, &batch).unwrap());
    all.extend(fired(&operator.finish().unwrap()));
    let expected = [
        "-15--5 a=11 on_time",
        "-15-5 a=111 on_time",
        "-15-10 a=1111 on_time",
        "10-20 a=5 on_time",
        "10-30 a=5 on_time",
        "10-35 a=5 on_time",
    ];
    assert_eq!(all, expected);
}

#[test]
fn rows_that_are_late_for_some_steps_count_in_the_later_ones() {
    let batch = rows(&[(5, "a", 1), (26, "a", 10)]);
    let mut operator =
        builder(&batch, Window::cumulate(MS(40), MS(10))).allowed_lateness(MS(8)).build().unwrap();
    // W = 25: [0, 10) and [0, 20) are due; [0, 10) expires at 9 + 8 = 17, [0, 20) at 27
    assert_eq!(fired(&operator.push(0, &batch).unwrap()), ["0-10 a=1 on_time", "0-20 a=1 on_time"]);
    // gone from [0, 10), late in [0, 20), in time for the others; b is in no window before its first row
    let late = rows(&[(6, "a", 100), (12, "b", 7)]);
    assert_eq!(fired(&operator.push(0, &late).unwrap()), ["0-20 a=101 late", "0-20 b=7 late"]);
    operator.validate();
    let counts = operator.metrics().total;
    assert_eq!((counts.taken, counts.late_taken, counts.partly_late, counts.dropped_late), (4, 2, 1, 0));
    // W = 47 (the row at 48): [0, 40) is due and expires there: 39 + 8
    let next = rows(&[(48, "a", 3)]);
    let expected = ["0-30 a=111 on_time", "0-30 b=7 on_time", "0-40 a=111 on_time", "0-40 b=7 on_time"];
    assert_eq!(fired(&operator.push(0, &next).unwrap()), expected);
    let dropped = operator.push(0, &rows(&[(39, "a", 1)])).unwrap();
    assert_eq!(dropped.late.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    operator.validate();
    assert_eq!(operator.metrics().open_slices, 1);
}

/// Numbers that look random and are always the same.
fn draw(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    *seed >> 33
}

/// Every `(start, end, key)` with the bits of its last sum and the number of its firings.
fn last_sums(output: &[Output]) -> Vec<(i64, i64, i64, u64)> {
    let mut last = std::collections::BTreeMap::new();
    for batch in output.iter().flat_map(|output| &output.fired) {
        let starts = batch["window_start"].as_primitive::<TimestampMillisecondType>();
        let ends = batch["window_end"].as_primitive::<TimestampMillisecondType>();
        let (keys, sums) =
            (batch["key"].as_primitive::<Int64Type>(), batch["sum"].as_primitive::<Float64Type>());
        for row in 0..batch.num_rows() {
            let window = (starts.value(row), ends.value(row), keys.value(row));
            last.insert(window, sums.value(row).to_bits());
        }
    }
    last.into_iter().map(|((start, end, key), sum)| (start, end, key, sum)).collect()
}

#[test]
fn cumulated_floats_have_the_same_bits_however_the_rows_are_cut_and_however_late_they_are() {
    let mut seed = 7;
    let mut times = vec![];
    for n in 0..3_000_i64 {
        // up to 300 out of order: windows of 200 in steps of 30 are long closed by then
        times.push(n - draw(&mut seed) as i64 % if n % 9 == 0 { 300 } else { 20 });
    }
    let keys: Vec<i64> = times.iter().map(|_| draw(&mut seed) as i64 % 5).collect();
    let values: Vec<f64> = times.iter().map(|_| draw(&mut seed) as f64 / 1e3 - 1e6).collect();
    let batch = RecordBatch::try_from_iter([
        ("ts", Arc::new(TimestampMillisecondArray::from(times.clone())) as ArrayRef),
        ("key", Arc::new(Int64Array::from(keys.clone()))),
        ("value", Arc::new(Float64Array::from(values.clone()))),
    ])
    .unwrap();
    let run = |cut: usize, late_firing: LateFiring| {
        let mut operator = builder(&batch, Window::cumulate(MS(200), MS(30)))
            .allowed_lateness(MS(1_000))
            .late_firing(late_firing)
            .build()
            .unwrap();
        let mut outputs = vec![];
        for start in (0..times.len()).step_by(cut) {
            let piece = batch.slice(start, cut.min(times.len() - start));
            outputs.push(operator.push(0, &piece).unwrap());
            operator.validate();
        }
        outputs.push(operator.finish().unwrap());
        assert_eq!(operator.metrics().total.taken, 3_000);
        last_sums(&outputs)
    };
    let whole = run(3_000, LateFiring::Coalesced);
    // by the definition, each window from its rows alone: slice by slice in order of time, rows in order of arrival
    let mut expected = std::collections::BTreeMap::new();
    for block in -2..16_i64 {
        for step in 0..7 {
            let (start, end) = (block * 200, (block * 200 + (step + 1) * 30).min(block * 200 + 200));
            for key in 0..5 {
                let mut sum: Option<f64> = None;
                for slice in 0..=step {
                    let (from, to) = (start + slice * 30, (start + slice * 30 + 30).min(end));
                    let rows = (0..times.len()).filter(|&i| keys[i] == key && (from..to).contains(&times[i]));
                    if let Some(part) = rows.map(|i| values[i]).reduce(|a, b| a + b) {
                        sum = Some(sum.map_or(part, |sum| sum + part));
                    }
                }
                if let Some(sum) = sum {
                    expected.insert((start, end, key), sum.to_bits());
                }
            }
        }
    }
    let expected: Vec<_> =
        expected.into_iter().map(|((start, end, key), sum)| (start, end, key, sum)).collect();
    assert_eq!(whole, expected);
    for cut in [1, 7, 64, 1_000] {
        assert_eq!(run(cut, LateFiring::Coalesced), whole, "cut {cut}");
    }
    assert_eq!(run(64, LateFiring::PerRow), whole);
}

/// Counts rows, one every half hour from `from` to before `to`, in windows: `(start, end, count)`.
fn half_hours(window: Window, from: &str, to: &str) -> Vec<(String, String, i64)> {
    let second = |text: &str| text.parse::<Timestamp>().unwrap().as_second();
    let times: Vec<i64> = (second(from)..second(to)).step_by(1_800).collect();
    let ts: ArrayRef = Arc::new(TimestampSecondArray::from(times));
    let batch = RecordBatch::try_from_iter([("ts", ts)]).unwrap();
    let mut operator = WindowOperator::builder(batch.schema())
        .event_time("ts")
        .window(window)
        .watermark(WatermarkStrategy::ascending())
        .aggregate(Aggregate::count_all().alias("count"))
        .build()
        .unwrap();
    let mut all = vec![];
    for output in [operator.push(0, &batch).unwrap(), operator.finish().unwrap()] {
        operator.validate();
        for batch in output.fired {
            let time = |name: &str, row: usize| {
                let second = batch[name].as_primitive::<TimestampSecondType>().value(row);
                Timestamp::from_second(second).unwrap().to_string()
            };
            let counts = batch["count"].as_primitive::<Int64Type>();
            for row in 0..batch.num_rows() {
                all.push((time("window_start", row), time("window_end", row), counts.value(row)));
            }
        }
    }
    all
}

fn expect(found: &[(String, String, i64)], expected: &[(&str, &str, i64)]) {
    let found: Vec<_> = found.iter().map(|(start, end, n)| (start.as_str(), end.as_str(), *n)).collect();
    assert_eq!(found, expected);
}

#[test]
fn days_in_berlin_have_23_and_25_hours() {
    let day = || Window::calendar(CalendarUnit::Day, 1, "Europe/Berlin");
    // in spring 23 hours, 46 rows; winter time is UTC+1, summer time UTC+2
    expect(
        &half_hours(day(), "2024-03-29T23:00:00Z", "2024-04-01T22:00:00Z"),
        &[
            ("2024-03-29T23:00:00Z", "2024-03-30T23:00:00Z", 48),
            ("2024-03-30T23:00:00Z", "2024-03-31T22:00:00Z", 46),
            ("2024-03-31T22:00:00Z", "2024-04-01T22:00:00Z", 48),
        ],
    );
    expect(
        &half_hours(day(), "2024-10-26T22:00:00Z", "2024-10-28T23:00:00Z"),
        &[
            ("2024-10-26T22:00:00Z", "2024-10-27T23:00:00Z", 50),
            ("2024-10-27T23:00:00Z", "2024-10-28T23:00:00Z", 48),
        ],
    );
}

#[test]
fn an_hour_that_comes_twice_is_two_windows() {
    // 2:00 to 3:00 in Berlin is 0:00 and again 1:00 UTC; six hours from midnight have seven
    let hour = Window::calendar(CalendarUnit::Hour, 1, "Europe/Berlin");
    let found = half_hours(hour, "2024-10-26T22:00:00Z", "2024-10-27T05:00:00Z");
    assert_eq!(found.iter().map(|window| window.2).collect::<Vec<_>>(), [2; 7]);
    let six = Window::calendar(CalendarUnit::Hour, 6, "Europe/Berlin");
    expect(
        &half_hours(six, "2024-10-26T22:00:00Z", "2024-10-27T11:00:00Z"),
        &[
            ("2024-10-26T22:00:00Z", "2024-10-27T05:00:00Z", 14),
            ("2024-10-27T05:00:00Z", "2024-10-27T11:00:00Z", 12),
        ],
    );
}

#[test]
fn half_an_hour_that_comes_twice_makes_one_hour_longer() {
    // at 2:00 UTC+11 the clocks of Lord Howe go back to 1:30 UTC+10:30, the 1 o'clock hour goes on: 14:00 to 15:30 UTC
    let hour = || Window::calendar(CalendarUnit::Hour, 1, "Australia/Lord_Howe");
    expect(
        &half_hours(hour(), "2024-04-06T13:00:00Z", "2024-04-06T16:30:00Z"),
        &[
            ("2024-04-06T13:00:00Z", "2024-04-06T14:00:00Z", 2),
            ("2024-04-06T14:00:00Z", "2024-04-06T15:30:00Z", 3),
            ("2024-04-06T15:30:00Z", "2024-04-06T16:30:00Z", 2),
        ],
    );
    // in spring 2:00 UTC+10:30 becomes 2:30: an hour of half an hour
    expect(
        &half_hours(hour(), "2024-10-05T14:30:00Z", "2024-10-05T17:00:00Z"),
        &[
            ("2024-10-05T14:30:00Z", "2024-10-05T15:30:00Z", 2),
            ("2024-10-05T15:30:00Z", "2024-10-05T16:00:00Z", 1),
            ("2024-10-05T16:00:00Z", "2024-10-05T17:00:00Z", 2),
        ],
    );
}

#[test]
fn a_day_without_midnight_begins_with_its_first_instant() {
    // São Paulo, 2018-11-04: from 0:00 UTC-3 to 1:00 UTC-2, a day of 23 hours
    let day = Window::calendar(CalendarUnit::Day, 1, "America/Sao_Paulo");
    expect(
        &half_hours(day, "2018-11-03T03:00:00Z", "2018-11-06T02:00:00Z"),
        &[
            ("2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z", 48),
            ("2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z", 46),
            ("2018-11-05T02:00:00Z", "2018-11-06T02:00:00Z", 48),
        ],
    );
}

#[test]
fn a_date_that_is_skipped_has_no_window() {
    // Apia went from the end of 2011-12-29 at UTC-10 to 2011-12-31 at UTC+14
    let day = Window::calendar(CalendarUnit::Day, 1, "Pacific/Apia");
    expect(
        &half_hours(day, "2011-12-29T10:00:00Z", "2012-01-01T10:00:00Z"),
        &[
            ("2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", 48),
            ("2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z", 48),
            ("2011-12-31T10:00:00Z", "2012-01-01T10:00:00Z", 48),
        ],
    );
    // Kwajalein skipped 1993-08-21, from UTC-12 to UTC+12; it was the second day of its pair
    let pair = Window::calendar(CalendarUnit::Day, 2, "Pacific/Kwajalein");
    // 1993-08-20 is day 8632 of the epoch (23 * 365 + 6 leap days + 231), so pairs begin on the 20th and the 22nd
    expect(
        &half_hours(pair, "1993-08-20T12:00:00Z", "1993-08-23T12:00:00Z"),
        &[
            ("1993-08-20T12:00:00Z", "1993-08-21T12:00:00Z", 48),
            ("1993-08-21T12:00:00Z", "1993-08-23T12:00:00Z", 96),
        ],
    );
}

#[test]
fn a_date_that_comes_back_does_not_start_a_second_day() {
    // Juneau was 15:02:19 ahead of UTC and 8:57:41 behind it afterwards: it lived October 18 from 15:33 on twice, so that
    // October 19 began at 8:57:41 UTC on the 18th and lasted for two days
    let day = Window::calendar(CalendarUnit::Day, 1, "America/Juneau");
    expect(
        &half_hours(day, "1867-10-18T09:00:00Z", "1867-10-21T08:30:00Z"),
        &[
            ("1867-10-18T08:57:41Z", "1867-10-20T08:57:41Z", 96),
            ("1867-10-20T08:57:41Z", "1867-10-21T08:57:41Z", 47),
        ],
    );
}

#[test]
fn weeks_begin_on_the_day_asked_for() {
    // 2024-05-05 was a Sunday
    let week = |first| Window::calendar(CalendarUnit::Week(first), 1, "America/New_York");
    let sunday = half_hours(week(Weekday::Sunday), "2024-05-05T04:00:00Z", "2024-05-07T04:00:00Z");
    expect(&sunday, &[("2024-05-05T04:00:00Z", "2024-05-12T04:00:00Z", 96)]);
    let monday = half_hours(week(Weekday::Monday), "2024-05-05T04:00:00Z", "2024-05-07T04:00:00Z");
    expect(
        &monday,
        &[
            ("2024-04-29T04:00:00Z", "2024-05-06T04:00:00Z", 48),
            ("2024-05-06T04:00:00Z", "2024-05-13T04:00:00Z", 48),
        ],
    );
}

#[test]
fn months_quarters_and_years_count_from_1970() {
    let of = |unit, count| Window::calendar(unit, count, "UTC");
    // pairs of months begin in odd months: November 1969 and January 1970
    expect(
        &half_hours(of(CalendarUnit::Month, 2), "1969-12-31T23:00:00Z", "1970-01-01T01:00:00Z"),
        &[
            ("1969-11-01T00:00:00Z", "1970-01-01T00:00:00Z", 2),
            ("1970-01-01T00:00:00Z", "1970-03-01T00:00:00Z", 2),
        ],
    );
    expect(
        &half_hours(of(CalendarUnit::Quarter, 1), "2024-03-31T23:30:00Z", "2024-04-01T00:30:00Z"),
        &[
            ("2024-01-01T00:00:00Z", "2024-04-01T00:00:00Z", 1),
            ("2024-04-01T00:00:00Z", "2024-07-01T00:00:00Z", 1),
        ],
    );
    expect(
        &half_hours(of(CalendarUnit::Year, 5), "1969-12-31T23:30:00Z", "1970-01-01T00:30:00Z"),
        &[
            ("1965-01-01T00:00:00Z", "1970-01-01T00:00:00Z", 1),
            ("1970-01-01T00:00:00Z", "1975-01-01T00:00:00Z", 1),
        ],
    );
}

#[test]
fn calendar_windows_take_late_rows_and_drop_them_like_all_others() {
    // Berlin, 2024-03-31 (ms): the day ends at 22:00 UTC = 1711922400000, and is kept for an hour
    let end = 1_711_922_400_000;
    let batch = rows(&[(end - 1, "a", 1), (end + 1, "a", 10)]);
    let day = Window::calendar(CalendarUnit::Day, 1, "Europe/Berlin");
    let mut operator = builder(&batch, day).allowed_lateness(MS(3_600_000)).build().unwrap();
    let window = format!("{}-{end} a", end - 23 * 3_600_000);
    assert_eq!(fired(&operator.push(0, &batch).unwrap()), [format!("{window}=1 on_time")]);
    let late = operator.push(0, &rows(&[(end - 5, "a", 100)])).unwrap();
    assert_eq!(fired(&late), [format!("{window}=101 late")]);
    // W = end - 1 + 1 h: expired
    let gone = operator.push(0, &rows(&[(end + 3_600_000, "a", 1), (end - 5, "a", 1)])).unwrap();
    assert!(gone.fired.is_empty() && gone.late.len() == 1);
    operator.validate();
}

#[test]
fn columns_of_days_have_calendar_windows_in_utc() {
    // 2024-02-28, 29 and 2024-03-01 are days 19781, 19782 and 19783
    let ts: ArrayRef = Arc::new(Date32Array::from(vec![19_781, 19_782, 19_783]));
    let batch = RecordBatch::try_from_iter([("ts", ts)]).unwrap();
    let with = |window: Window| {
        WindowOperator::builder(batch.schema())
            .event_time("ts")
            .window(window)
            .watermark(WatermarkStrategy::ascending())
            .aggregate(Aggregate::count_all().alias("count"))
            .build()
    };
    let mut operator = with(Window::calendar(CalendarUnit::Month, 1, "UTC")).unwrap();
    let mut outputs = vec![operator.push(0, &batch).unwrap(), operator.finish().unwrap()];
    let found: Vec<_> = outputs
        .drain(..)
        .flat_map(|output| output.fired)
        .map(|batch| {
            let days = |name: &str| batch[name].as_primitive::<Date32Type>().value(0);
            (days("window_start"), days("window_end"), batch["count"].as_primitive::<Int64Type>().value(0))
        })
        .collect();
    // February 2024 begins on day 19754, March on 19783, April on 19814
    assert_eq!(found, [(19_754, 19_783, 2), (19_783, 19_814, 1)]);
    let text = with(Window::calendar(CalendarUnit::Month, 1, "Asia/Tokyo")).unwrap_err().to_string();
    assert!(text.contains("Asia/Tokyo") && text.contains("UTC") && text.contains("\"ts\""), "{text}");
}
