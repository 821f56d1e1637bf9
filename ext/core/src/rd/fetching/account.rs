//! What the partitions of this process hold, and which of them may be fetched. It calls no librdkafka: who asks says
//! how many messages wait in a queue.

use recent::Recent;
use std::collections::HashMap;

mod recent;

/// A message's place in librdkafka's queue, in bytes.
const ENTRY: usize = 400;
/// Microseconds that a count is valid, for each partition in it. To count one takes about a twentieth of that. While a
/// count is valid, a broker can bring more than the limit.
const VALID: i64 = 1;
/// Microseconds without a movement after which a partition is stuck.
const STUCK: i64 = 1_000_000;
/// Bytes of a partition that may wait in any case: as many as one fetch brings.
const ENOUGH: usize = 1 << 20;
/// The whole budget is so many times the limit of fetched messages (`MemoryBudget` in Ruby).
const WHOLE: usize = 4;

/// A partition's queue in the account.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Watched(u64);

/// A batch that was read from a queue.
#[derive(Clone, Copy)]
pub struct QueueRead {
    pub bytes: usize,
    pub messages: usize,
    /// Messages that were taken out of the queue, and had no room in it.
    pub rest: usize,
}

#[derive(Default)]
pub(super) struct Account {
    partitions: HashMap<Watched, WatchedPartition>,
    /// The same, by librdkafka's partition.
    by_toppar: HashMap<usize, Watched>,
    last: Watched,
    /// The size of messages of a partition that was not read yet.
    usual_size: usize,
    /// Bytes of batches that are out.
    batches: usize,
    held: HeldBytes,
    counted: i64,
}

/// As of a count: bytes that wait or are out, those of stuck partitions, and whether a partition has none.
#[derive(Clone, Copy, Default)]
struct HeldBytes {
    all: usize,
    stuck: usize,
    one_is_quiet: bool,
}

/// What is counted of one partition.
struct WatchedPartition {
    /// librdkafka's queue and partition.
    queue: usize,
    toppar: usize,
    /// The size of its messages, as of the last read. 0: none was read.
    size: usize,
    /// Messages that were taken out of the queue, and are in no batch yet.
    rest: usize,
    /// Bytes of its batches that are out.
    out: usize,
    /// When it had nothing, or a batch was read or came back, last.
    moved: i64,
    /// It is not read any more.
    closed: bool,
    /// Bytes of batches that came back.
    finished: Recent,
}

impl WatchedPartition {
    /// Whether more messages wait than its consumer finishes until the next fetch comes. That is late if the broker
    /// keeps the one before, to wait for a quiet partition.
    fn is_ahead(&self, queued: usize, late: bool, now: i64) -> bool {
        let finished = self.finished.bytes(now) / self.size.max(1);
        queued + self.rest > (ENOUGH / (ENTRY + self.size)).max(if late { finished } else { finished / 4 })
    }

    /// Bytes that wait, with so many messages in the queue.
    fn waiting(&self, queued: usize, usual_size: usize) -> usize {
        (queued + self.rest) * (ENTRY + if self.size == 0 { usual_size } else { self.size })
    }
}

impl HeldBytes {
    /// Whether one more partition may be fetched, which is empty or not.
    fn leaves_room(self, limit: usize, empty: bool) -> bool {
        self.all < limit || empty && self.all - self.stuck < limit && self.all / WHOLE < limit
    }
}

impl Account {
    pub fn watch(&mut self, queue: usize, toppar: usize, now: i64) -> Watched {
        self.last.0 += 1;
        let id = self.last;
        let finished = Recent::default();
        let partition =
            WatchedPartition { queue, toppar, size: 0, rest: 0, out: 0, moved: now, closed: false, finished };
        self.partitions.insert(id, partition);
        self.by_toppar.insert(toppar, id);
        id
    }

    /// The partition is not read any more. Until its queue is forgotten, or it is watched again, it is not fetched.
    pub fn close(&mut self, id: Watched) {
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.closed = true;
        }
    }

    pub fn forget(&mut self, id: Watched) {
        let Some(partition) = self.partitions.remove(&id) else { return };
        self.batches -= partition.out;
        if self.by_toppar.get(&partition.toppar) == Some(&id) {
            self.by_toppar.remove(&partition.toppar);
        }
    }

    pub fn read(&mut self, id: Watched, read: QueueRead, now: i64) {
        let size = read.bytes / read.messages;
        self.usual_size = size;
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        (partition.size, partition.rest, partition.moved) = (size, read.rest, now);
        partition.out += read.bytes;
        self.batches += read.bytes;
    }

    pub fn give_back(&mut self, id: Watched, bytes: usize, now: i64) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        partition.moved = now;
        partition.out -= bytes;
        partition.finished.add(bytes, now);
        self.batches -= bytes;
    }

    pub fn drop_rest(&mut self, id: Watched) {
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.rest = 0;
        }
    }

    pub fn batches(&self) -> usize {
        self.batches
    }

    /// About how many bytes wait in all. `queued`: messages in a queue.
    pub fn waiting(&self, queued: impl Fn(usize) -> usize) -> usize {
        self.partitions.values().map(|partition| partition.waiting(queued(partition.queue), self.usual_size)).sum()
    }

    /// Whether librdkafka's partition may be fetched now.
    pub fn is_open(&mut self, toppar: usize, limit: usize, now: i64, queued: impl Fn(usize) -> usize) -> bool {
        if self.find(toppar).is_some_and(|found| found.closed) {
            return false;
        }
        if limit == usize::MAX {
            return true;
        }
        if now - self.counted >= VALID * self.partitions.len() as i64 {
            self.count(now, &queued);
        }
        let (found, held) = (self.find(toppar), self.held);
        if held.leaves_room(limit, false) {
            found.is_none_or(|found| !found.is_ahead(queued(found.queue), held.one_is_quiet, now))
        } else {
            held.leaves_room(limit, true) && found.is_none_or(|found| found.out + found.rest + queued(found.queue) == 0)
        }
    }

    fn count(&mut self, now: i64, queued: impl Fn(usize) -> usize) {
        (self.held, self.counted) = (HeldBytes::default(), now);
        for partition in self.partitions.values_mut() {
            let bytes = partition.out + partition.waiting(queued(partition.queue), self.usual_size);
            self.held.all += bytes;
            if bytes == 0 {
                partition.moved = now; // what comes next does not wait since long ago
                self.held.one_is_quiet = true;
            } else if now - partition.moved > STUCK {
                self.held.stuck += bytes;
            }
        }
    }

    fn find(&self, toppar: usize) -> Option<&WatchedPartition> {
        self.partitions.get(self.by_toppar.get(&toppar)?)
    }
}

#[cfg(test)]
mod tests;
