//! Waiting for a delivery skips the linger.

mod support;

use pelton_core::wait::{self, Outcome, Parker};
use std::time::{Duration, Instant};
use support::*;

const LINGER: Duration = Duration::from_secs(10);

/// The round trip makes each window last; without another look after its reports the next one would linger.
#[test]
fn a_wait_for_more_than_may_be_in_flight_does_not_pay_the_linger() {
    let cluster = cluster("linger", 1);
    let millis = LINGER.as_millis().to_string();
    let options = [("linger.ms", millis.as_str()), ("max.in.flight.requests.per.connection", "1")];
    let producer = producer(&cluster.bootstrap_servers(), &options);
    produce_all(&producer, "linger", 1, &[b"warm".to_vec()]);
    cluster.round_trip_time(-1, 50).expect("a broker");
    let quick = |_| {
        let started = Instant::now();
        produce_all(&producer, "linger", 1, &vec![vec![b'x'; 1_000]; 3_000]);
        started.elapsed() < Duration::from_millis(800)
    };
    // It was a second each time, when the safety round looked again; a busy machine may steal the time of some tries.
    assert!((0..10).any(quick));
    cluster.round_trip_time(-1, 0).expect("a broker");
    close_producer(&producer);
}

#[test]
fn a_wait_for_room_does_not_pay_the_linger() {
    let cluster = cluster("room", 1);
    let millis = LINGER.as_millis().to_string();
    let options = [("linger.ms", millis.as_str()), ("queue.buffering.max.messages", "3")];
    let producer = producer(&cluster.bootstrap_servers(), &options);
    produce_all(&producer, "room", 1, &[b"warm".to_vec()]);
    let started = Instant::now();
    for _ in 0..10 {
        produce_patiently(&producer, message("room", 0, b"x"));
    }
    assert!(started.elapsed() < LINGER / 2, "{:?}", started.elapsed());
    close_producer(&producer);
}

/// With the linger alone, the messages would be given up.
#[test]
fn a_flush_and_a_close_do_not_pay_the_linger() {
    let cluster = cluster("ends", 1);
    for flushes in [true, false] {
        let producer = producer(&cluster.bootstrap_servers(), &[("linger.ms", "250000")]);
        (0..3).for_each(|_| drop(producer.produce(message("ends", 0, b"x")).expect("room")));
        if flushes {
            producer.start_flush(SECONDS).expect("started");
            assert_eq!(Outcome::Ready, producer.wait_flushed(&Parker::new(), wait::deadline(Some(SECONDS))));
        }
        assert_eq!((0, 0), (close_producer(&producer), producer.failures().count()), "flushes: {flushes}");
    }
}
