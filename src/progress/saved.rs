//! How far an input has come, in a snapshot and out of it.

use std::sync::Arc;

use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, LargeStringArray, UInt64Array};

use super::Progress;
use crate::error::{Error, Result, SnapshotFault};
use crate::input::Source;
use crate::metrics::RowCounts;
use crate::snapshot::{Checked, Record, record};
use crate::watermark::{
    END, IdleTimer, NONE, PartitionStatus, Reactivation, SavedMerge, SavedWatermark, WatermarkMerge,
};

/// More rows than there will ever be, and few enough that counters never wrap.
const MOST_ROWS: u64 = 1 << 62;

/// A partition as it is saved.
#[derive(Clone, Debug)]
struct Partition {
    own: SavedWatermark,
    merge: SavedMerge,
    last_activity: Option<i64>,
    counts: RowCounts,
}

/// Where a counter is.
type Counter = fn(&mut RowCounts) -> &mut u64;

/// The counters of a partition, by name.
const COUNTERS: [(&str, Counter); 9] = [
    ("rows_in", |counts| &mut counts.rows_in),
    ("taken", |counts| &mut counts.taken),
    ("dropped_late", |counts| &mut counts.dropped_late),
    ("no_window", |counts| &mut counts.no_window),
    ("rejected_null", |counts| &mut counts.rejected_null),
    ("rejected_future", |counts| &mut counts.rejected_future),
    ("rejected_reference", |counts| &mut counts.rejected_reference),
    ("late_taken", |counts| &mut counts.late_taken),
    ("partly_late", |counts| &mut counts.partly_late),
];

const STATUSES: [(&str, PartitionStatus); 3] = [
    ("active", PartitionStatus::Active),
    ("idle", PartitionStatus::Idle),
    ("finished", PartitionStatus::Finished),
];

/// A watermark that is none is null.
fn watermark(watermark: i64) -> Option<i64> {
    (watermark != NONE).then_some(watermark)
}

fn watermarks(watermarks: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(watermarks.map(watermark).collect::<Int64Array>())
}

impl Progress {
    /// All of it but the partitions: one row.
    pub(crate) fn save_input(&self) -> Checked<ArrayRef> {
        record(vec![
            ("watermark", watermarks([self.merge.merged()].into_iter())),
            ("raised", watermarks([self.raised].into_iter())),
            ("clock", Arc::new(Int64Array::from(vec![self.clock]))),
            ("last_row", Arc::new(Int64Array::from(vec![self.last_row]))),
            ("arrivals", Arc::new(UInt64Array::from(vec![self.arrivals]))),
        ])
    }

    /// One row a partition.
    pub(crate) fn save_partitions(&self) -> Checked<ArrayRef> {
        let own = self.sources.iter().map(|source| source.saved()).collect::<Checked<Vec<_>>>()?;
        let merge: Vec<SavedMerge> = (0..self.sources.len()).map(|p| self.merge.saved(p)).collect();
        let status = |merge: &SavedMerge| STATUSES.iter().find(|(_, status)| *status == merge.status);
        let statuses = merge.iter().map(|merge| Some(status(merge)?.0)).collect::<Option<Vec<_>>>();
        let mut generators = LargeBinaryBuilder::new();
        own.iter().for_each(|own| generators.append_option(own.generator.as_deref()));
        let active = (0..self.sources.len()).map(|p| self.timers.get(p).and_then(IdleTimer::last_activity));
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("watermark", watermarks(own.iter().map(|own| own.emitted))),
            ("highest", watermarks(own.iter().map(|own| own.highest))),
            ("generator", Arc::new(generators.finish())),
            ("regressions", Arc::new(UInt64Array::from_iter_values(own.iter().map(|own| own.regressions)))),
            ("status", Arc::new(LargeStringArray::from(statuses.ok_or("a partition has been removed")?))),
            ("merged_as", watermarks(merge.iter().map(|merge| merge.watermark))),
            ("aligned", Arc::new(BooleanArray::from_iter(merge.iter().map(|merge| Some(merge.aligned))))),
            ("last_activity", Arc::new(active.collect::<Int64Array>())),
        ];
        for (name, counter) in COUNTERS {
            let counts = self.counts.iter().map(|counts| *counter(&mut counts.clone()));
            columns.push((name, Arc::new(UInt64Array::from_iter_values(counts))));
        }
        record(columns)
    }

    /// Whether so many partitions were saved as there are.
    pub(crate) fn check_partitions(source: &Source, partitions: &ArrayRef) -> Result<()> {
        let (here, taken) = (source.partitions, partitions.len());
        if here == taken {
            return Ok(());
        }
        let message = format!(
            "partitions is {here} here, but was {taken} when the snapshot was taken: restore_repartitioned deals them anew"
        );
        Err(Error::snapshot(SnapshotFault::Configuration, message))
    }

    /// What was saved. Another number of partitions than there are is dealt anew; see `deal`.
    pub(crate) fn restore(source: &Source, input: &ArrayRef, partitions: &ArrayRef) -> Checked<Progress> {
        let input = Record::of(input)?;
        let merged = one(&input, "watermark")?.unwrap_or(NONE);
        let raised = one(&input, "raised")?.unwrap_or(NONE);
        if raised == END {
            return Err("quiet has raised the watermark to the end of input".into());
        }
        let arrivals = input.number::<UInt64Type>("arrivals")?;
        let mut states = restore_partitions(&Record::of(partitions)?)?;
        check_counters(&states, arrivals)?;
        if states.len() != source.partitions {
            states = deal(states, source.partitions, source.reactivation, merged);
        }
        let merge: Vec<SavedMerge> = states.iter().map(|state| state.merge).collect();
        let timers = source.idle_timer.iter();
        let timers = timers.flat_map(|timer| states.iter().map(|state| timer.active_at(state.last_activity)));
        let own = states.iter().enumerate().map(|(number, state)| {
            source.generator.restored(&state.own).map_err(|error| format!("partition {number}: {error}"))
        });
        Ok(Progress {
            merge: WatermarkMerge::restore(source.reactivation, merged, &merge)?,
            timers: timers.collect(),
            sources: own.collect::<Checked<_>>()?,
            clock: one(&input, "clock")?,
            last_row: one(&input, "last_row")?,
            raised,
            counts: states.iter().map(|state| state.counts).collect(),
            arrivals,
        })
    }

    /// Rows that some window has taken.
    pub(crate) fn taken(&self) -> u64 {
        self.counts.iter().map(|counts| counts.taken).sum()
    }
}

fn one(input: &Record<'_>, name: &str) -> Checked<Option<i64>> {
    let column = input.optional::<Int64Type>(name)?;
    if column.len() != 1 {
        return Err(format!("column {name:?} has {} rows, and one was expected", column.len()));
    }
    Ok(column.iter().next().flatten())
}

fn restore_partitions(saved: &Record<'_>) -> Checked<Vec<Partition>> {
    let times = |name| saved.optional::<Int64Type>(name);
    let (emitted, highest, merged_as) = (times("watermark")?, times("highest")?, times("merged_as")?);
    let (last_activity, regressions) = (times("last_activity")?, saved.numbers::<UInt64Type>("regressions")?);
    let (generators, aligned) = (saved.bytes("generator")?, saved.flags("aligned")?);
    let statuses = saved.texts("status")?;
    let counters = COUNTERS.map(|(name, counter)| (saved.numbers::<UInt64Type>(name), counter));
    let value = |column: &Int64Array, row| column.is_valid(row).then(|| column.value(row));
    let partition = |row: usize| {
        let status = STATUSES.iter().find(|(name, _)| *name == statuses.value(row));
        let mut counts = RowCounts::default();
        for (column, counter) in &counters {
            *counter(&mut counts) = column.as_ref().map_err(String::clone)?[row];
        }
        Ok(Partition {
            own: SavedWatermark {
                emitted: value(emitted, row).unwrap_or(NONE),
                regressions: regressions[row],
                highest: value(highest, row).unwrap_or(NONE),
                generator: generators.is_valid(row).then(|| generators.value(row).to_vec()),
            },
            merge: SavedMerge {
                watermark: value(merged_as, row).unwrap_or(NONE),
                status: status.ok_or_else(|| format!("there is no status {:?}", statuses.value(row)))?.1,
                aligned: aligned.value(row),
            },
            last_activity: value(last_activity, row),
            counts,
        })
    };
    (0..saved.len()).map(partition).collect()
}

/// Every row is accounted for, and no counter will ever wrap.
fn check_counters(states: &[Partition], arrivals: u64) -> Checked<()> {
    let (mut rows, mut regressions, mut accepted) = (0_u64, 0_u64, 0_u64);
    for (number, Partition { own, counts, .. }) in states.iter().enumerate() {
        rows = rows.saturating_add(counts.rows_in);
        regressions = regressions.saturating_add(own.regressions);
        let rejected = [counts.rejected_null, counts.rejected_future, counts.rejected_reference];
        let rejected = rejected.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count));
        let kept = [counts.taken, counts.dropped_late, counts.no_window];
        let kept = kept.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count));
        let all = kept.zip(rejected).and_then(|(kept, rejected)| kept.checked_add(rejected));
        if all != Some(counts.rows_in) || counts.late_taken.max(counts.partly_late) > counts.taken {
            return Err(format!("partition {number}: rows are not accounted for: {counts:?}"));
        }
        accepted = accepted.saturating_add(kept.unwrap_or_default());
    }
    if accepted != arrivals {
        return Err(format!("{accepted} rows were accepted, but {arrivals} have arrived"));
    }
    match rows.max(regressions) > MOST_ROWS {
        true => Err(format!("{rows} rows and {regressions} regressions are more than can be counted")),
        false => Ok(()),
    }
}

/// Other partitions for the same input: nobody knows which rows to come belong to which. So each starts at the lowest of
/// the watermarks of those that have not finished, and is idle if all of these are; what has been counted is counted for
/// the first. The merged watermark stays what it is.
fn deal(states: Vec<Partition>, partitions: usize, rule: Reactivation, merged: i64) -> Vec<Partition> {
    use PartitionStatus::{Active, Finished, Idle};
    let mut counts = RowCounts::default();
    states.iter().for_each(|state| counts.add(&state.counts));
    let regressions = states.iter().map(|state| state.own.regressions).sum();
    let open = || states.iter().filter(|state| state.merge.status != Finished);
    let lowest = open().min_by_key(|state| (state.own.emitted, state.own.highest));
    let Some(lowest) = lowest.or(states.first()) else { return states };
    let status = match lowest.merge.status {
        Finished => Finished,
        _ if open().all(|state| state.merge.status == Idle) => Idle,
        _ => Active,
    };
    let watermark = if status == Finished { lowest.merge.watermark } else { lowest.own.emitted };
    let aligned = status == Active && (rule == Reactivation::AtOnce || watermark >= merged);
    let dealt = Partition {
        own: SavedWatermark { regressions: 0, ..lowest.own.clone() },
        merge: SavedMerge { watermark, status, aligned },
        last_activity: open().map(|state| state.last_activity).max().flatten(),
        counts: RowCounts::default(),
    };
    let mut dealt = vec![dealt; partitions];
    if let Some(first) = dealt.first_mut() {
        (first.counts, first.own.regressions) = (counts, regressions);
    }
    dealt
}
