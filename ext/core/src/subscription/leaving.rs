//! How a subscription leaves its group: it commits its marks first, and repeats that until Kafka confirms it.
//!
//! librdkafka commits once, while it gives the assignment back. In the middle of a cooperative rebalance that commit
//! waits behind JoinGroup, because a broker reads nothing more from a connection before it answers. Then the commit is
//! refused, because it belongs to the previous generation. The next owners would repeat everything since the last
//! commit.

use super::{Subscription, rejoining};
use crate::error::Error;
use crate::lock;
use crate::rd::{Client, Commit, Conf, Entry, PartitionList, Queue, Token, codes};
use crate::wait::{self, Parker};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// librdkafka's options that decide how the group is read and left.
pub(super) struct Membership {
    /// Stored offsets are committed without a request.
    pub commits: bool,
    /// It may be cooperative, and is neither static nor of the protocol `consumer`: see `step_down`.
    pub steps_down: bool,
    /// Message by message: the assignment may shrink or end in the middle of a batch.
    pub reads_singly: bool,
    /// It is of the protocol `consumer`: see `HeartbeatMonitor`.
    pub heartbeats: bool,
}

impl Membership {
    pub fn of(conf: &Conf) -> Self {
        // As librdkafka took them: `TRUE`, `t` and `1` are one.
        let option = |key| conf.get(key).unwrap_or_default();
        let cooperative = option("partition.assignment.strategy").to_lowercase().contains("cooperative");
        let consumer = option("group.protocol") == "consumer";
        Self {
            commits: option("enable.auto.commit") == "true",
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
/// How long a close lets a join in progress end.
const JOIN_GRACE: Duration = Duration::from_secs(1);
/// The pause between two attempts, or two checks of state that librdkafka does not report.
const PAUSE: Duration = Duration::from_millis(20);

/// The mark of a partition that Kafka did not confirm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unconfirmed {
    pub topic: String,
    pub partition: i32,
    /// The next to be read.
    pub offset: i64,
    /// Why its commit was refused; 0 if it was not answered.
    pub code: i32,
}

struct Mark {
    offset: i64,
    /// Of its last commit.
    code: i32,
    serial: u64,
}

/// By partition.
type OfTopic = BTreeMap<i32, Mark>;

#[derive(Default)]
struct Table {
    topics: HashMap<String, OfTopic>,
    /// Of the newest mark.
    serial: u64,
}

/// The marks of our partitions, until a commit of them is confirmed.
#[derive(Default)]
pub(super) struct Marks(Mutex<Table>);

impl Marks {
    /// Notes this offset if `store` stored it, as one step: giving the partition up comes before both or after both.
    pub fn note<E>(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
        store: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut table = lock(&self.0);
        let stored = store()?;
        if stored {
            table.serial += 1;
            let mark = Mark { offset, code: 0, serial: table.serial };
            match table.topics.get_mut(topic) {
                Some(of_topic) => drop(of_topic.insert(partition, mark)),
                None => drop(table.topics.insert(topic.into(), OfTopic::from([(partition, mark)]))),
            }
        }
        Ok(stored)
    }

    /// The serial of the newest mark.
    fn newest(&self) -> u64 {
        lock(&self.0).serial
    }

    /// Notes the result of a commit. `all`: it was of everything that was stored when this was the newest mark, so
    /// anything it left out had been committed before. It says nothing about later marks.
    pub fn heard(&self, answer: &Commit, all: Option<u64>) {
        let mut table = lock(&self.0);
        let topics = &mut table.topics;
        let covers = |mark: &Mark| all.is_some_and(|newest| mark.serial <= newest);
        if answer.code == codes::NO_OFFSET {
            return topics.values_mut().for_each(|of_topic| of_topic.retain(|_, mark| !covers(mark)));
        }
        // As a whole, say because the assignment is lost.
        if answer.rows.is_empty() {
            let marks = topics.values_mut().flat_map(OfTopic::values_mut);
            marks.filter(|mark| covers(mark)).for_each(|mark| mark.code = answer.code);
        }
        for row in &answer.rows {
            let Some(of_topic) = topics.get_mut(&row.topic) else { continue };
            let Some(mark) = of_topic.get_mut(&row.partition) else { continue };
            mark.code = row.error;
            if row.error == 0 && (row.offset == mark.offset || covers(mark) && row.offset < 0) {
                of_topic.remove(&row.partition);
            }
        }
    }

    /// These partitions are not ours any more.
    pub fn forget(&self, partitions: &PartitionList) {
        let mut table = lock(&self.0);
        for Entry { topic, partition, .. } in partitions.entries() {
            if let Some(of_topic) = table.topics.get_mut(&topic) {
                of_topic.remove(&partition);
            }
        }
    }

    pub fn clear(&self) {
        lock(&self.0).topics.clear();
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.0).topics.values().all(OfTopic::is_empty)
    }

    fn unconfirmed(&self) -> Vec<Unconfirmed> {
        let mut rows = Vec::new();
        for (topic, of_topic) in &lock(&self.0).topics {
            let row = |(&partition, mark): (&i32, &Mark)| Unconfirmed {
                topic: topic.clone(),
                partition,
                offset: mark.offset,
                code: mark.code,
            };
            rows.extend(of_topic.iter().map(row));
        }
        rows
    }
}

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
                self.marks.heard(&answer, all);
                return Some(answer);
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
        while !self.marks.is_empty() {
            let Some(answer) = self.ask_to_commit(client, None) else { return };
            if !passes(answer.code) && !answer.rows.iter().any(|row| passes(row.error)) || self.closing.is_over() {
                return;
            }
            self.rest(parker, Some(PAUSE), || false);
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
            self.rest(parker, Some(PAUSE), || false);
        }
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

    fn marked(marks: &Marks, partition: i32, offset: i64) {
        assert_eq!(Ok::<_, Error>(true), marks.note("t", partition, offset, || Ok(true)));
    }

    fn answer(code: i32, rows: &[(i32, i64)]) -> Commit {
        let row = |&(partition, offset): &(i32, i64)| Entry {
            topic: "t".into(),
            partition,
            offset,
            leader_epoch: -1,
            metadata: Vec::new(),
            error: 0,
        };
        Commit { code, rows: rows.iter().map(row).collect() }
    }

    fn left(marks: &Marks) -> Vec<(i32, i64, i32)> {
        marks.unconfirmed().into_iter().map(|row| (row.partition, row.offset, row.code)).collect()
    }

    #[test]
    fn an_answer_says_nothing_of_marks_that_came_while_it_was_on_its_way() {
        let nothing = -1001;
        for (code, rows, reported) in [
            (codes::NO_OFFSET, &[][..], vec![(1, 7, 0), (2, 9, 0)]),
            (0, &[(0, nothing), (1, nothing), (2, nothing)], vec![(1, 7, 0), (2, 9, 0)]),
            (0, &[(0, 5), (1, 3), (2, 9)], vec![(1, 7, 0)]),
            (codes::ASSIGNMENT_LOST, &[], vec![(0, 5, codes::ASSIGNMENT_LOST), (1, 7, 0), (2, 9, 0)]),
        ] {
            let marks = Marks::default();
            marked(&marks, 0, 5);
            marked(&marks, 1, 3);
            let asked = marks.newest();
            marked(&marks, 1, 7);
            marked(&marks, 2, 9);
            marks.heard(&answer(code, rows), Some(asked));
            assert_eq!(reported, left(&marks), "{code} {rows:?}");
        }
    }

    #[test]
    fn an_answer_to_a_commit_of_some_offsets_confirms_those_alone() {
        let marks = Marks::default();
        marked(&marks, 0, 5);
        marked(&marks, 1, 7);
        marks.heard(&answer(codes::NO_OFFSET, &[]), None);
        marks.heard(&answer(0, &[(0, 5), (1, 3)]), None);
        assert_eq!(vec![(1, 7, 0)], left(&marks));
    }

    /// A close would wait for its end, which never comes.
    #[test]
    fn no_join_follows_an_unsubscription() {
        let cluster = EmbeddedCluster::start(1).expect("a cluster");
        cluster.create_topic("t", 1).expect("a topic");
        let servers = cluster.bootstrap_servers();
        let settings = [("bootstrap.servers", servers.as_str()), ("group.id", "g")];
        let poller = Poller::global().expect("a pipe");
        let member = Subscription::new("test", settings, Options::default(), poller).expect("a subscription");
        let joins = || member.joining.load(Ordering::SeqCst);
        let next = || {
            let deadline = wait::deadline(Some(Duration::from_secs(60)));
            assert_eq!(Outcome::Ready, member.mailbox().wait(&Parker::new(), deadline), "nothing happened in time");
            member.pop().expect("it is ready")
        };
        member.subscribe(["t"]).expect("subscribed");
        assert!(joins());
        while !matches!(next(), SubscriptionEvent::Assigned(_)) {}
        assert!(!joins());
        member.unsubscribe().expect("unsubscribed");
        let token = loop {
            if let SubscriptionEvent::Revoked { token, .. } = next() {
                break token;
            }
        };
        member.revoked(token).expect("answered");
        assert!(!joins());
        member.close(Duration::from_secs(60)).expect("ours");
        member.closing().wait(&Parker::new(), None);
    }
}
