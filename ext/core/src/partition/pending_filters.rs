//! Batches of a partition whose filter is being asked, in their order. A batch comes out when all messages before it
//! have been judged. It comes out on the event thread, which the last task of a batch wakes.

use super::{Batch, Credit};
use crate::chunk::Chunk;
use crate::decode::Task;
use crate::lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub(super) struct PendingFilters {
    waiting: Mutex<VecDeque<(Batch, Arc<Countdown>)>>,
}

/// A batch's tasks that have not ended.
pub(super) struct Countdown {
    left: AtomicUsize,
    credit: Arc<Credit>,
}

/// One of them. It has ended when it is dropped: also after a panic, which leaves its messages to Ruby.
struct FilterTask {
    chunk: Arc<Chunk>,
    countdown: Arc<Countdown>,
}

impl Task for FilterTask {
    fn run(&self) {
        self.chunk.decode();
    }
}

impl Drop for FilterTask {
    fn drop(&mut self) {
        if self.countdown.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.countdown.credit.schedule_read();
        }
    }
}

impl PendingFilters {
    /// Adds a batch; these tasks, to be run, let it out.
    pub fn push(&self, batch: Batch, credit: &Arc<Credit>) -> Vec<Arc<dyn Task>> {
        let chunks = batch.chunks();
        let countdown = Arc::new(Countdown { left: AtomicUsize::new(chunks.len()), credit: Arc::clone(credit) });
        let task = |chunk| Arc::new(FilterTask { chunk, countdown: Arc::clone(&countdown) }) as Arc<dyn Task>;
        let tasks = chunks.into_iter().map(task).collect();
        lock(&self.waiting).push_back((batch, countdown));
        tasks
    }

    /// The first batch, if its messages have been judged.
    pub fn pop(&self) -> Option<Batch> {
        let mut waiting = lock(&self.waiting);
        let open = waiting.front().is_some_and(|(_, countdown)| countdown.left.load(Ordering::Acquire) == 0);
        let (mut batch, _) = if open { waiting.pop_front() } else { None }?;
        batch.count_admitted();
        Some(batch)
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.waiting).is_empty()
    }

    /// Gives all of them up.
    pub fn clear(&self) {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{CHUNK_MESSAGES, GivenMessage};
    use crate::format::Format;
    use crate::partition::tests::Reads;
    use crate::partition::{GivenPartition, Limits};

    /// Otherwise it would wait for the next signal, or up to a second.
    #[test]
    fn the_partition_is_read_when_the_last_task_of_a_batch_ends_and_not_before() {
        let reads = Reads::new();
        let credit = Arc::new(Credit::new(Limits::default(), Arc::clone(&reads.poller), reads.token, None));
        let message =
            |offset| GivenMessage { offset, timestamp: 7, payload: Some(b"1"), key: None, headers: Vec::new() };
        let pending = PendingFilters::default();
        for (chunks, before) in [(1, 0), (2, 1)] {
            let messages: Vec<_> = (0..chunks * CHUNK_MESSAGES as i64).map(message).collect();
            let batch = GivenPartition::new("t", 0, Format::JSON, None).batch(&messages, 9);
            let mut tasks = pending.push(batch, &credit);
            assert_eq!(chunks, tasks.len() as i64);
            while let Some(task) = tasks.pop() {
                assert!(pending.pop().is_none() && !pending.is_empty());
                assert_eq!(before, reads.count());
                task.run();
            }
            assert_eq!(Some(messages.len()), pending.pop().map(|batch| batch.len()));
            assert!(pending.is_empty());
            reads.wait_beyond(before);
        }
    }
}
