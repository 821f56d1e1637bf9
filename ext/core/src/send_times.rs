//! How long messages of a producer took until Kafka had them, for metrics.

use crate::lock;
use std::mem;
use std::sync::Mutex;

pub struct SendTimes {
    /// In microseconds, because dividing takes longer than the rest.
    bounds: Box<[i64]>,
    /// Since the last `take`.
    times: Mutex<Times>,
}

#[derive(Default)]
struct Times {
    /// Empty: there are none.
    counts: Box<[u64]>,
    sum: i64,
}

impl SendTimes {
    /// Upper bounds of the buckets in seconds, ascending.
    pub fn new(bounds: &[f64]) -> Self {
        Self { bounds: bounds.iter().map(|bound| (bound * 1e6) as i64).collect(), times: Mutex::default() }
    }

    /// Adds times in microseconds, and how many messages took them.
    pub fn add(&self, new: &[(i64, u64)]) {
        if new.is_empty() {
            return;
        }
        let mut times = lock(&self.times);
        if times.counts.is_empty() {
            times.counts = vec![0; self.bounds.len() + 1].into();
        }
        for (time, count) in new {
            times.counts[self.bounds.partition_point(|bound| bound < time)] += count;
            times.sum += time * *count as i64;
        }
    }

    /// How many are in each bucket (in the last one those above all bounds) since the last time, and their sum in
    /// seconds; None: there were none.
    pub fn take(&self) -> Option<(Box<[u64]>, f64)> {
        let Times { counts, sum } = mem::take(&mut *lock(&self.times));
        (!counts.is_empty()).then(|| (counts, sum as f64 / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_gives_each_time_once() {
        let times = SendTimes::new(&[0.001, 1.0]);
        times.add(&[]);
        assert!(times.take().is_none());
        times.add(&[(250, 1), (2_000_000, 3)]);
        times.add(&[(1000, 2)]);
        assert_eq!(Some(([3, 0, 3].into(), 6.00225)), times.take());
        assert!(times.take().is_none());
    }
}
