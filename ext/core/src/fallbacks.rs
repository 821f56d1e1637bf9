//! How many documents of each topic the native decoder left to Ruby, for metrics.

use crate::lock;
use crate::rd::PerProcess;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// {topic => documents}. A forked child begins with none.
static COUNTS: PerProcess<Mutex<BTreeMap<Box<str>, u64>>> = PerProcess::new();

/// Ruby takes one document of this topic.
pub fn count(topic: &str) {
    let mut counts = lock(COUNTS.get_or_init(Mutex::default));
    match counts.get_mut(topic) {
        Some(count) => *count += 1,
        None => drop(counts.insert(topic.into(), 1)),
    }
}

/// Since the process began.
pub fn counts() -> Vec<(Box<str>, u64)> {
    COUNTS.get().map(|counts| lock(counts).clone().into_iter().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_topic_has_a_count_of_its_own() {
        ["fallbacks.a", "fallbacks.b", "fallbacks.a"].into_iter().for_each(count);
        let ours = |(topic, _): &(Box<str>, u64)| topic.starts_with("fallbacks.");
        let found: Vec<_> = counts().into_iter().filter(ours).collect();
        assert_eq!(vec![("fallbacks.a".into(), 2), ("fallbacks.b".into(), 1)], found);
    }
}
