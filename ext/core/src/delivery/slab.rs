//! Slabs: the memory of deliveries. Handles of single messages share a slab, so that 64 messages cost one allocation.

use super::{DONE, Delivery, EXPECTED, ROOM, UNSEEN, WHOLE};
use crate::events::{EventKind, ReportPublisher};
use crate::linger::Linger;
use crate::lock;
use crate::rd::{MAX_POSITIONS, Origin, Report, Reported, codes, hold};
use crate::wait::Waiters;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Slabs made in this process. Unlike an address, a number does not come again.
static SLABS: AtomicU64 = AtomicU64::new(0);

/// What became of one message.
pub(super) struct Cell {
    pub(super) offset: AtomicI64,
    pub(super) partition: AtomicI32,
    pub(super) error: AtomicI32,
    /// DONE, UNSEEN, EXPECTED, WATCHER × how many
    pub(super) state: AtomicU32,
}

impl Cell {
    pub(super) fn new() -> Self {
        let (offset, partition, error) = (AtomicI64::new(-1001), AtomicI32::new(-1), AtomicI32::new(0));
        Self { offset, partition, error, state: AtomicU32::new(0) }
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.state.load(Ordering::SeqCst) & flag != 0
    }
}

pub(super) enum Topics {
    Same(Arc<str>),
    Each(Box<[Arc<str>]>),
}

/// The messages of a batch, or some whose handles are each for themselves.
pub struct Slab {
    pub(super) topics: Topics,
    pub(super) cells: Box<[Cell]>,
    /// Messages without a report; of a batch only.
    pub(super) open: Option<AtomicUsize>,
    /// Messages that failed.
    pub(super) failed: AtomicUsize,
    /// Whether each report becomes an event of its own, for middleware.
    pub(super) publishes: AtomicBool,
    /// By position, or WHOLE.
    pub(super) waiters: Waiters,
    /// Of the messages' producer.
    pub(super) linger: Option<Arc<Linger>>,
    /// Of the messages' producer.
    pub(super) publisher: Arc<ReportPublisher>,
    pub(super) serial: u64,
    /// Reports of a parent's messages never reach a child.
    pub(super) origin: Origin,
}

impl Slab {
    pub(super) fn new(
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
            publishes: AtomicBool::new(false),
            waiters: Waiters::default(),
            linger,
            publisher,
            serial: SLABS.fetch_add(1, Ordering::Relaxed),
            origin: Origin::here(),
        })
    }

    pub fn topic(&self, position: u32) -> &Arc<str> {
        match &self.topics {
            Topics::Same(topic) => topic,
            Topics::Each(topics) => &topics[position as usize],
        }
    }

    pub(super) fn is_watched(&self, position: u32) -> bool {
        let first = if self.open.is_some() { 0 } else { position as usize };
        self.cells[first].state.load(Ordering::SeqCst) >= EXPECTED
    }

    /// See `Delivery::id`.
    pub(super) fn id(&self, position: u32) -> u64 {
        self.serial * MAX_POSITIONS as u64 + u64::from(position)
    }

    /// Publishes a failure as an event, unless that was done.
    pub(super) fn publish_failure(&self, position: u32) {
        let cell = &self.cells[position as usize];
        if cell.state.load(Ordering::SeqCst) & UNSEEN == 0
            || cell.state.fetch_and(!UNSEEN, Ordering::SeqCst) & UNSEEN == 0
        {
            return;
        }
        let code = cell.error.load(Ordering::Acquire);
        let (topic, partition) = (self.topic(position).to_string(), cell.partition.load(Ordering::Relaxed));
        let (delivery, position) = self.handle(position);
        self.publisher.failed(EventKind::DeliveryFailed { code, topic, partition, delivery, position });
    }

    /// The id of the handle that has this message, and which of its messages that is.
    pub(super) fn handle(&self, position: u32) -> (u64, u32) {
        if self.open.is_some() { (self.id(WHOLE), position) } else { (self.id(position), 0) }
    }

    /// Publishes that a message was delivered or purged, even if a caller waits for it.
    pub(super) fn publish_report(&self, position: u32, report: Report) {
        let Report { partition, offset, error: code, micros } = report;
        let topic = Arc::clone(self.topic(position));
        let (delivery, position) = self.handle(position);
        self.publisher.emit(match code {
            0 => EventKind::Acknowledged { topic, partition, offset, micros, delivery, position },
            _ => EventKind::Purged { code, topic, partition, delivery, position },
        });
    }
}

impl Reported for Slab {
    fn report(&self, position: u32, report: Report, must_report: bool) -> bool {
        let cell = &self.cells[position as usize];
        cell.partition.store(report.partition, Ordering::Relaxed);
        cell.offset.store(report.offset, Ordering::Relaxed);
        if self.publisher.publishes_report(report.error) {
            self.publish_report(position, report);
        }
        // Of a message that got no room in the queue, the caller knows.
        if self.publishes.load(Ordering::Relaxed) && report.error != codes::QUEUE_FULL {
            let Report { partition, offset, error: code, micros } = report;
            let topic = Arc::clone(self.topic(position));
            let (delivery, position) = self.handle(position);
            self.publisher.emit(EventKind::Reported { code, topic, partition, offset, micros, delivery, position });
        }
        if report.error != 0 {
            cell.error.store(report.error, Ordering::Release);
            self.failed.fetch_add(1, Ordering::SeqCst);
            if must_report {
                cell.state.fetch_or(UNSEEN, Ordering::SeqCst);
                if !self.is_watched(position) {
                    self.publish_failure(position);
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

/// Gives handles to single messages of one topic.
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
