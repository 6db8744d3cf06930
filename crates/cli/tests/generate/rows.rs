//! What the rows are, and that they stay so.

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, RecordBatch};
use arrow_select::concat::concat_batches;
use highwater_cli::generate::*;

use crate::{ALL, args, millis, of_partition, partitions, rows_of, traced};

/// One variation for each knob.
fn knobs(workload: Workload) -> Vec<Spec> {
    let plain = traced(workload, 0);
    let partitions = 4;
    let stall = Some(Stall { partition: 2, from_ms: 50, length_ms: 700 });
    let poison = Some(Poison { first: 10, every: 100, kind: PoisonKind::Mixed });
    let slow = Disorder { mean_ms: 5_000, straggler_share: 0.2, ..plain.disorder };
    let mut specs = vec![
        plain.clone(),
        Spec { seed: 99, ..plain.clone() },
        Spec { rate: 333, ..plain.clone() },
        Spec { rate: 1, ..plain.clone() },
        Spec { start_ms: -7, ..plain.clone() },
        Spec { partitions, ..plain.clone() },
        Spec { partitions, stall, ..plain.clone() },
        Spec { disorder: slow, ..plain.clone() },
        Spec { disorder: Disorder::NONE, ..plain.clone() },
        Spec { poison, ..plain.clone() },
        Spec { ingest_column: false, partition_column: false, ..plain.clone() },
    ];
    if workload != Workload::Nexmark {
        specs.push(Spec { keys: 50, ..plain.clone() });
        specs.push(Spec { keys: 50, zipf: 1.5, ..plain.clone() });
    }
    if workload == Workload::W1 {
        let types = [KeyType::I32, KeyType::I64, KeyType::Utf8, KeyType::Dictionary];
        specs.extend(types.map(|key_type| Spec { key_type, ..plain.clone() }));
    }
    specs
}

#[test]
fn a_short_stream_is_the_beginning_of_a_long_one() {
    for spec in ALL.into_iter().flat_map(knobs) {
        let long = rows_of(&Spec { rows: 5_000, ..spec.clone() });
        assert_eq!(long.num_rows(), 5_000);
        for rows in [0, 1, 64, 1_234, 4_999] {
            let short = rows_of(&Spec { rows, ..spec.clone() });
            assert_eq!(short, long.slice(0, rows as usize), "{rows} rows of {spec:?}");
        }
        let cut = Stream::new(&Spec { rows: 5_000, ..spec.clone() }).unwrap().with_batch_rows(77);
        let cut: Vec<_> = cut.map(Result::unwrap).collect();
        assert!(cut.iter().rev().skip(1).all(|batch| batch.num_rows() == 77));
        assert_eq!(concat_batches(&long.schema(), &cut).unwrap(), long, "cut into batches: {spec:?}");
    }
}

#[test]
fn the_rows_never_change() {
    // A new value here means that everything ever generated, measured and recorded was about another stream.
    let recorded = [
        3305432575795628831,
        6881184503097634180,
        7094657075853598523,
        4410696406118260142,
        16211645180590216676,
        13111011374264145801,
        15569937590781881392,
        9499212586833061656,
    ];
    let mut hashes = Vec::new();
    for workload in ALL {
        let mut spec = traced(workload, 1_000);
        spec.partitions = 4;
        spec.stall = Some(Stall { partition: 1, from_ms: 100, length_ms: 2_000 });
        spec.poison = Some(Poison { first: 5, every: 50, kind: PoisonKind::Mixed });
        hashes.push(fnv(&text(&rows_of(&spec))));
    }
    assert_eq!(hashes, recorded);
}

fn text(batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    arrow_csv::Writer::new(&mut bytes).write(batch).unwrap();
    bytes
}

/// FNV-1a
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn seeds_and_columns_are_independent() {
    let first = rows_of(&Spec { rows: 2_000, ..Spec::new(Workload::W1) });
    let other = rows_of(&Spec { rows: 2_000, seed: 1, ..Spec::new(Workload::W1) });
    for column in ["ts", "key", "value"] {
        assert_ne!(first[column].to_data(), other[column].to_data(), "{column}");
    }
}

#[test]
fn the_order_is_that_of_the_whole_stream_sorted() {
    for workload in [Workload::W1, Workload::W4] {
        let plain = traced(workload, 20_000);
        let stall = Some(Stall { partition: 0, from_ms: 300, length_ms: 1_000 });
        for spec in [Spec { partitions: 3, stall, ..plain.clone() }, plain] {
            let mut arrivals = arrivals::Arrivals::new(&spec);
            let mut rows = Vec::new();
            arrivals.take(20_000, &mut rows);
            assert!(
                rows.windows(2).all(|pair| (pair[0].at_us, pair[0].event) < (pair[1].at_us, pair[1].event))
            );
            let last_ms = rows[19_999].at_us / 1000;
            for row in &rows {
                assert!(arrivals.timeline().event_ms(row.event) * 1000 <= row.at_us);
            }
            // Nothing that has arrived by then is missing: every event is there, or arrives later.
            let mut events: Vec<u64> = rows.iter().map(|row| row.event).collect();
            events.sort_unstable();
            events.dedup();
            assert_eq!(events.len(), 20_000);
            let old = last_ms.saturating_sub(61_000) * spec.rate / 1000;
            assert!(events.iter().take(old as usize).enumerate().all(|(i, &event)| i as u64 == event));

            let batch = rows_of(&spec);
            assert!(millis(&batch, "ingest_ts").is_sorted());
            let expected: Vec<i64> = rows
                .iter()
                .map(|row| spec.start_ms + arrivals.timeline().event_ms(row.event) as i64)
                .collect();
            assert_eq!(millis(&batch, "ts"), expected);
        }
    }
}

#[test]
fn in_order_streams_lie_on_the_grid_of_their_rate() {
    for rate in [1, 3, 8, 250, 10_000] {
        let spec = Spec { disorder: Disorder::NONE, rate, ..traced(Workload::W1, 3_000) };
        let batch = rows_of(&spec);
        let grid: Vec<i64> = (0..3_000).map(|i| spec.start_ms + i * 1000 / rate as i64).collect();
        assert_eq!(millis(&batch, "ts"), grid, "{rate}");
        assert_eq!(millis(&batch, "ingest_ts"), grid, "{rate}");
    }
}

#[test]
fn delays_have_the_stated_distribution() {
    let rows = 400_000;
    for (workload, longest) in [(Workload::W1, 60_000), (Workload::Gateway, 30_000)] {
        let spec = Spec { rate: 2_000, ..traced(workload, rows) };
        let batch = rows_of(&spec);
        let (times, arrivals) = (millis(&batch, "ts"), millis(&batch, "ingest_ts"));
        // Of the last minute only the quick rows are here yet.
        let horizon = arrivals[rows as usize - 1] - 60_000;
        let past = times.iter().zip(&arrivals).filter(|(ts, _)| **ts <= horizon);
        let delays: Vec<i64> = past.map(|(ts, at)| at - ts).collect();
        let n = delays.len() as f64;
        assert!(n > 200_000.0);
        assert!(delays.iter().all(|delay| (0..longest).contains(delay)));
        let share = spec.disorder.straggler_share;
        let late = delays.iter().filter(|delay| **delay > 20_000).count() as f64;
        assert!((late - n * share).abs() < 4.0 * (n * share * (1.0 - share)).sqrt(), "{late} of {n}");
        let usual: Vec<f64> =
            delays.iter().filter(|delay| **delay < 20_000).map(|delay| *delay as f64).collect();
        let mean = usual.iter().sum::<f64>() / usual.len() as f64;
        assert!((mean - 2_000.0).abs() < 30.0, "{mean}");
    }
}

#[test]
fn a_stalled_partition_is_silent_and_then_bursts() {
    let partitions = 4;
    let mut spec = Spec { partitions, rate: 100, ..traced(Workload::Gateway, 20_000) };
    spec.disorder.straggler_share = 0.0;
    let usual = rows_of(&spec);
    spec.stall = Some(Stall { partition: 2, from_ms: 60_000, length_ms: 45_000 });
    let stalled = rows_of(&spec);
    let (from, end) = (spec.start_ms + 60_000, spec.start_ms + 105_000);
    let arrivals = |batch: &RecordBatch, partition: i32| -> Vec<i64> {
        let of = partitions_and_arrivals(batch);
        of.filter(|(p, _)| *p == partition).map(|(_, at)| at).collect()
    };
    assert!(arrivals(&usual, 2).iter().filter(|at| (from..end).contains(at)).count() > 1_000);
    let at = arrivals(&stalled, 2);
    assert_eq!(at.iter().filter(|at| (from..end).contains(at)).count(), 0);
    let burst = at.iter().filter(|at| (end..end + 920).contains(at)).count();
    assert!((1_000..1_300).contains(&burst), "25 rows a second for 46 s: {burst}");
    for other in [0, 1, 3] {
        let (before, after) = (arrivals(&usual, other), arrivals(&stalled, other));
        let shared = before.len().min(after.len());
        assert_eq!(before[..shared], after[..shared], "partition {other}");
    }
    // In its own partition nothing overtakes anything because of the stall.
    let ids = |batch: &RecordBatch| -> Vec<String> {
        let ids = batch["request_id"].as_string::<i32>();
        let of = partitions_and_arrivals(batch).enumerate();
        of.filter(|(_, (p, _))| *p == 2).map(|(row, _)| ids.value(row).to_owned()).collect()
    };
    let (before, after) = (ids(&usual), ids(&stalled));
    let shared = before.len().min(after.len());
    assert_eq!(before[..shared], after[..shared]);
}

fn partitions_and_arrivals(batch: &RecordBatch) -> impl Iterator<Item = (i32, i64)> {
    partitions(batch).into_iter().zip(millis(batch, "ingest_ts"))
}

#[test]
fn poison_rows_are_counted_and_change_nothing_else() {
    let spec = Spec { disorder: Disorder::NONE, ..traced(Workload::Gateway, 2_400) };
    let clean = rows_of(&spec);
    for (kind, future, null) in
        [(PoisonKind::Future, 24, 0), (PoisonKind::Null, 0, 24), (PoisonKind::Mixed, 12, 12)]
    {
        let poison = Some(Poison { first: 99, every: 100, kind });
        let batch = rows_of(&Spec { poison, ..spec.clone() });
        let year_2999 = 32_472_144_000_000..32_503_680_000_000;
        assert_eq!(
            millis(&batch, "ts").iter().filter(|ts| year_2999.contains(*ts)).count(),
            future,
            "{kind:?}"
        );
        assert_eq!(batch["ts"].null_count(), null, "{kind:?}");
        for column in ["request_id", "ingest_ts", "partition", "usd"] {
            assert_eq!(clean[column].to_data(), batch[column].to_data(), "{column}");
        }
    }
    let single =
        args("gateway --in-order --rows 2400 --poison-first 1200 --poison-kind null").spec().unwrap();
    let batch = rows_of(&single);
    assert_eq!((batch["ts"].null_count(), batch["ts"].is_null(1_200)), (1, true));
    let every = args("gateway --poison-every 100").spec().unwrap();
    assert_eq!(every.poison, Some(Poison { first: 99, every: 100, kind: PoisonKind::Future }));
}

#[test]
fn keys_follow_zipf() {
    let batch = rows_of(&Spec { rows: 100_000, ..Spec::new(Workload::W1) });
    let mut counts = vec![0_u32; 1_000];
    for &key in batch["key"].as_primitive::<Int32Type>().values() {
        counts[key as usize] += 1;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let norm: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-1.1)).sum();
    for rank in [1, 2, 5, 10] {
        let expected = 100_000.0 * f64::from(rank).powf(-1.1) / norm;
        let got = f64::from(counts[rank as usize - 1]);
        assert!((got - expected).abs() < 5.0 * expected.sqrt(), "rank {rank}: {got} instead of {expected}");
    }
}

#[test]
fn split_streams_hold_the_rows_of_their_partition() {
    let poison = Some(Poison { first: 3, every: 500, kind: PoisonKind::Mixed });
    let spec = Spec { partitions: 5, poison, ..traced(Workload::Gateway, 10_000) };
    let whole = rows_of(&spec);
    for batch_rows in [1, 100, 65_536] {
        let mut parts = vec![Vec::new(); 5];
        for part in Stream::new(&spec).unwrap().with_batch_rows(batch_rows).split() {
            let (partition, batch) = part.unwrap();
            assert!((1..=batch_rows).contains(&batch.num_rows()));
            parts[partition].push(batch);
        }
        for (partition, batches) in parts.iter().enumerate() {
            let got = concat_batches(&whole.schema(), batches).unwrap();
            assert_eq!(got, of_partition(&whole, partition as i32), "partition {partition} by {batch_rows}");
        }
    }
}

#[test]
fn campaigns_hold_ten_ads_each() {
    let table = campaigns(&Spec::new(Workload::Ysb)).unwrap();
    let mut ads = vec![0; 100];
    for &campaign in table["campaign_id"].as_primitive::<Int32Type>().values() {
        ads[campaign as usize] += 1;
    }
    assert_eq!((table.num_rows(), ads), (1_000, vec![10; 100]));
}
