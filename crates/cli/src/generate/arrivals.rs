//! Events in the order of their arrival, by a calendar queue.
//!
//! Time is cut into buckets of a power of two microseconds. Bucket `b` can be sorted and handed out once every event
//! before its end has been placed, because no row arrives before its event. Buckets form a ring that is as long as the
//! longest delay, so the queue holds what is under way and nothing else:
//!
//! ```text
//! repeat: place events until the next one lies at or beyond the end of bucket b     (each into the bucket it arrives in)
//!         sort bucket b by (arrival, event) and hand it out;  b += 1
//! ```
//!
//! A heap would do as well, at the price of a sift through all that is under way for each row; sorting the whole stream at
//! the end would tie memory and the last rows to its length.

use super::draw::{Column, Draw, unit};
use super::spec::Spec;
use super::tables::{Quantiles, Shape};

/// A row that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The number of its event.
    pub event: u64,
    /// When it arrived, in µs after the start of the stream.
    pub at_us: u64,
}

/// When things happen, as pure functions of the event number.
pub struct Timeline {
    rate: u64,
    mean_us: f64,
    cap_us: f64,
    straggler_below: f64,
    straggler_min_us: f64,
    straggler_span_us: f64,
    delay: Draw,
    straggler: Draw,
    straggler_delay: Draw,
    partition: Draw,
    partitions: u64,
    stall: Option<StallUs>,
    exponential: Quantiles,
}

struct StallUs {
    partition: u32,
    from: u64,
    end: u64,
}

/// A stalled partition catches up at this many times its usual pace.
const CATCH_UP: u64 = 50;

impl Timeline {
    fn new(spec: &Spec) -> Self {
        let d = &spec.disorder;
        let draw = |column| Draw::new(spec.seed, column);
        let us = |ms: u64| (ms * 1000) as f64;
        Timeline {
            rate: spec.rate,
            mean_us: us(d.mean_ms),
            cap_us: us(d.cap_ms),
            straggler_below: d.straggler_share,
            straggler_min_us: us(d.straggler_min_ms),
            straggler_span_us: us(d.straggler_max_ms.saturating_sub(d.straggler_min_ms)),
            delay: draw(Column::Delay),
            straggler: draw(Column::Straggler),
            straggler_delay: draw(Column::StragglerDelay),
            partition: draw(Column::Partition),
            partitions: u64::from(spec.partitions),
            stall: spec.stall.map(|s| StallUs {
                partition: s.partition,
                from: s.from_ms * 1000,
                end: (s.from_ms + s.length_ms) * 1000,
            }),
            exponential: Quantiles::new(Shape::Exponential),
        }
    }

    /// When event `i` happens, in ms after the start of the stream.
    #[inline(always)]
    pub fn event_ms(&self, i: u64) -> u64 {
        i * 1000 / self.rate
    }

    /// The partition that event `i` goes to.
    #[inline(always)]
    pub fn partition(&self, i: u64) -> u32 {
        self.partition.below(i, self.partitions) as u32
    }

    /// When event `i`, which happens at `event_us`, arrives; both in µs after the start.
    #[inline(always)]
    fn arrival_us(&self, i: u64, event_us: u64) -> u64 {
        let delay = if self.straggler.unit(i) < self.straggler_below {
            self.straggler_min_us + self.straggler_span_us * unit(self.straggler_delay.bits(i))
        } else {
            (self.mean_us * self.exponential.at(self.delay.bits(i))).min(self.cap_us)
        };
        let at = event_us + delay as u64;
        match &self.stall {
            Some(stall) if at >= stall.from && stall.partition == self.partition(i) => stall.delayed(at),
            _ => at,
        }
    }
}

impl StallUs {
    /// Keeps the order of arrivals: the slope is 1/50 until the backlog is gone, 1 from there on.
    #[inline]
    fn delayed(&self, at: u64) -> u64 {
        at.max(self.end + (at - self.from) / CATCH_UP)
    }
}

/// log2 of the number of events: what is left of 64 bits is the place within a bucket.
const EVENT_BITS: u32 = 40;
const MAX_BUCKET_BITS: u32 = 64 - EVENT_BITS;
const MAX_BUCKETS: u64 = 1 << 17;
/// Enough rows for sorting to be worth a call, few enough for it to stay in the cache.
const ROWS_PER_BUCKET: u64 = 64;

/// The endless stream of arrivals.
pub struct Arrivals {
    timeline: Timeline,
    /// log2 of the length of a bucket in µs.
    bucket_bits: u32,
    /// Rows under way: (µs after the start of the bucket, event), packed. The length is a power of two.
    ring: Vec<Vec<u64>>,
    /// The bucket that is being handed out, and how much of it is gone.
    current: Vec<u64>,
    gone: usize,
    /// The number of the bucket after it.
    next_bucket: u64,
    next_event: u64,
}

impl Arrivals {
    /// The arrivals of a valid specification.
    pub fn new(spec: &Spec) -> Self {
        let longest_us = (spec.disorder.max_ms() + spec.stall.map_or(0, |s| s.length_ms)) * 1000;
        let buckets = |bits: u32| (longest_us >> bits) + 3;
        let good =
            |&bits: &u32| (spec.rate << bits) / 1_000_000 >= ROWS_PER_BUCKET && buckets(bits) <= MAX_BUCKETS;
        let bits = (0..MAX_BUCKET_BITS).find(good).unwrap_or(MAX_BUCKET_BITS);
        Arrivals {
            timeline: Timeline::new(spec),
            bucket_bits: bits,
            ring: vec![Vec::new(); buckets(bits).next_power_of_two() as usize],
            current: Vec::new(),
            gone: 0,
            next_bucket: 0,
            next_event: 0,
        }
    }

    /// The functions behind the stream.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Appends the next `count` arrivals.
    pub fn take(&mut self, count: usize, out: &mut Vec<Arrival>) {
        let wanted = out.len() + count;
        while out.len() < wanted {
            if self.gone == self.current.len() {
                self.turn();
                continue;
            }
            let end = self.current.len().min(self.gone + wanted - out.len());
            let base = (self.next_bucket - 1) << self.bucket_bits;
            out.extend(self.current[self.gone..end].iter().map(|&packed| Arrival {
                event: packed & ((1 << EVENT_BITS) - 1),
                at_us: base + (packed >> EVENT_BITS),
            }));
            self.gone = end;
        }
    }

    /// Opens the next bucket.
    fn turn(&mut self) {
        let mask = self.ring.len() as u64 - 1;
        let end_us = (self.next_bucket + 1) << self.bucket_bits;
        loop {
            let event = self.next_event;
            let event_us = self.timeline.event_ms(event) * 1000;
            if event_us >= end_us {
                break;
            }
            let at = self.timeline.arrival_us(event, event_us);
            let within = at & ((1 << self.bucket_bits) - 1);
            self.ring[((at >> self.bucket_bits) & mask) as usize].push(within << EVENT_BITS | event);
            self.next_event += 1;
        }
        self.current.clear();
        self.gone = 0;
        std::mem::swap(&mut self.current, &mut self.ring[(self.next_bucket & mask) as usize]);
        self.current.sort_unstable();
        self.next_bucket += 1;
    }
}
