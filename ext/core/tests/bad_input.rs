//! Failures have a clear error, end in time, and lose nothing silently.

mod support;

use pelton_core::delivery::Delivery;
use pelton_core::error::Error;
use pelton_core::events::EventKind;
use pelton_core::poller::Poller;
use pelton_core::producer::{Outgoing, Producer};
use pelton_core::rd::{MAX_POSITIONS, codes};
use pelton_core::subscription::{Options, SubscriptionEvent};
use pelton_core::wait::{self, Outcome, Parker};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::*;

const NOWHERE: &str = "127.0.0.1:1";

#[test]
fn an_unknown_option_is_named() {
    let error = Producer::new("bad", [("linger.mss", "5")], Poller::global().expect("a pipe")).err().expect("refused");
    assert_eq!(r#"linger.mss: unknown option of librdkafka; did you mean "linger.ms"?"#, error.to_string());
}

#[test]
fn a_key_that_can_not_be_read_is_a_matter_of_configuration() {
    let options = [("security.protocol", "ssl"), ("ssl.key.pem", "hunter2")];
    let error = Producer::new("bad", options, Poller::global().expect("a pipe")).err().expect("refused");
    assert!(matches!(&error, Error::Config { key, .. } if key == "kafka"));
    assert!(error.to_string().contains("ssl.key.pem") && !error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn an_unreachable_broker_ends_with_a_verdict_at_its_deadline() {
    let producer = producer(NOWHERE, &[("message.timeout.ms", "1000")]);
    let delivery = producer.produce(message("t", -1, b"x")).expect("accepted");
    wait_for(&delivery);
    let failure = delivery.first_failure().expect("failed").error.expect("why");
    assert_eq!("_MSG_TIMED_OUT", failure.name);
    assert_eq!("_TRANSPORT", producer.last_error().expect("why").name.replace("_ALL_BROKERS_DOWN", "_TRANSPORT"));
    assert_eq!(0, close_producer(&producer));
}

/// One of ten threads that closed got 0: purged messages are not pending any more, and the close was not over yet.
#[test]
fn a_close_that_is_not_over_says_what_it_gave_up() {
    let producer = producer("127.0.0.1:1", &[("log_level", "0")]);
    (0..3).for_each(|_| drop(producer.produce(message("t", 0, b"x")).expect("room")));
    let held = producer.with_client(Arc::clone).expect("open"); // the client's end waits for this
    producer.close(Duration::ZERO).expect("ours");
    let deadline = Instant::now() + SECONDS;
    while producer.pending() > 0 {
        assert!(Instant::now() < deadline, "nothing is purged");
        std::thread::yield_now();
    }
    assert_eq!((false, 3), (producer.closing().done(), producer.undelivered()));
    drop(held);
    assert_eq!((3, 3), (close_producer(&producer), producer.undelivered()));
}

/// The process exit did not report a message: it was not pending any more, and its failure was not counted yet.
#[test]
fn a_flush_ends_after_the_failures_are_counted() {
    let producer = producer(NOWHERE, &[("log_level", "0")]);
    for produced in 1..=20_000 {
        drop(producer.produce(message("t", 0, b"x")).expect("room"));
        producer.purge().expect("open");
        let outcome = producer.wait_flushed(&Parker::new(), wait::deadline(Some(SECONDS)));
        let failed: u64 = producer.failures().map(|(_, _, count)| count).sum();
        assert_eq!((Outcome::Ready, produced), (outcome, failed));
    }
}

#[test]
fn closing_beside_an_unreachable_broker_ends_and_says_what_was_lost() {
    let producer = producer(NOWHERE, &[]);
    let delivery = producer.produce(message("t", -1, b"x")).expect("accepted");
    let begun = Instant::now();
    producer.close(Duration::from_millis(200)).expect("ours");
    producer.close(SECONDS).expect("twice is harmless");
    assert_eq!(Outcome::Ready, producer.closing().wait(&Parker::new(), wait::deadline(Some(SECONDS))));
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(1, producer.closing().lost());
    assert_eq!("_PURGE_QUEUE", delivery.first_failure().expect("failed").error.expect("why").name);
    assert!(matches!(producer.produce(message("t", -1, b"x")), Err(Error::Closed)));
    assert!(matches!(producer.start_flush(SECONDS), Err(Error::Closed)));
}

#[test]
fn a_full_queue_refuses_and_takes_again_when_there_is_room() {
    let cluster = cluster("full", 1);
    let producer = producer(&cluster.bootstrap_servers(), &[("queue.buffering.max.messages", "100")]);
    let (mut deliveries, mut refused) = (Vec::new(), 0);
    while deliveries.len() < 5_000 {
        let seen = producer.reports();
        match producer.produce(message("full", 0, b"x")) {
            Ok(delivery) => deliveries.push(delivery),
            Err(Error::QueueFull) => {
                refused += 1;
                let outcome = producer.wait_for_room(seen, &Parker::new(), wait::deadline(Some(SECONDS)));
                assert_eq!(Outcome::Ready, outcome);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0);
    deliveries.iter().for_each(wait_for);
    assert!(deliveries.iter().all(|delivery| delivery.is_delivered()));
    assert_eq!(0, producer.pending());
    close_producer(&producer);
}

#[test]
fn a_message_over_the_limit_and_a_bad_topic_are_refused_at_once() {
    let producer = producer(NOWHERE, &[("message.max.bytes", "1000")]);
    match producer.produce(message("t", -1, &[0; 2_000])) {
        Err(Error::Kafka(error)) => assert_eq!("MSG_SIZE_TOO_LARGE", error.name),
        _ => panic!("accepted"),
    }
    assert!(matches!(producer.produce(message("a\0b", -1, b"x")), Err(Error::Invalid { what: "topic", .. })));
    // One bad message of a batch does not affect the others, and each has its result.
    let delivery = producer.batch(vec![producer.topic("t").expect("a topic"); 2]).expect("a batch");
    let Err(Error::Kafka(error)) = producer.enqueue(message("t", -1, &[0; 2_000]), &delivery, 0) else {
        panic!("accepted")
    };
    producer.refuse(&delivery, 0, error.code);
    producer.enqueue(message("t", -1, b"x"), &delivery, 1).expect("accepted");
    assert!(!delivery.is_done());
    producer.purge().expect("open");
    wait_for(&delivery);
    assert_eq!("MSG_SIZE_TOO_LARGE", delivery.outcome(0).error.expect("refused").name);
    assert_eq!("_PURGE_QUEUE", delivery.outcome(1).error.expect("purged").name);
    close_producer(&producer);
}

/// As `pelton/testing` and the buffer in Ruby have it (test/contract/sending_test.rb, test/unit/buffer_test.rb).
#[test]
fn a_batch_of_more_messages_than_a_delivery_has_places_for_is_refused() {
    let producer = producer(NOWHERE, &[]);
    let topic = producer.topic("t").expect("a topic");
    assert!(producer.batch(vec![topic.clone(); MAX_POSITIONS - 1]).is_ok());
    match producer.batch(vec![topic; MAX_POSITIONS]) {
        Err(Error::Invalid { what: "batch size", allowed, .. }) => {
            assert_eq!(format!("fewer than {MAX_POSITIONS} messages per call"), allowed);
        }
        _ => panic!("accepted"),
    }
    close_producer(&producer);
}

#[test]
fn a_batch_without_messages_is_delivered() {
    let producer = producer(NOWHERE, &[]);
    let delivery = producer.batch(Vec::new()).expect("a batch");
    assert!(delivery.is_delivered());
    close_producer(&producer);
}

#[test]
fn an_injected_error_is_the_delivery_s_verdict() {
    let cluster = cluster("denied", 1);
    let producer = producer(&cluster.bootstrap_servers(), &[]);
    cluster.push_errors(0, &[29]); // Produce: TOPIC_AUTHORIZATION_FAILED
    let delivery = producer.produce(message("denied", 0, b"x")).expect("accepted");
    wait_for(&delivery);
    let error = delivery.first_failure().expect("failed").error.expect("why");
    assert_eq!(("TOPIC_AUTHORIZATION_FAILED", false), (error.name.as_str(), error.retriable()));
    close_producer(&producer);
}

/// Its error was `_DESTROY`, as of a client that closed.
#[test]
fn a_message_in_flight_to_a_removed_partition_fails_as_those_that_wait() {
    let cluster = cluster("removed", 1);
    let quick = [("topic.metadata.refresh.interval.ms", "100"), ("topic.metadata.propagation.max.ms", "0")];
    let producer = producer(&cluster.bootstrap_servers(), &[quick[0], quick[1], ("linger.ms", "0")]);
    let produce = || producer.produce(message("removed", 0, b"x"));
    wait_for(&produce().expect("accepted"));
    cluster.round_trip_time(-1, 500).expect("a slow broker");
    cluster.push_errors(0, &[3; 1000]); // Produce: UNKNOWN_TOPIC_OR_PART
    cluster.topic_error("removed", 3).expect("metadata without it");
    let mut accepted = Vec::new();
    let refused = loop {
        match produce() {
            Ok(delivery) => accepted.push(delivery),
            Err(error) => break error,
        }
        // A request of its own for each, until the client knows.
        accepted[accepted.len() - 1].wait(&Parker::new(), wait::deadline(Some(Duration::from_millis(20))));
    };
    assert!(matches!(&refused, Error::Kafka(error) if error.name == "_UNKNOWN_TOPIC"), "{refused}");
    let failure = |delivery: &Delivery| {
        wait_for(delivery);
        delivery.first_failure().expect("failed").error.expect("why").name
    };
    assert_eq!(HashSet::from(["_UNKNOWN_PARTITION".into()]), accepted.iter().map(failure).collect());
    close_producer(&producer);
}

#[test]
fn a_topic_that_does_not_exist_is_an_error_for_both_sides() {
    let cluster = cluster("here", 1);
    let servers = cluster.bootstrap_servers();
    let quick = ("topic.metadata.propagation.max.ms", "0");
    let subscription = subscription(&servers, "g", Options::default(), &[quick, ("allow.auto.create.topics", "false")]);
    subscription.subscribe(["here", "not.here"]).expect("asked for");
    loop {
        if let SubscriptionEvent::Error { error, .. } = next(&subscription) {
            assert_eq!("UNKNOWN_TOPIC_OR_PART", error.name);
            assert!(error.reason.contains("not.here"), "{error}");
            break;
        }
    }
    close_subscription(&subscription);

    let producer = producer(&servers, &[quick]);
    let error = match producer.produce(message("here", 7, b"x")) {
        // As a rule: partitions are not known yet.
        Ok(delivery) => {
            wait_for(&delivery);
            delivery.first_failure().expect("failed").error.expect("why")
        }
        Err(Error::Kafka(error)) => error,
        Err(error) => panic!("{error}"),
    };
    assert_eq!("_UNKNOWN_PARTITION", error.name);
    close_producer(&producer);
}

#[test]
fn ten_threads_may_close_at_once_while_others_produce() {
    let cluster = cluster("race", 1);
    let servers = cluster.bootstrap_servers();
    for _ in 0..20 {
        let producer = producer(&servers, &[]);
        let producing = Arc::clone(&producer);
        let thread = std::thread::spawn(move || {
            let mut accepted = Vec::new();
            loop {
                match producing.produce(message("race", 0, b"x")) {
                    Ok(delivery) => accepted.push(delivery),
                    Err(Error::Closed) => return accepted,
                    Err(Error::QueueFull) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let closers: Vec<_> = (0..10)
            .map(|_| {
                let producer = Arc::clone(&producer);
                std::thread::spawn(move || close_producer(&producer))
            })
            .collect();
        for closer in closers {
            assert_eq!(0, closer.join().expect("no panic"));
        }
        // A delivery accepted is a delivery reported.
        for delivery in thread.join().expect("no panic") {
            assert!(delivery.is_delivered());
        }
    }
}

#[test]
fn abandoned_producer_sends_its_messages_and_reports() {
    let cluster = cluster("left", 1);
    let servers = cluster.bootstrap_servers();
    let options = [("bootstrap.servers", servers.as_str()), ("linger.ms", "60000")];
    let producer = Producer::new("left behind", options, Poller::global().expect("a pipe")).expect("a producer");
    let delivery = producer.produce(Outgoing { topic: "left", payload: Some(b"x"), ..Outgoing::default() });
    let delivery = delivery.expect("accepted");
    producer.abandon();
    assert_eq!(Outcome::Ready, producer.closing().wait(&Parker::new(), wait::deadline(Some(SECONDS))));
    assert!(delivery.is_delivered());
    let deadline = Some(Instant::now() + SECONDS);
    loop {
        if let Some(event) = Poller::global().expect("a pipe").events().pop() {
            if event.client == "left behind" && event.kind == (EventKind::Unclosed { lost: 0 }) {
                return;
            }
            continue;
        }
        assert_eq!(Outcome::Ready, Poller::global().expect("a pipe").events().wait(&Parker::new(), deadline));
    }
}

#[test]
fn partitions_of_a_topic_that_kafka_refuses_are_asked_for_once() {
    const METADATA: i16 = 3;
    let cluster = cluster("denied", 1);
    cluster.create_topic("before", 2).expect("a topic");
    let producer = producer(&cluster.bootstrap_servers(), &[]);
    assert_eq!([Ok(1), Ok(2)], ["denied", "before"].map(|topic| producer.partition_count(topic, SECONDS)));
    cluster.topic_error("denied", 29).expect("refused"); // TOPIC_AUTHORIZATION_FAILED
    cluster.watch_requests();
    assert_eq!(Err(Error::code(29)), producer.partition_count("denied", SECONDS));
    // librdkafka may ask for itself meanwhile.
    let asked = cluster.watched_requests().into_iter().filter(|kind| *kind == METADATA).count();
    assert!(asked < 5, "{asked} times");
    close_producer(&producer);
}

/// The first request may have created it.
#[test]
fn partitions_of_a_missing_topic_are_asked_for_again_for_a_second_and_no_longer() {
    let cluster = cluster("missing", 1);
    let producer = producer(&cluster.bootstrap_servers(), &[]);
    cluster.topic_error("missing", codes::UNKNOWN_TOPIC_OR_PART).expect("missing");
    let started = Instant::now();
    assert_eq!(Err(Error::code(codes::UNKNOWN_TOPIC_OR_PART)), producer.partition_count("missing", SECONDS));
    let took = started.elapsed();
    assert!((Duration::from_millis(800)..SECONDS / 2).contains(&took), "{took:?}");
    close_producer(&producer);
}

/// Waiting makes room for a message of just the queue's size. None is ever enough for a larger one.
#[test]
fn only_a_message_larger_than_the_whole_queue_is_refused_for_good() {
    let options = [("queue.buffering.max.kbytes", "1"), ("log_level", "0")];
    let producer = producer("127.0.0.1:1", &options);
    let send = |bytes: usize| producer.produce(message("t", 0, &vec![b'x'; bytes])).map(drop);
    assert_eq!([Ok(()), Err(Error::QueueFull)], [send(1), send(1024)]);
    assert_eq!(Err(Error::code(codes::LARGER_THAN_QUEUE)), send(1025));
    producer.purge().expect("ours");
    assert_eq!(Outcome::Ready, producer.wait_flushed(&Parker::new(), wait::deadline(Some(SECONDS))));
    assert_eq!(Ok(()), send(1024));
    producer.close(Duration::ZERO).expect("ours");
}
