//! The last commit of a subscription that leaves its group.

mod support;

use pelton_core::partition::Limits;
use pelton_core::rd::codes;
use pelton_core::subscription::{Options, Subscription, SubscriptionEvent, Unconfirmed};
use pelton_core::wait::{self, Outcome, Parker};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::*;

const OFFSET_COMMIT: i16 = 8;
const UNKNOWN_MEMBER_ID: i32 = 25;
/// Only explicit commits.
const SELDOM: [(&str, &str); 2] = [("auto.commit.interval.ms", "600000"), ("session.timeout.ms", "6000")];

/// A member of the group `g` with all of the topic's two partitions, of which it has marked 5 and 7.
fn marked(servers: &str, topic: &str, more: &[(&str, &str)]) -> Arc<Subscription> {
    let member = subscription(servers, "g", Options::default(), &[&SELDOM[..], more].concat());
    member.subscribe([topic]).expect("subscribed");
    while !matches!(next(&member), SubscriptionEvent::Assigned(partitions) if partitions.len() == 2) {}
    for (partition, offset) in [(0, 5), (1, 7)] {
        assert_eq!(Ok(true), member.mark(topic, partition, offset, -1, None));
    }
    member
}

/// The answer of the close: what Kafka did not confirm.
fn close(member: &Arc<Subscription>, timeout: Duration) -> (usize, Vec<Unconfirmed>) {
    member.close(timeout).expect("ours");
    assert_eq!(Outcome::Ready, member.closing().wait(&Parker::new(), wait::deadline(Some(SECONDS * 2))));
    (member.closing().lost(), member.unconfirmed().expect("ours"))
}

fn committed(servers: &str, topic: &str) -> Vec<Option<i64>> {
    let reader = subscription(servers, "g", Options::default(), &[]);
    let found = reader.committed(&[(topic, 0), (topic, 1)], SECONDS).expect("an answer");
    close_subscription(&reader);
    found.into_iter().map(|found| found.map(|found| found.offset)).collect()
}

fn unconfirmed(topic: &str, code: i32) -> Vec<Unconfirmed> {
    let row = |(partition, offset)| Unconfirmed { topic: topic.into(), partition, offset, code };
    [(0, 5), (1, 7)].map(row).into()
}

const BOTH: [Option<i64>; 2] = [Some(5), Some(7)];

#[test]
fn the_last_commit_is_repeated_while_a_rebalance_is_in_its_way() {
    for (protocol, code) in [
        ("range", codes::REBALANCE_IN_PROGRESS),
        ("cooperative-sticky", codes::REBALANCE_IN_PROGRESS),
        ("range", codes::COORDINATOR_LOAD_IN_PROGRESS),
    ] {
        let cluster = cluster("t", 2);
        let servers = cluster.bootstrap_servers();
        let member = marked(&servers, "t", &[("partition.assignment.strategy", protocol)]);
        assert_eq!(unconfirmed("t", 0), member.unconfirmed().expect("ours"));
        cluster.push_errors(OFFSET_COMMIT, &[code; 6]);
        assert_eq!((0, vec![]), close(&member, SECONDS), "{protocol} {code}");
        assert_eq!(BOTH[..], committed(&servers, "t"), "{protocol} {code}");
    }
}

#[test]
fn the_last_commit_is_not_repeated_at_once() {
    let cluster = cluster("t", 2);
    let member = marked(&cluster.bootstrap_servers(), "t", &[]);
    cluster.push_errors(OFFSET_COMMIT, &[codes::REBALANCE_IN_PROGRESS; 6]);
    let began = Instant::now();
    assert_eq!((0, vec![]), close(&member, SECONDS));
    assert!(began.elapsed() >= Duration::from_millis(6 * 20), "{:?}", began.elapsed());
}

#[test]
fn batches_of_a_closed_subscription_are_stale_and_none_is_handed_over() {
    let cluster = cluster("t", 1);
    let servers = cluster.bootstrap_servers();
    let writer = producer(&servers, &[]);
    produce_all(&writer, "t", 1, &vec![b"x".to_vec(); 500]);
    close_producer(&writer);
    let limits = Limits { messages: 100, prefetch: 2, ..Limits::default() };
    let member = subscription(&servers, "g", Options { limits, ..Options::default() }, &SELDOM);
    member.assign(&[("t", 0, 0)]).expect("assigned");
    let batch = loop {
        if let SubscriptionEvent::Batch(batch) = next(&member) {
            break batch;
        }
    };
    assert!(!batch.is_stale());
    close_subscription(&member);
    assert!(batch.is_stale());
    batch.release(); // the partition would be read on
    let batches =
        std::iter::from_fn(|| member.mailbox().pop()).filter(|event| matches!(event, SubscriptionEvent::Batch(_)));
    assert_eq!(0, batches.count());
}

#[test]
fn what_is_refused_for_good_is_named_and_the_group_is_left_all_the_same() {
    let cluster = cluster("t", 2);
    let servers = cluster.bootstrap_servers();
    let member = marked(&servers, "t", &[]);
    // The second is librdkafka's own attempt, while it gives the assignment back.
    cluster.push_errors(OFFSET_COMMIT, &[UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID]);
    assert_eq!((1, unconfirmed("t", UNKNOWN_MEMBER_ID)), close(&member, SECONDS));
    assert_eq!(vec![None, None], committed(&servers, "t"));
}

#[test]
fn a_close_without_a_broker_ends_in_time_and_names_what_is_not_committed() {
    // Booleans as librdkafka takes them.
    for (commits, lost) in [("true", 1), ("TRUE", 1), ("False", 0)] {
        let cluster = cluster("t", 2);
        let member = marked(&cluster.bootstrap_servers(), "t", &[("enable.auto.commit", commits)]);
        cluster.broker_down(-1).expect("down");
        let (unsaved, rows) = close(&member, Duration::from_secs(1));
        assert_eq!((lost, 2), (unsaved, rows.len()), "{commits}");
    }
}

#[test]
fn what_is_confirmed_is_not_committed_again_and_needs_no_broker() {
    let cluster = cluster("t", 2);
    let servers = cluster.bootstrap_servers();
    let member = marked(&servers, "t", &[]);
    member.commit().expect("committed");
    assert_eq!(Vec::<Unconfirmed>::new(), member.unconfirmed().expect("ours"));
    // The same once more, and a place before it: only an explicit commit goes back.
    for offset in [5, 3] {
        assert_eq!(Ok(true), member.mark("t", 0, offset, -1, None));
    }
    member.commit_offset("t", 0, 3, -1, None).expect("committed");
    assert_eq!(Vec::<Unconfirmed>::new(), member.unconfirmed().expect("ours"));
    cluster.broker_down(-1).expect("down");
    assert_eq!(Vec::<Unconfirmed>::new(), close(&member, Duration::from_secs(1)).1);
}

#[test]
fn an_automatic_commit_confirms() {
    let cluster = cluster("t", 2);
    let often = [("auto.commit.interval.ms", "20")];
    let member = marked(&cluster.bootstrap_servers(), "t", &often);
    let deadline = wait::deadline(Some(SECONDS));
    let confirmed = || member.unconfirmed().expect("ours").is_empty();
    while !confirmed() {
        assert!(deadline > wait::deadline(Some(Duration::ZERO)), "not in time");
        member.mailbox().wait(&Parker::new(), wait::deadline(Some(Duration::from_millis(20))));
    }
    assert_eq!((0, vec![]), close(&member, SECONDS));
}

/// librdkafka alone would end without leaving, and the group would wait for the session timeout.
#[test]
fn a_cooperative_member_without_a_partition_says_that_it_leaves() {
    let cluster = cluster("t", 2);
    let servers = cluster.bootstrap_servers();
    let cooperative = [("partition.assignment.strategy", "cooperative-sticky"), ("session.timeout.ms", "6000")];
    let join = || {
        let member = subscription(&servers, "g", Options::default(), &cooperative);
        member.subscribe(["t"]).expect("subscribed");
        member
    };
    let (one, two, idle) = (join(), join(), join());
    let members = [&one, &two, &idle];
    let mut owned = [0, 0, 0];
    let deadline = wait::deadline(Some(SECONDS * 2));
    while owned.iter().sum::<usize>() != 2 || owned.contains(&2) {
        assert!(deadline > wait::deadline(Some(Duration::ZERO)), "not shared in time: {owned:?}");
        for (member, owned) in members.iter().zip(&mut owned) {
            member.mailbox().wait(&Parker::new(), wait::deadline(Some(Duration::from_millis(20))));
            match member.pop() {
                Some(SubscriptionEvent::Assigned(partitions)) => *owned += partitions.len(),
                Some(SubscriptionEvent::Revoked { token, partitions, .. }) => {
                    *owned -= partitions.len();
                    member.revoked(token).expect("answered");
                }
                _ => {}
            }
        }
    }
    let without = owned.iter().position(|count| *count == 0).expect("one has none");
    let name = |member: &Subscription| member.with_client(|client| client.member_id()).expect("a client");
    // It may join after the others, and gets its name then.
    while name(members[without]).is_empty() {
        assert!(deadline > wait::deadline(Some(Duration::ZERO)), "no member in time");
        members[without].mailbox().wait(&Parker::new(), wait::deadline(Some(Duration::from_millis(20))));
        members[without].pop();
    }
    assert_eq!((0, vec![]), close(members[without], SECONDS));
    for (index, member) in members.iter().enumerate().filter(|(index, _)| *index != without) {
        assert_eq!((0, vec![]), close(member, SECONDS), "member {index}");
    }
}

/// The answer contains partition 1, too: there was nothing new when it was asked for.
#[test]
fn a_mark_made_while_a_commit_is_on_its_way_stays_until_it_is_confirmed() {
    let cluster = cluster("t", 2);
    let member = marked(&cluster.bootstrap_servers(), "t", &[]);
    member.commit().expect("committed");
    assert_eq!(Ok(true), member.mark("t", 0, 6, -1, None));
    cluster.round_trip_time(-1, 1500).expect("slow");
    let theirs = Arc::clone(&member);
    let committing = std::thread::spawn(move || theirs.commit());
    for offset in 8..=12 {
        member.mailbox().wait(&Parker::new(), wait::deadline(Some(Duration::from_millis(50))));
        assert_eq!(Ok(true), member.mark("t", 1, offset, -1, None));
    }
    committing.join().expect("no panic").expect("committed");
    cluster.round_trip_time(-1, 0).expect("fast");
    let rows = member.unconfirmed().expect("ours");
    match committed(&cluster.bootstrap_servers(), "t")[1] {
        Some(12) => assert!(rows.is_empty(), "it was late: {rows:?}"),
        _ => assert_eq!(vec![Unconfirmed { topic: "t".into(), partition: 1, offset: 12, code: 0 }], rows),
    }
    assert_eq!((0, vec![]), close(&member, SECONDS));
    assert_eq!([Some(6), Some(12)][..], committed(&cluster.bootstrap_servers(), "t"));
}
