//! Where a subscription is: seeks that drop what was read, a second assignment, pauses at the end, metadata of offsets.

mod support;

use pelton_core::embedded::EmbeddedCluster;
use pelton_core::error::Error;
use pelton_core::partition::{Batch, Limits};
use pelton_core::rd::PartitionList;
use pelton_core::subscription::{Committed, Options, Subscription, SubscriptionEvent};
use pelton_core::wait::Parker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::*;

const COUNT: usize = 600;

/// A topic of one partition with `COUNT` messages in sets of 20, and a subscription of small batches: seven are
/// fetched, of which as many have room as have twelve digits.
fn filled(topic: &str, more: &[(&str, &str)]) -> (EmbeddedCluster, Arc<Subscription>) {
    filled_in(topic, 12, more)
}

fn filled_in(topic: &str, bytes: usize, more: &[(&str, &str)]) -> (EmbeddedCluster, Arc<Subscription>) {
    let cluster = cluster(topic, 1);
    fill(&cluster, topic, COUNT);
    let limits = Limits { messages: 7, bytes, ..Limits::default() };
    let quick = [("fetch.wait.max.ms", "10"), ("fetch.queue.backoff.ms", "1")];
    let more: Vec<_> = quick.into_iter().chain(more.iter().copied()).collect();
    let reader = subscription(&cluster.bootstrap_servers(), "g", Options { limits, ..Options::default() }, &more);
    (cluster, reader)
}

fn fill(cluster: &EmbeddedCluster, topic: &str, count: usize) {
    let writer = producer(&cluster.bootstrap_servers(), &[("batch.num.messages", "20"), ("linger.ms", "5")]);
    let payloads: Vec<_> = (0..count).map(|number| number.to_string().into_bytes()).collect();
    produce_all(&writer, topic, 1, &payloads);
    close_producer(&writer);
}

fn next_batch(subscription: &Subscription) -> Batch {
    loop {
        if let SubscriptionEvent::Batch(batch) = taken(subscription) {
            return batch;
        }
    }
}

fn seek(subscription: &Subscription, topic: &str, offset: i64) -> Result<(), Error> {
    let seek = subscription.announce_seek(topic, 0)?;
    subscription.seek(&seek, offset, SECONDS)
}

fn first(batch: &Batch) -> i64 {
    batch.chunks()[0].records()[0].offset
}

fn last(batch: &Batch) -> i64 {
    batch.chunks().last().and_then(|chunk| chunk.records().last().map(|record| record.offset)).expect("messages")
}

#[test]
fn nothing_that_was_read_before_a_seek_comes_after_it() {
    let (_cluster, reader) = filled("sought", &[]);
    reader.assign(&[("sought", 0, 0)]).expect("assigned");
    let mut random = 7_u64;
    for round in 0..60 {
        // What was read ahead differs: nothing, some, all that the credit allows.
        for _ in 0..round % 3 {
            next_batch(&reader).release();
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let offset = (random >> 33) as i64 % (COUNT as i64 - 50);
        seek(&reader, "sought", offset).expect("sought");
        assert_eq!(Ok(Some(offset)), reader.position("sought", 0));
        let batch = next_batch(&reader);
        assert_eq!(offset, first(&batch), "round {round}");
        assert_eq!(Ok(Some(last(&batch) + 1)), reader.position("sought", 0));
        assert!(!batch.is_stale());
    }
    close_subscription(&reader);
}

/// librdkafka takes a message from its queue, and only then moves the position that it goes back to. A rebalance in
/// between, in which the partition stays, brings that message again.
#[test]
fn the_last_message_that_librdkafka_brings_again_is_left_out() {
    for messages in [1, 7] {
        let topic = "twice";
        let cluster = cluster(topic, 1);
        fill(&cluster, topic, COUNT);
        let limits = Limits { messages, ..Limits::default() };
        let reader = subscription(&cluster.bootstrap_servers(), "g", Options { limits, ..Options::default() }, &[]);
        let start = COUNT as i64 - 5;
        reader.assign(&[(topic, 0, start)]).expect("assigned");
        let mut next = start;
        for end in COUNT as i64..COUNT as i64 + 4 {
            while next < end {
                let batch = next_batch(&reader);
                assert_eq!((next, false, false), (first(&batch), batch.restarted, batch.is_stale()));
                next = last(&batch) + 1;
            }
            let list = PartitionList::with_offsets([(topic, 0, end - 1, -1)]).expect("a list");
            let sought = reader.with_client(|client| client.seek(&list, SECONDS.as_millis() as i32));
            sought.expect("open").expect("sought");
            fill(&cluster, topic, 1);
        }
        close_subscription(&reader);
    }
}

/// librdkafka goes back by itself where its offset is out of range, say because the topic was made again. What had no
/// room in the last batch is before that.
#[test]
fn partition_that_restarts_has_another_seek_count() {
    let (_cluster, reader) = filled("again", &[]);
    reader.assign(&[("again", 0, 30)]).expect("assigned");
    let old = next_batch(&reader);
    assert_eq!((30, false), (first(&old), old.restarted));
    let list = PartitionList::with_offsets([("again", 0, 3, -1)]).expect("a list");
    let sought = reader.with_client(|client| client.seek(&list, SECONDS.as_millis() as i32));
    sought.expect("open").expect("sought");
    let mut next = last(&old) + 1;
    let fresh = loop {
        let batch = next_batch(&reader);
        if batch.seek_count != old.seek_count {
            break batch;
        }
        assert_eq!((next, false), (first(&batch), batch.restarted));
        next = last(&batch) + 1;
        batch.release();
    };
    assert_eq!((3, true, true), (first(&fresh), fresh.restarted, old.is_stale()));
    let behind = next_batch(&reader);
    assert_eq!((last(&fresh) + 1, false, fresh.seek_count), (first(&behind), behind.restarted, behind.seek_count));
    assert_eq!(Ok(Some(last(&behind) + 1)), reader.position("again", 0));
    close_subscription(&reader);
}

/// One thread seeks while another takes batches: after a seek, no earlier message comes, and no later one is missing.
/// The older seek has no waiting thread any more; its own thread comes late.
#[test]
fn of_two_seeks_the_one_that_was_announced_last_counts() {
    let (_cluster, reader) = filled("order", &[]);
    reader.subscribe(["order"]).expect("subscribed");
    assert_eq!(0, first(&next_batch(&reader)));
    let older = reader.announce_seek("order", 0).expect("announced");
    let newer = reader.announce_seek("order", 0).expect("announced");
    reader.seek(&newer, 200, SECONDS).expect("sought");
    let Err(Error::Kafka(error)) = reader.seek(&older, 10, SECONDS) else { panic!("it was overtaken") };
    assert_eq!("_OUTDATED", error.name);
    assert_eq!(200, first(&next_batch(&reader)));
    reader.close(SECONDS).expect("closed");
}

/// So a seek whose answer is late has begun all the same: what comes then is of the new place. (All have room: nothing
/// waits outside of librdkafka, which alone is asked here.)
#[test]
fn messages_fetched_before_a_seek_never_come_even_without_a_wait_for_the_seek() {
    let (_cluster, reader) = filled_in("late", 1 << 20, &[]);
    reader.assign(&[("late", 0, 0)]).expect("assigned");
    next_batch(&reader);
    for round in 0..40 {
        reader.pause(&[("late", 0)]).expect("paused");
        // What was read; librdkafka's own queue is full again.
        while reader.pop().is_some() {}
        let offset = round * 137 % (COUNT as i64 - 100);
        let list = PartitionList::with_offsets([("late", 0, offset, -1)]).expect("a list");
        reader.with_client(|client| client.seek(&list, 0)).expect("a client").expect("begun");
        reader.resume(&[("late", 0)]).expect("resumed");
        assert_eq!(offset, first(&next_batch(&reader)), "round {round}");
    }
    close_subscription(&reader);
}

#[test]
fn seek_beside_a_thread_that_takes_messages() {
    let (_cluster, reader) = filled("beside", &[]);
    reader.assign(&[("beside", 0, 0)]).expect("assigned");
    let over = Arc::new(AtomicBool::new(false));
    let (theirs, done) = (Arc::clone(&reader), Arc::clone(&over));
    let seeking = std::thread::spawn(move || {
        for round in 0..40 {
            seek(&theirs, "beside", round * 14 % 500).expect("sought");
        }
        seek(&theirs, "beside", 0).expect("sought");
        done.store(true, Ordering::SeqCst);
    });
    let mut stale = 0;
    while !over.load(Ordering::SeqCst) {
        stale += usize::from(next_batch(&reader).is_stale());
    }
    seeking.join().expect("no panic");
    // Everything from the last seek on, once and in order: `over` was seen after it.
    seek(&reader, "beside", 100).expect("sought");
    let mut expected = 100;
    while expected < COUNT as i64 {
        let batch = next_batch(&reader);
        assert_eq!(expected, first(&batch), "after {stale} stale batches");
        expected = last(&batch) + 1;
    }
    close_subscription(&reader);
}

#[test]
fn delivered_batch_is_stale_after_a_seek_or_a_new_assignment() {
    let (_cluster, reader) = filled("stale", &[]);
    reader.assign(&[("stale", 0, 0)]).expect("assigned");
    let before = next_batch(&reader);
    assert!(!before.is_stale());
    seek(&reader, "stale", 5).expect("sought");
    assert!(before.is_stale());
    let after = next_batch(&reader);
    assert!(!after.is_stale());
    reader.assign(&[("stale", 0, 30)]).expect("assigned");
    assert!(after.is_stale());
    assert_eq!(Ok(Some(30)), reader.position("stale", 0));
    assert_eq!(30, first(&next_batch(&reader)));
    // Their credit does not count any more, and is not returned.
    drop((before, after));
    close_subscription(&reader);
}

#[test]
fn nothing_of_an_assignment_comes_after_the_next() {
    let (_cluster, reader) = filled("again", &[]);
    for round in 0..40_i64 {
        let offset = round * 37 % 500;
        reader.assign(&[("again", 0, offset)]).expect("assigned");
        assert_eq!(offset, first(&next_batch(&reader)), "round {round}");
    }
    close_subscription(&reader);
}

fn wait_for_assignment(subscription: &Subscription) {
    loop {
        match taken(subscription) {
            SubscriptionEvent::Assigned(_) => return,
            SubscriptionEvent::Revoked { token, .. } => subscription.revoked(token).expect("answered"),
            _ => {}
        }
    }
}

#[test]
fn a_seek_right_after_the_assignment() {
    let (_cluster, reader) = filled("early", &[]);
    reader.subscribe(["early"]).expect("subscribed");
    loop {
        wait_for_assignment(&reader);
        // librdkafka still asks for the committed offset.
        match seek(&reader, "early", 400) {
            // The mock's coordinator may make the group join again: then there is another assignment.
            Err(Error::Kafka(error)) if error.name == "_STATE" => {}
            result => break result.expect("sought"),
        }
    }
    assert_eq!(400, first(&next_batch(&reader)));
    close_subscription(&reader);
}

/// librdkafka asks where the log begins. When that answer comes after a seek, it asks again half a second later, and
/// would go there.
#[test]
fn a_seek_while_the_beginning_is_asked_for_is_not_undone() {
    let (cluster, reader) = filled("asked", &[]);
    for round in 0..3 {
        // An answer to this comes by the connection that fetches, too.
        reader.watermarks("asked", 0, SECONDS).expect("connected");
        cluster.round_trip_time(-1, 100).expect("a slow broker");
        reader.assign(&[("asked", 0, -2)]).expect("assigned");
        seek(&reader, "asked", 400).expect("sought");
        cluster.round_trip_time(-1, 0).expect("a quick broker");
        let end = COUNT as i64 + round;
        let mut expected = 400;
        while expected < end {
            let batch = next_batch(&reader);
            assert_eq!(expected, first(&batch), "round {round}");
            expected = last(&batch) + 1;
        }
        fill(&cluster, "asked", 1);
        assert_eq!(end, first(&next_batch(&reader)), "round {round}: it went elsewhere");
    }
    close_subscription(&reader);
}

#[test]
fn only_what_is_assigned_can_be_steered() {
    let (_cluster, reader) = filled("mine", &[]);
    reader.assign(&[("mine", 0, 0)]).expect("assigned");
    let refused = |result: Result<(), Error>| match result {
        Err(Error::Kafka(error)) => assert_eq!(("_STATE", "mine/7 is not assigned to this subscription"), {
            (error.name.as_str(), error.reason.as_str())
        }),
        other => panic!("{other:?}"),
    };
    refused(reader.announce_seek("mine", 7).map(drop));
    refused(reader.pause(&[("mine", 0), ("mine", 7)]));
    refused(reader.resume(&[("mine", 7)]));
    refused(reader.position("mine", 7).map(|_| ()));
    assert_eq!(0, first(&next_batch(&reader)), "it was not paused");
    close_subscription(&reader);
    assert_eq!(Err(Error::Closed), seek(&reader, "mine", 0));
    assert_eq!(Err(Error::Closed), reader.position("mine", 0));
}

/// librdkafka issue 4844.
#[test]
fn a_pause_at_the_end_of_a_partition_leaves_nothing_out() {
    let (cluster, reader) = filled("ends", &[("enable.partition.eof", "true")]);
    reader.assign(&[("ends", 0, COUNT as i64 - 3)]).expect("assigned");
    for round in 0..3_i64 {
        let end = COUNT as i64 + round;
        loop {
            match taken(&reader) {
                SubscriptionEvent::EndOfPartition { offset, .. } if offset == end => break,
                SubscriptionEvent::Batch(batch) => assert!(first(&batch) >= COUNT as i64 - 3),
                SubscriptionEvent::EndOfPartition { .. } => {}
                _ => panic!("something else"),
            }
        }
        reader.pause(&[("ends", 0)]).expect("paused");
        fill(&cluster, "ends", 1);
        reader.resume(&[("ends", 0)]).expect("resumed");
        assert_eq!(end, first(&next_batch(&reader)), "the message at the end was left out");
    }
    close_subscription(&reader);
}

#[test]
fn metadata_is_committed_with_an_offset() {
    let (cluster, reader) = filled("metadata", &[]);
    reader.subscribe(["metadata"]).expect("subscribed");
    next_batch(&reader);
    let committed = || reader.committed(&[("metadata", 0)], SECONDS).expect("answered");
    assert_eq!(vec![None], committed());
    for (offset, given) in [(3, Some("a \"word\" é")), (4, None), (5, Some("")), (6, Some("b"))] {
        assert_eq!(Ok(true), reader.mark("metadata", 0, offset, -1, given.map(str::as_bytes)));
        reader.commit().expect("committed");
        let metadata = given.unwrap_or_default().as_bytes().to_vec();
        assert_eq!(vec![Some(Committed { offset, metadata })], committed());
    }
    close_subscription(&reader);
    drop(cluster);
}

#[test]
fn what_kafka_says_of_offsets() {
    let (_cluster, reader) = filled("watermarks", &[]);
    reader.assign(&[("watermarks", 0, 0)]).expect("assigned");
    assert_eq!(Ok((0, COUNT as i64)), reader.watermarks("watermarks", 0, SECONDS));
    // The mock cluster knows no times: all messages are older.
    assert_eq!(Ok(vec![None]), reader.offsets_for_times(&[("watermarks", 0, 1_700_000_000_000)], SECONDS));
    let short = Duration::from_secs(5);
    assert!(
        matches!(reader.watermarks("watermarks", 9, short), Err(Error::Kafka(error)) if error.reason.contains("watermarks/9"))
    );
    assert_eq!(Ok(false), reader.is_lost());
    close_subscription(&reader);
}

#[test]
fn position_and_end_of_each_partition_that_is_read_are_known() {
    let (cluster, reader) = filled("known", &[]);
    cluster.create_topic("another", 3).expect("a topic");
    reader.assign(&[("known", 0, 0), ("another", 2, 0)]).expect("assigned");
    let batch = next_batch(&reader);
    let mut ends = reader.ends().expect("open");
    ends.sort_by_key(|one| one.topic_partition.1);
    let rows: Vec<_> = ends.iter().map(|one| (&*one.topic_partition.0, one.topic_partition.1, one.position)).collect();
    assert_eq!(vec![("known", 0, Some(last(&batch) + 1)), ("another", 2, Some(0))], rows);
    assert_eq!(Some(COUNT as i64), ends[0].end);
    let counts = ["known", "another"].map(|topic| reader.partition_count(topic, SECONDS));
    assert_eq!([Ok(1), Ok(3)], counts);
    close_subscription(&reader);
}

/// librdkafka asks for the committed offset first, and refuses each seek until it has the answer.
#[test]
fn a_seek_in_a_partition_whose_start_is_not_known_ends_at_its_deadline() {
    let reader = subscription("127.0.0.1:1", "g", Options::default(), &[("log_level", "0")]);
    reader.assign(&[("away", 0, -1001)]).expect("assigned");
    let target = reader.announce_seek("away", 0).expect("assigned");
    let Err(Error::Kafka(error)) = reader.seek(&target, 5, Duration::from_millis(50)) else { panic!("no broker") };
    assert!(["_STATE", "_TIMED_OUT"].contains(&&*error.name), "{error}");
    reader.close(Duration::ZERO).expect("ours");
    reader.closing().wait(&Parker::new(), None);
}
