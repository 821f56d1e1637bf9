//! What is committed of the marks where librdkafka alone would commit nothing, or too much.

mod support;

use pelton_core::embedded::EmbeddedCluster;
use pelton_core::subscription::{Options, Subscription, SubscriptionEvent};
use pelton_core::wait::{self, Parker};
use std::sync::Arc;
use std::time::Duration;
use support::*;

const OFFSET_COMMIT: i16 = 8;
const SELDOM: (&str, &str) = ("auto.commit.interval.ms", "600000");

fn committed(servers: &str, group: &str) -> Option<i64> {
    let reader = subscription(servers, group, Options::default(), &[]);
    let found = reader.committed(&[("t", 0)], SECONDS).expect("an answer");
    close_subscription(&reader);
    found[0].as_ref().map(|found| found.offset)
}

/// A cluster whose topic `t` has ten messages, and its address.
fn filled() -> (EmbeddedCluster, String) {
    let cluster = cluster("t", 1);
    let servers = cluster.bootstrap_servers();
    let producer = producer(&servers, &[]);
    produce_all(&producer, "t", 1, &vec![b"x".to_vec(); 10]);
    close_producer(&producer);
    (cluster, servers)
}

/// A member that has read the ten messages of the topic.
fn reader(servers: &str, group: &str, option: (&str, &str)) -> Arc<Subscription> {
    let member = subscription(servers, group, Options::default(), &[option]);
    member.subscribe(["t"]).expect("subscribed");
    let mut read = 0;
    while read < 10 {
        if let SubscriptionEvent::Batch(batch) = taken(&member) {
            read += batch.len();
        }
    }
    member
}

/// The group has committed 60, and the log ends at 10. Each commit left out what was read since then. After a crash,
/// the next member would have begun at 60 in a log that had grown meanwhile.
#[test]
fn a_mark_before_a_committed_offset_that_the_log_lost_is_committed() {
    for option in [SELDOM, ("auto.commit.interval.ms", "20")] {
        let (_cluster, servers) = filled();
        let before = subscription(&servers, "g", Options::default(), &[]);
        before.commit_offset("t", 0, 60, -1, None).expect("committed");
        close_subscription(&before);

        let member = reader(&servers, "g", option);
        assert_eq!(Ok(true), member.mark("t", 0, 10, -1, Some(b"mine")));
        if option == SELDOM {
            member.commit().expect("committed");
        }
        let deadline = wait::deadline(Some(SECONDS));
        while !member.unconfirmed().expect("ours").is_empty() {
            assert!(deadline > wait::deadline(Some(Duration::ZERO)), "not in time");
            member.mailbox().wait(&Parker::new(), wait::deadline(Some(Duration::from_millis(20))));
        }
        let found = member.committed(&[("t", 0)], SECONDS).expect("an answer")[0].clone().expect("one");
        assert_eq!((10, b"mine".to_vec()), (found.offset, found.metadata), "{option:?}");
        close_subscription(&member);
        assert_eq!(Some(10), committed(&servers, "g"));
    }
}

/// librdkafka commits it once more, and repeats that where the topic is gone. A new topic of that name accepted it.
#[test]
fn a_confirmed_mark_is_not_committed_again_with_the_end_of_its_assignment() {
    for confirmed in [true, false] {
        let (cluster, servers) = filled();
        let member = reader(&servers, "g", SELDOM);
        assert_eq!(Ok(true), member.mark("t", 0, 10, -1, None));
        if confirmed {
            member.commit().expect("committed");
        }
        cluster.watch_requests();
        member.unsubscribe().expect("asked for");
        let token = loop {
            if let SubscriptionEvent::Revoked { token, .. } = taken(&member) {
                break token;
            }
        };
        member.revoked(token).expect("answered");
        close_subscription(&member);
        assert_eq!(confirmed, !cluster.watched_requests().contains(&OFFSET_COMMIT));
        assert_eq!(Some(10), committed(&servers, "g"));
    }
}

/// A close commits what is unconfirmed and waits for the answer. librdkafka has nothing left to commit, whether the end
/// of the assignment comes before the call that closes the consumer returns, or after it.
#[test]
fn a_close_commits_each_mark_once() {
    let (cluster, servers) = filled();
    for group in (1..=20).map(|number| format!("g{number}")) {
        let member = reader(&servers, &group, SELDOM);
        assert_eq!(Ok(true), member.mark("t", 0, 10, -1, None));
        cluster.watch_requests();
        close_subscription(&member);
        let commits = cluster.watched_requests().iter().filter(|kind| **kind == OFFSET_COMMIT).count();
        assert_eq!((1, Some(10)), (commits, committed(&servers, &group)), "{group}");
    }
}

/// librdkafka commits by itself only what is behind the committed offset.
#[test]
fn a_mark_before_a_confirmed_one_is_committed() {
    for closes in [false, true] {
        let (_cluster, servers) = filled();
        let member = reader(&servers, "g", SELDOM);
        assert_eq!(Ok(true), member.mark("t", 0, 10, -1, None));
        member.commit().expect("committed");
        assert_eq!(Ok(true), member.mark("t", 0, 4, -1, None));
        assert_eq!(1, member.unconfirmed().expect("ours").len());
        if !closes {
            member.commit().expect("committed");
            assert_eq!(Some(4), committed(&servers, "g"));
        }
        close_subscription(&member);
        assert_eq!(Some(4), committed(&servers, "g"));
    }
}

/// A transaction commits instead, or the owner gives its partition back with the message undone.
#[test]
fn a_removed_mark_is_not_committed_and_removing_what_is_not_marked_is_no_error() {
    let (_cluster, servers) = filled();
    let member = reader(&servers, "g", SELDOM);
    assert_eq!(Ok(()), member.unmark("t", 0), "nothing is marked");
    assert_eq!(Ok(true), member.mark("t", 0, 10, -1, None));
    assert_eq!(Ok(()), member.unmark("t", 0));
    assert!(member.unconfirmed().expect("ours").is_empty());
    member.commit().expect("nothing to commit");
    assert_eq!([Ok(()), Ok(())], [member.unmark("t", 7), member.unmark("u", 0)], "not assigned");
    close_subscription(&member);
    assert_eq!(None, committed(&servers, "g"));
}

#[test]
fn an_offset_of_zero_is_committed_as_any_other() {
    let (_cluster, servers) = filled();
    let member = subscription(&servers, "g", Options::default(), &[]);
    assert_eq!(None, committed(&servers, "g"));
    member.commit_offset("t", 0, 0, -1, None).expect("committed");
    assert_eq!(Some(0), committed(&servers, "g"));
    close_subscription(&member);
}
