//! Dictionary columns: looked up once a batch of rows, then aggregated as their values.

use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_select::take::take;

use super::{Accumulator, Columns, FinishError, Part, Rows, same};
use crate::snapshot::Checked;

/// The values that a dictionary column has in the rows of `span`.
pub(crate) fn looked_up(column: &ArrayRef, span: Range<usize>) -> ArrayRef {
    let dictionary = column.as_any_dictionary();
    let keys = dictionary.keys().slice(span.start, span.len());
    take(dictionary.values(), &keys, None).expect("a dictionary array holds only keys of its own values")
}

fn with_values(rows: &Rows<'_>, run: impl FnOnce(&Rows<'_>)) {
    let (Some(column), Some(span)) = (rows.column, rows.span()) else { return };
    let columns = Columns { value: Some(looked_up(column, span.clone())), by: None };
    rows.cut(span, &columns, run);
}

/// An accumulator of the value type behind one lookup.
#[derive(Debug)]
pub(crate) struct Dictionary {
    values: Box<dyn Accumulator>,
}

impl Dictionary {
    pub(crate) fn new(values: Box<dyn Accumulator>) -> Self {
        Dictionary { values }
    }
}

impl Accumulator for Dictionary {
    fn len(&self) -> usize {
        self.values.len()
    }
    fn resize(&mut self, slots: usize) {
        self.values.resize(slots);
    }
    fn clear(&mut self) {
        self.values.clear();
    }
    fn reset(&mut self, slots: &[u32]) {
        self.values.reset(slots);
    }
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>) {
        with_values(rows, |rows| self.values.update(slots, rows));
    }
    fn update_one(&mut self, zeros: &[u32], rows: &Rows<'_>) {
        with_values(rows, |rows| self.values.update_one(zeros, rows));
    }
    fn merge(&mut self, slots: &[u32], other: &dyn Accumulator) {
        self.values.merge(slots, same::<Self>(other).values.as_ref());
    }
    fn gather(&self, slots: &[u32]) -> Box<dyn Accumulator> {
        Box::new(Dictionary { values: self.values.gather(slots) })
    }
    fn append(&mut self, other: &dyn Accumulator) {
        self.values.append(same::<Self>(other).values.as_ref());
    }
    fn finish(&self, part: Part) -> Result<ArrayRef, FinishError> {
        self.values.finish(part)
    }
    fn size(&self) -> usize {
        self.values.size()
    }
    fn magnitude(&self) -> u128 {
        self.values.magnitude()
    }
    fn save(&self) -> Checked<ArrayRef> {
        self.values.save()
    }
    fn restore(&self, saved: &ArrayRef, left: &mut u64) -> Checked<Box<dyn Accumulator>> {
        Ok(Box::new(Dictionary { values: self.values.restore(saved, left)? }))
    }
    fn boxed_clone(&self) -> Box<dyn Accumulator> {
        Box::new(Dictionary { values: self.values.boxed_clone() })
    }
}
