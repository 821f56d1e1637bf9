//! What batches count for in the account of fetched messages. It is the process's, so nothing else may run in this one.

mod support;

use pelton_core::partition::{Batch, Limits};
use pelton_core::rd::fetching;
use pelton_core::subscription::{Options, Subscription, SubscriptionEvent};
use support::*;

const SIZE: usize = 1_000;
const COUNT: usize = 400;

fn next_batch(reader: &Subscription) -> Batch {
    loop {
        match taken(reader) {
            SubscriptionEvent::Batch(batch) => return batch,
            SubscriptionEvent::Error { error, .. } => panic!("{error}"),
            _ => {}
        }
    }
}

/// All messages, in several batches that are out at once.
fn all_batches(reader: &Subscription) -> Vec<Batch> {
    let mut batches = Vec::new();
    while batches.iter().map(Batch::len).sum::<usize>() < COUNT {
        batches.push(next_batch(reader));
    }
    batches
}

#[test]
fn batches_count_until_they_are_released_dropped_or_of_a_closed_subscription() {
    let cluster = cluster("t", 1);
    let servers = cluster.bootstrap_servers();
    let writer = producer(&servers, &[]);
    produce_all(&writer, "t", 1, &vec![vec![b'x'; SIZE]; COUNT]);
    close_producer(&writer);
    let limits = Limits { messages: 100, prefetch: COUNT, ..Limits::default() };
    let reader = subscription(&servers, "g", Options { limits, ..Options::default() }, &[]);
    reader.assign(&[("t", 0, 0)]).expect("assigned");

    let mut batches = all_batches(&reader);
    assert_eq!(COUNT * SIZE, batches.iter().map(Batch::bytes).sum::<usize>());
    assert_eq!(COUNT * SIZE, fetching::batches());
    let first = batches.remove(0);
    first.release();
    first.release();
    assert_eq!(COUNT * SIZE - first.bytes(), fetching::batches(), "released");
    drop(batches);
    assert_eq!(0, fetching::batches(), "dropped");
    assert_eq!(0, fetching::waiting());

    let seek = reader.announce_seek("t", 0).expect("assigned");
    reader.seek(&seek, 0, SECONDS).expect("sought");
    let batches = all_batches(&reader);
    assert_eq!(COUNT * SIZE, fetching::batches(), "read again");
    close_subscription(&reader);
    drop(reader);
    drop(batches);
    assert_eq!(0, fetching::batches(), "closed");
}
