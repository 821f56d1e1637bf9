//! The marks of a subscription's partitions: what is stored for the next commit, and what Kafka confirmed of it.
//!
//! librdkafka leaves an offset out of a commit of everything stored if it is not behind the committed one. It keeps to
//! that even if the log lost what was committed, and its reading began at an earlier offset. So a commit in which
//! librdkafka left a mark out is repeated with the mark's offset, unless Kafka confirmed one of this assignment before.

use crate::error::Error;
use crate::lock;
use crate::places::offsets;
use crate::rd::{Commit, Entry, PartitionList, codes};
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
#[derive(Clone)]
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
    confirmed: bool,
    /// `None`: Kafka confirmed a commit of this assignment. Otherwise the time of its first mark, or of its last commit.
    untried: Option<Instant>,
}

impl Mark {
    fn answered(&mut self, offset: i64) {
        (self.code, self.untried) = (0, None);
        self.confirmed |= offset == self.offset;
    }

    fn refused(&mut self, code: i32) {
        self.code = code;
        self.untried = self.untried.map(|_| Instant::now());
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

/// The newest mark of each of our partitions.
#[derive(Default)]
pub(super) struct Marks(Mutex<Table>);

impl Marks {
    /// Notes this mark if `store` stored it, as one step: giving the partition up comes before both or after both.
    pub fn note<E>(&self, stored: &Stored<'_>, store: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        let mut table = lock(&self.0);
        let done = store()?;
        if done {
            table.serial += 1;
            let &Stored { topic, partition, offset, leader_epoch, metadata } = stored;
            let (metadata, serial) = (metadata.map(Into::into), table.serial);
            let mark = |untried| Mark { offset, leader_epoch, metadata, code: 0, serial, confirmed: false, untried };
            match table.topics.get_mut(topic) {
                Some(of_topic) => {
                    let untried = of_topic.get(&partition).map_or_else(|| Some(Instant::now()), |last| last.untried);
                    of_topic.insert(partition, mark(untried));
                }
                None => {
                    table.topics.insert(topic.into(), OfTopic::from([(partition, mark(Some(Instant::now())))]));
                }
            }
        }
        Ok(done)
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

    /// Notes the result of a commit. `all`: it was of everything that was stored when this was the newest mark, so
    /// anything it left out had been committed before, or is `untried`. It says nothing about later marks.
    pub fn heard(&self, answer: &Commit, all: Option<u64>) {
        let mut table = lock(&self.0);
        let topics = &mut table.topics;
        let covers = |mark: &Mark| all.is_some_and(|newest| mark.serial <= newest);
        let leave_out = |mark: &mut Mark| mark.confirmed |= covers(mark) && mark.untried.is_none();
        if answer.code == codes::NO_OFFSET {
            return topics.values_mut().flat_map(OfTopic::values_mut).for_each(leave_out);
        }
        // As a whole, say because the assignment is lost.
        if answer.rows.is_empty() {
            let marks = topics.values_mut().flat_map(OfTopic::values_mut);
            marks.filter(|mark| covers(mark)).for_each(|mark| mark.refused(answer.code));
        }
        for row in &answer.rows {
            let Some(of_topic) = topics.get_mut(&row.topic) else { continue };
            let Some(mark) = of_topic.get_mut(&row.partition) else { continue };
            match (row.error, row.offset) {
                (0, ..0) => leave_out(mark),
                (0, offset) => mark.answered(offset),
                (code, _) => mark.refused(code),
            }
        }
    }

    /// The marks up to this serial that wait as long as this for the first commit of their assignment, to be committed
    /// by their offsets. `None`: there are none.
    pub fn untried(&self, newest: u64, age: Duration) -> Option<PartitionList> {
        let mut table = lock(&self.0);
        let mut rows = Vec::new();
        for (topic, of_topic) in &mut table.topics {
            for (&partition, mark) in of_topic {
                let due = mark.untried.is_some_and(|since| since.elapsed() >= age);
                if due && !mark.confirmed && mark.code == 0 && mark.serial <= newest {
                    mark.untried = Some(Instant::now());
                    let Mark { offset, leader_epoch, ref metadata, .. } = *mark;
                    rows.push(Stored { topic, partition, offset, leader_epoch, metadata: metadata.as_deref() });
                }
            }
        }
        if rows.is_empty() { None } else { Stored::list(&rows).ok() }
    }

    /// Hands over those of these partitions of which nothing is to be committed: they are lost, or Kafka has their marks.
    /// No mark comes meanwhile.
    pub fn done(&self, partitions: &PartitionList, lost: bool, hand_over: impl FnOnce(&[(&str, i32)])) {
        let table = lock(&self.0);
        let entries = partitions.entries();
        let mark = |entry: &Entry| table.topics.get(&entry.topic)?.get(&entry.partition);
        let done = entries.iter().filter(|entry| lost || mark(entry).is_some_and(|mark| mark.confirmed));
        let rows: Vec<_> = done.map(|entry| (&*entry.topic, entry.partition)).collect();
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
mod tests {
    use super::*;

    fn marked(marks: &Marks, partition: i32, offset: i64) {
        let stored = Stored { topic: "t", partition, offset, leader_epoch: -1, metadata: Some(b"m") };
        assert_eq!(Ok::<_, Error>(true), marks.note(&stored, || Ok(true)));
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
            marks.heard(&answer(0, &[(0, 4), (1, 2)]), None);
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
        let all = PartitionList::plain([("t", 0), ("t", 1), ("t", 2)]).expect("a list");
        for (lost, expected) in [(false, vec![0]), (true, vec![0, 1, 2])] {
            let mut done = Vec::new();
            marks.done(&all, lost, |rows| done = rows.iter().map(|row| row.1).collect());
            assert_eq!(expected, done);
        }
    }

    #[test]
    fn a_first_mark_that_a_commit_leaves_out_is_to_be_committed_by_its_offset() {
        let due = |marks: &Marks, newest, age| {
            let list = marks.untried(newest, age)?;
            Some(list.entries().into_iter().map(|row| (row.partition, row.offset, row.metadata)).collect::<Vec<_>>())
        };
        let hour = Duration::from_secs(3600);
        for nothing in [answer(codes::NO_OFFSET, &[]), answer(0, &[(0, -1001), (1, 3)])] {
            let marks = Marks::default();
            marked(&marks, 0, 5);
            marked(&marks, 1, 3);
            marks.heard(&answer(0, &[(1, 3)]), None);
            let asked = marks.newest();
            marks.heard(&nothing, Some(asked));
            assert_eq!(vec![(0, 5, 0)], left(&marks));
            assert_eq!(None, due(&marks, asked, hour));
            marked(&marks, 0, 6);
            assert_eq!(None, due(&marks, asked, Duration::ZERO), "a later one");
            assert_eq!(Some(vec![(0, 6, b"m".to_vec())]), due(&marks, asked + 1, Duration::ZERO));
            marks.heard(&answer(0, &[(0, 6)]), None);
            marked(&marks, 0, 7);
            assert_eq!(None, due(&marks, asked + 2, Duration::ZERO), "librdkafka commits it by itself");
        }
    }

    #[test]
    fn a_refused_mark_is_not_one_that_was_left_out() {
        let marks = Marks::default();
        marked(&marks, 0, 5);
        marks.heard(&answer(codes::ASSIGNMENT_LOST, &[]), Some(marks.newest()));
        assert!(marks.untried(marks.newest(), Duration::ZERO).is_none());
        marked(&marks, 0, 6);
        assert!(marks.untried(marks.newest(), Duration::from_secs(3600)).is_none());
    }

    #[test]
    fn an_unmarked_one_is_neither_unconfirmed_nor_committed_again() {
        let marks = Marks::default();
        marked(&marks, 0, 5);
        assert_eq!(Err("no"), marks.unmark("t", 0, || Err("no")));
        assert_eq!(vec![(0, 5, 0)], left(&marks));
        assert_eq!(Ok::<_, Error>(()), marks.unmark("t", 0, || Ok(())));
        assert!(marks.all_confirmed() && marks.untried(marks.newest(), Duration::ZERO).is_none());
    }
}
