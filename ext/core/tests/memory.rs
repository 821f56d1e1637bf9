//! A batch's memory: what keeps it alive, and when it is freed.

mod support;

use pelton_core::chunk::{CHUNK_BYTES, CHUNK_MESSAGES, Chunk};
use pelton_core::decode::Kind;
use pelton_core::format::Format;
use pelton_core::partition::{Batch, Limits};
use pelton_core::subscription::{Options, Subscription, SubscriptionEvent};
use std::sync::Arc;
use support::*;

/// One batch of `count` messages `{"n":0,"pad":"xxx…"}`.
fn batch(size: usize, count: usize, format: impl Into<Arc<Format>>) -> (Batch, Arc<Subscription>) {
    // On a busy machine they may come in two.
    let format = format.into();
    (0..10).find_map(|_| whole_batch(size, count, &format)).expect("one batch")
}

fn whole_batch(size: usize, count: usize, format: &Arc<Format>) -> Option<(Batch, Arc<Subscription>)> {
    let cluster = cluster("memory", 1);
    let servers = cluster.bootstrap_servers();
    // One message set in the log is one fetch, hence one batch.
    let one_set = [("linger.ms", "300"), ("batch.size", "5000000"), ("message.max.bytes", "5000000")];
    let producer = producer(&servers, &one_set);
    let pad = "x".repeat(size);
    let payloads: Vec<Vec<u8>> = (0..count).map(|n| format!(r#"{{"n":{n},"pad":"{pad}"}}"#).into_bytes()).collect();
    produce_all(&producer, "memory", 1, &payloads);
    close_producer(&producer);
    let options = Options {
        limits: Limits { messages: count, bytes: 1 << 30, prefetch: 1, ..Limits::default() },
        formats: [("memory".into(), Arc::clone(format))].into(),
        ..Options::default()
    };
    let subscription = subscription(&servers, "g", options, &[("max.partition.fetch.bytes", "10000000")]);
    subscription.assign(&[("memory", 0, -2)]).expect("assigned");
    loop {
        match next(&subscription) {
            SubscriptionEvent::Batch(batch) if batch.len() == count => return Some((batch, subscription)),
            SubscriptionEvent::Batch(_) => {
                close_subscription(&subscription);
                return None;
            }
            SubscriptionEvent::Error { error, .. } => panic!("{error}"),
            _ => {}
        }
    }
}

fn number(chunk: &Chunk, index: usize) -> Option<i64> {
    let number = chunk.decoded(index, |node| match node.get(b"n").expect("there").kind() {
        Kind::Int(number) => number,
        _ => panic!("no number"),
    });
    number.ok()
}

#[test]
fn chunks_are_bounded_in_bytes_and_messages() {
    let (small, subscription) = batch(1, 1_000, Format::LAZY);
    assert!(small.chunks().iter().all(|chunk| chunk.records().len() <= CHUNK_MESSAGES));
    close_subscription(&subscription);
    let (large, subscription) = batch(10_000, 100, Format::LAZY);
    assert!(large.chunks().iter().all(|chunk| chunk.bytes() <= CHUNK_BYTES));
    assert_eq!(100, large.chunks().iter().map(|chunk| chunk.records().len()).sum::<usize>());
    close_subscription(&subscription);
    let (huge, subscription) = batch(200_000, 3, Format::LAZY);
    assert_eq!(vec![1, 1, 1], huge.chunks().iter().map(|chunk| chunk.records().len()).collect::<Vec<_>>());
    close_subscription(&subscription);
}

#[test]
fn what_a_message_object_stands_for_outlives_batch_and_client() {
    let (batch, subscription) = batch(400, 128, Format::JSON);
    let chunks = batch.chunks();
    let chunk = Arc::clone(&chunks[0]);
    for index in 0..chunk.records().len() {
        assert!(chunk.add_object(index));
        assert!(!chunk.add_object(index), "one object a message");
    }
    drop(chunks);
    batch.release();
    batch.release();
    assert!(batch.chunks().is_empty());
    close_subscription(&subscription);
    drop(subscription);
    // All messages are referenced: all memory is there.
    assert_eq!(Some(5), number(&chunk, 5));
    // Only the third is still referenced: it is copied out, and the rest is freed.
    (0..chunk.records().len()).filter(|index| *index != 3).for_each(|index| chunk.remove_object(index));
    assert!(chunk.thin());
    assert_eq!(Some(3), number(&chunk, 3));
    let payload = chunk.view(3, |view| view.payload.expect("a payload").to_vec()).expect("there");
    assert!(payload.starts_with(br#"{"n":3,"#));
    assert_eq!(None, number(&chunk, 5));
    assert!(chunk.view(5, |_| ()).is_none());
}

#[test]
fn released_batch_keeps_only_messages_that_were_read() {
    let (batch, subscription) = batch(400, 64, Format::JSON);
    let chunks = batch.chunks();
    batch.release();
    assert!(chunks.iter().all(|chunk| chunk.view(0, |_| ()).is_none()));
    close_subscription(&subscription);
}

#[test]
fn readers_and_decoding_threads_may_meet() {
    let (batch, subscription) = batch(2_000, 1_000, Format::JSON);
    let chunks = Arc::new(batch.chunks());
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let chunks = Arc::clone(&chunks);
            std::thread::spawn(move || {
                let mut expected = 0;
                for chunk in chunks.iter() {
                    for index in 0..chunk.records().len() {
                        assert_eq!(Some(expected), number(chunk, index));
                        expected += 1;
                    }
                }
                expected
            })
        })
        .collect();
    for reader in readers {
        assert_eq!(1_000, reader.join().expect("no panic"));
    }
    close_subscription(&subscription);
}
