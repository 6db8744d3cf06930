//! The job from end to end, on a few rows with the numbers shown, and on the whole workload.
//!
//! Times are minutes and seconds after 10:00. The watermark is the highest time, less 20 seconds, less one.

use crate::events::{Event, Kind, to_batch};
use crate::generate::{MINUTE, PARTITIONS, START, Second, Workload, generate, seconds};
use crate::job::Job;
use crate::ledger::{Alert, Bill, Ledger, Missed};
use crate::{WORKLOAD, meter};

/// So many minutes and seconds after 10:00.
fn at(minutes: i64, seconds: i64) -> i64 {
    START + minutes * MINUTE + seconds * 1_000
}

fn started(id: &str, tenant_id: &'static str, ts: i64) -> Event {
    Event {
        kind: Kind::RequestStarted,
        request_id: id.into(),
        tenant_id,
        model: "lyra-code",
        ts,
        prompt_tokens: None,
        completion_tokens: None,
        latency_ms: None,
        status: None,
    }
}

/// A request of two seconds. A token of lyra-code is $0.000005 in and $0.000025 out.
fn request(id: &str, tenant_id: &'static str, end: i64, tokens: (i64, i64)) -> [Event; 2] {
    let start = started(id, tenant_id, end - 2_000);
    let end = Event {
        kind: Kind::RequestCompleted,
        ts: end,
        prompt_tokens: Some(tokens.0),
        completion_tokens: Some(tokens.1),
        latency_ms: Some(2_000),
        status: Some(200),
        ..start.clone()
    };
    [start, end]
}

/// A job, and what it has found out.
struct Run {
    job: Job,
    ledger: Ledger,
}

impl Run {
    /// So many partitions, and what the clock says.
    fn new(partitions: usize, clock: i64) -> Self {
        let mut run = Run { job: Job::new(partitions, 1).unwrap(), ledger: Ledger::default() };
        run.clock(clock);
        run
    }

    fn clock(&mut self, now: i64) {
        self.ledger.enter(&self.job.advance_clock(now).unwrap());
    }

    fn push(&mut self, partition: usize, events: &[Event]) {
        self.ledger.enter(&self.job.push(&[(partition, to_batch(events).unwrap())]).unwrap());
    }

    fn finish(&mut self) {
        self.ledger.enter(&self.job.finish().unwrap());
    }

    /// The watermark, in milliseconds after 10:00.
    fn watermark(&self) -> i64 {
        self.job.requests.current_watermark().saturating_sub(START)
    }

    fn versions(&self, tenant: &str, minute: i64) -> Vec<Bill> {
        self.ledger.bills.get(&(tenant.to_owned(), at(minute, 0))).cloned().unwrap_or_default()
    }
}

fn bill(micro_usd: i128, requests: i64, firing: &str) -> Bill {
    Bill { micro_usd, requests, firing: firing.into() }
}

/// Rows at 120.001, 119.001 and 40.001 s: watermarks 100,000, 99,000 and 20,000. The third has been silent for more than a
/// minute at 1:31; the others have not.
#[test]
fn the_slowest_partition_holds_the_watermark_until_it_is_idle() {
    let mut run = Run::new(3, at(1, 30));
    run.push(0, &request("a", "acme", START + 40_000, (100, 0)));
    run.push(0, &[started("b", "acme", START + 120_001)]);
    run.push(1, &[started("c", "acme", START + 119_001)]);
    assert!(run.watermark() < 0, "the third has not said anything yet");
    run.push(2, &[started("d", "acme", START + 40_001)]);
    let partitions = run.job.requests.metrics().inputs[0].partitions.clone();
    let own: Vec<_> = partitions.iter().map(|partition| partition.watermark - START).collect();
    assert_eq!(own, [100_000, 99_000, 20_000]);
    assert_eq!(run.watermark(), 20_000);
    assert_eq!(run.job.requests.holding_back(), Some(2));
    assert_eq!(run.versions("acme", 0), []);

    run.clock(at(2, 0));
    run.push(0, &[started("e", "acme", START + 120_001)]);
    run.push(1, &[started("f", "acme", START + 119_001)]);
    assert_eq!(run.watermark(), 20_000);
    run.clock(START + 150_000);
    assert_eq!(run.watermark(), 20_000, "a minute, and not more");
    run.clock(START + 150_001);
    assert_eq!(run.watermark(), 99_000);
    assert_eq!(run.job.requests.holding_back(), Some(1));
    // the minute to 60,000 is over: 100 tokens at 5 millionths
    assert_eq!(run.versions("acme", 0), [bill(500, 1, "on_time")]);
}

/// Partition 5 says something at 10:00:30, and then nothing for five minutes.
#[test]
fn a_stalled_partition_delays_all_bills_idleness_frees_them_and_its_rows_are_late() {
    let mut run = Run::new(PARTITIONS, at(0, 30));
    for partition in 0..PARTITIONS {
        run.push(partition, &request(&format!("r{partition}"), "acme", at(0, 30), (100, 0)));
    }
    let others = |run: &mut Run, minute: i64| {
        run.clock(at(minute, 30));
        for partition in (0..PARTITIONS).filter(|&partition| partition != 5) {
            let id = format!("r{partition}.{minute}");
            run.push(partition, &request(&id, "globex", at(minute, 30), (100, 0)));
        }
    };
    others(&mut run, 1);
    // 30 s - 20 s - 1 ms, by partition 5; without it, it would be 70 s - 1 ms, and the first minute over
    assert_eq!(run.watermark(), 9_999);
    assert_eq!(run.job.requests.holding_back(), Some(5));
    assert!(run.ledger.bills.is_empty());

    // silent for a minute and a millisecond
    run.clock(at(1, 30) + 1);
    assert_eq!(run.watermark(), 69_999);
    assert_ne!(run.job.requests.holding_back(), Some(5));
    assert_eq!(run.versions("acme", 0), [bill(8 * 500, 8, "on_time")]);

    // partition 5 wakes at 10:03:30 with a row of each minute; the watermark is 3:30 - 20 s - 1 ms
    others(&mut run, 2);
    others(&mut run, 3);
    assert_eq!(run.watermark(), 189_999);
    assert_eq!(run.versions("globex", 1), [bill(7 * 500, 7, "on_time")]);
    for minute in 0..4 {
        let id = format!("r5.{minute}");
        run.push(5, &request(&id, "globex", at(minute, 40), (1_000, 0)));
    }
    // the first minute could be corrected until 3:00, less a millisecond
    let missed =
        Missed { request_id: "r5.0".into(), ts: at(0, 40), micro_usd: 5_000, watermark: at(3, 10) - 1 };
    assert_eq!(run.ledger.missed, [missed]);
    assert_eq!(run.versions("globex", 0), []);
    assert_eq!(run.versions("globex", 1), [bill(3_500, 7, "on_time"), bill(8_500, 8, "late")]);
    assert_eq!(run.versions("globex", 2), [bill(3_500, 7, "on_time"), bill(8_500, 8, "late")]);
    run.finish();
    assert_eq!(run.versions("globex", 3), [bill(8_500, 8, "on_time")]);
}

/// Acme's first minute: $1.50, $1.60 and $1.00 in time, $0.21 late, $0.05 too late.
#[test]
fn a_bill_of_4_10_is_corrected_to_4_31_and_what_comes_after_is_handed_back() {
    let mut run = Run::new(1, at(5, 0));
    run.push(0, &request("a1", "acme", at(0, 5), (50_000, 50_000))); // 0.25 + 1.25
    run.push(0, &request("a2", "acme", at(0, 20), (70_000, 50_000))); // 0.35 + 1.25
    run.push(0, &request("a3", "acme", at(0, 59), (100_000, 20_000))); // 0.50 + 0.50
    run.push(0, &request("g1", "globex", at(1, 5), (1, 0)));
    assert_eq!(run.versions("acme", 0), []);
    run.push(0, &request("g2", "globex", at(1, 20), (1, 0)));
    assert_eq!(run.watermark(), 59_999);
    assert_eq!(run.versions("acme", 0), [bill(4_100_000, 3, "on_time")]);

    run.push(0, &request("g3", "globex", at(1, 35), (1, 0)));
    run.push(0, &request("a4", "acme", at(0, 45), (2_000, 8_000))); // 0.01 + 0.20
    assert_eq!(run.watermark(), 74_999);
    let corrected = [bill(4_100_000, 3, "on_time"), bill(4_310_000, 4, "late")];
    assert_eq!(run.versions("acme", 0), corrected);

    // the minute's end, less a millisecond, and two minutes: 179,999
    run.push(0, &request("g4", "globex", at(4, 0), (1, 0)));
    assert_eq!(run.watermark(), 219_999);
    run.push(0, &request("a5", "acme", at(0, 50), (10_000, 0))); // 0.05
    run.finish();
    assert_eq!(run.versions("acme", 0), corrected);
    let missed =
        Missed { request_id: "a5".into(), ts: at(0, 50), micro_usd: 50_000, watermark: at(4, 0) - 20_001 };
    assert_eq!(run.ledger.missed, [missed]);
}

/// Request "open" starts at 10:00:00: the watermark has to come to 10:05:00.
#[test]
fn a_request_left_open_is_abandoned_once_however_late_the_watermark_comes() {
    let ways: [&[i64]; 4] = [&[320_001], &[100_000, 320_000, 320_001], &[86_400_000], &[]];
    for way in ways {
        let mut run = Run::new(1, at(24 * 60, 0));
        run.push(0, &[started("open", "acme", at(0, 0))]);
        for time in way {
            assert_eq!(run.ledger.abandoned, [], "the watermark is {}", run.watermark());
            run.push(0, &request(&format!("r{time}"), "globex", START + time, (1, 0)));
        }
        if way.is_empty() {
            run.finish();
        }
        assert_eq!(run.ledger.abandoned, [("open".to_owned(), at(0, 0))]);
        // its end comes after all: nobody is charged for it, and it is not abandoned again
        run.push(0, &request("open", "acme", at(0, 2), (1, 0))[1..]);
        run.finish();
        assert_eq!(run.ledger.abandoned.len(), 1);
        assert_eq!(run.ledger.charged, way.len() as i128 * 5);
        assert_eq!(run.job.requests.metrics().counter("unmatched"), Some(1));
    }
}

const SMALL: Workload = Workload { seed: 11, minutes: 20, requests_per_minute: 240 };

/// What the job finds out about a workload, without events that `leave_out` names.
fn ledger(workload: &Workload, threads: usize, leave_out: &str) -> (Job, Ledger) {
    let (mut deliveries, _) = generate(workload);
    deliveries.retain(|delivery| delivery.event.request_id != leave_out);
    let mut job = Job::new(PARTITIONS, threads).unwrap();
    let mut ledger = Ledger::default();
    run_on(&mut job, &mut ledger, &seconds(&deliveries).unwrap());
    finish(&mut job, &mut ledger);
    (job, ledger)
}

fn run_on(job: &mut Job, ledger: &mut Ledger, polled: &[Second]) {
    for second in polled {
        ledger.enter(&job.advance_clock(second.clock).unwrap());
        ledger.enter(&job.push(&second.batches).unwrap());
    }
}

fn finish(job: &mut Job, ledger: &mut Ledger) {
    ledger.enter(&job.finish().unwrap());
}

/// Killed in the first second, in the middle, while partition 5 is silent, just before and after it wakes, and at the end; what
/// the ledger had then was kept with the snapshot.
#[test]
fn a_job_that_is_killed_and_resumed_gives_the_same_bill() {
    let polled = seconds(&generate(&SMALL).0).unwrap();
    let (never, expected) = ledger(&SMALL, 1, "");
    let (mut job, mut so_far) = (Job::new(PARTITIONS, 1).unwrap(), Ledger::default());
    let mut done = 0;
    for stop in [1, 500, 780, 960, 961, polled.len()] {
        run_on(&mut job, &mut so_far, &polled[done..stop]);
        done = stop;
        let snapshot = job.snapshot().unwrap();
        let mut resumed = Job::restore(PARTITIONS, 2, &snapshot).unwrap();
        let mut resumed_ledger = so_far.clone();
        run_on(&mut resumed, &mut resumed_ledger, &polled[stop..]);
        finish(&mut resumed, &mut resumed_ledger);
        assert_eq!(resumed_ledger, expected, "after {stop} seconds");
        assert_eq!(resumed.bills.metrics().total, never.bills.metrics().total, "after {stop} seconds");
    }
}

/// One row would have moved the watermark by a year, and made every later row late.
#[test]
fn a_row_from_next_year_is_rejected_and_nothing_else_changes() {
    let (with, mut poisoned) = ledger(&SMALL, 1, "");
    let (without, clean) = ledger(&SMALL, 1, "req-poison");
    let rejected = std::mem::take(&mut poisoned.rejected);
    let next_year = at(365 * 24 * 60 + 5, 0);
    assert_eq!(rejected, [("req-poison".to_owned(), next_year, "future_event_time".to_owned())]);
    assert_eq!(poisoned, clean);
    let rows = |job: &Job| job.requests.metrics().inputs[0].total;
    assert_eq!(rows(&with).rejected_future, 1);
    assert_eq!((rows(&with).rows_in, rows(&with).taken), (rows(&without).rows_in + 1, rows(&without).taken));
    assert!(!clean.missed.is_empty() && clean.bills.len() > 60);
}

#[test]
fn threads_do_not_change_anything() {
    assert_eq!(ledger(&SMALL, 4, "").1, ledger(&SMALL, 1, "").1);
}

/// 12 requests a minute and 1 failure are 8.3 %; 20 and 1 are 5 %, which is not above it.
#[test]
fn a_model_that_fails_in_more_than_five_percent_of_a_minute_raises_an_alert() {
    let mut run = Run::new(1, at(5, 0));
    for (minute, requests) in [(0, 12), (1, 20)] {
        for number in 0..requests {
            let mut request = request(&format!("r{minute}.{number}"), "acme", at(minute, 30), (1, 0));
            if number == 0 {
                request[1] = Event {
                    kind: Kind::ModelError,
                    ..started(&request[0].request_id, "acme", at(minute, 29))
                };
            }
            run.push(0, &request);
        }
    }
    run.finish();
    let alert = Alert { minute: at(0, 0), model: "lyra-code".into(), failed: 1, requests: 12 };
    assert_eq!(run.ledger.alerts, [alert]);
}

/// What the command prints is what its README shows.
#[test]
fn the_readme_shows_what_is_printed_and_it_adds_up() {
    let summary = meter(&WORKLOAD).unwrap();
    assert!(summary.adds_up(), "{summary}");
    let readme = include_str!("README.md");
    assert!(readme.contains(&summary.to_string()), "{summary}");
}
