//! Everything that an operator holds, as one file and back.

use std::io::Write;
use std::sync::Arc;

use arrow_array::UInt64Array;
use arrow_array::types::UInt64Type;

use super::{Bounds, FiredCounts, WindowOperator, Windows};
use crate::builder::WindowOperatorBuilder;
use crate::error::{Error, Result, SnapshotFault};
use crate::progress::Progress;
use crate::snapshot::{self, Checked, File, Pieces, Record, Section, record};

/// Results are counted a few for each row and window.
const MOST_FIRED: u64 = 1 << 62;

impl WindowOperator {
    /// Everything that the operator holds, as one Arrow IPC file: state, watermarks, idle marks, clock and counters.
    /// [`restore`](WindowOperatorBuilder::restore) makes an operator of it that goes on as this one would; this one is not
    /// changed. Any Arrow reader opens the file.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if a user's own function or watermark generator does not say how its state is saved.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{Int64Array, RecordBatch, TimestampSecondArray};
    /// use highwater::{Aggregate, TimeDelta, Window, WindowOperator, watermark::WatermarkStrategy};
    ///
    /// let rows = |ts: Vec<i64>, usd: Vec<i64>| {
    ///     let ts = Arc::new(TimestampSecondArray::from(ts)) as _;
    ///     RecordBatch::try_from_iter([("ts", ts), ("usd", Arc::new(Int64Array::from(usd)) as _)])
    /// };
    /// let batch = rows(vec![0, 20], vec![3, 4])?;
    /// let builder = WindowOperator::builder(batch.schema())
    ///     .event_time("ts")
    ///     .window(Window::tumbling(TimeDelta::from_mins(1)))
    ///     .watermark(WatermarkStrategy::ascending())
    ///     .aggregate(Aggregate::sum("usd"));
    /// let mut operator = builder.clone().build()?;
    /// operator.push(0, &batch)?;
    /// let snapshot = operator.snapshot()?;
    /// // another process, another day
    /// let mut restored = builder.restore(&snapshot)?;
    /// let output = restored.push(0, &rows(vec![40, 60], vec![5, 6])?)?;
    /// assert_eq!(output.fired[0]["sum(usd)"].as_ref(), &Int64Array::from(vec![12]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        let mut file = Vec::new();
        self.snapshot_to(&mut file)?;
        Ok(file)
    }

    /// As [`snapshot`](WindowOperator::snapshot), piece by piece to a writer, so that it is never in memory as a whole.
    ///
    /// # Errors
    /// As `snapshot`, and what the writer refuses.
    pub fn snapshot_to(&self, out: impl Write) -> Result<()> {
        let sections = self.sections().map_err(|error| Error::snapshot(SnapshotFault::Unsupported, error))?;
        snapshot::write(out, &self.parts.description, sections)
    }

    fn sections(&self) -> Checked<Vec<Section<'_>>> {
        let counts = [
            ("fired_early", self.fired.early),
            ("fired_on_time", self.fired.on_time),
            ("fired_late", self.fired.late),
            ("windows_fired", self.fired.windows),
        ];
        let counts = counts.map(|(name, count)| (name, Arc::new(UInt64Array::from(vec![count])) as _));
        let mut sections = vec![
            Section::whole("input", self.progress.save_input()?),
            Section::whole("partitions", self.progress.save_partitions()?),
            Section::whole("fired", record(counts.to_vec())?),
        ];
        match &self.windows {
            Windows::Sliced(windows) => sections.push(windows.save(&self.parts)?),
            Windows::Keyed(windows) => sections.extend(windows.save(&self.parts)?),
        }
        Ok(sections)
    }

    /// Takes over what was saved; see [`sections`](WindowOperator::sections).
    fn fill(&mut self, pieces: &Pieces) -> Checked<()> {
        let (input, partitions) = (pieces.whole("input")?, pieces.whole("partitions")?);
        self.progress = Progress::restore(&self.parts.source, input, partitions)?;
        let fired = Record::of(pieces.whole("fired")?)?;
        let count = |name| match fired.number::<UInt64Type>(name)? {
            count if count <= MOST_FIRED => Ok(count),
            count => Err(format!("{name} cannot be {count}")),
        };
        self.fired = FiredCounts {
            early: count("fired_early")?,
            on_time: count("fired_on_time")?,
            late: count("fired_late")?,
            windows: count("windows_fired")?,
        };
        let (fired_to, taken) = (self.progress.watermark(), self.progress.taken());
        match &mut self.windows {
            Windows::Sliced(windows) => {
                windows.restore_slices(pieces.of("slices"), fired_to, taken, &self.parts)?
            }
            Windows::Keyed(windows) => windows.restore(pieces, fired_to, taken, &self.parts)?,
        }
        let magnitude = self.windows.magnitude(&self.parts.inputs);
        self.bounds = Bounds { keys: self.windows.keys(), magnitude };
        Ok(())
    }
}

impl WindowOperatorBuilder {
    /// Makes the operator that a [`snapshot`](WindowOperator::snapshot) was taken of: it goes on as if nothing had happened,
    /// to the last bit, and nothing that has fired fires again.
    ///
    /// Everything that the state depends on must be as it was. What it does not depend on may change: threads, limits,
    /// [`alignment`](WindowOperatorBuilder::alignment), the `firing` column and whether results are sorted.
    ///
    /// # Errors
    /// Those of [`build`](WindowOperatorBuilder::build), and [`Error::Snapshot`] for bytes that are not a whole snapshot of
    /// an operator built like this one.
    pub fn restore(self, snapshot: &[u8]) -> Result<WindowOperator> {
        restore(self.build()?, snapshot, false)
    }

    /// As [`restore`](WindowOperatorBuilder::restore), for an input that has been dealt anew into another number of
    /// partitions: so any of them may have any of the rows to come.
    ///
    /// The merged watermark stays what it is. Each partition starts at the lowest watermark of those that have not finished,
    /// and is idle if all of these are. What was counted is counted for partition 0. Nothing that has fired fires again, but
    /// floats may be added in another order from here on.
    ///
    /// # Errors
    /// As `restore`.
    pub fn restore_repartitioned(self, snapshot: &[u8]) -> Result<WindowOperator> {
        restore(self.build()?, snapshot, true)
    }
}

/// `operator` has been built, and has seen nothing.
fn restore(mut operator: WindowOperator, bytes: &[u8], may_deal: bool) -> Result<WindowOperator> {
    let file = File::open(bytes)?;
    if let Some(difference) = snapshot::difference(file.configuration(), &operator.parts.description) {
        return Err(Error::snapshot(SnapshotFault::Configuration, difference));
    }
    let like = operator.sections().map_err(|error| Error::snapshot(SnapshotFault::Unsupported, error))?;
    let impossible = |error| Error::snapshot(SnapshotFault::Impossible, error);
    let pieces = file.sections(&like).map_err(impossible)?;
    drop(like);
    if !may_deal {
        Progress::check_partitions(&operator.parts.source, pieces.whole("partitions").map_err(impossible)?)?;
    }
    operator.fill(&pieces).map_err(impossible)?;
    Ok(operator)
}

#[cfg(test)]
mod tests;
