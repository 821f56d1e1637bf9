//! Commits with an answer for each partition, and the group's name for its member.

use super::{Client, Entry, Event, PartitionList, Queue, codes, ffi, sys, text};

/// The result of a commit.
pub struct Commit {
    /// 0, or the code of the whole, or of one partition.
    pub code: i32,
    /// One entry for each partition of the commit. An offset < 0: there was nothing new.
    pub rows: Vec<Entry>,
}

impl Commit {
    /// Of an OFFSET_COMMIT event.
    pub fn of(event: &Event) -> Self {
        Self { code: event.error(), rows: event.partitions().map(|list| list.entries()).unwrap_or_default() }
    }

    /// Together with another one, of what this one left out.
    pub fn and(mut self, other: Self) -> Self {
        if matches!(self.code, 0 | codes::NO_OFFSET) {
            self.code = other.code;
        }
        self.rows.extend(other.rows);
        self
    }
}

impl Client {
    /// Commits the stored offsets (`None`) or those given. Does not wait: the answer comes through `queue`, as an
    /// OFFSET_COMMIT event.
    pub fn commit_through(&self, queue: &Queue, offsets: Option<&PartitionList>) -> i32 {
        let offsets = offsets.map_or(std::ptr::null(), |list| list.raw().cast_const());
        // SAFETY: live client, list (copied) and queue (which is counted); no callback.
        unsafe { ffi::rd_kafka_commit_queue(self.raw(), offsets, queue.raw(), None, std::ptr::null_mut()) }
    }

    /// The group's name for this member. Empty: it has not joined, or has left.
    pub fn member_id(&self) -> String {
        // SAFETY: a live client; the string (or null) is ours to free.
        unsafe {
            let raw = sys::rd_kafka_memberid(self.raw());
            let found = text(raw);
            sys::rd_kafka_mem_free(self.raw(), raw.cast());
            found
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_commits_together_have_the_code_of_the_first_that_failed() {
        const REFUSED: i32 = codes::ILLEGAL_GENERATION;
        let commit = |code, partition| {
            let list = PartitionList::plain([("t", partition)]).expect("a list");
            Commit { code, rows: list.entries() }
        };
        for (first, second, expected) in [
            (0, 0, 0),
            (codes::NO_OFFSET, 0, 0),
            (codes::NO_OFFSET, REFUSED, REFUSED),
            (0, REFUSED, REFUSED),
            (REFUSED, 0, REFUSED),
            (REFUSED, codes::NOT_COORDINATOR, REFUSED),
        ] {
            let both = commit(first, 0).and(commit(second, 1));
            assert_eq!(expected, both.code, "{first} {second}");
            assert_eq!(vec![0, 1], both.rows.iter().map(|row| row.partition).collect::<Vec<_>>());
        }
    }
}
