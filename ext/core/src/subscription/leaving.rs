//! How a subscription leaves its group: it commits its marks first, and repeats that until Kafka confirms it.
//!
//! librdkafka commits once, while it gives the assignment back. In the middle of a cooperative rebalance that commit
//! waits behind JoinGroup, because a broker reads nothing more from a connection before it answers. Then the commit is
//! refused, because it belongs to the previous generation. The next owners would repeat everything since the last
//! commit.

use super::{Subscription, Unconfirmed, rejoining};
use crate::error::Error;
use crate::lock;
use crate::rd::{Client, Commit, Conf, PartitionList, Queue, Token, codes};
use crate::wait::{self, Parker};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// librdkafka's options that decide how the group is read and left.
pub(super) struct Membership {
    pub has_group: bool,
    /// Stored offsets are committed without a request.
    pub commits: bool,
    /// How long librdkafka's timer and the answer may take. After that, the mark was left out. `None`: no timer
    /// commits.
    pub left_out_after: Option<Duration>,
    /// It may be cooperative, and is neither static nor of the protocol `consumer`: see `step_down`.
    pub steps_down: bool,
    /// Message by message: the assignment may shrink or end in the middle of a batch.
    pub reads_singly: bool,
    /// It is of the protocol `consumer`: see `HeartbeatMonitor`.
    pub heartbeats: bool,
}

impl Membership {
    pub fn of(conf: &Conf, has_group: bool) -> Self {
        // As librdkafka took them: `TRUE`, `t` and `1` are one.
        let option = |key| conf.get(key).unwrap_or_default();
        let cooperative = option("partition.assignment.strategy").to_lowercase().contains("cooperative");
        let consumer = option("group.protocol") == "consumer";
        let commits = option("enable.auto.commit") == "true";
        let interval = option("auto.commit.interval.ms").parse().ok().map(Duration::from_millis);
        Self {
            has_group,
            commits,
            left_out_after: interval.filter(|interval| commits && !interval.is_zero()).map(|time| time + LATE),
            steps_down: cooperative && !consumer && option("group.instance.id").is_empty(),
            reads_singly: option("enable.partition.eof") == "true" || cooperative || consumer,
            heartbeats: consumer,
        }
    }
}

/// A commit in the middle of a rebalance, with the previous generation or before the new one is assigned. Or the
/// coordinator is unknown at present.
const PASSING: [i32; 4] =
    [codes::ILLEGAL_GENERATION, codes::REBALANCE_IN_PROGRESS, codes::STALE_MEMBER_EPOCH, codes::WAIT_COORD];
/// How long a close lets questions for committed offsets get their answers.
const ASK_GRACE: Duration = Duration::from_secs(1);
/// The answer to a commit takes less.
const LATE: Duration = Duration::from_secs(5);
/// How long a close lets a join in progress end.
const JOIN_GRACE: Duration = Duration::from_secs(1);
/// The pause between two attempts, or two checks of state that librdkafka does not report.
const PAUSE: Duration = Duration::from_millis(20);

impl Subscription {
    /// The marks of our partitions that Kafka did not confirm (yet). After the close, their next owners process these
    /// messages again.
    pub fn unconfirmed(&self) -> Result<Vec<Unconfirmed>, Error> {
        self.check_origin()?;
        Ok(self.marks.unconfirmed())
    }

    /// Commits everything stored (`None`) or these offsets, and waits for the answer. `None`: there is no answer, or
    /// none before the close must be over.
    pub(super) fn ask_to_commit(&self, client: &Arc<Client>, offsets: Option<&PartitionList>) -> Option<Commit> {
        const LOOK: Duration = Duration::from_millis(500);
        let queue = Queue::new(client);
        let all = offsets.is_none().then(|| self.marks.newest());
        let code = client.commit_through(&queue, offsets);
        if code != 0 {
            return Some(Commit { code, rows: Vec::new() });
        }
        loop {
            let left = self.closing.ends().map_or(LOOK, |ends| ends.saturating_duration_since(Instant::now()));
            if let Some(event) = queue.poll_wait(left.min(LOOK).as_millis() as i32) {
                let answer = Commit::of(&event);
                return match self.marks.heard(&answer, all) {
                    Some(left_out) => self.ask_to_commit(client, Some(&left_out)).map(|last| answer.and(last)),
                    None => Some(answer),
                };
            }
            if left.is_zero() || client.consumer_closed() {
                return None;
            }
        }
    }

    /// Commits the marks, gives the assignment back, and leaves the group. Returns false if that was not confirmed in
    /// time.
    pub(super) fn leave(&self, client: &Arc<Client>, group: &Arc<Queue>) -> bool {
        let parker = Parker::new();
        // librdkafka drops an answer that comes after the end of the group (`rd_kafka_op_handle_OffsetFetch`: "quick
        // cleanup"). The call would wait until its own deadline, and the end of the client for the call.
        let asked = wait::deadline(Some(ASK_GRACE));
        self.progress.wait(&parker, asked, || self.asking.load(Ordering::SeqCst) == 0);
        if self.member.commits {
            self.commit_last(client, &parker);
        }
        // Leaving in the middle of a join may crash librdkafka 2.12.1: a late SyncGroup answer finds no coordinator
        // (`rd_kafka_cgrp_handle_LeaveGroup`). Also, a member that has no id yet cannot say that it leaves. Joins are
        // short if a broker answers.
        self.rest(&parker, Some(JOIN_GRACE), || !self.joining.load(Ordering::SeqCst));
        self.step_down(client, &parker);
        if client.close_consumer(group).is_err() {
            return false;
        }
        self.leaving.store(true, Ordering::SeqCst);
        self.answer_revocations();
        self.poller.wake(Token { client: self.id, queue: super::GROUP_QUEUE });
        // The event thread answers what comes meanwhile and looks here after each event.
        self.rest(&parker, None, || client.consumer_closed())
    }

    /// Again and again, until the end, as long as a rebalance or the coordinator's move is in the way. Revocations
    /// that come meanwhile wait.
    fn commit_last(&self, client: &Arc<Client>, parker: &Arc<Parker>) {
        let passes = |code: i32| PASSING.contains(&code) || rejoining::PASSING.contains(&code);
        while !self.marks.all_confirmed() {
            let Some(answer) = self.ask_to_commit(client, None) else { return };
            if !passes(answer.code) && !answer.rows.iter().any(|row| passes(row.error)) || self.closing.is_over() {
                return;
            }
            self.rest_briefly(parker);
        }
    }

    /// librdkafka ends a dynamic member of a classic cooperative group that has no partition without a request to the
    /// broker (`rd_kafka_cgrp_revoke_all_rejoin`, "terminating"). The group then waits for the session's time. If such
    /// a member unsubscribes, it does leave, after a join in progress, and forgets its id.
    fn step_down(&self, client: &Arc<Client>, parker: &Arc<Parker>) {
        let has_none = || client.assignment().is_none_or(|list| list.entries().is_empty());
        if !self.member.steps_down || !has_none() {
            return;
        }
        self.unsubscribing.store(true, Ordering::SeqCst);
        self.answer_revocations();
        if client.unsubscribe() != 0 {
            return;
        }
        while !client.member_id().is_empty() && !self.closing.is_over() {
            self.rest_briefly(parker);
        }
    }

    fn rest_briefly(&self, parker: &Arc<Parker>) {
        self.rest(parker, Some(PAUSE), || false);
    }

    /// Waits until it is `ready` (true), for at most that time, and not beyond the close's deadline, which may move
    /// nearer meanwhile.
    fn rest(&self, parker: &Arc<Parker>, time: Option<Duration>, ready: impl Fn() -> bool) -> bool {
        let time = wait::deadline(time);
        loop {
            let ends = self.closing.ends();
            let until = time.into_iter().chain(ends).min();
            self.progress.wait(parker, until, || ready() || self.closing.ends() != ends);
            if ready() || self.closing.ends() == ends {
                return ready();
            }
        }
    }

    /// Revocations that wait for an owner would wait forever.
    fn answer_revocations(&self) {
        let tokens: Vec<u64> = lock(&self.live).iter().flat_map(|live| live.revoking.keys().copied()).collect();
        for token in tokens {
            let _ = self.revoked(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Options, SubscriptionEvent};
    use super::*;
    use crate::embedded::EmbeddedCluster;
    use crate::poller::Poller;
    use crate::wait::Outcome;
    use std::sync::atomic::AtomicBool;

    /// A member of a group.
    fn member(servers: &str) -> Arc<Subscription> {
        let settings = [("bootstrap.servers", servers), ("log_level", "0"), ("group.id", "g")];
        let poller = Poller::global().expect("a pipe");
        Subscription::new("test", settings, Options::default(), poller).expect("a subscription")
    }

    fn next(member: &Subscription) -> SubscriptionEvent {
        let deadline = wait::deadline(Some(Duration::from_secs(60)));
        assert_eq!(Outcome::Ready, member.mailbox().wait(&Parker::new(), deadline), "nothing happened in time");
        member.pop().expect("it is ready")
    }

    #[test]
    fn options_decide_how_a_group_is_read_and_left() {
        let member = |settings: &[(&str, &str)]| {
            let mut conf = Conf::new();
            settings.iter().for_each(|(key, value)| conf.set(key, value).expect("a good option"));
            let of = Membership::of(&conf, true);
            let Membership { commits, left_out_after, steps_down, reads_singly, heartbeats, .. } = of;
            (commits, left_out_after.map(|time| time.as_secs()), steps_down, reads_singly, heartbeats)
        };
        let cooperative = ("partition.assignment.strategy", "cooperative-sticky");
        let (consumer, fixed) = (("group.protocol", "consumer"), ("group.instance.id", "me"));
        assert_eq!((true, Some(10), false, false, false), member(&[]));
        assert_eq!((false, None, false, false, false), member(&[("enable.auto.commit", "f")]));
        assert_eq!((true, None, false, false, false), member(&[("auto.commit.interval.ms", "0")]));
        assert_eq!((true, Some(10), false, true, false), member(&[("enable.partition.eof", "TRUE")]));
        assert_eq!((true, Some(10), true, true, false), member(&[cooperative]));
        assert_eq!((true, Some(10), false, true, false), member(&[cooperative, fixed]));
        assert_eq!((true, Some(10), false, true, true), member(&[consumer]));
        assert_eq!((true, Some(10), false, true, true), member(&[consumer, cooperative]));
    }

    /// The event thread would wake the wait a second later, so here it does not look after this member.
    #[test]
    fn a_shortened_deadline_ends_a_wait_of_the_close_at_once() {
        let member = member("127.0.0.1:1");
        member.poller.unregister(member.id);
        member.closing.limit(Duration::from_secs(600));
        member.closing.start(|| 0);
        let waits = Arc::new(AtomicBool::new(false));
        let waiting = std::thread::spawn({
            let (member, waits) = (Arc::clone(&member), Arc::clone(&waits));
            move || {
                let started = Instant::now();
                let ready = || {
                    waits.store(true, Ordering::SeqCst);
                    false
                };
                (member.rest(&Parker::new(), Some(Duration::from_secs(60)), ready), started.elapsed())
            }
        });
        while !waits.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        member.shorten_deadline(Duration::ZERO);
        let (ready, took) = waiting.join().expect("no panic");
        assert!(!ready && took < Duration::from_secs(30), "{took:?}");
        member.end();
    }

    /// librdkafka would drop the answer, and the caller would wait until its own deadline.
    #[test]
    fn a_close_lets_a_question_for_committed_offsets_get_its_answer() {
        let cluster = EmbeddedCluster::start(1).expect("a cluster");
        cluster.create_topic("t", 1).expect("a topic");
        let servers = cluster.bootstrap_servers();
        let settings = [("bootstrap.servers", servers.as_str()), ("group.id", "g")];
        let poller = Poller::global().expect("a pipe");
        let answered = |_| {
            let member = Subscription::new("test", settings, Options::default(), poller).expect("a subscription");
            let ask = |member: &Subscription| member.committed(&[("t", 0)], Duration::from_secs(30)).is_ok();
            cluster.round_trip_time(-1, 0).expect("fast");
            assert!(ask(&member), "it knows its coordinator now");
            cluster.round_trip_time(-1, 300).expect("slow");
            let asking = std::thread::spawn({
                let member = Arc::clone(&member);
                move || ask(&member)
            });
            while member.asking.load(Ordering::SeqCst) == 0 && !asking.is_finished() {
                std::thread::yield_now();
            }
            member.close(Duration::from_secs(60)).expect("ours");
            asking.join().expect("no panic")
        };
        assert!((0..5).any(answered), "a busy machine may take longer than the close waits, but not each time");
    }

    /// A close would wait for its end, which never comes.
    #[test]
    fn no_join_follows_an_unsubscription() {
        let cluster = EmbeddedCluster::start(1).expect("a cluster");
        cluster.create_topic("t", 1).expect("a topic");
        let member = member(&cluster.bootstrap_servers());
        let joins = || member.joining.load(Ordering::SeqCst);
        assert!(!joins());
        member.subscribe(["t"]).expect("subscribed");
        assert!(joins());
        while !matches!(next(&member), SubscriptionEvent::Assigned(_)) {}
        assert!(!joins());
        member.committed(&[("t", 0)], Duration::from_secs(60)).expect("answered");
        assert_eq!(0, member.asking.load(Ordering::SeqCst));
        member.unsubscribe().expect("unsubscribed");
        let token = loop {
            if let SubscriptionEvent::Revoked { token, .. } = next(&member) {
                break token;
            }
        };
        member.revoked(token).expect("answered");
        assert!(!joins());
        member.close(Duration::from_secs(60)).expect("ours");
        member.closing().wait(&Parker::new(), None);
    }
    /// Nothing that librdkafka's timer leaves out is committed during a join.
    #[test]
    fn no_join_follows_a_subscription_that_is_refused() {
        let member = member("127.0.0.1:1");
        let state = || [&member.joining, &member.subscribed].map(|flag| flag.load(Ordering::SeqCst));
        for topics in [&["^["][..], &[""], &["a\0b"], &[]] {
            assert!(member.subscribe(topics.iter().copied()).is_err(), "{topics:?}");
            assert_eq!([false, false], state(), "{topics:?}");
        }
        member.subscribe(["t"]).expect("subscribed");
        assert_eq!([true, true], state());
        assert!(member.subscribe([""]).is_err());
        assert_eq!([true, true], state(), "as before");
        member.joining.store(false, Ordering::SeqCst); // as an assignment does
        assert!(member.subscribe([""]).is_err());
        assert_eq!([false, true], state(), "as before");
        member.close(Duration::ZERO).expect("ours");
    }

    /// librdkafka may crash otherwise. Here the join never ends.
    #[test]
    fn a_close_lets_a_join_in_progress_end() {
        let member = member("127.0.0.1:1");
        member.subscribe(["t"]).expect("subscribed");
        let began = Instant::now();
        member.close(Duration::from_secs(60)).expect("ours");
        member.closing().wait(&Parker::new(), None);
        assert!(began.elapsed() >= JOIN_GRACE, "{:?}", began.elapsed());
    }

    /// The close waits for the join. A member that is joining commits nothing by itself.
    #[test]
    fn a_join_follows_a_revocation_by_the_group() {
        let cluster = EmbeddedCluster::start(1).expect("a cluster");
        cluster.create_topic("t", 2).expect("a topic");
        let servers = cluster.bootstrap_servers();
        let (member, other) = (member(&servers), member(&servers));
        let joins = || member.joining.load(Ordering::SeqCst);
        member.subscribe(["t"]).expect("subscribed");
        while !matches!(next(&member), SubscriptionEvent::Assigned(_)) {}
        assert!(!joins());
        other.subscribe(["t"]).expect("subscribed");
        let token = loop {
            if let SubscriptionEvent::Revoked { token, .. } = next(&member) {
                break token;
            }
        };
        assert!(!joins(), "not before the revocation is answered");
        member.poller.unregister(member.id); // its next assignment is to wait
        member.revoked(token).expect("answered");
        assert!(joins());
        for one in [&member, &other] {
            one.close(Duration::ZERO).expect("ours");
        }
    }

    /// librdkafka lets the others leave by itself.
    #[test]
    fn only_a_cooperative_member_without_a_partition_unsubscribes_before_it_leaves() {
        let stays = |strategy, partitions: &[_]| {
            let settings = [("bootstrap.servers", "127.0.0.1:1"), ("log_level", "0"), ("group.id", "g")];
            let settings = settings.into_iter().chain([("partition.assignment.strategy", strategy)]);
            let poller = Poller::global().expect("a pipe");
            let member = Subscription::new("test", settings, Options::default(), poller).expect("a subscription");
            member.subscribe(["t"]).expect("subscribed");
            member.assign(partitions).expect("assigned");
            member.step_down(&member.client().expect("open"), &Parker::new());
            member.close(Duration::ZERO).expect("ours");
            !member.unsubscribing.load(Ordering::SeqCst)
        };
        assert!(!stays("cooperative-sticky", &[]));
        assert!(stays("cooperative-sticky", &[("t", 0, 0)]));
        assert!(stays("range", &[]));
    }

    /// There is no owner any more who would answer it.
    #[test]
    fn a_revocation_that_comes_during_a_close_is_answered() {
        let cluster = EmbeddedCluster::start(1).expect("a cluster");
        cluster.create_topic("t", 1).expect("a topic");
        let member = member(&cluster.bootstrap_servers());
        member.subscribe(["t"]).expect("subscribed");
        while !matches!(next(&member), SubscriptionEvent::Assigned(_)) {}
        member.unsubscribing.store(true, Ordering::SeqCst); // as `step_down` does
        member.unsubscribe().expect("asked for");
        let assigned = || !member.assignment().expect("ours").is_empty();
        let deadline = Instant::now() + Duration::from_secs(60);
        while assigned() {
            assert!(Instant::now() < deadline, "it is not answered");
            member.progress.wait(&Parker::new(), Some(Instant::now() + PAUSE), || false);
        }
        member.close(Duration::from_secs(60)).expect("ours");
        member.closing().wait(&Parker::new(), None);
    }
}
