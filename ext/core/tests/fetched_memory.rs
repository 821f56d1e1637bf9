//! What batches count for in the account of fetched messages. It is the process's, so nothing else may run in this one.

mod support;

use pelton_core::partition::{Batch, Limits};
use pelton_core::rd::fetching;
use pelton_core::subscription::{Options, Subscription, SubscriptionEvent};
#[cfg(wraps)]
use pelton_core::wait::Parker;
#[cfg(wraps)]
use std::time::{Duration, Instant};
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
    #[cfg(wraps)]
    nothing_is_fetched_above_the_limit_until_batches_come_back();
}

#[cfg(wraps)]
fn nothing_is_fetched_above_the_limit_until_batches_come_back() {
    let cluster = cluster("limited", 1);
    let servers = cluster.bootstrap_servers();
    let writer = producer(&servers, &[("batch.num.messages", "10")]);
    produce_all(&writer, "limited", 1, &vec![vec![b'x'; SIZE]; COUNT]);
    close_producer(&writer);
    fetching::configure(10 * SIZE);
    let limits = Limits { messages: 10, prefetch: COUNT, ..Limits::default() };
    let small = [("max.partition.fetch.bytes", "20000"), ("fetch.wait.max.ms", "10")];
    let reader = subscription(&servers, "g", Options { limits, ..Options::default() }, &small);
    reader.assign(&[("limited", 0, 0)]).expect("assigned");
    let mut out = vec![next_batch(&reader)];
    // All of them would come in this time.
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        reader.mailbox().wait(&Parker::new(), Some(until));
        if let Some(SubscriptionEvent::Batch(batch)) = reader.pop() {
            out.push(batch);
        }
    }
    let mut seen = out.iter().map(Batch::len).sum::<usize>();
    // One fetch is in the queue, another one on its way out of it.
    assert!(seen <= 40, "{seen} messages are out");
    drop(out);
    while seen < COUNT {
        seen += next_batch(&reader).len();
    }
    fetching::configure(usize::MAX);
    close_subscription(&reader);
}
