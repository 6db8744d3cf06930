//! How columns lie in a batch, checked before Arrow's reader trusts it.
//!
//! The reader validates what it has read, but takes sizes and places from the file as they are and panics if they lie
//! outside of it. So all of them are looked at here first.

use arrow_ipc::RecordBatch;
use arrow_schema::{DataType, FieldRef, Schema};

use super::Checked;

/// Where buffers begin: at multiples of this.
pub(super) const ALIGNED: i64 = 8;

/// The buffers that a column of a type has of its own, and its children; `None` for types that have no place in a
/// snapshot.
fn layout(data_type: &DataType) -> Option<(usize, &[FieldRef])> {
    use DataType::*;
    Some(match data_type {
        Null => (0, &[]),
        Struct(fields) => (1, fields),
        FixedSizeList(field, _) => (1, std::slice::from_ref(field)),
        List(field) | LargeList(field) | Map(field, _) => (2, std::slice::from_ref(field)),
        ListView(field) | LargeListView(field) => (3, std::slice::from_ref(field)),
        Utf8 | LargeUtf8 | Binary | LargeBinary => (3, &[]),
        Utf8View | BinaryView | Boolean | FixedSizeBinary(_) => (2, &[]),
        other if other.is_primitive() => (2, &[]),
        _ => return None,
    })
}

/// What the second buffer of a column is made of, and the third where it says how long each row is: words of so many bytes.
fn words(data_type: &DataType) -> i64 {
    use DataType::*;
    match data_type {
        Utf8 | Binary | List(_) | Map(..) | ListView(_) => 4,
        LargeUtf8 | LargeBinary | LargeList(_) | LargeListView(_) => 8,
        Utf8View | BinaryView => 16,
        _ => 1,
    }
}

/// Whether columns of this type can be part of a snapshot.
pub(super) fn check_type(data_type: &DataType) -> Checked<()> {
    let (_, children) =
        layout(data_type).ok_or_else(|| format!("type {data_type} has no place in a snapshot"))?;
    children.iter().try_for_each(|child| check_type(child.data_type()))
}

/// Whether a batch of this schema can be read out of a body of so many bytes.
pub(super) fn check_batch(batch: &RecordBatch<'_>, schema: &Schema, body: i64) -> Checked<()> {
    if batch.compression().is_some() {
        return Err("it is compressed".into());
    }
    let nodes = batch.nodes().ok_or("it has no columns")?;
    let buffers = batch.buffers().ok_or("it has no buffers")?;
    let views: Vec<i64> = batch.variadicBufferCounts().into_iter().flatten().collect();
    let mut walk = Walk {
        nodes: nodes.iter().map(|node| (node.length(), node.null_count())),
        buffers: buffers.iter().map(|buffer| (buffer.offset(), buffer.length())),
        views: views.iter().copied(),
        body,
    };
    schema.fields().iter().try_for_each(|field| walk.column(field.data_type()))?;
    match (walk.nodes.next(), walk.buffers.next(), walk.views.next()) {
        (None, None, None) => Ok(()),
        _ => Err("it has more than its columns".into()),
    }
}

/// What is left to be looked at of a batch.
struct Walk<N, B, V> {
    nodes: N,
    buffers: B,
    views: V,
    body: i64,
}

impl<N: Iterator<Item = (i64, i64)>, B: Iterator<Item = (i64, i64)>, V: Iterator<Item = i64>> Walk<N, B, V> {
    fn column(&mut self, data_type: &DataType) -> Checked<()> {
        let (mut own, children) = layout(data_type).ok_or("a column has a type that cannot be read")?;
        let (rows, nulls) = self.nodes.next().ok_or("columns are missing")?;
        // a row takes a bit at least, of its own or of the columns beside it
        if !(0..=self.body.saturating_mul(8)).contains(&rows) || !(0..=rows).contains(&nulls) {
            return Err(format!(
                "a column of {rows} rows with {nulls} nulls does not fit into {} bytes",
                self.body
            ));
        }
        if matches!(data_type, DataType::Utf8View | DataType::BinaryView) {
            let more = self.views.next().ok_or("the buffers of a column of views are not counted")?;
            own += usize::try_from(more)
                .ok()
                .filter(|&more| more as i64 <= self.body)
                .ok_or("views of too many buffers")?;
        }
        for number in 0..own {
            let (offset, length) = self.buffers.next().ok_or("buffers are missing")?;
            if offset < 0 || length < 0 || offset.checked_add(length).is_none_or(|end| end > self.body) {
                return Err(format!("{length} bytes at {offset} are not within {} bytes", self.body));
            }
            let words = match (number, data_type) {
                (1, _) | (2, DataType::ListView(_) | DataType::LargeListView(_)) => words(data_type),
                _ => 1,
            };
            if offset % ALIGNED != 0 || length % words != 0 {
                return Err(format!("{length} bytes at {offset} are not whole words"));
            }
            if number == 0 && nulls > 0 && length < (rows + 7) / 8 {
                return Err(format!("{length} bytes cannot say which of {rows} rows are null"));
            }
        }
        children.iter().try_for_each(|child| self.column(child.data_type()))
    }
}
