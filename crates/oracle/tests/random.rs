//! Random calls: the invariants hold after each, batch cuts do not matter, and no row is lost. Seeded, so that a
//! failure comes back.

use std::collections::BTreeMap;

use highwater_oracle::{
    Cadence, Guard, Kind, LateFiring, NullPolicy, Op, Oracle, Output, Reactivation, Row, Spec, Strategy,
    Value, Windows,
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

fn spec(r: &mut Random, late_firing: LateFiring) -> Spec {
    let size = r.between(1, 20);
    let slide = if r.one_in(2) { size } else { r.between(1, 25) };
    let window = Windows::Aligned { size, slide, offset: r.between(-30, 30) };
    Spec {
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
        marker: if r.one_in(4) { Some(now - r.between(0, 20)) } else { None },
        ..Row::default()
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

/// The last count of each window and key.
fn last_counts(output: &Output) -> BTreeMap<(i64, i64, Vec<Value>), i64> {
    let count = |value: &Value| if let Value::Int(n) = value { *n } else { unreachable!("{value:?}") };
    output.fired.iter().map(|f| ((f.start, f.end, f.key.clone()), count(&f.values[0]))).collect()
}

fn is_tumbling(window: &Windows) -> bool {
    matches!(window, Windows::Aligned { size, slide, .. } if size == slide)
}

#[test]
fn batch_cuts_do_not_matter_and_no_row_is_lost() {
    let (mut taken, mut late, mut lost) = (0, 0, 0);
    for seed in 0..600 {
        let mut r = Random(seed);
        let per_row = spec(&mut r, LateFiring::PerRow);
        let ops = ops(&mut r, &per_row);
        let (oracle, whole) = run(&per_row, &ops);
        let (_, single) = run(&per_row, &cut(&ops));
        assert_eq!(whole, single, "seed {seed}");

        // Coalesced: fewer late firings, the same last words, and everything else the same.
        let coalesced = Spec { late_firing: LateFiring::Coalesced, ..per_row.clone() };
        let (other, fewer) = run(&coalesced, &ops);
        let on_time = |output: &Output| {
            output.fired.iter().filter(|f| f.kind == Kind::OnTime).cloned().collect::<Vec<_>>()
        };
        assert_eq!(on_time(&fewer), on_time(&whole), "seed {seed}");
        assert_eq!(last_counts(&fewer), last_counts(&whole), "seed {seed}");
        assert_eq!((&fewer.late, &fewer.rejected), (&whole.late, &whole.rejected), "seed {seed}");

        let counters: Vec<_> = (0..per_row.partitions).map(|p| oracle.counters(p)).collect();
        assert!(counters.iter().enumerate().all(|(p, c)| other.counters(p) == *c), "seed {seed}");
        // Tumbling: each taken row is in the last word of exactly one window.
        let rows_taken: u64 = counters.iter().map(|c| c.taken).sum();
        if is_tumbling(&per_row.window) {
            assert_eq!(last_counts(&whole).values().sum::<i64>(), rows_taken as i64, "seed {seed}");
        }
        taken += rows_taken;
        late += counters.iter().map(|c| c.late_taken).sum::<u64>();
        lost += counters.iter().map(|c| c.dropped_late).sum::<u64>();
    }
    // The mixture is worth its time: all kinds of rows occur in numbers.
    assert!(taken > 10_000 && late > 1_000 && lost > 1_000, "{taken} taken, {late} late, {lost} lost");
}
