//! Random calls: the invariants hold after each, batch cuts do not matter, and no row is lost. Seeded, so that a
//! failure comes back.

use std::collections::BTreeMap;

use highwater_oracle::{
    Cadence, Eviction, Evictor, Firing, Guard, Kind, LateFiring, NullPolicy, Op, Oracle, Output,
    Reactivation, ResultMode, Row, Spec, Strategy, Trigger, Value, Windows,
};

/// Numerical Recipes' linear congruential generator; its upper half is random enough.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }
}

fn window(r: &mut Random) -> Windows {
    let size = r.between(1, 20);
    match r.below(10) {
        0..4 => {
            let slide = if r.one_in(2) { size } else { r.between(1, 25) };
            Windows::Aligned { size, slide, offset: r.between(-30, 30) }
        }
        4 => Windows::Cumulate { size, step: r.between(1, size), offset: r.between(-30, 30) },
        5..7 => Windows::Session { gap: size },
        7 => Windows::SessionByValue { column: 0 },
        8 => Windows::Global,
        _ => Windows::Count { size: size as u64, slide: r.between(1, 25) as u64 },
    }
}

/// A trigger that fits the windows: early firings by event time never end where windows do not.
fn trigger(r: &mut Random, window: &Windows) -> Trigger {
    let (count, interval) = (r.below(5), r.between(1, 6));
    match (r.below(9), window) {
        (_, Windows::Count { .. }) => Trigger::EventTime,
        (0, Windows::Aligned { .. } | Windows::Cumulate { .. } | Windows::Global) => {
            Trigger::Delta { column: 0, threshold: 3.0 }
        }
        (1, _) => Trigger::EarlyCount(count),
        (2, _) => Trigger::EarlyClock(interval),
        (3, window) if *window != Windows::Global => Trigger::EarlyEventTime(interval),
        (4, _) => Trigger::Count(count),
        _ => Trigger::EventTime,
    }
}

fn spec(r: &mut Random, late_firing: LateFiring) -> Spec {
    let window = window(r);
    let (count, keep) = (r.below(4), r.between(0, 10));
    let rule =
        r.of(&[Eviction::Count(count), Eviction::Time(keep), Eviction::Delta { column: 0, threshold: 4.0 }]);
    Spec {
        trigger: trigger(r, &window),
        result_mode: r.of(&[ResultMode::Accumulate, ResultMode::Discard, ResultMode::Retract]),
        evictor: if r.one_in(8) { Some(Evictor { rule, after: r.one_in(2) }) } else { None },
        quiet_flush: r.of(&[None, None, Some(4)]),
        allowed_lateness: r.of(&[0, 1, 7, 40, i64::MAX]),
        strategy: {
            let bound = r.between(0, 9);
            r.of(&[
                Strategy::Bounded(bound),
                Strategy::Ascending,
                Strategy::Delay(bound),
                Strategy::Explicit,
                Strategy::Punctuated,
            ])
        },
        cadence: r.of(&[Cadence::EveryRow, Cadence::Every(3), Cadence::OnRequest]),
        reactivation: r.of(&[Reactivation::WhenCaughtUp, Reactivation::AtOnce]),
        partitions: r.between(1, 4) as usize,
        idle_timeout: r.of(&[None, Some(5)]),
        null_policy: r.of(&[NullPolicy::Reject, NullPolicy::Drop]),
        guard: r.of(&[Guard::None, Guard::IngestTime(10)]),
        max_drift: Some(10),
        late_firing,
        ..Spec::over(window)
    }
}

fn row(r: &mut Random, now: i64) -> Row {
    let extreme = r.one_in(200);
    Row {
        time: if r.one_in(20) { None } else { Some(now + r.between(-40, 10)) }
            .map(|t| if extreme { r.of(&[i64::MIN, i64::MAX]) } else { t }),
        key: vec![Value::Int(r.between(0, 2))],
        ingest_time: if r.one_in(20) { None } else { Some(now) },
        values: vec![Value::Int(r.between(1, 15))],
        marker: if r.one_in(4) { Some(now - r.between(0, 20)) } else { None },
    }
}

fn ops(r: &mut Random, spec: &Spec) -> Vec<Op> {
    let mut ops = vec![Op::AdvanceClock(0)];
    for step in 0..60 {
        let (p, now) = (r.below(spec.partitions as u64) as usize, step * 4);
        ops.push(match r.below(20) {
            0..10 => Op::Push(p, (0..r.below(6)).map(|_| row(r, now)).collect()),
            10..12 if spec.strategy == Strategy::Explicit => Op::Watermark(p, now - r.between(0, 30)),
            10..14 => Op::EmitWatermarks,
            14 => Op::MarkIdle(p),
            15 => Op::MarkActive(p),
            16 if r.one_in(5) => Op::FinishPartition(p),
            _ => Op::AdvanceClock(step / 2),
        });
    }
    ops.push(Op::Finish);
    ops
}

/// The same rows, one per call.
fn cut(ops: &[Op]) -> Vec<Op> {
    let one_by_one = |op: &Op| match op {
        Op::Push(p, rows) => rows.iter().map(|row| Op::Push(*p, vec![row.clone()])).collect(),
        other => vec![other.clone()],
    };
    ops.iter().flat_map(one_by_one).collect()
}

fn run(spec: &Spec, ops: &[Op]) -> (Oracle, Output) {
    let mut oracle = Oracle::new(spec.clone());
    let mut all = Output::default();
    for op in ops {
        let before = oracle.watermark();
        let output = oracle.apply(op).expect("a valid call");
        oracle.validate();
        assert!(oracle.watermark() >= before, "the merged watermark went back");
        all.fired.extend(output.fired);
        all.late.extend(output.late);
        all.rejected.extend(output.rejected);
    }
    (oracle, all)
}

fn count(firing: &Firing) -> i64 {
    if let Value::Int(n) = firing.values[0] { n } else { unreachable!("{firing:?}") }
}

type Place = (i64, i64, Vec<Value>);

fn place(firing: &Firing) -> Place {
    (firing.start, firing.end, firing.key.clone())
}

/// The last count of each window and key.
fn last_counts(output: &Output) -> BTreeMap<Place, i64> {
    output.fired.iter().filter(|f| !f.retraction).map(|f| (place(f), count(f))).collect()
}

/// What is left when retractions have taken back what they name. Each names a result that stands.
fn standing(output: &Output) -> Vec<Firing> {
    let mut standing: Vec<Firing> = Vec::new();
    for firing in &output.fired {
        if !firing.retraction {
            standing.push(firing.clone());
            continue;
        }
        let taken_back = Firing { retraction: false, ..firing.clone() };
        let found = standing.iter().position(|firing| *firing == taken_back);
        standing.remove(found.unwrap_or_else(|| unreachable!("nothing to take back: {firing:?}")));
    }
    standing
}

fn has_sessions(spec: &Spec) -> bool {
    matches!(spec.window, Windows::Session { .. } | Windows::SessionByValue { .. })
}

/// Whether every row taken is in exactly one window, and every window fires in the end with all that it has.
fn shows_every_row_once(spec: &Spec) -> bool {
    let in_one = match spec.window {
        Windows::Aligned { size, slide, .. } => size == slide,
        Windows::Count { size, slide } => size == slide,
        Windows::Cumulate { .. } => false,
        _ => true,
    };
    let by_time = !matches!(spec.trigger, Trigger::Count(_) | Trigger::Delta { .. });
    in_one && by_time && spec.evictor.is_none()
}

/// The rows that results speak of, by what the mode says about them.
fn rows_shown(spec: &Spec, output: &Output) -> i64 {
    match spec.result_mode {
        ResultMode::Discard => output.fired.iter().map(count).sum(),
        ResultMode::Retract => standing(output).iter().map(count).sum(),
        ResultMode::Accumulate => last_counts(output).values().sum(),
    }
}

/// Firings of one window and key are numbered without gaps; a session goes on from those that it is made of. Windows that
/// were clipped may look alike.
fn check_numbers(spec: &Spec, output: &Output) {
    let mut next: BTreeMap<Place, u64> = BTreeMap::new();
    let is_clipped = |firing: &Firing| {
        spec.window != Windows::Global && (firing.start == i64::MIN || firing.end == i64::MAX)
    };
    for firing in output.fired.iter().filter(|firing| !firing.retraction && !is_clipped(firing)) {
        let number = next.entry(place(firing)).or_default();
        match spec.window {
            Windows::Count { .. } => assert_eq!(firing.number, 0),
            _ if has_sessions(spec) => {
                assert!(firing.number >= *number || spec.allowed_lateness == 0, "{firing:?}")
            }
            _ => assert_eq!(firing.number, *number, "{firing:?}"),
        }
        *number = firing.number + 1;
    }
}

/// Coalesced: fewer late firings, and everything else the same; the same last words, if they are whole values. Sessions may
/// spare late firings that others do not, which shows in the numbers.
fn check_coalesced(per_row: &Spec, ops: &[Op], oracle: &Oracle, whole: &Output) {
    let coalesced = Spec { late_firing: LateFiring::Coalesced, ..per_row.clone() };
    let (other, fewer) = run(&coalesced, ops);
    let of_kind = |output: &Output, kind: Kind| {
        let mut fired = output.fired.clone();
        fired.retain(|firing| !firing.retraction && firing.kind == kind);
        fired.iter_mut().filter(|_| has_sessions(per_row)).for_each(|firing| firing.number = 0);
        // Early firings are in order of windows within a call.
        fired.sort_by_key(|firing| (place(firing), firing.number));
        fired
    };
    if per_row.evictor.is_none() && !(per_row.result_mode == ResultMode::Discard && has_sessions(per_row)) {
        assert_eq!(of_kind(&fewer, Kind::OnTime), of_kind(whole, Kind::OnTime));
        assert_eq!(of_kind(&fewer, Kind::Early), of_kind(whole, Kind::Early));
        assert!(of_kind(&fewer, Kind::Late).len() <= of_kind(whole, Kind::Late).len());
    }
    if per_row.evictor.is_none() && per_row.result_mode != ResultMode::Discard && !has_sessions(per_row) {
        assert_eq!(last_counts(&fewer), last_counts(whole));
    }
    if per_row.evictor.is_none() {
        let shown = (rows_shown(per_row, &fewer), rows_shown(per_row, whole));
        let comparable = per_row.result_mode != ResultMode::Accumulate || !has_sessions(per_row);
        assert!(!comparable || shown.0 == shown.1, "{shown:?}");
    }
    assert_eq!((&fewer.late, &fewer.rejected), (&whole.late, &whole.rejected));
    assert!((0..per_row.partitions).all(|p| other.counters(p) == oracle.counters(p)));
}

#[test]
fn batch_cuts_do_not_matter_and_no_row_is_lost() {
    let (mut taken, mut late, mut lost, mut retracted, mut shown_once) = (0, 0, 0, 0, 0);
    for seed in 0..2_000 {
        let mut r = Random(seed);
        let per_row = spec(&mut r, LateFiring::PerRow);
        let ops = ops(&mut r, &per_row);
        let (oracle, whole) = run(&per_row, &ops);
        let (_, single) = run(&per_row, &cut(&ops));
        assert_eq!(whole, single, "seed {seed}");
        check_numbers(&per_row, &whole);
        check_coalesced(&per_row, &ops, &oracle, &whole);

        let counters: Vec<_> = (0..per_row.partitions).map(|p| oracle.counters(p)).collect();
        let rows_taken: u64 = counters.iter().map(|c| c.taken).sum();
        let whole_sessions = !has_sessions(&per_row) || per_row.result_mode != ResultMode::Accumulate;
        let by_place =
            !matches!(per_row.window, Windows::Count { .. }) || per_row.result_mode == ResultMode::Discard;
        if shows_every_row_once(&per_row) && whole_sessions && by_place {
            assert_eq!(rows_shown(&per_row, &whole), rows_taken as i64, "seed {seed}: {per_row:?}");
            shown_once += 1;
        }
        taken += rows_taken;
        late += counters.iter().map(|c| c.late_taken).sum::<u64>();
        lost += counters.iter().map(|c| c.dropped_late).sum::<u64>();
        retracted += whole.fired.iter().filter(|firing| firing.retraction).count();
    }
    // The mixture is worth its time: all kinds of rows occur in numbers.
    assert!(taken > 10_000 && late > 1_000 && lost > 1_000, "{taken} taken, {late} late, {lost} lost");
    assert!(retracted > 1_000 && shown_once > 300, "{retracted} retracted, {shown_once} shown once");
}
