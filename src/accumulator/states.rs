//! One object a slot, for functions whose state is not a number: a user's own, samples, sketches and strings.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::ArrayRef;

use super::column::{bytes, for_each_row};
use super::{Accumulator, FinishError, Part, Rows, same};
use crate::aggregate::AggregateFunction;
use crate::snapshot::Checked;

/// A function over whole batches of rows, so that it looks at the type of the column once a batch.
pub(crate) trait ObjectFunction: Debug + Send + Sync + 'static {
    type State: Clone + Debug + Send + Sync + 'static;
    /// See [`Accumulator::is_light`].
    const LIGHT: bool = false;
    fn create(&self) -> Self::State;
    /// Takes in the rows that are not null; gives the growth of `heap_size`, summed over the states.
    fn update(&self, states: &mut [Self::State], slots: &[u32], rows: &Rows<'_>) -> isize;
    fn merge(&self, state: &mut Self::State, other: &Self::State);
    /// One of the results; `part` is the one that the plan asks for.
    fn finish(&self, states: &[Self::State], part: Part) -> Result<ArrayRef, String>;
    fn heap_size(&self, state: &Self::State) -> usize;
    /// See [`Accumulator::save`].
    fn save(&self, states: &[Self::State]) -> Checked<ArrayRef>;
    /// See [`Accumulator::restore`].
    fn restore(&self, saved: &ArrayRef, left: &mut u64) -> Checked<Vec<Self::State>>;
    /// See [`Accumulator::magnitude`]; `heap` is that of all states.
    fn magnitude(&self, _heap: usize) -> u128 {
        0
    }

    /// Changes a state; gives how much its heap grew.
    fn tracked(&self, state: &mut Self::State, change: impl FnOnce(&mut Self::State)) -> isize {
        let before = self.heap_size(state);
        change(state);
        self.heap_size(state) as isize - before as isize
    }
}

/// A user's function takes one row at a time.
impl<F: AggregateFunction> ObjectFunction for F {
    type State = F::State;

    fn create(&self) -> F::State {
        AggregateFunction::create(self)
    }
    fn update(&self, states: &mut [F::State], slots: &[u32], rows: &Rows<'_>) -> isize {
        let Some(column) = rows.column else { return 0 };
        let nulls = rows.logical_nulls();
        let mut growth = 0;
        for_each_row(slots, rows.blocks, nulls.as_ref(), |slot, row| {
            growth +=
                self.tracked(&mut states[slot], |state| self.add(state, column, row, rows.position(row)));
        });
        growth
    }
    fn merge(&self, state: &mut F::State, other: &F::State) {
        AggregateFunction::merge(self, state, other);
    }
    fn finish(&self, states: &[F::State], _: Part) -> Result<ArrayRef, String> {
        AggregateFunction::finish(self, states)
    }
    fn heap_size(&self, state: &F::State) -> usize {
        AggregateFunction::heap_size(self, state)
    }
    fn save(&self, states: &[F::State]) -> Checked<ArrayRef> {
        AggregateFunction::save(self, states)
    }
    fn restore(&self, saved: &ArrayRef, _: &mut u64) -> Checked<Vec<F::State>> {
        AggregateFunction::restore(self, saved)
    }
    fn magnitude(&self, _heap: usize) -> u128 {
        u128::MAX
    }
}

/// A column of states and the function that knows them.
#[derive(Debug)]
pub(crate) struct States<F: ObjectFunction> {
    function: Arc<F>,
    states: Vec<F::State>,
    /// What the states hold beside themselves, kept up to date so that asking is cheap.
    heap: isize,
}

impl<F: ObjectFunction> States<F> {
    pub(crate) fn new(function: Arc<F>) -> Self {
        States { function, states: Vec::new(), heap: 0 }
    }
    fn with(&self, states: Vec<F::State>) -> Box<dyn Accumulator> {
        let heap = states.iter().map(|state| self.function.heap_size(state) as isize).sum();
        Box::new(States { function: self.function.clone(), states, heap })
    }
}

impl<F: ObjectFunction> Accumulator for States<F> {
    fn len(&self) -> usize {
        self.states.len()
    }
    fn resize(&mut self, slots: usize) {
        let function = &self.function;
        let mut growth = 0;
        self.states.resize_with(slots.max(self.states.len()), || {
            let state = function.create();
            growth += function.heap_size(&state) as isize;
            state
        });
        self.heap += growth;
    }
    fn clear(&mut self) {
        self.states.clear();
        self.heap = 0;
    }
    fn reset(&mut self, slots: &[u32]) {
        let function = &self.function;
        for &slot in slots {
            let state = &mut self.states[slot as usize];
            self.heap += function.tracked(state, |state| *state = function.create());
        }
    }
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>) {
        self.heap += self.function.update(&mut self.states, slots, rows);
    }
    fn is_light(&self) -> bool {
        F::LIGHT
    }
    fn merge(&mut self, slots: &[u32], other: &dyn Accumulator) {
        let function = &self.function;
        for (&slot, other) in slots.iter().zip(&same::<Self>(other).states) {
            let state = &mut self.states[slot as usize];
            self.heap += function.tracked(state, |state| function.merge(state, other));
        }
    }
    fn gather(&self, slots: &[u32]) -> Box<dyn Accumulator> {
        self.with(super::column::gather(&self.states, slots))
    }
    fn append(&mut self, other: &dyn Accumulator) {
        let other = same::<Self>(other);
        self.states.extend_from_slice(&other.states);
        self.heap += other.heap;
    }
    fn finish(&self, part: Part) -> Result<ArrayRef, FinishError> {
        let column = self.function.finish(&self.states, part).map_err(FinishError::Function)?;
        if column.len() != self.states.len() {
            let (given, expected) = (column.len(), self.states.len());
            return Err(FinishError::Function(format!("finish gave {given} values for {expected} states")));
        }
        Ok(column)
    }
    fn size(&self) -> usize {
        bytes(&self.states) + self.heap.unsigned_abs()
    }
    fn magnitude(&self) -> u128 {
        self.function.magnitude(self.heap.unsigned_abs())
    }
    fn save(&self) -> Checked<ArrayRef> {
        let saved = self.function.save(&self.states)?;
        match (saved.len(), self.states.len()) {
            (given, expected) if given == expected => Ok(saved),
            (given, expected) => Err(format!("save gave {given} rows for {expected} states")),
        }
    }
    fn restore(&self, saved: &ArrayRef, left: &mut u64) -> Checked<Box<dyn Accumulator>> {
        Ok(self.with(self.function.restore(saved, left)?))
    }
    fn boxed_clone(&self) -> Box<dyn Accumulator> {
        self.with(self.states.clone())
    }
}
