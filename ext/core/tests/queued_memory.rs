//! How producers share what all of them may queue. The limit is the process's, so nothing else may run in this one.

mod support;

use pelton_core::budget::{self, Queued};
use pelton_core::error::Error;
use pelton_core::producer::{Outgoing, Producer};
use std::time::Duration;
use support::*;

const MB: usize = 1 << 20;
/// Of a message, beside its payload and key.
const ENTRY: usize = 256;
const MESSAGE: usize = 1024;
const KEY: usize = 24;

/// Fills a queue. Returns how many bytes it took.
fn fill(queue: &Queued) -> usize {
    (0..).take_while(|_| queue.add(MESSAGE - ENTRY)).count() * MESSAGE
}

#[test]
fn producers_share_one_limit_and_each_has_a_megabyte() {
    budget::limit_queued(4 * MB);
    let (first, second, third) = (Queued::default(), Queued::default(), Queued::default());
    assert_eq!([4 * MB, MB, MB], [fill(&first), fill(&second), fill(&third)]);
    assert_eq!(6 * MB, budget::queued());
    first.remove(3 * MB / MESSAGE, 3 * MB / MESSAGE * (MESSAGE - ENTRY));
    assert_eq!([MB, 0], [fill(&second), fill(&third)], "as soon as there is room again");
    drop((second, third));
    assert_eq!(MB, budget::queued(), "what was not reported goes with its producer");
    assert_eq!(3 * MB, fill(&first));
    drop(first);
    real_producers();
}

/// The broker is away.
fn real_producers() {
    assert_eq!(0, budget::queued());
    let all: Vec<_> = (0..25).map(|_| producer("127.0.0.1:1", &[("log_level", "0")])).collect();
    let payload = vec![0; MESSAGE];
    let fill = |producer| loop {
        let keyed = Outgoing { key: Some(&payload[..KEY]), ..message("t", 0, &payload[KEY..]) };
        match Producer::produce(producer, keyed) {
            Err(Error::QueueFull) => break,
            result => drop(result.expect("accepted")),
        }
    };
    all.iter().for_each(|producer| fill(producer));
    assert!((28 * MB..29 * MB + 25 * 2 * MESSAGE).contains(&budget::queued()), "{}", budget::queued());
    assert!(matches!(all[0].produce(message("t", 0, &payload)), Err(Error::QueueFull)));
    for producer in &all {
        producer.close(Duration::ZERO).expect("ours");
        producer.closing().wait(&pelton_core::wait::Parker::new(), None);
    }
    assert_eq!(0, budget::queued());
}
