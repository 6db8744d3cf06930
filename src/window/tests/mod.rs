use super::grid::clip;
use super::*;
use crate::time::{TickConverter, TickUnit};
use crate::watermark::{END, NONE};

mod calendar;

const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

fn ticks(unit: TickUnit) -> TickConverter {
    TickConverter { column: "ts".into(), unit }
}

fn grid_of(window: &Window, lateness: i64) -> Grid {
    Grid::new(window, lateness, &ticks(TickUnit::Millisecond)).unwrap()
}

fn windows_by_slice(g: &Grid, time: i64) -> Vec<(i64, i64)> {
    let Some(slice) = g.slice_of(time) else { return vec![] };
    let mut window = g.first_window_of(slice.id);
    let mut found = vec![];
    while window <= g.last_window_of(slice.id) {
        found.push(g.bounds(window));
        window = g.next(window);
    }
    found
}

/// Size, slide and offset of sliding windows.
const SLIDING: [(i64, i64, i64); 9] = [
    (10, 10, 0),
    (10, 5, -4),
    (10, 3, 1),
    (4, 10, 7),
    (1, 1, 0),
    (25, 10, 123_456),
    (7, 2, -1),
    (i64::MAX, i64::MAX, 5),
    (i64::MAX, i64::MAX / 3, -2),
];

/// Size, step and offset of cumulating windows.
const CUMULATE: [(i64, i64, i64); 8] = [
    (10, 10, 0),
    (10, 5, -4),
    (10, 3, 1),
    (25, 10, 123_456),
    (7, 1, -1),
    (60, 20, 5),
    (i64::MAX, i64::MAX, 5),
    (i64::MAX, i64::MAX / 3, -2),
];

fn probes() -> impl Iterator<Item = i64> {
    (-60..60).chain((0..60).map(|i| i64::MAX - i)).chain((0..60).map(|i| i64::MIN + i))
}

/// All grids of windows that `probes` are interesting for.
fn windows() -> Vec<Window> {
    let sliding =
        SLIDING.iter().map(|&(size, slide, offset)| Window::sliding(MS(size), MS(slide)).offset(MS(offset)));
    let cumulate =
        CUMULATE.iter().map(|&(size, step, offset)| Window::cumulate(MS(size), MS(step)).offset(MS(offset)));
    let calendar = [(CalendarUnit::Day, "UTC"), (CalendarUnit::Hour, "Europe/Berlin")]
        .map(|(unit, zone)| Window::calendar(unit, 1, zone));
    sliding.chain(cumulate).chain(calendar).collect()
}

#[test]
fn slices_give_the_sliding_windows_of_the_definition() {
    for (size, slide, offset) in SLIDING {
        let g = grid_of(&Window::sliding(MS(size), MS(slide)).offset(MS(offset)), 0);
        for time in probes() {
            // every k with start <= time < end
            let (t, size, slide) = (time as i128, size as i128, slide as i128);
            let k = (t - offset as i128).div_euclid(slide);
            let expected: Vec<(i64, i64)> = (k - size / slide - 1..=k)
                .map(|k| offset as i128 + k * slide)
                .filter(|&start| start <= t && t < start + size)
                .map(|start| (clip(start), clip(start + size)))
                .collect();
            assert_eq!(windows_by_slice(&g, time), expected, "{size} {slide} {offset} at {time}");
        }
    }
}

#[test]
fn slices_give_the_cumulating_windows_of_the_definition() {
    for (size, step, offset) in CUMULATE {
        let g = grid_of(&Window::cumulate(MS(size), MS(step)).offset(MS(offset)), 0);
        for time in probes() {
            // the block that holds the time; every end in it after the time, all that are clipped being one
            let (t, size, step) = (time as i128, size as i128, step as i128);
            let start = t - (t - offset as i128).rem_euclid(size);
            let ends = (1..=size / step + 1).map(|j| (start + j * step).min(start + size));
            let mut ends: Vec<i128> =
                ends.filter(|&end| end > t).map(|end| end.min(i64::MAX as i128 + 1)).collect();
            ends.dedup();
            let expected: Vec<(i64, i64)> = ends.iter().map(|&end| (clip(start), clip(end))).collect();
            assert_eq!(windows_by_slice(&g, time), expected, "{size} {step} {offset} at {time}");
        }
    }
}

#[test]
fn slices_hold_their_rows_and_no_window_bound() {
    for window in windows() {
        let g = grid_of(&window, 0);
        for time in probes() {
            let Some(slice) = g.slice_of(time) else { continue };
            assert!(slice.first <= time && time <= slice.last);
            assert_eq!(g.first_tick(slice.id), slice.first, "{window} at {time}");
            for inside in [slice.first, slice.last] {
                assert_eq!(g.slice_of(inside), Some(slice), "{window} at {time}");
            }
            for beside in [slice.first.checked_sub(1), slice.last.checked_add(1)].into_iter().flatten() {
                assert_ne!(g.slice_of(beside), Some(slice), "{window} at {time}");
            }
        }
    }
}

#[test]
fn windows_have_the_slices_that_have_them_in_order_of_end_then_start() {
    for window in windows() {
        let g = grid_of(&window, 0);
        for slice in probes().filter_map(|time| g.slice_of(time)) {
            let (first, last) = (g.first_window_of(slice.id), g.last_window_of(slice.id));
            let mut number = first;
            while number <= last {
                let (slices, middle) = (g.slices_of(number), g.middle_of(number));
                assert!(slices.contains(&slice.id), "{window}: {number} has not {slice:?}");
                assert!(slices.start <= middle && middle <= slices.end, "{window}");
                let next = g.next(number);
                let key = |number| (g.due_at(number), g.bounds(number).0);
                assert!(next > number);
                assert!(next > last || key(next) > key(number), "{window}: {number} before {next}");
                number = next;
            }
        }
    }
}

#[test]
fn horizons_agree_with_due_and_expired_windows() {
    for window in windows() {
        for lateness in [0, 3, 17, i64::MAX] {
            let g = grid_of(&window, lateness);
            for watermark in probes().filter(|&w| w != END) {
                let h = g.horizon(watermark);
                let none = watermark == NONE;
                for time in probes() {
                    let Some(slice) = g.slice_of(time) else { continue };
                    let (first, last) = (g.first_window_of(slice.id), g.last_window_of(slice.id));
                    let fresh = none || g.due_at(first) > watermark;
                    let dropped = !none && g.expires_at(last) <= watermark;
                    let at = format!("{window}, lateness {lateness}, w={watermark} t={time}");
                    assert_eq!(time >= h.fresh_from, fresh, "{at}");
                    assert_eq!(time < h.drop_below, dropped, "{at}");
                    assert_eq!(first >= g.first_not_due(watermark), fresh, "{at}");
                    assert_eq!(slice.id < g.first_kept(watermark), dropped, "{at}");
                    // up to there rows may be applied together: no window becomes due or expires
                    let mut number = first;
                    while number <= last {
                        for reached in [g.due_at(number), g.expires_at(number)] {
                            assert!(none || reached <= watermark || reached >= h.valid_below, "{at}");
                        }
                        number = g.next(number);
                    }
                }
                if watermark + 1 < h.valid_below {
                    let next = g.horizon(watermark + 1);
                    assert_eq!((h.fresh_from, h.drop_below), (next.fresh_from, next.drop_below));
                }
            }
        }
    }
}

#[test]
fn clipped_tops_are_due_at_end_of_input_only() {
    // 9223372036854775807 = MAX is in the window that starts at ...775000; its true end is ...776000
    let g = grid_of(&Window::tumbling(MS(1000)), 0);
    let window = g.first_window_of(g.slice_of(i64::MAX).unwrap().id);
    assert_eq!(g.bounds(window), (9_223_372_036_854_775_000, i64::MAX));
    assert_eq!((g.due_at(window), g.expires_at(window)), (END, END));
    assert_eq!(g.due_at(window - 1), 9_223_372_036_854_774_999);
    // by steps of 300 it ends at ...775300, ...775600, and ...775900, which is clipped, as would be ...776000
    let steps = grid_of(&Window::cumulate(MS(1000), MS(300)), 0);
    let ends = [9_223_372_036_854_775_300, 9_223_372_036_854_775_600, i64::MAX];
    let windows = windows_by_slice(&steps, 9_223_372_036_854_775_000);
    assert_eq!(windows, ends.map(|end| (9_223_372_036_854_775_000, end)));
}

#[test]
fn specs_that_explode_are_refused_with_the_number() {
    let day = TimeDelta::from_days(1);
    let refused = |window: Window| Grid::new(&window, 0, &ticks(TickUnit::Millisecond)).err();
    for window in [Window::sliding(day, MS(1)), Window::cumulate(day, MS(1))] {
        assert!(refused(window).unwrap().to_string().contains("86400000"));
    }
    let minute = TimeDelta::from_mins(1);
    assert_eq!(refused(Window::sliding(day, minute)), None);
    assert_eq!(refused(Window::cumulate(day, minute)), None);
}

#[test]
fn a_step_longer_than_the_size_is_refused() {
    let swapped = Window::cumulate(TimeDelta::from_mins(1), TimeDelta::from_hours(1));
    let text = Grid::new(&swapped, 0, &ticks(TickUnit::Millisecond)).unwrap_err().to_string();
    assert_eq!(text, "window step: 1h is not allowed: at most the size, which is 1m");
}
