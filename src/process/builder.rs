//! Describes an operator: its inputs, what is done with their rows, and how much it may take.

use super::engine::Engine;
use super::metrics::ProcessLimits;
use super::{KeyedProcess, ProcessOperator, TwoInputOperator};
use crate::error::Result;
use crate::input::Input;

/// Builds an operator with one input or two; everything is checked in `build`. What is done with the rows is a user's own
/// [`KeyedProcess`], or what one of the ready-made ones still has to be told.
#[derive(Clone, Debug)]
#[must_use]
pub struct OperatorBuilder<P, const INPUTS: usize> {
    pub(super) process: P,
    pub(super) inputs: [Input; INPUTS],
    threads: usize,
    limits: ProcessLimits,
}

/// Builds a [`ProcessOperator`].
pub type ProcessOperatorBuilder<P> = OperatorBuilder<P, 1>;

/// Builds a [`TwoInputOperator`].
pub type TwoInputOperatorBuilder<P> = OperatorBuilder<P, 2>;

impl<P, const INPUTS: usize> OperatorBuilder<P, INPUTS> {
    pub(super) fn new(process: P, inputs: [Input; INPUTS]) -> Self {
        OperatorBuilder { process, inputs, threads: 1, limits: ProcessLimits::default() }
    }

    /// How many threads may be used; by default one. The answer is the same.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// How much may be held.
    pub fn limits(mut self, limits: ProcessLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The same with a process that is ready.
    pub(super) fn with<Q>(self, process: Q) -> OperatorBuilder<Q, INPUTS> {
        OperatorBuilder { process, inputs: self.inputs, threads: self.threads, limits: self.limits }
    }

    fn engine(self) -> Result<Engine<P>>
    where
        P: KeyedProcess,
    {
        Engine::new(self.process, &self.inputs, self.threads, self.limits)
    }
}

impl<P: KeyedProcess> ProcessOperatorBuilder<P> {
    /// Checks everything and makes the operator.
    ///
    /// # Errors
    /// Those of the input, and of the process's own output schema.
    pub fn build(self) -> Result<ProcessOperator<P>> {
        Ok(ProcessOperator { engine: self.engine()? })
    }
}

impl<P: KeyedProcess> TwoInputOperatorBuilder<P> {
    /// Checks everything and makes the operator.
    ///
    /// # Errors
    /// Those of the inputs; keys or event-time units that are not alike; those of the process's own output schema.
    pub fn build(self) -> Result<TwoInputOperator<P>> {
        Ok(TwoInputOperator { engine: self.engine()? })
    }
}
