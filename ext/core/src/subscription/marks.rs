//! The marks of a subscription's partitions: what is stored for the next commit, and what Kafka confirmed of it.
//!
//! librdkafka leaves a stored offset out of a commit of everything if it is not behind the committed one. It does so
//! even if the log lost what was committed, and its reading began at an earlier offset, or if the owner marked an
//! earlier one. So a mark that was left out does not count as confirmed. It is committed by itself, with an explicit
//! offset.

use crate::error::Error;
use crate::lock;
use crate::rd::{Commit, Entry, PartitionList, codes};
use crate::topic_partitions::offsets;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::{Duration, Instant};

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

/// What is stored for a partition.
pub(super) struct Stored<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub offset: i64,
    pub leader_epoch: i32,
    pub metadata: Option<&'a [u8]>,
}

impl Stored<'_> {
    pub fn list<'a>(rows: &[Stored<'a>]) -> Result<PartitionList, Error> {
        let mut list = offsets(rows.iter().map(|row| (row.topic, row.partition, row.offset, row.leader_epoch)))?;
        for (index, row) in rows.iter().enumerate() {
            if let Some(metadata) = row.metadata {
                list.set_metadata(index, metadata);
            }
        }
        Ok(list)
    }
}

struct Mark {
    offset: i64,
    leader_epoch: i32,
    metadata: Option<Box<[u8]>>,
    /// Of its last commit.
    code: i32,
    serial: u64,
    /// Kafka has this one.
    confirmed: bool,
    /// What Kafka confirmed last in this assignment.
    committed: Option<i64>,
    /// The time of the last answer, or of the first mark after it that librdkafka's timer may leave out.
    since: Instant,
}

impl Mark {
    fn answered(&mut self, row: &Entry) {
        (self.code, self.since) = (row.error, Instant::now());
        if row.error == 0 {
            self.committed = Some(row.offset);
            self.confirmed = row.offset == self.offset && row.metadata == self.metadata.as_deref().unwrap_or_default();
        }
    }

    /// librdkafka's timer compares it with an offset that was committed before this assignment, or that is not before
    /// it.
    fn may_be_left_out(&self) -> bool {
        !self.confirmed && self.committed.is_none_or(|committed| self.offset <= committed)
    }

    fn is(&self, other: &Stored<'_>) -> bool {
        let same = (self.offset, self.leader_epoch) == (other.offset, other.leader_epoch);
        same && self.metadata.as_deref() == other.metadata
    }

    /// The mark that comes after this one.
    fn next(last: Option<&Self>, stored: &Stored<'_>, serial: u64) -> Self {
        Self {
            offset: stored.offset,
            leader_epoch: stored.leader_epoch,
            metadata: stored.metadata.map(Into::into),
            code: 0,
            serial,
            confirmed: last.is_some_and(|last| last.confirmed && last.is(stored)),
            committed: last.and_then(|last| last.committed),
            since: last.filter(|last| last.may_be_left_out()).map_or_else(Instant::now, |last| last.since),
        }
    }

    fn stored<'a>(&'a self, topic: &'a str, partition: i32) -> Stored<'a> {
        let Self { offset, leader_epoch, .. } = *self;
        Stored { topic, partition, offset, leader_epoch, metadata: self.metadata.as_deref() }
    }
}

/// By partition.
type OfTopic = BTreeMap<i32, Mark>;

#[derive(Default)]
struct Table {
    topics: HashMap<String, OfTopic>,
    /// Of the newest mark.
    serial: u64,
}

impl Table {
    fn mark(&self, topic: &str, partition: i32) -> Option<&Mark> {
        self.topics.get(topic)?.get(&partition)
    }

    fn insert(&mut self, stored: &Stored<'_>) {
        self.serial += 1;
        let serial = self.serial;
        match self.topics.get_mut(stored.topic) {
            Some(of_topic) => {
                let mark = Mark::next(of_topic.get(&stored.partition), stored, serial);
                of_topic.insert(stored.partition, mark);
            }
            None => {
                let mark = Mark::next(None, stored, serial);
                self.topics.insert(stored.topic.into(), OfTopic::from([(stored.partition, mark)]));
            }
        }
    }

    fn topic_partitions(&self) -> impl Iterator<Item = (&str, i32)> {
        self.topics.iter().flat_map(|(topic, of_topic)| of_topic.keys().map(|partition| (&**topic, *partition)))
    }
}

fn listed(rows: Vec<Stored<'_>>) -> Option<PartitionList> {
    if rows.is_empty() { None } else { Stored::list(&rows).ok() }
}

/// The newest mark of each of our partitions.
#[derive(Default)]
pub(super) struct Marks(Mutex<Table>);

impl Marks {
    /// Notes this mark if `store` stored it, as one step: giving the partition up comes before both or after both.
    pub fn note<E>(&self, stored: &Stored<'_>, store: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        let mut table = lock(&self.0);
        let done = store()?;
        if done {
            table.insert(stored);
        }
        Ok(done)
    }

    /// Moves the mark of a partition to the offset and leader epoch that `behind` returns for its offset, with its
    /// metadata, if `store` stores them. One step, so that no mark of the owner comes between.
    pub fn move_on(
        &self,
        topic: &str,
        partition: i32,
        behind: impl FnOnce(i64) -> Option<(i64, i32)>,
        store: impl FnOnce(&PartitionList) -> bool,
    ) {
        let mut table = lock(&self.0);
        let Some(mark) = table.mark(topic, partition) else { return };
        let Some((offset, leader_epoch)) = behind(mark.offset) else { return };
        let metadata = mark.metadata.clone();
        let stored = Stored { topic, partition, offset, leader_epoch, metadata: metadata.as_deref() };
        if Stored::list(std::slice::from_ref(&stored)).is_ok_and(|list| store(&list)) {
            table.insert(&stored);
        }
    }

    /// Forgets a mark if `unstore` did, as one step.
    pub fn unmark<E>(&self, topic: &str, partition: i32, unstore: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut table = lock(&self.0);
        unstore()?;
        if let Some(of_topic) = table.topics.get_mut(topic) {
            of_topic.remove(&partition);
        }
        Ok(())
    }

    /// The serial of the newest mark.
    pub fn newest(&self) -> u64 {
        lock(&self.0).serial
    }

    /// Notes the result of a commit. `all`: it was of everything that was stored when this was the newest mark. It says
    /// nothing about later marks. Returns the marks that it left out, unless Kafka has them.
    pub fn heard(&self, answer: &Commit, all: Option<u64>) -> Option<PartitionList> {
        let mut table = lock(&self.0);
        let covers = |mark: &Mark| all.is_some_and(|newest| mark.serial <= newest);
        // As a whole, say because the assignment is lost.
        if answer.rows.is_empty() && answer.code != codes::NO_OFFSET {
            let marks = table.topics.values_mut().flat_map(OfTopic::values_mut);
            marks.filter(|mark| covers(mark)).for_each(|mark| mark.code = answer.code);
            return None;
        }
        let (left_out, sent): (Vec<_>, Vec<_>) = answer.rows.iter().partition(|row| row.error == 0 && row.offset < 0);
        for row in sent {
            if let Some(mark) = table.topics.get_mut(&row.topic).and_then(|of_topic| of_topic.get_mut(&row.partition)) {
                mark.answered(row);
            }
        }
        let rows = left_out.into_iter().filter_map(|row| {
            let mark = table.mark(&row.topic, row.partition)?;
            (covers(mark) && !mark.confirmed).then(|| mark.stored(&row.topic, row.partition))
        });
        listed(rows.collect())
    }

    /// The marks that librdkafka's timer may leave out and that have waited for as long as `age`.
    pub fn overdue(&self, age: Duration) -> Option<PartitionList> {
        let mut table = lock(&self.0);
        let mut rows = Vec::new();
        for (topic, of_topic) in &mut table.topics {
            for (&partition, mark) in of_topic {
                if mark.may_be_left_out() && mark.since.elapsed() >= age {
                    mark.since = Instant::now();
                    rows.push(mark.stored(topic, partition));
                }
            }
        }
        listed(rows)
    }

    /// Hands over those of these partitions (`None`: all) of which nothing is to be committed: they are lost, or Kafka
    /// has their marks. No mark comes meanwhile.
    pub fn done(&self, which: Option<&PartitionList>, lost: bool, hand_over: impl FnOnce(&[(&str, i32)])) {
        let table = lock(&self.0);
        let entries = which.map(PartitionList::entries);
        let mut rows: Vec<(&str, i32)> = match &entries {
            Some(entries) => entries.iter().map(|entry| (&*entry.topic, entry.partition)).collect(),
            None => table.topic_partitions().collect(),
        };
        rows.retain(|(topic, partition)| lost || table.mark(topic, *partition).is_some_and(|mark| mark.confirmed));
        if !rows.is_empty() {
            hand_over(&rows);
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

    pub fn all_confirmed(&self) -> bool {
        lock(&self.0).topics.values().flat_map(OfTopic::values).all(|mark| mark.confirmed)
    }

    pub fn unconfirmed(&self) -> Vec<Unconfirmed> {
        let mut rows = Vec::new();
        for (topic, of_topic) in &lock(&self.0).topics {
            for (&partition, mark) in of_topic.iter().filter(|(_, mark)| !mark.confirmed) {
                rows.push(Unconfirmed { topic: topic.clone(), partition, offset: mark.offset, code: mark.code });
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests;
