//! Members come and go, with eager and cooperative protocols.

mod support;

use pelton_core::subscription::{Happening, Options, Subscription};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::*;

/// Serves both subscriptions until `done`, answering revocations, and keeps what each owns.
fn run(
    members: &mut [(Arc<Subscription>, BTreeSet<i32>)],
    done: impl Fn(&[(Arc<Subscription>, BTreeSet<i32>)]) -> bool,
) {
    let deadline = Instant::now() + SECONDS;
    while !done(members) {
        assert!(Instant::now() < deadline, "not within {SECONDS:?}");
        for (subscription, owned) in members.iter_mut() {
            let parker = pelton_core::wait::Parker::new();
            subscription.mailbox().wait(&parker, Some(Instant::now() + Duration::from_millis(20)));
            while let Some(happening) = subscription.mailbox().pop() {
                match happening {
                    Happening::Assigned(partitions) => owned.extend(partitions.iter().map(|(_, number)| number)),
                    Happening::Revoked { token, partitions, lost } => {
                        assert!(!lost);
                        // Still ours until we answer.
                        for (topic, number) in &partitions {
                            assert!(owned.remove(number), "{number} was not ours");
                            assert_eq!(Ok(true), subscription.mark(topic, *number, 5, -1, None));
                        }
                        subscription.revoked(token).expect("answered");
                        subscription.revoked(token).expect("twice is harmless");
                    }
                    // The mock cluster refuses every commit during a rebalance (Kafka accepts a member's own).
                    Happening::Error { error, .. } => assert_eq!("REBALANCE_IN_PROGRESS", error.name),
                    _ => {}
                }
            }
        }
    }
}

fn members_share_and_give_back(strategy: &str) {
    let cluster = cluster("shared", 4);
    let servers = cluster.bootstrap_servers();
    let start = || {
        let more = [("partition.assignment.strategy", strategy), ("session.timeout.ms", "6000")];
        let member = subscription(&servers, "g", Options::default(), &more);
        member.subscribe(["shared"]).expect("subscribed");
        (member, BTreeSet::new())
    };
    let mut members = vec![start()];
    run(&mut members, |members| members[0].1.len() == 4);
    members.push(start());
    run(&mut members, |members| members[0].1.len() == 2 && members[1].1.len() == 2);
    assert!(members[0].1.is_disjoint(&members[1].1));

    let (leaver, _) = members.pop().expect("two");
    close_subscription(&leaver);
    run(&mut members, |members| members[0].1.len() == 4);
    close_subscription(&members[0].0);
}

#[test]
fn eager_members_share_and_give_back() {
    members_share_and_give_back("range");
}

#[test]
fn cooperative_members_share_and_give_back() {
    members_share_and_give_back("cooperative-sticky");
}

#[test]
fn a_subscription_that_never_answers_a_revocation_can_be_closed() {
    let cluster = cluster("silent", 2);
    let servers = cluster.bootstrap_servers();
    // The mock cluster lets a rebalance last as long as a session, whoever leaves meanwhile.
    let short = [("session.timeout.ms", "6000")];
    let one = subscription(&servers, "g", Options::default(), &short);
    one.subscribe(["silent"]).expect("subscribed");
    while !matches!(next(&one), Happening::Assigned(_)) {}
    let two = subscription(&servers, "g", Options::default(), &short);
    two.subscribe(["silent"]).expect("subscribed");
    while !matches!(next(&one), Happening::Revoked { .. }) {}
    close_subscription(&one);
    while !matches!(next(&two), Happening::Assigned(partitions) if partitions.len() == 2) {}
    close_subscription(&two);
}
