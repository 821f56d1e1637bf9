//! What the tests on the embedded cluster share.
#![allow(dead_code)] // each test binary uses a part

use pelton_core::delivery::Delivery;
use pelton_core::embedded::EmbeddedCluster;
use pelton_core::error::Error;
use pelton_core::poller::Poller;
use pelton_core::producer::{Outgoing, Producer};
use pelton_core::subscription::{Options, Subscription, SubscriptionEvent};
use pelton_core::wait::{self, Outcome, Parker};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const SECONDS: Duration = Duration::from_secs(60);

pub fn cluster(topic: &str, partitions: i32) -> EmbeddedCluster {
    let cluster = EmbeddedCluster::start(1).expect("a cluster");
    cluster.create_topic(topic, partitions).expect("a topic");
    cluster
}

pub fn producer(bootstrap: &str, more: &[(&str, &str)]) -> Arc<Producer> {
    let options = [("bootstrap.servers", bootstrap)].into_iter().chain(more.iter().copied());
    Producer::new("test", options, Poller::global().expect("a pipe")).expect("a producer")
}

pub fn subscription(bootstrap: &str, group: &str, options: Options, more: &[(&str, &str)]) -> Arc<Subscription> {
    let settings = [("bootstrap.servers", bootstrap), ("group.id", group), ("auto.offset.reset", "earliest")];
    let settings = settings.into_iter().chain(more.iter().copied());
    Subscription::new("test", settings, options, Poller::global().expect("a pipe")).expect("a subscription")
}

pub fn message<'a>(topic: &'a str, partition: i32, payload: &'a [u8]) -> Outgoing<'a> {
    Outgoing { topic, partition, payload: Some(payload), ..Outgoing::default() }
}

pub fn wait_for(delivery: &Delivery) {
    let outcome = delivery.wait(&Parker::new(), wait::deadline(Some(SECONDS)));
    assert_eq!(Outcome::Ready, outcome, "no report in time");
}

/// Waits for room where there is none.
pub fn produce_patiently(producer: &Producer, outgoing: Outgoing<'_>) -> Delivery {
    loop {
        let seen = producer.reports();
        match producer.produce(Outgoing { headers: None, ..outgoing }) {
            Err(Error::QueueFull) => {
                let outcome = producer.wait_for_room(seen, &Parker::new(), wait::deadline(Some(SECONDS)));
                assert_eq!(Outcome::Ready, outcome, "no room in time");
            }
            result => return result.expect("accepted"),
        }
    }
}

/// Produces and waits for everything; the payloads go round the partitions.
pub fn produce_all(producer: &Producer, topic: &str, partitions: i32, payloads: &[Vec<u8>]) {
    let delivery = producer.batch(vec![producer.topic(topic).expect("a topic"); payloads.len()]).expect("a batch");
    for (position, payload) in payloads.iter().enumerate() {
        let partition = position as i32 % partitions;
        producer.enqueue(message(topic, partition, payload), &delivery, position).expect("room");
    }
    wait_for(&delivery);
    assert!(delivery.is_delivered(), "{:?}", delivery.first_failure());
}

/// The next thing that happens, or a failure of the test.
pub fn next(subscription: &Subscription) -> SubscriptionEvent {
    let deadline = Some(Instant::now() + SECONDS);
    loop {
        if let Some(event) = subscription.mailbox().pop() {
            return event;
        }
        let outcome = subscription.mailbox().wait(&Parker::new(), deadline);
        assert_eq!(Outcome::Ready, outcome, "nothing happened in time");
    }
}

/// The same as its owner takes it.
pub fn taken(subscription: &Subscription) -> SubscriptionEvent {
    let deadline = Instant::now() + SECONDS;
    loop {
        if let Some(event) = subscription.pop() {
            return event;
        }
        assert!(Instant::now() < deadline, "nothing happened in time");
        subscription.mailbox().wait(&Parker::new(), Some(deadline));
    }
}

pub fn close_subscription(subscription: &Arc<Subscription>) {
    subscription.close(SECONDS).expect("ours");
    assert_eq!(Outcome::Ready, subscription.closing().wait(&Parker::new(), wait::deadline(Some(SECONDS))));
}

pub fn close_producer(producer: &Arc<Producer>) -> usize {
    producer.close(SECONDS).expect("ours");
    assert_eq!(Outcome::Ready, producer.closing().wait(&Parker::new(), wait::deadline(Some(SECONDS))));
    producer.closing().lost()
}

/// A child that takes longer hangs.
const CHILD_SECONDS: u32 = 80;

/// The wait status of a child that runs `work`; 0: it was true.
pub fn in_child(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child uses what glibc keeps usable after a fork, librdkafka's new clients, and `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child, by a signal if `work` hangs.
        unsafe {
            libc::alarm(CHILD_SECONDS);
            libc::_exit(if work() { 0 } else { 1 })
        }
    }
    let mut status = 0;
    // SAFETY: waits for the child made above; `status` is a live i32.
    assert_eq!(child, unsafe { libc::waitpid(child, &mut status, 0) });
    status
}
