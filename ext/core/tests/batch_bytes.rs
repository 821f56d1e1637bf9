//! The messages of a batch are limited, and its bytes, except for a single larger message. A message that does not fit
//! waits for the next batch. It is not lost and does not come twice, whatever happens to its partition meanwhile.

mod support;

use pelton_core::chunk::CHUNK_BYTES;
use pelton_core::embedded::EmbeddedCluster;
use pelton_core::partition::{Batch, Limits};
use pelton_core::producer::Outgoing;
use pelton_core::rd::Headers;
use pelton_core::subscription::{Options, Subscription, SubscriptionEvent};
use pelton_core::wait::Parker;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::*;

/// Messages of 1,000 bytes, of which a batch takes two.
const SMALL: usize = 1_000;
const COUNT: i64 = 40;

/// Number of messages in each set of the log; they come in these sets.
const ONE_SET: [(&str, &str); 3] =
    [("linger.ms", "300"), ("batch.size", "5000000"), ("queue.buffering.max.kbytes", "100000")];
const QUICK: [(&str, &str); 3] = [
    ("fetch.wait.max.ms", "10"),
    ("max.partition.fetch.bytes", "10000000"),
    ("partition.assignment.strategy", "cooperative-sticky"),
];

fn reader(cluster: &EmbeddedCluster, bytes: usize, prefetch: usize, more: &[(&str, &str)]) -> Arc<Subscription> {
    let options = Options { limits: Limits { bytes, prefetch, ..Limits::default() }, ..Options::default() };
    let more: Vec<_> = QUICK.iter().chain(more).copied().collect();
    subscription(&cluster.bootstrap_servers(), "g", options, &more)
}

fn filled(topic: &str, partitions: i32, more: &[(&str, &str)]) -> (EmbeddedCluster, Arc<Subscription>) {
    let cluster = cluster(topic, partitions);
    let writer = producer(&cluster.bootstrap_servers(), &ONE_SET);
    produce_all(&writer, topic, partitions, &vec![vec![b'x'; SMALL]; COUNT as usize * partitions as usize]);
    close_producer(&writer);
    let reader = reader(&cluster, 2 * SMALL + 1, 1, more);
    (cluster, reader)
}

fn next_batch(subscription: &Subscription) -> Batch {
    loop {
        match taken(subscription) {
            SubscriptionEvent::Batch(batch) => return batch,
            SubscriptionEvent::Error { error, .. } => panic!("{error}"),
            _ => {}
        }
    }
}

fn offsets(batch: &Batch) -> Vec<i64> {
    batch.chunks().iter().flat_map(|chunk| chunk.records().iter().map(|record| record.offset)).collect()
}

fn seek(subscription: &Subscription, topic: &str, offset: i64) {
    let seek = subscription.announce_seek(topic, 0).expect("assigned");
    subscription.seek(&seek, offset, SECONDS).expect("sought");
}

#[test]
fn a_batch_is_no_larger_than_it_may_be_and_a_larger_message_comes_alone() {
    const MOST: usize = 100_000;
    // Payload, and the value of a header "h", of each message: what fits, what just fits or just does not, what is
    // larger.
    let sizes = [
        (50_000, 0),
        (50_000, 0),
        (1, 0),
        (0, 0),
        (30_000, 2_000),
        (10, 99_000),
        (1_000, 90_000),
        (200_000, 0),
        (99_999, 0),
        (1, 0),
        (10, 150_000),
        (5, 4),
        (20_000, 12_759),
        (20_000, 12_760),
    ];
    let cluster = cluster("sizes", 1);
    let writer = producer(&cluster.bootstrap_servers(), &ONE_SET);
    // The embedded cluster keeps 5 MB of a partition.
    let all: Vec<(usize, usize)> = sizes.repeat(5);
    let topics = vec![writer.topic("sizes").expect("a topic"); all.len()];
    let delivery = writer.batch(topics).expect("a batch");
    for (place, (payload, header)) in all.iter().enumerate() {
        let payload = vec![b'x'; *payload];
        let mut headers = Headers::with_capacity(1);
        headers.add(b"h", Some(&vec![b'x'; *header]));
        let headers = (*header > 0).then_some(headers);
        let message = Outgoing { headers, ..message("sizes", 0, &payload) };
        writer.enqueue(message, &delivery, place).expect("room");
    }
    wait_for(&delivery);
    close_producer(&writer);

    // Lengths of name and value take four bytes each.
    let size = |offset: i64| match all[offset as usize] {
        (payload, 0) => payload,
        (payload, header) => payload + header + 9,
    };
    let reader = reader(&cluster, MOST, 16, &[]);
    reader.assign(&[("sizes", 0, 0)]).expect("assigned");
    let mut expected = 0;
    while expected < all.len() as i64 {
        let batch = next_batch(&reader);
        let offsets = offsets(&batch);
        assert_eq!((expected..expected + batch.len() as i64).collect::<Vec<_>>(), offsets);
        assert_eq!(offsets.iter().map(|offset| size(*offset)).sum::<usize>(), batch.bytes());
        assert!(batch.bytes() <= MOST || batch.len() == 1, "{} messages of {} bytes", batch.len(), batch.bytes());
        for chunk in batch.chunks() {
            assert!(chunk.bytes() <= CHUNK_BYTES || chunk.records().len() == 1, "a chunk of {}", chunk.bytes());
        }
        expected += batch.len() as i64;
        assert_eq!(Ok(Some(expected)), reader.position("sizes", 0));
    }
    close_subscription(&reader);
}

/// librdkafka's queue is empty then, and signals nothing.
#[test]
fn what_had_no_room_comes_next_be_the_partition_paused_or_its_credit_spent() {
    let (_cluster, reader) = filled("rest", 1, &[]);
    reader.assign(&[("rest", 0, 0)]).expect("assigned");
    let mut expected = 0;
    while expected < COUNT {
        let batch = next_batch(&reader);
        assert_eq!(expected, offsets(&batch)[0]);
        assert!(batch.len() <= 2);
        expected += batch.len() as i64;
        assert_eq!(Ok(Some(expected)), reader.position("rest", 0));
        reader.pause(&[("rest", 0)]).expect("paused");
        batch.release();
        reader.resume(&[("rest", 0)]).expect("resumed");
    }
    close_subscription(&reader);
}

#[test]
fn what_had_no_room_goes_with_a_seek_and_with_the_assignment() {
    let (_cluster, reader) = filled("gone", 1, &[]);
    for round in 0..10_i64 {
        reader.assign(&[("gone", 0, round)]).expect("assigned");
        assert_eq!(round, offsets(&next_batch(&reader))[0]);
        let offset = (round * 7 + 20) % (COUNT - 2);
        seek(&reader, "gone", offset);
        let batch = next_batch(&reader);
        assert_eq!(offset, offsets(&batch)[0]);
        let behind = offset + batch.len() as i64;
        batch.release();
        assert_eq!(behind, offsets(&next_batch(&reader))[0]);
        assert!(reader.position("gone", 0).expect("assigned").is_some_and(|position| position > behind));
    }
    // Also with messages that did not fit.
    close_subscription(&reader);
}

#[test]
fn the_end_of_a_partition_comes_behind_what_had_no_room() {
    let (_cluster, reader) = filled("end", 1, &[("enable.partition.eof", "true")]);
    reader.assign(&[("end", 0, 0)]).expect("assigned");
    let mut seen = Vec::new();
    loop {
        match taken(&reader) {
            SubscriptionEvent::Batch(batch) => seen.extend(offsets(&batch)),
            SubscriptionEvent::EndOfPartition { offset, .. } => break assert_eq!(COUNT, offset),
            _ => panic!("something else"),
        }
    }
    assert_eq!((0..COUNT).collect::<Vec<_>>(), seen);
    close_subscription(&reader);
}

/// Until the revocation is answered, the group still counts the partition as this member's.
#[test]
fn a_revoked_partition_is_not_read_on_before_its_revocation_is_answered() {
    let more = [("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "500")];
    let (cluster, first) = filled("revoked", 2, &more);
    first.subscribe(["revoked"]).expect("subscribed");
    let (mut held, mut second) = (Vec::new(), None);
    let revoked = loop {
        match taken(&first) {
            SubscriptionEvent::Batch(batch) => held.push(batch),
            SubscriptionEvent::Revoked { partitions, .. } => break partitions[0].1,
            _ => {}
        }
        if second.is_none() && !held.is_empty() {
            let member = reader(&cluster, 2 * SMALL + 1, 1, &more);
            member.subscribe(["revoked"]).expect("subscribed");
            second = Some(member);
        }
    };
    held.clear(); // so there is room for the next batches
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        first.mailbox().wait(&Parker::new(), Some(until));
        if let Some(SubscriptionEvent::Batch(batch)) = first.pop() {
            assert_ne!(revoked, batch.partition);
        }
    }
    for subscription in [first, second.expect("joined")] {
        subscription.close(SECONDS).expect("ours");
    }
}

/// The partition that stays goes on where it was; the other one is read on by its next owner.
#[test]
fn a_rebalance_beside_what_had_no_room_leaves_nothing_out() {
    let more = [("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "500")];
    let (cluster, first) = filled("shared", 2, &more);
    first.subscribe(["shared"]).expect("subscribed");
    let second = reader(&cluster, 2 * SMALL + 1, 1, &more);
    // By member and partition: what comes next (unknown at first). By partition: how far all have come.
    let (mut next, mut reached) = ([[None; 2]; 2], [0; 2]);
    // Not released before the second one has joined and has a partition.
    let (mut held, mut joins, mut has_joined) = (Vec::new(), false, false);
    let deadline = Instant::now() + 2 * SECONDS;
    while reached != [COUNT; 2] {
        assert!(Instant::now() < deadline, "not in time: {next:?} {reached:?}");
        for (member, subscription) in [&first, &second].into_iter().enumerate() {
            subscription.mailbox().wait(&Parker::new(), Some(Instant::now() + Duration::from_millis(10)));
            match subscription.pop() {
                Some(SubscriptionEvent::Assigned(partitions)) => {
                    partitions.iter().for_each(|(_, partition)| next[member][*partition as usize] = None);
                    has_joined |= member == 1 && !partitions.is_empty();
                }
                Some(SubscriptionEvent::Batch(batch)) => {
                    let (partition, offsets) = (batch.partition as usize, offsets(&batch));
                    let (begins, ends) = (offsets[0], offsets[0] + offsets.len() as i64);
                    assert_eq!((begins..ends).collect::<Vec<_>>(), offsets);
                    // A commit may fail in a rebalance: then some come again.
                    let follows = next[member][partition].map_or(begins <= reached[partition], |next| begins == next);
                    assert!(follows, "{begins} of {partition} at {member}: {next:?} {reached:?}");
                    (next[member][partition], reached[partition]) = (Some(ends), ends.max(reached[partition]));
                    let _ = subscription.mark("shared", batch.partition, ends, -1, None);
                    held.push(batch);
                }
                Some(SubscriptionEvent::Revoked { token, .. }) => subscription.revoked(token).expect("answered"),
                _ => {}
            }
        }
        if held.len() == 2 && !joins {
            second.subscribe(["shared"]).expect("subscribed");
            joins = true;
        }
        if has_joined {
            held.clear();
        }
    }
    // Both at once: a rebalance that is under way waits for each of them.
    for subscription in [&first, &second] {
        subscription.close(SECONDS).expect("ours");
    }
    close_subscription(&first);
    close_subscription(&second);
}

/// librdkafka's queue is read in slices of 64 messages.
#[test]
fn batch_has_as_many_messages_as_its_limit_and_no_more() {
    const ALL: usize = 600;
    let cluster = cluster("count", 1);
    let writer = producer(&cluster.bootstrap_servers(), &ONE_SET);
    produce_all(&writer, "count", 1, &vec![vec![b'x'; 10]; ALL]);
    close_producer(&writer);
    for limit in [7, 100] {
        let limits = Limits { messages: limit, ..Limits::default() };
        let options = Options { limits, ..Options::default() };
        let reader = subscription(&cluster.bootstrap_servers(), "g", options, &QUICK);
        reader.assign(&[("count", 0, 0)]).expect("assigned");
        let (mut count, mut most) = (0, 0);
        while count < ALL {
            let batch = next_batch(&reader);
            (count, most) = (count + batch.len(), most.max(batch.len()));
        }
        assert_eq!(limit, most);
        close_subscription(&reader);
    }
}
