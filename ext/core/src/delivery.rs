//! Delivery handles: what became of one message, or of a batch. Resolved natively, on the event thread.
//!
//! Handles of single messages share a slab: one allocation for 64 messages. With one allocation each, the event thread
//! and the garbage collector would free them while the producing thread allocates.
//!
//! Each failure is reported: to waiting callers as the outcome, otherwise as an event. A failure that is reported while
//! a caller waits is marked `UNSEEN`. The last caller that gives up waiting publishes what is marked. The report marks
//! first and then looks for waiters. A waiter leaves first and then looks for marks. So one of them sees the other, and
//! the mark is taken once.

use crate::error::{Error, KafkaError};
use crate::events::ReportPublisher;
use crate::linger::{Linger, Wait};
use crate::lock;
use crate::rd::{MAX_POSITIONS, hold};
use crate::wait::{Outcome, Parker, Wake};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

mod slab;
pub use slab::Slab;
pub(crate) use slab::Slabs;
use slab::{Cell, Topics};

/// Single messages of a slab.
const ROOM: u32 = 64;
/// Stands for all messages of a batch where a handle names its message.
const WHOLE: u32 = MAX_POSITIONS as u32 - 1;

const DONE: u32 = 1;
/// Failed while a caller watched, and not yet reported to it.
const UNSEEN: u32 = 2;
/// A caller is about to wait: it counts as a watcher until its wait begins. For a batch: in its first cell.
const EXPECTED: u32 = 4;
/// One waiting caller; the bits from here on count them. For a batch: in its first cell.
const WATCHER: u32 = 8;

/// What is known of one message of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcomes {
    pub topic: Arc<str>,
    pub partition: i32,
    pub offset: i64,
    /// `None` when delivered (or not yet reported).
    pub error: Option<KafkaError>,
}

/// A handle: one message of a slab, or all of a batch.
#[derive(Clone)]
pub struct Delivery {
    slab: Arc<Slab>,
    position: u32,
}

impl Delivery {
    /// For messages to these topics, which are then reported one by one.
    pub(crate) fn batch(topics: Vec<Arc<str>>, linger: Option<Arc<Linger>>, publisher: Arc<ReportPublisher>) -> Self {
        let count = topics.len();
        let same = topics.windows(2).all(|pair| Arc::ptr_eq(&pair[0], &pair[1]));
        let topics = match topics.first() {
            Some(first) if same => Topics::Same(Arc::clone(first)),
            _ => Topics::Each(topics.into()),
        };
        let slab = Slab::new(topics, count, Some(AtomicUsize::new(count)), linger, publisher);
        if count > 0 {
            hold(&slab);
        }
        Self { slab, position: WHOLE }
    }

    /// What `from_parts` makes the same handle of.
    pub fn into_parts(self) -> (Arc<Slab>, u32) {
        (self.slab, self.position)
    }

    pub fn from_parts(slab: Arc<Slab>, position: u32) -> Self {
        Self { slab, position }
    }

    pub(crate) fn slab(&self) -> &Arc<Slab> {
        &self.slab
    }

    /// The slab's position of this handle's message number `index`.
    pub(crate) fn position(&self, index: usize) -> u32 {
        if self.position == WHOLE { index as u32 } else { self.position }
    }

    fn cells(&self) -> &[Cell] {
        match self.position {
            WHOLE => &self.slab.cells,
            one => std::slice::from_ref(&self.slab.cells[one as usize]),
        }
    }

    /// A number that no other handle of this process has or had.
    pub fn id(&self) -> u64 {
        self.slab.id(self.position)
    }

    /// Messages it stands for.
    pub fn len(&self) -> usize {
        self.cells().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes each of its messages an event when it has its report, also if a caller waits. Call it before they are
    /// sent.
    pub fn publish_reports(&self) {
        self.slab.publisher.time_reports();
        self.slab.publishes.store(true, Ordering::Relaxed);
    }

    /// Memory that its messages take.
    pub fn bytes(&self) -> usize {
        std::mem::size_of_val(self.cells())
    }

    /// Whether every message has its report.
    pub fn is_done(&self) -> bool {
        match &self.slab.open {
            Some(open) => open.load(Ordering::SeqCst) == 0,
            None => self.cells()[0].has(DONE),
        }
    }

    /// Whether it can cause no further event: it is done, and no waiting caller may give up and publish a failure.
    pub fn is_settled(&self) -> bool {
        self.is_done() && self.cells().first().is_none_or(|cell| cell.state.load(Ordering::SeqCst) < EXPECTED)
    }

    pub fn is_reported(&self, index: usize) -> bool {
        self.cells()[index].has(DONE)
    }

    /// Whether every message reached Kafka.
    pub fn is_delivered(&self) -> bool {
        self.is_done() && self.cells().iter().all(|cell| cell.error.load(Ordering::Acquire) == 0)
    }

    /// Fails where the reports can't come: in a forked child.
    pub fn check_origin(&self) -> Result<(), Error> {
        if self.is_done() { Ok(()) } else { self.slab.origin.check() }
    }

    /// The caller waits for the outcome. While the returned value lives, a failure needs no event, and never does once
    /// it is `seen`.
    pub fn watch(&self) -> Watch<'_> {
        if let Some(cell) = self.cells().first() {
            cell.state.fetch_add(WATCHER, Ordering::SeqCst);
            self.take_expectation();
        }
        Watch(self)
    }

    /// The caller is about to wait: until then, a failure needs no event. Without it, a failure between sending and
    /// waiting would be published, and raised as well.
    pub fn expect_wait(&self) {
        if let Some(cell) = self.cells().first() {
            cell.state.fetch_or(EXPECTED, Ordering::SeqCst);
        }
    }

    /// The expected wait does not come: failures become events.
    pub fn expect_no_wait(&self) {
        if self.take_expectation().is_some_and(|state| state < WATCHER) {
            self.publish_failures();
        }
    }

    /// The expected wait, if there is one, begins or is given up. Returns the state before.
    fn take_expectation(&self) -> Option<u32> {
        let cell = self.cells().first().filter(|cell| cell.has(EXPECTED))?;
        Some(cell.state.fetch_and(!EXPECTED, Ordering::SeqCst)).filter(|state| state & EXPECTED != 0)
    }

    /// The last watcher that leaves without an outcome publishes what failed meanwhile.
    fn unwatch(&self) {
        let Some(cell) = self.cells().first() else { return };
        if cell.state.fetch_sub(WATCHER, Ordering::SeqCst) - WATCHER < EXPECTED {
            self.publish_failures();
        }
    }

    fn publish_failures(&self) {
        // A child publishes nothing about its parent's messages: the mailbox may have been locked when it was forked.
        if self.slab.failed.load(Ordering::SeqCst) > 0 && !self.slab.origin.is_foreign() {
            (0..self.len()).for_each(|index| self.slab.publish_failure(self.position(index)));
        }
    }

    /// A caller has got the failures so far, so they need no event.
    pub fn seen(&self) {
        if self.slab.failed.load(Ordering::SeqCst) > 0 {
            for cell in self.cells() {
                cell.state.fetch_and(!UNSEEN, Ordering::SeqCst);
            }
        }
    }

    pub fn outcome(&self, index: usize) -> Outcomes {
        let cell = &self.cells()[index];
        let code = cell.error.load(Ordering::Acquire);
        Outcomes {
            topic: Arc::clone(self.topic(index)),
            partition: cell.partition.load(Ordering::Relaxed),
            offset: cell.offset.load(Ordering::Relaxed),
            error: (code != 0).then(|| KafkaError::new(code)),
        }
    }

    pub fn topic(&self, index: usize) -> &Arc<str> {
        self.slab.topic(self.position(index))
    }

    /// The first message that failed.
    pub fn first_failure(&self) -> Option<Outcomes> {
        if self.slab.failed.load(Ordering::Acquire) == 0 {
            return None;
        }
        (0..self.len()).map(|index| self.outcome(index)).find(|outcome| outcome.error.is_some())
    }

    /// Why its producer delivers nothing at present, if librdkafka said so. Not for a forked child.
    pub fn last_error(&self) -> Option<KafkaError> {
        lock(&self.slab.publisher.last_error).clone()
    }

    /// Parks the calling thread until every message has its report.
    pub fn wait(&self, parker: &Arc<Parker>, deadline: Option<Instant>) -> Outcome {
        let watch = self.watch();
        if self.is_done() {
            watch.seen();
            return Outcome::Ready;
        }
        let _no_linger = self.skip_linger();
        let outcome = self.slab.waiters.wait_for(self.position, parker, deadline, || self.is_done());
        if outcome == Outcome::Ready {
            watch.seen();
        }
        outcome
    }

    /// The caller is about to wait. While the returned value lives, queued messages are sent at once, whatever
    /// `linger.ms` says.
    pub fn skip_linger(&self) -> Option<Wait> {
        self.slab.linger.as_ref().filter(|_| !self.is_done()).map(Linger::wait)
    }

    pub fn add_waiter(&self, waiter: Arc<dyn Wake>) {
        self.slab.waiters.add_for(self.position, waiter);
    }

    pub fn remove_waiter(&self, waiter: &Arc<dyn Wake>) {
        self.slab.waiters.remove(waiter);
    }
}

/// A caller that waits for a delivery. Dropped when the wait ends without an outcome.
pub struct Watch<'a>(&'a Delivery);

impl Watch<'_> {
    /// The outcome was handed over, failures included. Watchers that leave later do not publish them again.
    pub fn seen(self) {
        self.0.seen();
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.unwatch();
    }
}

#[cfg(test)]
mod tests;
