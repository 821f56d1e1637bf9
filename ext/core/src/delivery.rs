//! Delivery handles: what became of one message, or of a batch. Resolved natively, on the event thread.

use crate::error::KafkaError;
use crate::rd::{Report, Reported, generation};
use crate::wait::{Outcome, Parker, Waiters, Wake};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicUsize, Ordering};
use std::time::Instant;

struct Cell {
    topic: Arc<str>,
    partition: AtomicI32,
    offset: AtomicI64,
    error: AtomicI32,
}

impl Cell {
    fn new(topic: Arc<str>) -> Self {
        let (partition, offset, error) = (AtomicI32::new(-1), AtomicI64::new(-1001), AtomicI32::new(0));
        Self { topic, partition, offset, error }
    }
}

enum Cells {
    One(Cell),
    Many(Box<[Cell]>),
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

pub struct Delivery {
    cells: Cells,
    /// Messages without a report.
    open: AtomicUsize,
    /// Messages that failed.
    failed: AtomicUsize,
    waiters: Waiters,
    /// Fork generation: reports of a parent's messages never reach a child.
    made_in: u64,
    /// Whether anybody asked what became of it; decides who is told of a failure.
    watched: AtomicBool,
}

impl Delivery {
    pub fn single(topic: Arc<str>) -> Arc<Self> {
        Self::new(Cells::One(Cell::new(topic)), 1)
    }

    pub fn batch(topics: impl IntoIterator<Item = Arc<str>>) -> Arc<Self> {
        let cells: Box<[Cell]> = topics.into_iter().map(Cell::new).collect();
        let open = cells.len();
        Self::new(Cells::Many(cells), open)
    }

    fn new(cells: Cells, open: usize) -> Arc<Self> {
        Arc::new(Self {
            cells,
            open: AtomicUsize::new(open),
            failed: AtomicUsize::new(0),
            waiters: Waiters::default(),
            made_in: generation(),
            watched: AtomicBool::new(false),
        })
    }

    fn cell(&self, position: usize) -> &Cell {
        match &self.cells {
            Cells::One(cell) => cell,
            Cells::Many(cells) => &cells[position],
        }
    }

    /// Messages it stands for.
    pub fn len(&self) -> usize {
        match &self.cells {
            Cells::One(_) => 1,
            Cells::Many(cells) => cells.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether every message has its report.
    pub fn is_done(&self) -> bool {
        self.open.load(Ordering::SeqCst) == 0
    }

    /// Whether every message reached Kafka.
    pub fn is_delivered(&self) -> bool {
        self.is_done() && self.failed.load(Ordering::Acquire) == 0
    }

    /// Whether the reports can still come: not in a forked child.
    pub fn is_foreign(&self) -> bool {
        self.made_in != generation() && !self.is_done()
    }

    /// Somebody will look at the outcome: no event is needed for a failure.
    pub fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// Whoever looked gave up: a later failure is told as an event again.
    pub fn unwatch(&self) {
        self.watched.store(false, Ordering::Relaxed);
    }

    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    pub fn outcome(&self, position: usize) -> Outcomes {
        let cell = self.cell(position);
        let code = cell.error.load(Ordering::Acquire);
        Outcomes {
            topic: Arc::clone(&cell.topic),
            partition: cell.partition.load(Ordering::Relaxed),
            offset: cell.offset.load(Ordering::Relaxed),
            error: (code != 0).then(|| KafkaError::new(code)),
        }
    }

    pub fn topic(&self, position: usize) -> &Arc<str> {
        &self.cell(position).topic
    }

    /// The first message that failed.
    pub fn first_failure(&self) -> Option<Outcomes> {
        if self.failed.load(Ordering::Acquire) == 0 {
            return None;
        }
        (0..self.len()).map(|position| self.outcome(position)).find(|outcome| outcome.error.is_some())
    }

    /// Parks the calling thread until every message has its report.
    pub fn wait(&self, parker: &Arc<Parker>, deadline: Option<Instant>) -> Outcome {
        self.watch();
        if self.is_done() {
            return Outcome::Ready;
        }
        self.waiters.wait(parker, deadline, || self.is_done())
    }

    pub fn add_waiter(&self, waiter: Arc<dyn Wake>) {
        self.watch();
        self.waiters.add(waiter);
    }

    pub fn remove_waiter(&self, waiter: &Arc<dyn Wake>) {
        self.waiters.remove(waiter);
    }
}

impl Reported for Delivery {
    fn report(&self, position: u32, report: Report) -> bool {
        let cell = self.cell(position as usize);
        cell.partition.store(report.partition, Ordering::Relaxed);
        cell.offset.store(report.offset, Ordering::Relaxed);
        if report.error != 0 {
            cell.error.store(report.error, Ordering::Release);
            self.failed.fetch_add(1, Ordering::Release);
        }
        let last = self.open.fetch_sub(1, Ordering::SeqCst) == 1;
        if last {
            self.waiters.wake_all();
        }
        last
    }
}
