//! Counts the calls of consumers for metrics, because Ruby would take longer to count a short job than to run it.

use crate::lock;
use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Of one topic in one group.
pub struct CallCounts {
    seconds: Arc<[f64]>,
    sizes: Arc<[f64]>,
    /// Since the last `take`.
    calls: Mutex<Option<Calls>>,
}

pub struct Calls {
    pub messages: u64,
    pub failures: u64,
    /// Of the calls.
    pub seconds: Histogram,
    /// Messages of the calls.
    pub sizes: Histogram,
    /// Of the first message when its call returned.
    pub ages: Histogram,
    /// For a worker.
    pub waits: Histogram,
    /// {partition => age of the first message when its last call began}
    pub partitions: BTreeMap<i32, f64>,
}

/// Measures the calls of one consumer, one at a time, and adds them to counts.
pub struct CallMeter {
    partition: i32,
    counts: Box<[Arc<CallCounts>]>,
    began: Mutex<Option<Instant>>,
}

/// Numbers by size.
pub struct Histogram {
    bounds: Arc<[f64]>,
    /// How many are in each bucket; in the last one those above all bounds.
    pub counts: Box<[u64]>,
    pub sum: f64,
}

impl Histogram {
    fn new(bounds: &Arc<[f64]>) -> Self {
        Self { bounds: Arc::clone(bounds), counts: vec![0; bounds.len() + 1].into(), sum: 0.0 }
    }

    fn add(&mut self, number: f64) {
        self.counts[self.bounds.partition_point(|bound| *bound < number)] += 1;
        self.sum += number;
    }
}

impl CallCounts {
    /// Upper bounds of the buckets, ascending.
    pub fn new(seconds: &[f64], sizes: &[f64]) -> Self {
        Self { seconds: seconds.into(), sizes: sizes.into(), calls: Mutex::default() }
    }

    /// A job waited for a worker.
    pub fn waited(&self, seconds: f64) {
        self.count(|calls| calls.waits.add(seconds));
    }

    /// A call ended. age: of its first message when it began, in seconds.
    pub fn called(&self, partition: i32, messages: u64, seconds: f64, age: Option<f64>, failed: bool) {
        self.count(|calls| {
            calls.messages += messages;
            calls.failures += u64::from(failed);
            calls.seconds.add(seconds);
            calls.sizes.add(messages as f64);
            if let Some(age) = age {
                // A producer's clock may be ahead. The sum of a histogram must never fall.
                let age = age.max(0.0);
                calls.ages.add(age + seconds);
                calls.partitions.insert(partition, age);
            }
        });
    }

    /// What was counted since the last time; None: nothing.
    pub fn take(&self) -> Option<Calls> {
        mem::take(&mut *lock(&self.calls))
    }

    fn count(&self, add: impl FnOnce(&mut Calls)) {
        add(lock(&self.calls).get_or_insert_with(|| Calls {
            messages: 0,
            failures: 0,
            seconds: Histogram::new(&self.seconds),
            sizes: Histogram::new(&self.sizes),
            ages: Histogram::new(&self.seconds),
            waits: Histogram::new(&self.seconds),
            partitions: BTreeMap::new(),
        }));
    }
}

impl CallMeter {
    pub fn new(partition: i32, counts: Box<[Arc<CallCounts>]>) -> Self {
        Self { partition, counts, began: Mutex::default() }
    }

    /// Its job waited for a worker.
    pub fn waited(&self, seconds: f64) {
        self.counts.iter().for_each(|counts| counts.waited(seconds));
    }

    /// A call begins.
    pub fn begin(&self) {
        *lock(&self.began) = Some(Instant::now());
    }

    /// The call ended. age: of its first message when it began, in seconds.
    pub fn called(&self, messages: u64, age: Option<f64>, failed: bool) {
        let seconds = lock(&self.began).take().map_or(0.0, |began| began.elapsed().as_secs_f64());
        self.counts.iter().for_each(|counts| counts.called(self.partition, messages, seconds, age, failed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_on_a_bound_belongs_to_its_bucket() {
        let mut numbers = Histogram::new(&[1.0, 2.0].into());
        [0.5, 1.0, 1.5, 2.0, 2.5].into_iter().for_each(|number| numbers.add(number));
        assert_eq!((&[2, 2, 1][..], 7.5), (&*numbers.counts, numbers.sum));
    }

    #[test]
    fn take_gives_each_count_once() {
        let counts = CallCounts::new(&[1.0], &[10.0]);
        assert!(counts.take().is_none());
        counts.called(3, 20, 0.25, Some(-30.0), true);
        counts.called(3, 5, 2.0, None, false);
        counts.waited(0.5);
        let calls = counts.take().expect("counts");
        assert_eq!((25, 1), (calls.messages, calls.failures));
        assert_eq!([&[1, 1][..], &[1, 1], &[1, 0], &[1, 0]], {
            [&*calls.seconds.counts, &*calls.sizes.counts, &*calls.ages.counts, &*calls.waits.counts]
        });
        assert_eq!((2.25, 0.25, 0.5), (calls.seconds.sum, calls.ages.sum, calls.waits.sum));
        assert_eq!(BTreeMap::from([(3, 0.0)]), calls.partitions);
        assert!(counts.take().is_none());
    }

    #[test]
    fn a_meter_adds_its_calls_to_all_counts() {
        let counts = [CallCounts::new(&[60.0], &[10.0]), CallCounts::new(&[0.0], &[1.0])].map(Arc::new);
        let meter = CallMeter::new(7, counts.clone().into());
        meter.waited(0.5);
        meter.begin();
        meter.called(3, Some(2.0), false);
        let [first, second] = counts.map(|counts| counts.take().expect("counts"));
        assert_eq!((&[1, 0][..], &[0, 1][..]), (&*first.seconds.counts, &*second.seconds.counts));
        assert_eq!(2.0 + first.seconds.sum, first.ages.sum);
        for calls in [first, second] {
            assert_eq!((3, 0, 0.5), (calls.messages, calls.failures, calls.waits.sum));
            assert_eq!(BTreeMap::from([(7, 2.0)]), calls.partitions);
        }
    }
}
