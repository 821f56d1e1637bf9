//! Positions of a subscription in its partitions: marks, commits, pauses, and Kafka's answers about offsets.

use super::Subscription;
use super::marks::Stored;
use crate::error::{Error, KafkaError, check};
use crate::lock;
use crate::partition::Partition;
use crate::rd::{Client, Entry, PartitionList, Topic, codes};
use crate::topic_partitions::{TopicPartition, bad_topic, names, offsets, plain};
use crate::wait;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A group's committed offset of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    pub offset: i64,
    /// Empty where none was given.
    pub metadata: Vec<u8>,
}

/// Of a partition that is read.
pub struct End {
    pub topic_partition: TopicPartition,
    /// As `Subscription::position`.
    pub position: Option<i64>,
    /// The offset that its next message will have, according to the last fetch. `None`: there was no fetch.
    pub end: Option<i64>,
    /// Between `position` and this offset is no message: only ends of transactions, for example. `None`: not known, or
    /// the owner does not have all messages that were read.
    pub reached: Option<i64>,
}

impl Subscription {
    /// Stores `offset` (the next to read) for the next commit, with the owner's metadata. Returns false if the
    /// partition is no longer ours.
    pub fn mark(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
        leader_epoch: i32,
        metadata: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.check_group()?;
        // Messages that were processed before a close may be marked until the assignment is given back.
        let client = self.with_client(Arc::clone)?;
        if client.assignment_lost() {
            return Ok(false);
        }
        let stored = Stored { topic, partition, offset, leader_epoch, metadata };
        let list = Stored::list(std::slice::from_ref(&stored))?;
        self.marks.note(&stored, || match client.store_offsets(&list) {
            0 => Ok(list.entries().first().is_some_and(|entry| entry.error == 0)),
            // Not assigned; never was.
            codes::STATE | codes::UNKNOWN_PARTITION => Ok(false),
            code => Err(Error::code(code)),
        })
    }

    /// Forgets the marks of a partition. What is marked is committed already: librdkafka would commit it again when it
    /// gives the partition back, over what a transaction committed since.
    pub fn unmark(&self, topic: &str, partition: i32) -> Result<(), Error> {
        let nothing = plain(&[(topic, partition)])?;
        let client = self.with_client(Arc::clone)?;
        self.marks.unmark(topic, partition, || match client.store_offsets(&nothing) {
            0 | codes::STATE | codes::UNKNOWN_PARTITION => Ok(()),
            code => Err(Error::code(code)),
        })
    }

    /// Commits the marks and waits for the answer (a round trip, with librdkafka's own time limits). No marks are no
    /// error.
    pub fn commit(&self) -> Result<(), Error> {
        self.check_group()?;
        match self.ask_to_commit(&self.client()?, None).ok_or(Error::Closed)?.code {
            codes::NO_OFFSET => Ok(()),
            code => check(code),
        }
    }

    /// The same without waiting. A failure becomes an error event.
    pub fn commit_async(&self) -> Result<(), Error> {
        self.commit_through_main(None)
    }

    /// Commits this offset, wherever it is, without waiting. A failure becomes an error event.
    pub fn commit_offset_async(&self, topic: &str, partition: i32, offset: i64) -> Result<(), Error> {
        self.commit_through_main(Some(&offsets([(topic, partition, offset, -1)])?))
    }

    /// Commits what librdkafka's timer leaves out. For the event thread, once a second.
    pub(super) fn commit_left_out(&self) {
        let Some(age) = self.member.left_out_after else { return };
        if self.closing.started() || self.joining.load(Ordering::SeqCst) || self.is_lost() != Ok(false) {
            return;
        }
        // Then the timer commits nothing, and partitions that stay are consumed meanwhile.
        let revokes = lock(&self.live).as_ref().is_some_and(|live| !live.revoking.is_empty());
        if revokes && !self.marks.all_confirmed() {
            return self.report(self.commit_through_main(None), None);
        }
        if let Some(list) = self.marks.overdue(age) {
            self.report(self.commit_through_main(Some(&list)), None);
        }
    }

    /// Moves the marks of partitions whose messages are all done behind the ends of transactions that follow. Kafka's
    /// own consumer commits them, too; without that, they are a lag until the next message. For the event thread, once
    /// a second.
    pub(super) fn mark_ends(&self) {
        if !self.member.commits || self.closing.started() || self.joining.load(Ordering::SeqCst) {
            return;
        }
        if self.is_lost() != Ok(false) {
            return;
        }
        let Ok(client) = self.client() else { return };
        let partitions: Vec<_> = lock(&self.live).iter().flat_map(|live| live.partitions.values().cloned()).collect();
        for one in partitions {
            let ask = || {
                let list = plain(&[(&one.topic, one.number)]).ok()?;
                let taken = (client.positions(&list) == 0).then(|| list.entries().into_iter().next())??;
                (taken.error == 0).then_some((taken.offset, taken.leader_epoch))
            };
            let store = |list: &PartitionList| {
                client.store_offsets(list) == 0 && list.entries().first().is_some_and(|entry| entry.error == 0)
            };
            self.marks.move_on(&one.topic, one.number, |offset| one.behind(offset, ask), store);
        }
    }

    fn commit_through_main(&self, list: Option<&PartitionList>) -> Result<(), Error> {
        self.check_group()?;
        let client = self.client()?;
        let main = lock(&self.live).as_ref().map(|live| Arc::clone(&live.main)).ok_or(Error::Closed)?;
        check(client.commit_through(&main, list))
    }

    /// Commits this offset with the owner's metadata, even if it equals the committed offset or is before it. By itself
    /// librdkafka commits only later offsets, whatever metadata was marked. Blocks for the answer.
    pub fn commit_offset(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
        leader_epoch: i32,
        metadata: Option<&[u8]>,
    ) -> Result<(), Error> {
        self.check_group()?;
        let list = Stored::list(&[Stored { topic, partition, offset, leader_epoch, metadata }])?;
        check(self.ask_to_commit(&self.client()?, Some(&list)).ok_or(Error::Closed)?.code)
    }

    /// The group's committed offset of each partition. Blocks up to `timeout`.
    pub fn committed(&self, partitions: &[(&str, i32)], timeout: Duration) -> Result<Vec<Option<Committed>>, Error> {
        self.check_group()?;
        let list = plain(partitions)?;
        self.asking.fetch_add(1, Ordering::SeqCst);
        let result = self.client().and_then(|client| check(client.committed(&list, wait::millis(timeout))));
        self.asking.fetch_sub(1, Ordering::SeqCst);
        self.progress.wake_all();
        result?;
        let committed = |Entry { offset, metadata, .. }| (offset >= 0).then_some(Committed { offset, metadata });
        Ok(checked(&list)?.into_iter().map(committed).collect())
    }

    /// Returns nothing more of these partitions until `resume`. Does not use librdkafka's pause: librdkafka silently
    /// drops a pause or resume that its own fetching overtakes.
    pub fn pause(&self, partitions: &[(&str, i32)]) -> Result<(), Error> {
        self.steer(partitions, Partition::pause)
    }

    pub fn resume(&self, partitions: &[(&str, i32)]) -> Result<(), Error> {
        self.steer(partitions, Partition::resume)
    }

    /// The offset of the next message that the owner gets of an assigned partition. `None` until the first message or
    /// seek.
    pub fn position(&self, topic: &str, partition: i32) -> Result<Option<i64>, Error> {
        self.check_origin()?;
        Ok(self.assigned(topic, partition)?.position())
    }

    /// The position and the end of each partition that is read. Does not wait.
    pub fn ends(&self) -> Result<Vec<End>, Error> {
        let client = self.client()?;
        let mut open: Vec<_> = lock(&self.live).iter().flat_map(|live| live.partitions.values().cloned()).collect();
        open.retain(|one| one.is_open());
        let list = plain(&open.iter().map(|one| (&*one.topic, one.number)).collect::<Vec<_>>())?;
        check(client.positions(&list))?;
        let end = |(one, taken): (Arc<Partition>, Entry)| End {
            topic_partition: (Arc::clone(&one.topic), one.number),
            position: one.position(),
            end: client.known_end(&one.topic, one.number),
            reached: Some(taken.offset).filter(|offset| *offset >= 0 && one.is_all_given()),
        };
        Ok(open.into_iter().zip(list.entries()).map(end).collect())
    }

    /// Whether the assignment is another's already: nothing can be marked.
    pub fn is_lost(&self) -> Result<bool, Error> {
        self.with_client(|client| client.assignment_lost())
    }

    /// The offset of the oldest message and the offset that the next message will have, asked from Kafka. Blocks up to
    /// `timeout`.
    pub fn watermarks(&self, topic: &str, partition: i32, timeout: Duration) -> Result<(i64, i64), Error> {
        let found = self.client()?.watermarks(topic, partition, wait::millis(timeout));
        found.map_err(|code| told_of(topic, partition, code))
    }

    /// How many partitions a topic has, as Kafka says; it is not created by that. Blocks up to `timeout`.
    pub fn partition_count(&self, topic: &str, timeout: Duration) -> Result<i32, Error> {
        let client = self.client()?;
        let handle = Topic::new(&client, topic).ok_or_else(|| bad_topic(topic))?;
        let (_, topics) = client.metadata(Some(&handle), wait::millis(timeout)).map_err(Error::code)?;
        match topics.into_iter().next() {
            Some((_, Ok(count))) if count > 0 => Ok(count as i32),
            Some((_, Err(code))) => Err(Error::code(code)),
            _ => Err(Error::code(codes::UNKNOWN_TOPIC_OR_PART)),
        }
    }

    /// The first offset in each partition whose message is not older than that time (milliseconds since 1970). `None`:
    /// all are older. Blocks up to `timeout`.
    pub fn offsets_for_times(&self, times: &[(&str, i32, i64)], timeout: Duration) -> Result<Vec<Option<i64>>, Error> {
        let client = self.client()?;
        let list = offsets(times.iter().map(|(topic, partition, time)| (*topic, *partition, *time, -1)))?;
        check(client.offsets_for_times(&list, wait::millis(timeout)))?;
        Ok(checked(&list)?.into_iter().map(|entry| Some(entry.offset).filter(|offset| *offset >= 0)).collect())
    }

    pub fn assignment(&self) -> Result<Vec<TopicPartition>, Error> {
        Ok(self.client()?.assignment().map(|list| names(&list)).unwrap_or_default())
    }

    pub(super) fn assigned(&self, topic: &str, partition: i32) -> Result<Arc<Partition>, Error> {
        let guard = lock(&self.live);
        let live = guard.as_ref().ok_or(Error::Closed)?;
        let found = live.partitions.values().find(|one| one.is(topic, partition));
        let missing =
            || Error::from((codes::STATE, format!("{topic}/{partition} is not assigned to this subscription")));
        found.cloned().ok_or_else(missing)
    }

    /// All of them, or none: when one is not assigned.
    fn steer(&self, partitions: &[(&str, i32)], how: impl Fn(&Partition)) -> Result<(), Error> {
        self.client()?;
        let found: Result<Vec<_>, _> =
            partitions.iter().map(|(topic, partition)| self.assigned(topic, *partition)).collect();
        found.map(|found| found.iter().for_each(|one| how(one)))
    }
}

/// Nothing may be committed for lost partitions. librdkafka forgets the loss in `rd_kafka_incremental_unassign`, then
/// commits what is stored, and retries that for a while. A later generation is refused for it, so the member loses all
/// of its partitions. A topic that was deleted and created again accepts it, so its messages would be skipped.
pub(super) fn unstore(client: &Client, partitions: &[(&str, i32)]) {
    if let Ok(nothing) = plain(partitions) {
        client.store_offsets(&nothing);
    }
}

/// The rows of a list, or the error of one of them.
pub(super) fn checked(list: &PartitionList) -> Result<Vec<Entry>, Error> {
    let entries = list.entries();
    match entries.iter().find(|entry| entry.error != 0) {
        Some(entry) => Err(told_of(&entry.topic, entry.partition, entry.error)),
        None => Ok(entries),
    }
}

pub(super) fn told_of(topic: &str, partition: i32, code: i32) -> Error {
    let error = KafkaError::new(code);
    let reason = format!("{topic}/{partition}: {}", error.reason);
    Error::Kafka(KafkaError { reason, ..error })
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;
    use crate::poller::Poller;

    /// A member that reads three partitions, as far as it knows: from 0, from 7, and from the beginning.
    fn member() -> Arc<Subscription> {
        let settings = [("bootstrap.servers", "127.0.0.1:1"), ("log_level", "0"), ("group.id", "g")];
        let poller = Poller::global().expect("a pipe");
        let member = Subscription::new("test", settings, Options::default(), poller).expect("a subscription");
        member.assign(&[("t", 0, 0), ("t", 1, 7), ("t", 2, -2)]).expect("assigned");
        member
    }

    #[test]
    fn a_position_is_known_before_the_first_message_where_the_assignment_names_an_offset() {
        let member = member();
        let known = [Ok(Some(0)), Ok(Some(7)), Ok(None)];
        assert_eq!(known, [0, 1, 2].map(|partition| member.position("t", partition)));
        for (topic, partition) in [("t", 3), ("u", 0)] {
            let error = member.position(topic, partition);
            assert!(matches!(&error, Err(Error::Kafka(error)) if error.code == codes::STATE), "{error:?}");
        }
        member.close(Duration::ZERO).expect("ours");
    }

    #[test]
    fn only_partitions_that_are_assigned_are_marked() {
        let member = member();
        let mark = |topic: &str, partition| member.mark(topic, partition, 9, -1, None);
        assert_eq!([Ok(true), Ok(true)], [mark("t", 0), mark("t", 1)]);
        assert_eq!([Ok(false), Ok(false)], [mark("t", 3), mark("u", 0)]);
        let marked = || {
            let rows = member.unconfirmed().expect("ours");
            rows.into_iter().map(|row| (row.partition, row.offset)).collect::<Vec<_>>()
        };
        assert_eq!(vec![(0, 9), (1, 9)], marked());
        assert_eq!(Ok(()), member.unmark("t", 0));
        assert_eq!([Ok(()), Ok(())], [member.unmark("t", 3), member.unmark("u", 0)], "there is no mark to remove");
        assert_eq!(vec![(1, 9)], marked());
        member.close(Duration::ZERO).expect("ours");
    }
}
