//! How much of a partition may wait in batches.

use super::Limits;
use crate::lock;
use crate::poller::Poller;
use crate::rd::Token;
use crate::rd::fetching::{self, QueueRead, Watched};
use std::sync::{Arc, Mutex};

/// Batches of a partition that may be out at once, and their bytes.
pub struct Credit {
    out: Mutex<Out>,
    limits: Limits,
    poller: Arc<Poller>,
    token: Token,
    queue: Option<Watched>,
}

#[derive(Default)]
struct Out {
    batches: usize,
    bytes: usize,
    /// The credit was spent, so the partition is not read until half of it is back. To read it again after every
    /// returned batch would cost two thread switches per batch.
    spent: bool,
}

impl Credit {
    pub(super) fn new(limits: Limits, poller: Arc<Poller>, token: Token, queue: Option<Watched>) -> Self {
        Self { out: Mutex::default(), limits, poller, token, queue }
    }

    /// Whether no batch may be read now. `give_back` then schedules a read later.
    pub(super) fn is_spent(&self) -> bool {
        let mut out = lock(&self.out);
        out.spent |= out.batches >= self.limits.prefetch || out.bytes >= self.limits.prefetch_bytes;
        out.spent
    }

    /// Whether half of it is out: the partition may soon have to wait.
    pub(super) fn is_half_spent(&self) -> bool {
        let out = lock(&self.out);
        out.batches * 2 >= self.limits.prefetch || out.bytes * 2 >= self.limits.prefetch_bytes
    }

    pub(super) fn take(&self, read: QueueRead) {
        let mut out = lock(&self.out);
        out.batches += 1;
        out.bytes += read.bytes;
        self.queue.iter().for_each(|queue| fetching::taken(*queue, read));
    }

    /// The messages are dropped that had no room in the last batch.
    pub(super) fn drop_rest(&self) {
        self.queue.iter().for_each(|queue| fetching::drop_rest(*queue));
    }

    /// The partition is not read any more.
    pub(super) fn close(&self) {
        self.queue.iter().for_each(|queue| fetching::close(*queue));
    }

    pub(super) fn give_back(&self, bytes: usize) {
        let mut out = lock(&self.out);
        out.batches -= 1;
        out.bytes -= bytes;
        self.queue.iter().for_each(|queue| fetching::given_back(*queue, bytes));
        if out.spent && out.batches <= self.limits.prefetch / 2 && out.bytes < self.limits.prefetch_bytes {
            out.spent = false;
            self.schedule_read();
        }
    }

    /// Schedules a read of the partition.
    pub(super) fn schedule_read(&self) {
        self.poller.wake(self.token);
    }
}

#[cfg(test)]
mod tests;
