//! One order of the events of all shards.
//!
//! Rows have numbers, so the order of what rows give is plain. Firings of one advance are in order of time, then
//! registration, over all shards together; and a firing may register a timer that is due at once, even before some that
//! are pending. Each shard has fired its own in that order. The order of all is what one queue for all shards would have given:
//! at each point the first of the shards' next firings. Registrations within firings get their number in the order of all
//! as they pass, in time for the firing that such a timer leads to, which is later in the same shard.

use std::iter::Peekable;
use std::vec::IntoIter;

use super::KeyedProcess;
use super::shard::{Emitted, Fired, FiringRegistration, Shard, is_firing};
use super::timers::Registered;

/// What is left of one shard's events.
struct Rest<O> {
    outputs: Peekable<IntoIter<Emitted<O>>>,
    taken: usize,
    firings: Peekable<IntoIter<Fired>>,
    registrations: Peekable<IntoIter<FiringRegistration>>,
    registered: usize,
    /// The number within the shard, and the one over all shards, of registrations that have passed.
    numbers: Vec<(u32, u32)>,
}

impl<O> Rest<O> {
    fn next_event(&mut self) -> Option<u64> {
        let output = self.outputs.peek().map(|output| output.event);
        let firing = self.firings.peek().map(|firing| firing.event);
        output.into_iter().chain(firing).min()
    }

    /// The place of the next firing among those of the same advance.
    fn place(&mut self, event: u64, first_event: u64) -> Option<(i64, Registered)> {
        let firing = self.firings.peek().filter(|firing| firing.event == event)?;
        let mut registered = firing.registered;
        if is_firing(registered.event)
            && registered.event >= first_event
            && let Ok(found) = self.numbers.binary_search_by_key(&registered.number, |&(local, _)| local)
        {
            registered.number = self.numbers[found].1;
        }
        Some((firing.time, registered))
    }

    /// Moves the results of a row to `all`.
    fn pass_row(&mut self, event: u64, all: &mut Vec<Emitted<O>>) {
        while let Some(output) = self.outputs.next_if(|output| output.event == event) {
            self.taken += 1;
            all.push(output);
        }
    }

    /// Moves the results of the next firing to `all`, and its registrations to `registrations`.
    fn pass_firing(&mut self, all: &mut Vec<Emitted<O>>, registrations: &mut Vec<FiringRegistration>) {
        let Some(firing) = self.firings.next() else { return };
        let next = self.firings.peek().map(|next| (next.outputs, next.registrations));
        let (outputs, registered) = next.unwrap_or((usize::MAX, usize::MAX));
        while self.taken < outputs
            && let Some(output) = self.outputs.next_if(|output| output.event == firing.event)
        {
            self.taken += 1;
            all.push(output);
        }
        while self.registered < registered
            && let Some(registration) = self.registrations.next()
        {
            self.registered += 1;
            registrations.push(registration);
        }
    }
}

/// Takes the results of a call that began with `first_event`, in the order of all events.
pub(crate) fn take_outputs<P: KeyedProcess>(
    shards: &mut [Shard<P>],
    first_event: u64,
) -> Vec<Emitted<P::Output>> {
    if let [only] = shards {
        return std::mem::take(&mut only.log.outputs);
    }
    let mut rests: Vec<Rest<P::Output>> = shards
        .iter_mut()
        .map(|shard| Rest {
            outputs: std::mem::take(&mut shard.log.outputs).into_iter().peekable(),
            taken: 0,
            firings: std::mem::take(&mut shard.log.firings).into_iter().peekable(),
            registrations: std::mem::take(&mut shard.log.registrations).into_iter().peekable(),
            registered: 0,
            numbers: vec![],
        })
        .collect();
    let mut all = Vec::new();
    let mut passed = Vec::new();
    while let Some(event) = rests.iter_mut().filter_map(Rest::next_event).min() {
        if !is_firing(event) {
            rests.iter_mut().for_each(|rest| rest.pass_row(event, &mut all));
            continue;
        }
        let mut number = 0;
        loop {
            let next = rests.iter_mut().enumerate();
            let next = next.filter_map(|(shard, rest)| Some((rest.place(event, first_event)?, shard))).min();
            let Some((_, shard)) = next else { break };
            rests[shard].pass_firing(&mut all, &mut passed);
            for FiringRegistration { kind, slot, time, serial, number: local } in passed.drain(..) {
                rests[shard].numbers.push((local, number));
                shards[shard].state.timers_of(kind).renumber(slot, time, serial, number);
                number += 1;
            }
        }
    }
    all
}
