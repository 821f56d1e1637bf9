//! What the event thread does for a subscription: it serves the queues, carries out rebalances, and turns what
//! librdkafka reports into the owner's events.

use super::{GROUP_QUEUE, MAIN_QUEUE, Revocation, Subscription, SubscriptionEvent, rejoining};
use crate::error::{Error, KafkaError, check};
use crate::events;
use crate::format::Format;
use crate::lock;
use crate::partition::{Partition, ReadResult};
use crate::poller::Source;
use crate::rd::{Client, Commit, Event, Fetched, PartitionList, Queue, Token, codes, event_types};
use crate::topic_partitions::{TopicPartition, names};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A commit is refused because the group goes on without this member.
const EXPELLED: [i32; 4] =
    [codes::ILLEGAL_GENERATION, codes::UNKNOWN_MEMBER_ID, codes::FENCED_INSTANCE_ID, codes::FENCED_MEMBER_EPOCH];

impl Subscription {
    fn rebalance(&self, client: &Arc<Client>, event: &Event) {
        let list = event.partitions().unwrap_or_default();
        match event.error() {
            _ if self.leaving.load(Ordering::SeqCst) => self.report(self.release_all(client), None),
            codes::ASSIGN_PARTITIONS => {
                let made = self.make_partitions(client, &list);
                let result = if client.rebalance_protocol() == "COOPERATIVE" {
                    client.incremental_assign(&list).map_err(Error::from)
                } else {
                    check(client.assign(Some(&list)))
                };
                self.joining.store(false, Ordering::SeqCst);
                // Before the owner knows of them: a seek in a closed partition fails. This thread also reads them,
                // later.
                if !self.closing.started() {
                    made.iter().for_each(|partition| partition.open());
                }
                let topic_partition = |made: &Arc<Partition>| (Arc::clone(&made.topic), made.number);
                self.mailbox.push(SubscriptionEvent::Assigned(made.iter().map(topic_partition).collect()));
                self.report(result, None);
            }
            codes::REVOKE_PARTITIONS => {
                let partitions = names(&list);
                let closed = self.shut_partitions(Some(&partitions));
                let lost = client.assignment_lost();
                let token = self.last_token.fetch_add(1, Ordering::Relaxed) + 1;
                if let Some(live) = lock(&self.live).as_mut() {
                    live.revoking.insert(token, Revocation { list, _closed: closed });
                }
                if !self.closing.started() {
                    self.mailbox.push(SubscriptionEvent::Revoked { token, partitions, lost });
                }
                // A close answers it after its last commit. A close that is over has not seen this token.
                if self.leaving.load(Ordering::SeqCst) || self.unsubscribing.load(Ordering::SeqCst) {
                    self.report(self.revoked(token), None);
                }
            }
            // An error of the rebalance: answered as librdkafka asks for, by giving everything up.
            _ => self.report(self.release_all(client), None),
        }
    }

    /// Another member may have the partitions that stayed with an expelled one. librdkafka finds that out only when the
    /// revocation that waits is answered.
    fn hold_what_stays(&self) {
        let mut guard = lock(&self.live);
        let Some(live) = guard.as_mut().filter(|live| !live.revoking.is_empty() && live.held.is_empty()) else {
            return;
        };
        live.held = live.partitions.values().cloned().collect();
        live.held.iter().for_each(|partition| partition.hold());
    }

    pub(super) fn report(&self, result: Result<(), Error>, partition: Option<TopicPartition>) {
        if let Err(Error::Kafka(error)) = result {
            self.mailbox.push(SubscriptionEvent::Error { error, partition });
        }
    }

    /// Cuts the queues of these partitions off, before they are assigned; they are to be opened after that.
    pub(super) fn make_partitions(&self, client: &Arc<Client>, list: &PartitionList) -> Vec<Arc<Partition>> {
        let mut all = Vec::new();
        let mut guard = lock(&self.live);
        let Some(live) = guard.as_mut() else { return all };
        for entry in list.entries() {
            let topic: Arc<str> = entry.topic.as_str().into();
            let formats = &self.options.formats;
            let format = formats.get(&entry.topic).or_else(|| formats.get("*")).cloned();
            let format = format.unwrap_or_else(|| Format::LAZY.into());
            let filters = &self.options.filters;
            let filter = filters.get(&entry.topic).or_else(|| filters.get("*")).cloned().flatten();
            let index = live.last_index;
            live.last_index += 1;
            let (limits, token) = (self.options.limits, Token { client: self.id, queue: index });
            let (number, offset) = (entry.partition, entry.offset);
            let made = Partition::new(client, topic, number, offset, format, filter, limits, &self.poller, token);
            if let Some(partition) = made {
                live.partitions.insert(index, Arc::clone(&partition));
                all.push(partition);
            }
        }
        all
    }

    /// Stops reading these partitions (all: `None`), and drops their batches that were not taken. Returns the
    /// partitions.
    pub(super) fn shut_partitions(&self, which: Option<&[TopicPartition]>) -> Vec<Arc<Partition>> {
        let mut closed = Vec::new();
        let concerned = |topic: &Arc<str>, number: i32| {
            which.is_none_or(|list| list.iter().any(|(name, partition)| name == topic && *partition == number))
        };
        if let Some(live) = lock(&self.live).as_mut() {
            live.partitions.retain(|_, partition| {
                let goes = concerned(&partition.topic, partition.number);
                if goes {
                    partition.close();
                    closed.push(Arc::clone(partition));
                }
                !goes
            });
        }
        self.mailbox.retain(|event| match event {
            SubscriptionEvent::Batch(batch) => !concerned(&batch.topic, batch.partition),
            SubscriptionEvent::EndOfPartition { topic, partition, .. } => !concerned(topic, *partition),
            _ => true,
        });
        closed
    }

    /// Serves the main or the group queue; true when it is empty.
    pub(super) fn serve_events(&self, client: &Arc<Client>, queue: &Queue, deadline: Instant) -> bool {
        while let Some(event) = queue.poll() {
            match event.kind() {
                event_types::REBALANCE => self.rebalance(client, &event),
                event_types::ERROR => {
                    let partition = event.partition().map(|(topic, number)| (topic.into(), number));
                    let error = KafkaError::of(&event);
                    if !self.is_irrelevant(&error) {
                        self.mailbox.push(SubscriptionEvent::Error { error, partition });
                    }
                    if rejoining::is_due(&event) {
                        self.report(self.rejoin(client), None);
                    }
                }
                event_types::OFFSET_COMMIT => {
                    self.marks.heard(&Commit::of(&event), None);
                    if EXPELLED.contains(&event.error()) {
                        self.hold_what_stays();
                    }
                    if !matches!(event.error(), 0 | codes::NO_OFFSET) {
                        let error = KafkaError::with_reason(event.error(), event.error_text());
                        self.mailbox.push(SubscriptionEvent::Error { error, partition: None });
                    }
                }
                event_types::STATS if self.check_heartbeats(client, &event) => {}
                _ => events::emit_common(self.poller.events(), &self.name, &event),
            }
            self.progress.wake_all();
            if Instant::now() >= deadline {
                return false;
            }
        }
        self.progress.wake_all();
        true
    }

    /// Takes batches of a partition until it has no more or its credit is spent, and returns true then.
    fn serve_partition(&self, partition: &Partition, fetched: &mut Fetched, deadline: Instant) -> bool {
        let topic_partition = || (Arc::clone(&partition.topic), partition.number);
        let hand_on = |taken| {
            self.mailbox.push(match taken {
                ReadResult::Batch(batch) => SubscriptionEvent::Batch(batch),
                ReadResult::Notice(codes::PARTITION_EOF, _, offset) => {
                    let (topic, partition) = topic_partition();
                    SubscriptionEvent::EndOfPartition { topic, partition, offset }
                }
                ReadResult::Notice(code, reason, _) => SubscriptionEvent::Error {
                    error: KafkaError::with_reason(code, reason),
                    partition: Some(topic_partition()),
                },
            });
        };
        while partition.read(fetched, hand_on) {
            if Instant::now() >= deadline {
                return false;
            }
        }
        true
    }
}

impl Source for Subscription {
    fn serve(&self, queues: &mut Vec<u32>, deadline: Instant) {
        let mut fetched = Fetched::new();
        queues.retain(|index| {
            let (client, queue, partition) = {
                let guard = lock(&self.live);
                let Some(live) = guard.as_ref() else { return false };
                let queue = match *index {
                    MAIN_QUEUE => Some(Arc::clone(&live.main)),
                    GROUP_QUEUE => live.group.clone(),
                    _ => None,
                };
                (Arc::clone(&live.client), queue, live.partitions.get(index).cloned())
            };
            let empty = match (queue, partition) {
                (Some(queue), _) => self.serve_events(&client, &queue, deadline),
                (None, Some(partition)) => self.serve_partition(&partition, &mut fetched, deadline),
                (None, None) => true,
            };
            !empty
        });
    }

    fn all_queues(&self, queues: &mut Vec<u32>) {
        self.mark_ends();
        self.commit_left_out();
        queues.extend([MAIN_QUEUE, GROUP_QUEUE]);
        queues.extend(lock(&self.live).iter().flat_map(|live| live.partitions.keys().copied()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;
    use crate::embedded::EmbeddedCluster;
    use crate::partition::Limits;
    use crate::poller::Poller;
    use crate::producer::{Outgoing, Producer};
    use crate::rd::PartitionList;
    use crate::wait::Parker;
    use std::time::Duration;

    /// A member that no event thread serves.
    fn member(servers: &str, options: Options, setting: (&str, &str)) -> Arc<Subscription> {
        let settings = [("bootstrap.servers", servers), ("group.id", "g"), setting];
        let poller = Poller::global().expect("a pipe");
        let member = Subscription::new("test", settings, options, poller).expect("a subscription");
        member.poller.unregister(member.id);
        member
    }

    /// Otherwise the event thread would come back at once, and never sleep.
    #[test]
    fn queues_with_nothing_left_are_not_served_again() {
        let member = member("127.0.0.1:1", Options::default(), ("log_level", "0"));
        member.assign(&[("t", 0, 0)]).expect("assigned");
        let mut queues = Vec::new();
        member.all_queues(&mut queues);
        assert_eq!(3, queues.len(), "main, group, partition");
        member.serve(&mut queues, Instant::now() + Duration::from_secs(60));
        assert!(queues.is_empty(), "{queues:?}");
        member.close(Duration::ZERO).expect("ours");
    }
    /// There is no signal for what was there before.
    #[test]
    fn events_that_the_deadline_leaves_in_a_queue_are_served_in_the_next_turn() {
        let member = member("127.0.0.1:1", Options::default(), ("debug", "all"));
        let ends = Instant::now() + Duration::from_secs(60);
        let mut queues = Vec::new();
        while queues.is_empty() {
            assert!(Instant::now() < ends, "no event");
            queues.push(MAIN_QUEUE);
            member.serve(&mut queues, Instant::now());
        }
        member.serve(&mut queues, ends);
        assert!(queues.is_empty(), "{queues:?}");
        member.close(Duration::ZERO).expect("ours");
    }

    /// A cluster whose topic `t` has three messages.
    fn filled() -> (EmbeddedCluster, String) {
        let cluster = EmbeddedCluster::start(1).expect("a cluster");
        cluster.create_topic("t", 1).expect("a topic");
        let servers = cluster.bootstrap_servers();
        let poller = Poller::global().expect("a pipe");
        let settings = [("bootstrap.servers", &*servers), ("linger.ms", "10000")]; // the close sends all at once
        let producer = Producer::new("test", settings, poller).expect("a producer");
        for _ in 0..3 {
            let message = Outgoing { topic: "t", payload: Some(b"x"), ..Outgoing::default() };
            producer.produce(message).expect("accepted");
        }
        producer.close(Duration::from_secs(60)).expect("ours");
        producer.closing().wait(&Parker::new(), None);
        assert_eq!(0, producer.closing().lost());
        (cluster, servers)
    }

    /// Otherwise it would seem to be at its end.
    #[test]
    fn partition_is_not_all_given_while_messages_wait_that_had_no_room_in_a_batch() {
        let (_cluster, servers) = filled();
        let options = Options { limits: Limits { bytes: 1, ..Limits::default() }, ..Options::default() };
        let member = member(&servers, options, ("log_level", "0"));
        member.assign(&[("t", 0, 0)]).expect("assigned");
        let partition = lock(&member.live).as_ref().and_then(|live| live.partitions.values().next().cloned());
        let partition = partition.expect("assigned");
        let (mut given, ends) = (0, Instant::now() + Duration::from_secs(60));
        while given < 3 {
            assert!(Instant::now() < ends, "not in time");
            let mut queues = Vec::new();
            member.all_queues(&mut queues);
            member.serve(&mut queues, Instant::now());
            while let Some(event) = member.pop() {
                let SubscriptionEvent::Batch(batch) = event else { continue };
                assert_eq!(1, batch.len());
                batch.advance();
                given += 1;
                assert_eq!((Some(given), given == 3), (partition.position(), partition.is_all_given()));
            }
        }
        member.close(Duration::ZERO).expect("ours");
    }

    /// It may be the old log's, and far behind messages of the new one.
    #[test]
    fn position_of_librdkafka_counts_unless_the_log_has_started_again_since_the_last_seek() {
        let (_cluster, servers) = filled();
        let member = member(&servers, Options::default(), ("enable.partition.eof", "true"));
        member.assign(&[("t", 0, 0)]).expect("assigned");
        let partition = lock(&member.live).as_ref().and_then(|live| live.partitions.values().next().cloned());
        let partition = partition.expect("assigned");
        let read_all = || {
            let (mut count, mut ended, ends) = (0, false, Instant::now() + Duration::from_secs(60));
            while count < 3 || !ended {
                assert!(Instant::now() < ends, "not in time");
                let mut queues = Vec::new();
                member.all_queues(&mut queues);
                member.serve(&mut queues, Instant::now() + Duration::from_secs(1));
                while let Some(event) = member.pop() {
                    match event {
                        SubscriptionEvent::Batch(batch) => count += batch.len(),
                        SubscriptionEvent::EndOfPartition { .. } => ended = true,
                        _ => {}
                    }
                }
            }
        };
        read_all();
        assert_eq!(Some((9, 0)), partition.behind(3, || Some((9, 0))));
        let [list, position] = [0, 0].map(|at| PartitionList::with_offsets([("t", 0, at, -1)]).expect("a list"));
        // If these were not read one by one, the end of the partition would count as a message (`Queue::fetch_singly`).
        assert_eq!(0, member.with_client(|client| client.positions(&position)).expect("open"));
        assert_eq!(vec![3], position.entries().iter().map(|entry| entry.offset).collect::<Vec<_>>());
        member.with_client(|client| client.seek(&list, 60_000)).expect("open").expect("sought");
        read_all();
        assert_eq!(None, partition.behind(3, || unreachable!("the log started again")));
        partition.hold();
        member.with_client(|client| client.seek(&list, 60_000)).expect("open").expect("sought");
        partition.begin(0);
        partition.release();
        read_all();
        assert_eq!(Some((9, 0)), partition.behind(3, || Some((9, 0))));
        member.close(Duration::ZERO).expect("ours");
    }

    #[test]
    fn batches_that_the_deadline_leaves_in_a_partition_come_in_the_next_turn() {
        let (_cluster, servers) = filled();
        let options = Options { limits: Limits { messages: 1, ..Limits::default() }, ..Options::default() };
        let member = member(&servers, options, ("log_level", "0"));
        member.assign(&[("t", 0, -2)]).expect("assigned");
        let mut all = Vec::new();
        member.all_queues(&mut all);
        let (partition, mut batches) = (all[2], 0);
        let ends = Instant::now() + Duration::from_secs(60);
        while batches < 3 {
            assert!(Instant::now() < ends, "not in time");
            let mut queues = vec![partition];
            member.serve(&mut queues, Instant::now());
            if let Some(SubscriptionEvent::Batch(batch)) = member.pop() {
                batches += batch.len();
                assert_eq!((vec![partition], true), (queues, member.mailbox.is_empty()), "one in each turn");
            }
        }
        member.close(Duration::ZERO).expect("ours");
    }
}
