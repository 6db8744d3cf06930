//! Start and end rows of one request joined into one record.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::stored::{Bytes, Stored, is_text, two_sides, unsaved};
use super::{Keyed, KeyedProcess, OperatorBuilder, ProcessOperator, Results, Rows, Timer};
use crate::error::{Error, Result};
use crate::input::{Input, find, missing};
use crate::output::ticks_to_array;
use crate::snapshot::{Record, record};
use crate::time::TimeDelta;

/// The columns of a record beside the key and the chosen ones.
const STARTED: &str = "started";
const ENDED: &str = "ended";
const STATUS: &str = "status";

/// Joins the start and the end row of each request into one record, or says that it was abandoned.
///
/// The key of the input is what identifies a request. A record has the key, the chosen columns of the start row and of the end
/// row, `started` and `ended` (event times), and `status`: `complete`, or `abandoned` if the watermark has come to
/// `started` + timeout and no end has come. Then `ended` and the end row's columns are null.
///
/// * A start while a request is open replaces it: the time runs anew.
/// * An end without an open request gives nothing. It may have come before its start, twice, or after abandonment.
/// * A start whose time is already over when it comes is abandoned when the watermark next rises, unless its end comes first.
///
/// [`ProcessMetrics::counter`](super::ProcessMetrics::counter) knows `complete`, `abandoned`, `replaced` (starts that were
/// replaced), `unmatched` (ends without an open request) and `other` (rows that are neither).
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::cast::AsArray;
/// use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampSecondArray};
/// use highwater::process::match_pairs;
/// use highwater::watermark::WatermarkStrategy;
/// use highwater::{Input, TimeDelta};
///
/// let batch = RecordBatch::try_from_iter([
///     ("ts", Arc::new(TimestampSecondArray::from(vec![0, 10, 25, 30, 400])) as ArrayRef),
///     ("request", Arc::new(StringArray::from(vec!["r1", "r2", "r1", "r0", "r3"])) as _),
///     ("event", Arc::new(StringArray::from(vec!["start", "start", "failed", "ping", "start"])) as _),
///     ("tenant", Arc::new(StringArray::from(vec![Some("acme"), Some("globex"), None, None, Some("acme")])) as _),
/// ])?;
/// let input = Input::new(batch.schema())
///     .event_time("ts")
///     .key("request")
///     .watermark(WatermarkStrategy::ascending());
/// let mut pairs = match_pairs(input)
///     .event("event", ["start"], ["end", "failed"])
///     .abandon_after(TimeDelta::from_mins(5))
///     .start_columns(["tenant"])
///     .build()?;
/// let output = pairs.push(0, &batch)?;
/// // r1 took 25 s; the watermark is 399, so r2 had until 310
/// let records = &output.fired[0];
/// assert_eq!(records["request"].as_string::<i32>(), &StringArray::from(vec!["r1", "r2"]));
/// assert_eq!(records["tenant"].as_string::<i32>(), &StringArray::from(vec!["acme", "globex"]));
/// assert_eq!(records["status"].as_string::<i32>(), &StringArray::from(vec!["complete", "abandoned"]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn match_pairs(input: Input) -> MatchPairsBuilder {
    OperatorBuilder::new(MatchPairsPlan::default(), [input])
}

/// Builds what [`match_pairs`] describes; everything is checked in [`build`](MatchPairsBuilder::build).
pub type MatchPairsBuilder = OperatorBuilder<MatchPairsPlan, 1>;

/// Which rows are to be matched, and what is to be kept of them.
#[derive(Clone, Debug, Default)]
pub struct MatchPairsPlan {
    event: Option<(String, Marks)>,
    abandon_after: Option<TimeDelta>,
    start_columns: Vec<String>,
    end_columns: Vec<String>,
}

/// What the column of events holds in rows that start a request, and in rows that end it.
#[derive(Clone, Debug)]
struct Marks {
    starts: Vec<String>,
    ends: Vec<String>,
}

impl MatchPairsBuilder {
    /// The column that tells rows apart, and what it holds in rows that start a request and in rows that end it: one value of each
    /// kind, or several.
    pub fn event<S: Into<String>, E: Into<String>>(
        mut self,
        column: impl Into<String>,
        starts: impl IntoIterator<Item = S>,
        ends: impl IntoIterator<Item = E>,
    ) -> Self {
        let starts = starts.into_iter().map(Into::into).collect();
        let ends = ends.into_iter().map(Into::into).collect();
        self.process.event = Some((column.into(), Marks { starts, ends }));
        self
    }
    /// How long after its start, in event time, an open request is abandoned.
    pub fn abandon_after(mut self, timeout: impl Into<TimeDelta>) -> Self {
        self.process.abandon_after = Some(timeout.into());
        self
    }
    /// Columns of the start row that the record has. A name that is taken gets the prefix `start_`.
    pub fn start_columns<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.process.start_columns.extend(columns.into_iter().map(Into::into));
        self
    }
    /// Columns of the end row that the record has. A name that is taken gets the prefix `end_`.
    pub fn end_columns<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.process.end_columns.extend(columns.into_iter().map(Into::into));
        self
    }

    /// Checks everything and makes the operator.
    ///
    /// # Errors
    /// Those of the input; a missing or unknown column, an event column that is not text, a timeout that is negative or not a
    /// whole number of ticks, no value for starts or ends, one that is both.
    pub fn build(self) -> Result<ProcessOperator<MatchPairs>> {
        let (plan, source) = (&self.process, self.inputs[0].check()?);
        let (column, marks) =
            plan.event.clone().ok_or_else(|| missing("event", "a column, starts and ends"))?;
        let event = find(&source.schema, "event", &column)?;
        let data_type = source.schema.field(event).data_type();
        if !is_text(data_type) {
            return Err(Error::ColumnType {
                parameter: "event".into(),
                column,
                given: data_type.to_string(),
                allowed: "Utf8, LargeUtf8, Utf8View, and dictionaries of these".into(),
            });
        }
        if marks.starts.is_empty() || marks.ends.is_empty() {
            return Err(missing("event", "values of starts and of ends"));
        }
        if let Some(both) = marks.starts.iter().find(|start| marks.ends.contains(start)) {
            return Err(Error::invalid(
                "event",
                format!("{both:?} for start and end"),
                "values that are one or the other",
            ));
        }
        let timeout = plan.abandon_after.ok_or_else(|| missing("abandon_after", "a duration"))?;
        let stored = |parameter: &str, names: &[String]| {
            let columns = names.iter().map(|name| find(&source.schema, parameter, name));
            Stored::new(parameter, &source.schema, columns.collect::<Result<_>>()?)
        };
        let (starts, ends) =
            (stored("start_columns", &plan.start_columns)?, stored("end_columns", &plan.end_columns)?);
        let mut reserved = vec![STARTED, ENDED, STATUS];
        reserved.extend(source.keys.fields.iter().map(|field| field.name().as_str()));
        let mut fields = two_sides(&reserved, [("start", &starts), ("end", &ends)], [false, true])?;
        fields.push(Field::new(STARTED, source.time_type.clone(), false));
        fields.push(Field::new(ENDED, source.time_type.clone(), true));
        fields.push(Field::new(STATUS, DataType::Utf8, false));
        let process = MatchPairs {
            event,
            marks,
            timeout: source.ticks.tolerance("abandon_after", timeout)?,
            starts,
            ends,
            time_type: source.time_type.clone(),
            schema: Arc::new(Schema::new(fields)),
        };
        self.with(process).build()
    }
}

/// The process behind [`match_pairs`].
#[derive(Debug)]
pub struct MatchPairs {
    event: usize,
    marks: Marks,
    timeout: i64,
    starts: Stored,
    ends: Stored,
    time_type: DataType,
    schema: SchemaRef,
}

/// An open request.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    started: i64,
    row: Bytes,
}

/// A record of [`match_pairs`], until it becomes a row.
#[derive(Debug)]
pub struct Pair {
    request: OpenRequest,
    /// When and how it ended; `None` if it was abandoned.
    end: Option<(i64, Bytes)>,
}

/// What a row is: the number counts among all of the batch that are the same.
#[derive(Clone, Copy)]
enum Role {
    Start(usize),
    End(usize),
    Other,
}

/// The places of [`MatchPairs::counters`].
enum Count {
    Complete,
    Abandoned,
    Replaced,
    Unmatched,
    Other,
}

impl MatchPairs {
    fn deadline(&self, request: &OpenRequest) -> i64 {
        request.started.saturating_add(self.timeout)
    }

    /// What each row is, and the rows of either kind.
    fn roles(&self, column: &ArrayRef) -> (Vec<Role>, Vec<u32>, Vec<u32>) {
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        let Marks { starts: of_starts, ends: of_ends } = &self.marks;
        let texts: Vec<&str> = of_starts.iter().chain(of_ends).map(String::as_str).collect();
        let text = Texts::of(column, &texts);
        let roles = (0..column.len() as u32).map(|row| match text.of_row(row as usize) {
            Some(mark) if mark < of_starts.len() => {
                starts.push(row);
                Role::Start(starts.len() - 1)
            }
            Some(_) => {
                ends.push(row);
                Role::End(ends.len() - 1)
            }
            None => Role::Other,
        });
        (roles.collect(), starts, ends)
    }
}

impl KeyedProcess for MatchPairs {
    type State = Option<OpenRequest>;
    type Output = Pair;

    fn output_schema(&self, _: &[SchemaRef]) -> Result<SchemaRef> {
        Ok(self.schema.clone())
    }

    fn counters(&self) -> &'static [&'static str] {
        &["complete", "abandoned", "replaced", "unmatched", "other"]
    }

    fn rows(&self, rows: &mut Rows<'_, Self>) -> Result<()> {
        let batch = rows.batch();
        let (roles, starts, ends) = self.roles(batch.column(self.event));
        let (starts, ends) = (self.starts.encode(batch, &starts)?, self.ends.encode(batch, &ends)?);
        while let Some(mut row) = rows.next()? {
            let (time, key) = (row.time, &mut row.key);
            match roles[row.index] {
                Role::Start(number) => {
                    let request = OpenRequest { started: time, row: starts.get(number) };
                    let deadline = self.deadline(&request);
                    if key.state().replace(request).is_some() {
                        key.count(Count::Replaced as usize);
                    }
                    key.register_timer(deadline);
                }
                Role::End(number) => match key.peek().cloned().flatten() {
                    Some(request) => {
                        key.delete_timer(self.deadline(&request));
                        key.clear();
                        key.count(Count::Complete as usize);
                        key.emit(Pair { request, end: Some((time, ends.get(number))) });
                    }
                    None => key.count(Count::Unmatched as usize),
                },
                Role::Other => key.count(Count::Other as usize),
            }
        }
        Ok(())
    }

    fn timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
        // the timer of a start that was replaced still fires, and means nothing
        let due = key.peek().cloned().flatten().filter(|request| self.deadline(request) == timer.time);
        if let Some(request) = due {
            key.clear();
            key.count(Count::Abandoned as usize);
            key.emit(Pair { request, end: None });
        }
        Ok(())
    }

    fn results(&self, pairs: Vec<Pair>, _: &Results<'_>) -> Result<Vec<ArrayRef>> {
        let mut columns = self.starts.decode(pairs.iter().map(|pair| Some(&pair.request.row)))?;
        columns.extend(self.ends.decode(pairs.iter().map(|pair| pair.end.as_ref().map(|(_, row)| row)))?);
        let started = pairs.iter().map(|pair| pair.request.started).collect();
        columns.push(ticks_to_array(started, &self.time_type));
        let ended = pairs.iter().map(|pair| pair.end.as_ref().map_or(0, |(time, _)| *time)).collect();
        let known: NullBuffer = pairs.iter().map(|pair| pair.end.is_some()).collect::<Vec<_>>().into();
        columns.push(with_nulls(&ticks_to_array(ended, &self.time_type), known)?);
        let status = |pair: &Pair| if pair.end.is_some() { "complete" } else { "abandoned" };
        columns.push(Arc::new(StringArray::from_iter_values(pairs.iter().map(status))));
        Ok(columns)
    }

    fn describe(&self) -> String {
        let MatchPairs { marks, timeout, starts, ends, event, .. } = self;
        let Marks { starts: of_starts, ends: of_ends } = marks;
        let (starts, ends) = (starts.describe(), ends.describe());
        format!(
            "pairs of {of_starts:?} and {of_ends:?} in column {event} within {timeout} ticks; [{starts}], [{ends}]"
        )
    }

    fn save(&self, states: &[&Self::State]) -> Result<ArrayRef> {
        let started: Int64Array =
            states.iter().map(|state| state.as_ref().map(|request| request.started)).collect();
        let rows = states.iter().map(|state| state.as_ref().map(|request| &request.row));
        let row = self.starts.save(rows).map_err(unsaved)?;
        record(vec![("started", Arc::new(started)), ("row", row)]).map_err(unsaved)
    }

    fn restore(&self, saved: &ArrayRef) -> Result<Vec<Self::State>> {
        let saved = Record::of(saved).map_err(unsaved)?;
        let started = saved.numbers::<Int64Type>("started").map_err(unsaved)?;
        let rows = self.starts.restore(saved.column("row").map_err(unsaved)?).map_err(unsaved)?;
        Ok(started.iter().zip(rows).map(|(&started, row)| Some(OpenRequest { started, row })).collect())
    }

    fn heap_size(&self, state: &Self::State) -> usize {
        state.as_ref().map_or(0, |request| request.row.len() + 2 * size_of::<usize>())
    }
}

/// The same values, some of them null.
fn with_nulls(array: &ArrayRef, valid: NullBuffer) -> Result<ArrayRef> {
    let data = array.to_data().into_builder().nulls(Some(valid)).build()?;
    Ok(arrow_array::make_array(data))
}

/// Which of a few texts each row of a column is.
enum Texts<'a> {
    Utf8(&'a arrow_array::StringArray, &'a [&'a str]),
    LargeUtf8(&'a arrow_array::LargeStringArray, &'a [&'a str]),
    Utf8View(&'a arrow_array::StringViewArray, &'a [&'a str]),
    /// The row's place in a dictionary, and which text each entry is.
    Dictionary(Vec<usize>, Option<NullBuffer>, Vec<Option<usize>>),
}

impl<'a> Texts<'a> {
    fn of(column: &'a ArrayRef, texts: &'a [&'a str]) -> Self {
        match column.data_type() {
            DataType::Utf8 => Texts::Utf8(column.as_string(), texts),
            DataType::LargeUtf8 => Texts::LargeUtf8(column.as_string(), texts),
            DataType::Utf8View => Texts::Utf8View(column.as_string_view(), texts),
            _ => {
                let dictionary = column.as_any_dictionary();
                let values = Texts::of(dictionary.values(), texts);
                let entries = (0..dictionary.values().len()).map(|entry| values.of_row(entry)).collect();
                let keys = if dictionary.values().is_empty() { vec![] } else { dictionary.normalized_keys() };
                Texts::Dictionary(keys, dictionary.keys().nulls().cloned(), entries)
            }
        }
    }

    fn of_row(&self, row: usize) -> Option<usize> {
        let find = |texts: &[&str], text: &str| texts.iter().position(|known| *known == text);
        match self {
            Texts::Utf8(column, texts) => column.is_valid(row).then(|| find(texts, column.value(row)))?,
            Texts::LargeUtf8(column, texts) => {
                column.is_valid(row).then(|| find(texts, column.value(row)))?
            }
            Texts::Utf8View(column, texts) => column.is_valid(row).then(|| find(texts, column.value(row)))?,
            Texts::Dictionary(keys, nulls, entries) => {
                let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                if valid { entries.get(*keys.get(row)?).copied()? } else { None }
            }
        }
    }
}
