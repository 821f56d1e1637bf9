//! A member of the protocol `consumer` repeats all it has to say after a heartbeat without an answer.
#![cfg(wraps)]

mod support;

use pelton_core::events::EventKind;
use pelton_core::poller::Poller;
use pelton_core::subscription::Options;
use pelton_core::wait::{Outcome, Parker};
use std::time::Instant;
use support::*;

const CONSUMER_GROUP_HEARTBEAT: i16 = 68;

/// The topics in the next heartbeat, as librdkafka logs them; `NULL`: they are as before.
fn topics_of_next_heartbeat() -> String {
    let events = Poller::global().expect("a pipe").events();
    let deadline = Some(Instant::now() + SECONDS);
    loop {
        let Some(event) = events.pop() else {
            assert_eq!(Outcome::Ready, events.wait(&Parker::new(), deadline), "no heartbeat in time");
            continue;
        };
        let EventKind::Log { message, .. } = event.kind else { continue };
        if let Some((_, topics)) = message.split_once(", subscribed topics \"") {
            return topics.split('"').next().unwrap_or_default().to_owned();
        }
    }
}

/// The answer may have had an assignment, and the coordinator sends that again only then.
#[test]
fn after_an_unanswered_heartbeat_a_member_sends_all_of_its_fields() {
    let cluster = cluster("unanswered", 1);
    cluster.heartbeat_interval(300);
    let settings = [("group.protocol", "consumer"), ("debug", "cgrp")];
    let member = subscription(&cluster.bootstrap_servers(), "unanswered", Options::default(), &settings);
    member.subscribe(["unanswered"]).expect("subscribed");
    while topics_of_next_heartbeat() != "NULL" {}
    cluster.delay_answer(1, CONSUMER_GROUP_HEARTBEAT, 600_000).expect("delayed");
    let start = Instant::now();
    let mut topics = topics_of_next_heartbeat();
    while topics == "NULL" {
        assert!(start.elapsed() < SECONDS, "no heartbeat with all fields");
        topics = topics_of_next_heartbeat();
    }
    assert!(topics.starts_with("unanswered"), "{topics}");
    close_subscription(&member);
}
