//! Process exit: what is still queued is sent, and what was lost is named. The list of producers that end with the
//! process is the process's, so nothing else may run in this one.

mod support;

use pelton_core::producer::Producer;
use pelton_core::producer::exit::{Exit, Loss, finish};
use pelton_core::rd::codes;
use pelton_core::wait;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::*;

/// Longer than the exit waits, and shorter than `message.timeout.ms`.
const LONG_LINGER: (&str, &str) = ("linger.ms", "250000");

fn ends(producer: &Producer, left: Duration, silent: bool) {
    producer.end_with_process(Exit { left, limit: SECONDS, silent });
}

fn lonely() -> Arc<Producer> {
    // It tries once, so its errors do not come again.
    let once = [("reconnect.backoff.ms", "3600000"), ("reconnect.backoff.max.ms", "3600000"), ("log_level", "0")];
    producer("127.0.0.1:1", &once)
}

fn send(producer: &Producer, topic: &str, count: usize) {
    (0..count).for_each(|_| drop(producer.produce(message(topic, 0, b"x")).expect("room")));
}

/// (topic, count, late) of the messages that were lost.
fn lost() -> Vec<(String, u64, Option<Duration>)> {
    let row = |loss| match loss {
        Loss::Messages { client, topic, count, late, .. } => {
            assert_eq!("test", client);
            (topic, count, late)
        }
        Loss::Transaction { .. } => panic!("no transaction"),
    };
    finish().into_iter().map(row).collect()
}

#[test]
fn process_exit_sends_what_is_queued_and_names_what_is_lost() {
    messages_without_a_broker_are_named_with_their_topic_and_number();
    messages_that_a_broker_takes_in_time_are_sent_without_their_linger();
    an_open_transaction_is_aborted_and_named();
}

fn messages_without_a_broker_are_named_with_their_topic_and_number() {
    let (loud, silent, closed, forgotten) = (lonely(), lonely(), lonely(), lonely());
    for producer in [&loud, &silent, &closed, &forgotten] {
        send(producer, "t", 2);
    }
    ends(&loud, Duration::ZERO, false);
    ends(&silent, Duration::ZERO, true);
    ends(&closed, Duration::ZERO, false);
    closed.close(Duration::ZERO).expect("ours");
    closed.closing().wait(&wait::Parker::new(), None);
    wait_for_an_error(&loud);
    let losses = finish();
    let [Loss::Messages { topic, count: 2, error, late, .. }] = &losses[..] else { panic!("{losses:?}") };
    assert_eq!(("t", Some(SECONDS)), (&**topic, *late));
    assert!([codes::TRANSPORT, codes::ALL_BROKERS_DOWN].contains(&error.code), "why: {error:?}");
    assert_eq!([0, 0, 2], [&loud, &silent, &forgotten].map(|producer| producer.pending()));
    assert!(loud.last_error().is_some(), "no message was delivered meanwhile");

    assert!(lost().is_empty(), "all of them are named");
    send(&loud, "u", 3);
    assert_eq!(vec![("u".to_owned(), 3, Some(SECONDS))], lost(), "those of before are named");
    send(&loud, "t", 1);
    assert_eq!(vec![("t".to_owned(), 1, Some(SECONDS))], lost());
    send(&loud, "t", 1);
    ends(&loud, Duration::ZERO, true);
    assert!(lost().is_empty(), "it has become silent");
    forgotten.close(Duration::ZERO).expect("ours");
}

fn wait_for_an_error(producer: &Producer) {
    let deadline = Instant::now() + SECONDS;
    while producer.last_error().is_none() {
        assert!(Instant::now() < deadline, "no connection was refused");
        std::thread::yield_now();
    }
}

fn messages_that_a_broker_takes_in_time_are_sent_without_their_linger() {
    let cluster = cluster("t", 1);
    let producer = producer(&cluster.bootstrap_servers(), &[LONG_LINGER]);
    send(&producer, "t", 3);
    ends(&producer, SECONDS, false);
    assert!(lost().is_empty());
    assert_eq!((0, 0), (producer.pending(), producer.failures().count()));
}

fn an_open_transaction_is_aborted_and_named() {
    let cluster = cluster("t", 1);
    let producer = producer(&cluster.bootstrap_servers(), &[("transactional.id", "exit")]);
    let transactions = producer.transactions();
    producer.begin_transaction(transactions.ticket(), wait::deadline(Some(SECONDS))).expect("begun");
    send(&producer, "t", 2);
    ends(&producer, SECONDS, false);
    assert_eq!(vec![Loss::Transaction { client: "test".into() }], finish());
    assert!(!transactions.is_open());
    assert!(finish().is_empty());
}
