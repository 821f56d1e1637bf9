//! Members join and leave, with eager and cooperative protocols.

mod support;

#[cfg(wraps)]
use pelton_core::embedded::EmbeddedCluster;
#[cfg(wraps)]
use pelton_core::producer::Producer;
use pelton_core::rd::codes;
use pelton_core::subscription::{Options, Subscription, SubscriptionEvent};
use pelton_core::wait::Parker;
use std::collections::BTreeSet;
use std::ops::Range;
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
            let parker = Parker::new();
            subscription.mailbox().wait(&parker, Some(Instant::now() + Duration::from_millis(20)));
            while let Some(event) = subscription.mailbox().pop() {
                match event {
                    SubscriptionEvent::Assigned(partitions) => {
                        owned.extend(partitions.iter().map(|(_, number)| number))
                    }
                    SubscriptionEvent::Revoked { token, partitions, lost } => {
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
                    SubscriptionEvent::Error { error, .. } => {
                        assert!(
                            ["REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION"].contains(&error.name.as_str()),
                            "{error}"
                        );
                    }
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
    // The mock cluster lets a rebalance last as long as a session, even if a member leaves meanwhile.
    let short = [("session.timeout.ms", "6000")];
    let one = subscription(&servers, "g", Options::default(), &short);
    one.subscribe(["silent"]).expect("subscribed");
    while !matches!(next(&one), SubscriptionEvent::Assigned(_)) {}
    let two = subscription(&servers, "g", Options::default(), &short);
    two.subscribe(["silent"]).expect("subscribed");
    while !matches!(next(&one), SubscriptionEvent::Revoked { .. }) {}
    close_subscription(&one);
    while !matches!(next(&two), SubscriptionEvent::Assigned(partitions) if partitions.len() == 2) {}
    close_subscription(&two);
}

/// `consume_batch_queue` takes an error about offset 10 for message 10 (rd/queue.rs).
#[test]
fn nothing_is_left_out_after_a_fetch_error_and_a_cooperative_rebalance() {
    const FETCH: i16 = 1;
    const TOPIC_AUTHORIZATION_FAILED: i32 = 29;
    let cluster = cluster("errors", 2);
    let servers = cluster.bootstrap_servers();
    let writer = producer(&servers, &[]);
    let numbers = |numbers: Range<i64>| numbers.map(|number| number.to_string().into_bytes()).collect::<Vec<_>>();
    produce_all(&writer, "errors", 2, &numbers(0..20));
    let more = [
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("session.timeout.ms", "6000"),
        ("fetch.error.backoff.ms", "10"),
    ];
    let join = || {
        let member = subscription(&servers, "g", Options::default(), &more);
        member.subscribe(["errors"]).expect("subscribed");
        member
    };
    let mut seen = Seen::default();
    let first = join();
    seen.watch(&[&first], |seen| seen.offsets.iter().all(|offsets| offsets.len() == 10));
    first.commit().expect("committed");
    // A fetch may be for one of the partitions only, so there is more than one error.
    cluster.push_errors(FETCH, &[TOPIC_AUTHORIZATION_FAILED; 5]);
    seen.watch(&[&first], |seen| seen.errors == BTreeSet::from([0, 1]));
    let second = join();
    seen.watch(&[&first, &second], |seen| seen.owned == [1, 1]);
    produce_all(&writer, "errors", 2, &numbers(20..26));
    seen.watch(&[&first, &second], |seen| seen.offsets.iter().all(|offsets| offsets.len() >= 13));
    assert_eq!([(0..13).collect::<Vec<_>>(), (0..13).collect()], seen.offsets);
    for member in [&first, &second] {
        close_subscription(member);
    }
    close_producer(&writer);
}

/// Twenty messages.
#[cfg(wraps)]
fn twenty() -> Vec<Vec<u8>> {
    vec![b"x".to_vec(); 20]
}

/// Two members, of which the first had both partitions and read ten messages of each. It has to give one back, and its
/// answer is to come.
#[cfg(wraps)]
struct Revoking {
    writer: Arc<Producer>,
    first: Arc<Subscription>,
    second: Arc<Subscription>,
    seen: Seen,
    token: u64,
    revoked: usize,
}

#[cfg(wraps)]
impl Revoking {
    fn of(cluster: &EmbeddedCluster, topic: &str) -> Self {
        let servers = cluster.bootstrap_servers();
        let writer = producer(&servers, &[]);
        let more = [("partition.assignment.strategy", "cooperative-sticky"), ("session.timeout.ms", "6000")];
        let join = || {
            let member = subscription(&servers, "g", Options::default(), &more);
            member.subscribe([topic]).expect("subscribed");
            member
        };
        let mut seen = Seen::default();
        let first = join();
        produce_all(&writer, topic, 2, &twenty());
        seen.watch(&[&first], |seen| seen.offsets.iter().all(|offsets| offsets.len() == 10));
        first.commit().expect("committed");
        let second = join();
        let (token, given) = loop {
            match taken(&first) {
                SubscriptionEvent::Revoked { token, partitions, lost: false } => break (token, partitions),
                event => seen.note(0, &first, event),
            }
        };
        assert_eq!(1, given.len());
        Self { writer, first, second, seen, token, revoked: given[0].1 as usize }
    }
}

/// It would do the work of others for as long as the job of a revoked partition runs.
#[cfg(wraps)]
#[test]
fn expelled_member_reads_nothing_more_until_its_revocation_is_answered() {
    const OFFSET_COMMIT: i16 = 8;
    let cluster = cluster("expelled", 2);
    let Revoking { writer, first, second, mut seen, token, revoked } = Revoking::of(&cluster, "expelled");
    let produce = || produce_all(&writer, "expelled", 2, &twenty());
    let stays = 1 - revoked;
    cluster.push_errors(OFFSET_COMMIT, &[codes::UNKNOWN_MEMBER_ID; 20]);
    produce();
    // What it has got is marked, and the commit of that is refused.
    loop {
        match taken(&first) {
            SubscriptionEvent::Error { error, .. } if error.name == "UNKNOWN_MEMBER_ID" => break,
            event => seen.note(0, &first, event),
        }
    }
    let got = seen.offsets[stays].len();
    assert_eq!(20, got);
    produce();
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        first.mailbox().wait(&Parker::new(), Some(until));
        while let Some(event) = first.pop() {
            seen.note(0, &first, event);
        }
    }
    assert_eq!(got, seen.offsets[stays].len());
    first.revoked(token).expect("answered");
    seen.watch(&[&first, &second], |seen| seen.offsets[stays].len() >= 30);
    for member in [&first, &second] {
        close_subscription(member);
    }
    close_producer(&writer);
}

/// librdkafka alone pauses all partitions until a revocation is answered, and the answer may wait for a long job.
#[cfg(wraps)]
#[test]
fn partitions_that_stay_are_read_and_sought_while_a_revocation_waits_for_its_answer() {
    let cluster = cluster("stays", 2);
    let Revoking { writer, first, second, mut seen, token, revoked } = Revoking::of(&cluster, "stays");
    let produce = || produce_all(&writer, "stays", 2, &twenty());
    let stays = 1 - revoked;

    produce();
    seen.watch(&[&first], |seen| seen.offsets[stays].len() == 20);
    let seek = first.announce_seek("stays", stays as i32).expect("assigned");
    first.seek(&seek, 15, SECONDS).expect("sought");
    seen.watch(&[&first], |seen| seen.offsets[stays].len() == 25);
    assert_eq!(10, seen.offsets[revoked].len(), "what is revoked is not read");

    first.revoked(token).expect("answered");
    produce();
    seen.watch(&[&first, &second], |seen| seen.offsets[stays].len() == 35 && seen.offsets[revoked].len() == 30);
    assert_eq!((0..20).chain(15..30).collect::<Vec<_>>(), seen.offsets[stays]);
    assert_eq!((0..30).collect::<Vec<_>>(), seen.offsets[revoked]);
    for member in [&first, &second] {
        close_subscription(member);
    }
    close_producer(&writer);
}

/// The messages of two partitions that members of a group got.
#[derive(Default)]
struct Seen {
    offsets: [Vec<i64>; 2],
    /// Partitions that reported an error.
    errors: BTreeSet<i32>,
    /// How many each member has.
    owned: [usize; 2],
}

impl Seen {
    /// Serves these members until it is enough; messages are marked.
    fn watch(&mut self, members: &[&Arc<Subscription>], enough: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + SECONDS;
        while !enough(self) {
            assert!(Instant::now() < deadline, "not in time: {:?} {:?} {:?}", self.offsets, self.errors, self.owned);
            for (index, member) in members.iter().enumerate() {
                member.mailbox().wait(&Parker::new(), Some(Instant::now() + Duration::from_millis(20)));
                while let Some(event) = member.pop() {
                    self.note(index, member, event);
                }
            }
        }
    }

    fn note(&mut self, index: usize, member: &Subscription, event: SubscriptionEvent) {
        match event {
            SubscriptionEvent::Assigned(partitions) => self.owned[index] += partitions.len(),
            SubscriptionEvent::Revoked { token, partitions, .. } => {
                self.owned[index] -= partitions.len();
                member.revoked(token).expect("answered");
            }
            SubscriptionEvent::Batch(batch) => {
                let offsets = batch
                    .chunks()
                    .into_iter()
                    .flat_map(|chunk| chunk.records().iter().map(|record| record.offset).collect::<Vec<_>>());
                let offsets: Vec<_> = offsets.collect();
                let next = offsets.last().expect("messages") + 1;
                self.offsets[batch.partition as usize].extend(offsets);
                member.mark(&batch.topic, batch.partition, next, -1, None).expect("ours");
            }
            SubscriptionEvent::Error { partition: Some((_, number)), .. } => drop(self.errors.insert(number)),
            _ => {}
        }
    }
}

/// librdkafka may stop the heartbeats of such a member for good. The mock cluster wants one each 3 s, so the member
/// counts as lost here before it is.
#[test]
fn member_with_a_silent_coordinator_loses_its_partitions_and_reports_it() {
    let cluster = cluster("silent", 2);
    let options = Options { silence: Some(Duration::from_millis(1500)), ..Options::default() };
    let settings = [("group.protocol", "consumer"), ("statistics.interval.ms", "50")];
    let member = subscription(&cluster.bootstrap_servers(), "silent", options, &settings);
    member.subscribe(["silent"]).expect("subscribed");
    let (mut assigned, mut lost) = (0, 0);
    loop {
        match taken(&member) {
            SubscriptionEvent::Assigned(partitions) => assigned += partitions.len(),
            SubscriptionEvent::Revoked { token, partitions, lost: true } => {
                lost += partitions.len();
                member.revoked(token).expect("nothing is to be given back");
            }
            SubscriptionEvent::Error { error, .. } if error.fatal => {
                assert_eq!("_ASSIGNMENT_LOST", error.name);
                break;
            }
            _ => {}
        }
    }
    assert_eq!((2, 2), (assigned, lost));
    close_subscription(&member);
}

/// librdkafka keeps such partitions, and never reads them.
#[test]
fn partitions_whose_committed_offsets_could_not_be_fetched_are_read_after_another_join() {
    const OFFSET_FETCH: i16 = 9;
    let cluster = cluster("unfetched", 1);
    let writer = producer(&cluster.bootstrap_servers(), &[]);
    produce_all(&writer, "unfetched", 1, &vec![b"x".to_vec(); 10]);
    close_producer(&writer);
    cluster.push_errors(OFFSET_FETCH, &[codes::NOT_COORDINATOR]);
    let short = [("session.timeout.ms", "6000")];
    let member = subscription(&cluster.bootstrap_servers(), "g", Options::default(), &short);
    member.subscribe(["unfetched"]).expect("subscribed");
    let (mut failed, mut read) = (false, 0);
    while read < 10 {
        match taken(&member) {
            SubscriptionEvent::Batch(batch) => read += batch.len(),
            SubscriptionEvent::Revoked { token, .. } => member.revoked(token).expect("answered"),
            SubscriptionEvent::Error { error, .. } => failed |= error.reason.starts_with("Failed to fetch committed"),
            _ => {}
        }
    }
    assert!(failed);
    close_subscription(&member);
}
