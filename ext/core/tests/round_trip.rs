//! A message all the way round on the embedded cluster: produced, delivered, fetched, decoded, marked, committed.

mod support;

use pelton_core::decode::Kind;
use pelton_core::error::Error;
use pelton_core::format::Format;
use pelton_core::partition::{Batch, Limits};
use pelton_core::producer::Outgoing;
use pelton_core::rd::Headers;
use pelton_core::send_times::SendTimes;
use pelton_core::subscription::{Options, SubscriptionEvent};
use std::sync::Arc;
use support::*;

/// Takes messages until `count` came; hands each batch on.
fn consume(subscription: &pelton_core::subscription::Subscription, count: usize, mut each: impl FnMut(Batch)) {
    let mut seen = 0;
    while seen < count {
        match next(subscription) {
            SubscriptionEvent::Batch(batch) => {
                seen += batch.len();
                each(batch);
            }
            SubscriptionEvent::Error { error, .. } => panic!("{error}"),
            _ => {}
        }
    }
    assert_eq!(count, seen);
}

#[test]
fn every_message_comes_back_in_order_decoded_and_is_committed() {
    let cluster = cluster("orders", 3);
    let servers = cluster.bootstrap_servers();
    let producer = producer(&servers, &[]);
    let payloads: Vec<Vec<u8>> = (0..3_000).map(|n| format!(r#"{{"id":{n},"tags":["a","b"]}}"#).into_bytes()).collect();
    produce_all(&producer, "orders", 3, &payloads);

    let formats = [("orders".to_string(), Format::JSON.into())].into();
    let one = subscription(&servers, "g", Options { formats, ..Options::default() }, &[]);
    one.subscribe(["orders"]).expect("subscribed");
    let mut next_id = [0, 1, 2];
    consume(&one, 3_000, |batch| {
        let partition = batch.partition as usize;
        assert!(batch.len() <= 100);
        for chunk in batch.chunks() {
            for (index, record) in chunk.records().iter().enumerate() {
                let id = chunk.decoded(index, |node| match node.get(b"id").map(|id| id.kind()) {
                    Some(Kind::Int(id)) => id,
                    _ => panic!("no id"),
                });
                assert_eq!(Ok(next_id[partition]), id);
                assert_eq!(next_id[partition] / 3, record.offset);
                next_id[partition] += 3;
            }
        }
        let last = (next_id[partition]) / 3;
        assert_eq!(Ok(true), one.mark("orders", batch.partition, last, -1, None));
    });
    one.commit().expect("committed");
    let committed = one.committed(&[("orders", 0), ("orders", 1), ("orders", 2)], SECONDS);
    let committed = committed.expect("an answer").into_iter().flatten().map(|found| found.offset);
    assert_eq!(vec![1000, 1000, 1000], committed.collect::<Vec<_>>());
    close_subscription(&one);
    assert!(matches!(one.commit(), Err(Error::Closed)));
    assert!(matches!(one.mark("orders", 0, 1, -1, None), Err(Error::Closed)));

    // Committed messages are not delivered again.
    produce_all(&producer, "orders", 3, &[b"1".to_vec(), b"2".to_vec(), b"3".to_vec()]);
    let two = subscription(&servers, "g", Options::default(), &[]);
    // (By assignment: in the mock cluster, a member that joins after the last one left waits for a session timeout.)
    two.assign(&[("orders", 0, -1001), ("orders", 1, -1001), ("orders", 2, -1001)]).expect("assigned");
    consume(&two, 3, |batch| {
        assert!(batch.chunks().iter().all(|chunk| chunk.records().iter().all(|record| record.offset == 1000)));
    });
    close_subscription(&two);
    assert_eq!(0, close_producer(&producer));
}

#[test]
fn null_and_empty_parts_binary_keys_headers_and_timestamps_survive() {
    let cluster = cluster("parts", 1);
    let servers = cluster.bootstrap_servers();
    let producer = producer(&servers, &[]);
    let send = |payload, key, headers, timestamp| {
        let delivery = producer
            .produce(Outgoing { topic: "parts", partition: 0, payload, key, headers, timestamp })
            .expect("accepted");
        wait_for(&delivery);
        assert_eq!(None, delivery.outcome(0).error);
    };
    let mut headers = Headers::with_capacity(4);
    headers.add(b"trace", Some(b"1"));
    headers.add(b"trace", Some(b"\xff\x00"));
    headers.add(b"none", None);
    headers.add(b"empty", Some(b""));
    send(None, Some(b"k"), None, 0);
    send(Some(b""), Some(b""), None, 0);
    send(Some(b"\x00\xfe"), Some(b"\x00\xff"), Some(headers), 1_700_000_000_123);
    send(Some(b"x"), None, Some(Headers::with_capacity(0)), 0);

    let subscription = subscription(&servers, "g", Options::default(), &[]);
    subscription.subscribe(["parts"]).expect("subscribed");
    let mut seen = Vec::new();
    consume(&subscription, 4, |batch| {
        for chunk in batch.chunks() {
            for (index, record) in chunk.records().iter().enumerate() {
                let own = |part: Option<&[u8]>| part.map(<[u8]>::to_vec);
                let parts = chunk.view(index, |view| {
                    let headers: Vec<_> = view.headers().map(|(name, value)| (name.to_vec(), own(value))).collect();
                    (own(view.payload), own(view.key), headers)
                });
                seen.push((parts.expect("there"), record.timestamp));
            }
        }
    });
    let headers = vec![
        (b"trace".to_vec(), Some(b"1".to_vec())),
        (b"trace".to_vec(), Some(b"\xff\x00".to_vec())),
        (b"none".to_vec(), None),
        (b"empty".to_vec(), Some(b"".to_vec())),
    ];
    assert_eq!((None, Some(b"k".to_vec()), vec![]), seen[0].0);
    assert_eq!((Some(vec![]), Some(vec![]), vec![]), seen[1].0);
    assert_eq!((Some(b"\x00\xfe".to_vec()), Some(b"\x00\xff".to_vec()), headers), seen[2].0);
    assert_eq!(1_700_000_000_123, seen[2].1);
    assert_eq!((Some(b"x".to_vec()), None, vec![]), seen[3].0);
    assert!(seen[0].1 > 1_700_000_000_000);
    close_subscription(&subscription);
    close_producer(&producer);
}

/// Many threads create and drop handles at once, while reports of other messages arrive.
#[test]
fn each_handle_has_the_outcome_of_its_own_message() {
    const THREADS: usize = 4;
    const EACH: usize = 6_000;
    let cluster = cluster("handles", 4);
    let servers = cluster.bootstrap_servers();
    let producer = producer(&servers, &[("linger.ms", "1")]);
    let send = |thread: usize| {
        let mut kept = Vec::new();
        for number in 0..EACH {
            let payload = format!("{thread}/{number}").into_bytes();
            let delivery = produce_patiently(&producer, message("handles", (number % 4) as i32, &payload));
            // The others are given up at once, some before their report, some after it.
            if number % 3 == 0 {
                kept.push((payload, delivery));
            }
        }
        kept
    };
    let mut expected = std::collections::HashMap::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || send(thread))).collect();
        for (payload, delivery) in threads.into_iter().flat_map(|thread| thread.join().expect("sent")) {
            wait_for(&delivery);
            let outcome = delivery.outcome(0);
            assert_eq!(None, outcome.error);
            expected.insert((outcome.partition, outcome.offset), payload);
        }
    });
    assert_eq!(THREADS * EACH / 3, expected.len());

    let subscription = subscription(&servers, "g", Options::default(), &[]);
    subscription.subscribe(["handles"]).expect("subscribed");
    consume(&subscription, THREADS * EACH, |batch| {
        for chunk in batch.chunks() {
            for (index, record) in chunk.records().iter().enumerate() {
                let Some(payload) = expected.remove(&(batch.partition, record.offset)) else { continue };
                assert_eq!(Some(Some(payload)), chunk.view(index, |view| view.payload.map(<[u8]>::to_vec)));
            }
        }
    });
    assert!(expected.is_empty());
    close_subscription(&subscription);
    assert_eq!(0, close_producer(&producer));
}

#[test]
fn a_reader_that_is_busy_holds_back_its_own_partition_only() {
    let cluster = cluster("busy", 2);
    let servers = cluster.bootstrap_servers();
    let producer = producer(&servers, &[]);
    let payloads: Vec<Vec<u8>> = (0..2_000).map(|n: i32| n.to_string().into_bytes()).collect();
    produce_all(&producer, "busy", 2, &payloads);
    let limits = Limits { messages: 10, bytes: 1 << 20, prefetch: 2, ..Limits::default() };
    let subscription = subscription(&servers, "g", Options { limits, ..Options::default() }, &[]);
    subscription.subscribe(["busy"]).expect("subscribed");
    // Partition 0's batches are kept: exactly two of them come, while all of partition 1 does.
    let (mut kept, mut other) = (Vec::new(), 0);
    while other < 1_000 {
        match next(&subscription) {
            SubscriptionEvent::Batch(batch) if batch.partition == 0 => kept.push(batch),
            SubscriptionEvent::Batch(batch) => other += batch.len(),
            _ => {}
        }
    }
    assert!(kept.len() <= 2, "{} batches are out", kept.len());
    // After their release, the rest comes.
    let mut rest = kept.iter().map(Batch::len).sum::<usize>();
    kept.clear();
    while rest < 1_000 {
        if let SubscriptionEvent::Batch(batch) = next(&subscription) {
            rest += batch.len();
        }
    }
    assert_eq!(1_000, rest);
    close_subscription(&subscription);
    close_producer(&producer);
}

#[test]
fn the_send_time_of_each_message_is_counted_once() {
    let cluster = cluster("timed", 1);
    let producer = producer(&cluster.bootstrap_servers(), &[]);
    let times = Arc::new(SendTimes::new(&[60.0]));
    producer.count_times([Arc::clone(&times)].into());
    produce_all(&producer, "timed", 1, &vec![b"x".to_vec(); 1_000]);
    let (counts, sum) = times.take().expect("there are times");
    assert_eq!([1_000, 0], *counts);
    assert!((0.0..60_000.0).contains(&sum), "{sum}");
    close_producer(&producer);
}

#[test]
fn the_poller_thread_goes_with_the_last_client() {
    // Other tests of this process use the default poller; a dedicated one shows the same without them.
    use pelton_core::poller::Poller;
    use pelton_core::producer::Producer;
    let poller = Poller::new("test.dedicated").expect("a pipe");
    let before = Poller::threads();
    for _ in 0..20 {
        let producer = Producer::new("short", [("bootstrap.servers", "127.0.0.1:1")], &poller).expect("a producer");
        assert!(Poller::threads() > 0);
        close_producer(&producer);
    }
    let deadline = std::time::Instant::now() + SECONDS;
    while Poller::threads() > before + 1 {
        assert!(std::time::Instant::now() < deadline, "{} pollers", Poller::threads());
        std::thread::yield_now();
    }
}
