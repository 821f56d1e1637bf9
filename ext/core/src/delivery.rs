//! Delivery handles: what became of one message, or of a batch. Resolved natively, on the event thread.
//!
//! Handles of single messages share a slab: one allocation for 64 of them instead of one each, which the event thread and
//! the garbage collector would free behind the producing thread's back.
//!
//! A failure comes to somebody's notice: to those who wait, by the outcome, or else as an event. One that is reported
//! while somebody waits is marked `UNTOLD`, and the last one to give up waiting tells what is marked. The report marks
//! and then looks for waiters; who leaves is gone and then looks for marks: one of them sees the other, and the mark is
//! taken once.

use crate::error::{Error, KafkaError};
use crate::events::{EventKind, ReportPublisher};
use crate::linger::{Linger, Wait};
use crate::lock;
use crate::rd::{MAX_POSITIONS, Report, Reported, generation, hold};
use crate::wait::{Outcome, Parker, Waiters, Wake};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Single messages of a slab.
const ROOM: u32 = 64;
/// Stands for all messages of a batch where a handle names its message.
const WHOLE: u32 = MAX_POSITIONS as u32 - 1;

const DONE: u32 = 1;
/// Failed while somebody watched, who has not been told.
const UNTOLD: u32 = 2;
/// One who waits for the outcome; the bits from here on count them. Of a batch: in its first cell.
const WATCHER: u32 = 4;

/// Slabs made in this process. Unlike an address, a number does not come again.
static SLABS: AtomicU64 = AtomicU64::new(0);

/// What became of one message.
struct Cell {
    offset: AtomicI64,
    partition: AtomicI32,
    error: AtomicI32,
    /// DONE, UNTOLD, WATCHER × how many
    state: AtomicU32,
}

impl Cell {
    fn new() -> Self {
        let (offset, partition, error) = (AtomicI64::new(-1001), AtomicI32::new(-1), AtomicI32::new(0));
        Self { offset, partition, error, state: AtomicU32::new(0) }
    }

    fn has(&self, flag: u32) -> bool {
        self.state.load(Ordering::SeqCst) & flag != 0
    }
}

enum Topics {
    Same(Arc<str>),
    Each(Box<[Arc<str>]>),
}

/// The messages of a batch, or some whose handles are each for themselves.
pub struct Slab {
    topics: Topics,
    cells: Box<[Cell]>,
    /// Messages without a report; of a batch only.
    open: Option<AtomicUsize>,
    /// Messages that failed.
    failed: AtomicUsize,
    /// By position, or WHOLE.
    waiters: Waiters,
    /// Of the messages' producer.
    linger: Option<Arc<Linger>>,
    /// Of the messages' producer.
    publisher: Arc<ReportPublisher>,
    serial: u64,
    /// Fork generation: reports of a parent's messages never reach a child.
    made_in: u64,
}

impl Slab {
    fn new(
        topics: Topics,
        room: usize,
        open: Option<AtomicUsize>,
        linger: Option<Arc<Linger>>,
        publisher: Arc<ReportPublisher>,
    ) -> Arc<Self> {
        Arc::new(Self {
            topics,
            cells: (0..room).map(|_| Cell::new()).collect(),
            open,
            failed: AtomicUsize::new(0),
            waiters: Waiters::default(),
            linger,
            publisher,
            serial: SLABS.fetch_add(1, Ordering::Relaxed),
            made_in: generation(),
        })
    }

    pub fn topic(&self, position: u32) -> &Arc<str> {
        match &self.topics {
            Topics::Same(topic) => topic,
            Topics::Each(topics) => &topics[position as usize],
        }
    }

    fn is_watched(&self, position: u32) -> bool {
        let first = if self.open.is_some() { 0 } else { position as usize };
        self.cells[first].state.load(Ordering::SeqCst) >= WATCHER
    }

    /// See `Delivery::id`.
    fn id(&self, position: u32) -> u64 {
        self.serial * MAX_POSITIONS as u64 + u64::from(position)
    }

    /// Tells of a failure as an event, unless that was done.
    fn tell(&self, position: u32) {
        let cell = &self.cells[position as usize];
        if cell.state.load(Ordering::SeqCst) & UNTOLD == 0
            || cell.state.fetch_and(!UNTOLD, Ordering::SeqCst) & UNTOLD == 0
        {
            return;
        }
        let code = cell.error.load(Ordering::Acquire);
        let (topic, partition) = (self.topic(position).to_string(), cell.partition.load(Ordering::Relaxed));
        let (delivery, position) = self.handle(position);
        self.publisher.failed(EventKind::DeliveryFailed { code, topic, partition, delivery, position });
    }

    /// The id of the handle that has this message, and which of its messages that is.
    fn handle(&self, position: u32) -> (u64, u32) {
        if self.open.is_some() { (self.id(WHOLE), position) } else { (self.id(position), 0) }
    }

    /// Tells that a message was delivered or purged, whoever waits.
    fn tell_report(&self, position: u32, Report { partition, offset, error: code }: Report) {
        let topic = Arc::clone(self.topic(position));
        let (delivery, position) = self.handle(position);
        self.publisher.emit(match code {
            0 => EventKind::Acknowledged { topic, partition, offset, delivery, position },
            _ => EventKind::Purged { code, topic, partition, delivery, position },
        });
    }
}

impl Reported for Slab {
    fn report(&self, position: u32, report: Report, tell: bool) -> bool {
        let cell = &self.cells[position as usize];
        cell.partition.store(report.partition, Ordering::Relaxed);
        cell.offset.store(report.offset, Ordering::Relaxed);
        if self.publisher.tells_report(report.error) {
            self.tell_report(position, report);
        }
        if report.error != 0 {
            cell.error.store(report.error, Ordering::Release);
            self.failed.fetch_add(1, Ordering::SeqCst);
            if tell {
                cell.state.fetch_or(UNTOLD, Ordering::SeqCst);
                if !self.is_watched(position) {
                    self.tell(position);
                }
            }
        }
        cell.state.fetch_or(DONE, Ordering::SeqCst);
        let Some(open) = &self.open else {
            self.waiters.wake(position);
            return true;
        };
        let last = open.fetch_sub(1, Ordering::SeqCst) == 1;
        if last {
            self.waiters.wake_all();
        }
        last
    }
}

/// Where single messages to one topic get their handles from.
pub(crate) struct Slabs {
    topic: Arc<str>,
    linger: Option<Arc<Linger>>,
    publisher: Arc<ReportPublisher>,
    /// The slab with room, and how much of it is taken.
    current: Mutex<(Arc<Slab>, u32)>,
}

impl Slabs {
    pub fn new(topic: Arc<str>, linger: Option<Arc<Linger>>, publisher: Arc<ReportPublisher>) -> Self {
        let first = Self::slab(&topic, &linger, &publisher);
        Self { topic, linger, publisher, current: Mutex::new((first, 0)) }
    }

    fn slab(topic: &Arc<str>, linger: &Option<Arc<Linger>>, publisher: &Arc<ReportPublisher>) -> Arc<Slab> {
        Slab::new(Topics::Same(Arc::clone(topic)), ROOM as usize, None, linger.clone(), Arc::clone(publisher))
    }

    /// A handle for a message that is about to be sent: held until it is reported.
    pub fn next(&self) -> Delivery {
        let mut current = lock(&self.current);
        if current.1 == ROOM {
            *current = (Self::slab(&self.topic, &self.linger, &self.publisher), 0);
        }
        let delivery = Delivery { slab: Arc::clone(&current.0), position: current.1 };
        current.1 += 1;
        drop(current);
        hold(&delivery.slab);
        delivery
    }
}

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

    /// Whether it will be the reason of no further event: done, and nobody waits who may give up and tell what failed.
    pub fn is_settled(&self) -> bool {
        self.is_done() && self.cells().first().is_none_or(|cell| cell.state.load(Ordering::SeqCst) < WATCHER)
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
        let foreign = self.slab.made_in != generation() && !self.is_done();
        if foreign { Err(Error::forked(self.slab.made_in)) } else { Ok(()) }
    }

    /// Somebody waits for the outcome: no event is needed for a failure, as long as the answer lives or for ever once it
    /// is `told`.
    pub fn watch(&self) -> Watch<'_> {
        if let Some(cell) = self.cells().first() {
            cell.state.fetch_add(WATCHER, Ordering::SeqCst);
        }
        Watch(self)
    }

    /// Who leaves last without an outcome tells what failed meanwhile.
    fn unwatch(&self) {
        let Some(cell) = self.cells().first() else { return };
        let last = cell.state.fetch_sub(WATCHER, Ordering::SeqCst) < 2 * WATCHER;
        // A child tells nothing of its parent's messages: the mailbox may have been locked when it was forked.
        if last && self.slab.failed.load(Ordering::SeqCst) > 0 && self.slab.made_in == generation() {
            (0..self.len()).for_each(|index| self.slab.tell(self.position(index)));
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

    /// Parks the calling thread until every message has its report.
    pub fn wait(&self, parker: &Arc<Parker>, deadline: Option<Instant>) -> Outcome {
        let watch = self.watch();
        if self.is_done() {
            watch.told();
            return Outcome::Ready;
        }
        let _no_linger = self.skip_linger();
        let outcome = self.slab.waiters.wait_for(self.position, parker, deadline, || self.is_done());
        if outcome == Outcome::Ready {
            watch.told();
        }
        outcome
    }

    /// Somebody is about to wait, as long as the answer lives: what was produced so far is sent at once, whatever
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

/// One who waits for a delivery; dropped when the wait ends without an outcome.
pub struct Watch<'a>(&'a Delivery);

impl Watch<'_> {
    /// The outcome is handed over, failures and all: nobody who leaves later tells them again.
    pub fn told(self) {
        if self.0.slab.failed.load(Ordering::SeqCst) > 0 {
            for cell in self.0.cells() {
                cell.state.fetch_and(!UNTOLD, Ordering::SeqCst);
            }
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.unwatch();
    }
}

#[cfg(test)]
mod tests;
