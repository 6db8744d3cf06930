//! Dictionary columns: looked up once a batch of rows, then aggregated as their values.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_select::take::take;

use super::{Accumulator, FinishError, Part, Rows, same};
use crate::block::Block;

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
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>) {
        let (Some(column), Some(first), Some(last)) = (rows.column, rows.blocks.first(), rows.blocks.last())
        else {
            return;
        };
        let (start, end) = (first.start, last.end());
        let dictionary = column.as_any_dictionary();
        let keys = dictionary.keys().slice(start, end - start);
        let values: ArrayRef = take(dictionary.values(), &keys, None)
            .expect("a dictionary array holds only keys of its own values");
        let blocks: Vec<_> =
            rows.blocks.iter().map(|block| Block { start: block.start - start, ..*block }).collect();
        let rows = Rows {
            column: Some(&values),
            times: &rows.times[start..end],
            first_arrival: rows.first_arrival + start as u64,
            blocks: &blocks,
        };
        self.values.update(slots, &rows);
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
    fn boxed_clone(&self) -> Box<dyn Accumulator> {
        Box::new(Dictionary { values: self.values.boxed_clone() })
    }
}
