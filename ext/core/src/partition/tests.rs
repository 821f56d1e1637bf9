//! When a partition is read.

use super::*;
use crate::chunk::GivenMessage;
use crate::poller::Source;
use crate::rd::{ClientKind, Conf};
use crate::wait::{Outcome, Parker, Waiters};
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

const QUEUE: u32 = 7;

/// Of the times that the partition was to be read.
#[derive(Default)]
struct Counter {
    times: AtomicUsize,
    waiters: Waiters,
}

impl Source for Counter {
    fn serve(&self, queues: &mut Vec<u32>, _: Instant) {
        self.times.fetch_add(queues.drain(..).filter(|queue| *queue == QUEUE).count(), Ordering::SeqCst);
        self.waiters.wake_all();
    }

    fn all_queues(&self, _: &mut Vec<u32>) {}
}

/// A client of a poller of its own.
pub(super) struct Reads {
    pub poller: Arc<Poller>,
    /// Of the partition.
    pub token: Token,
    counter: Arc<Counter>,
}

impl Reads {
    pub fn new() -> Self {
        let poller = Poller::new("test").expect("a pipe");
        let mut client = 0;
        let make = |id| {
            client = id;
            Arc::<Counter>::default()
        };
        let counter = poller.register("test", Duration::from_secs(60), make).expect("a thread");
        Self { poller, token: Token { client, queue: QUEUE }, counter }
    }

    pub fn count(&self) -> usize {
        self.counter.times.load(Ordering::SeqCst)
    }

    /// Waits until the partition was to be read more often than that.
    pub fn wait_beyond(&self, count: usize) {
        let deadline = Some(Instant::now() + Duration::from_secs(60));
        let outcome = self.counter.waiters.wait(&Parker::new(), deadline, || self.count() > count);
        assert_eq!(Outcome::Ready, outcome, "it is not read");
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        self.poller.unregister(self.token.client);
    }
}

/// Not open yet. Its position is 5.
fn partition() -> (Reads, Arc<Partition>) {
    let mut conf = Conf::new();
    conf.set("group.id", "g").expect("a good option");
    let client = Client::new(ClientKind::Consumer, conf).expect("a client");
    let (reads, limits) = (Reads::new(), Limits::default());
    let format = Format::LAZY.into();
    let partition = Partition::new(&client, "t".into(), 0, 5, format, None, limits, &reads.poller, reads.token);
    (reads, partition.expect("a queue"))
}

/// Signals of its messages came while it was not read.
#[test]
fn a_partition_is_read_when_it_opens_and_when_a_pause_or_a_seek_is_over() {
    let (reads, partition) = partition();
    assert!(!partition.is_open());
    partition.pause();
    partition.hold();
    let steps: [fn(&Partition); 3] = [Partition::open, Partition::resume, Partition::release];
    for (before, step) in steps.into_iter().enumerate() {
        assert_eq!(before, reads.count());
        step(&partition);
        reads.wait_beyond(before);
    }
    assert_eq!((true, Some(5)), (partition.is_open(), partition.position()));
    // Nothing was read yet, so nothing is known to be done.
    assert_eq!(None, partition.behind(5, || unreachable!("no message")));
    partition.close();
    assert_eq!((false, None), (partition.is_open(), partition.position()));
}

/// For example the end of the partition, which a consumer heard of although it was back at the beginning.
#[test]
fn what_a_partition_had_to_say_before_a_seek_is_gone_after_it() {
    let (_reads, partition) = partition();
    partition.open();
    let read = || {
        let mut found = None;
        partition.read(&mut Fetched::new(), |result| found = Some(result));
        found
    };
    let notice = || lock(&partition.notices).push_back((-191, "the end".into(), 5));
    notice();
    assert!(matches!(read(), Some(ReadResult::Notice(-191, _, 5))));
    notice();
    partition.hold();
    partition.begin(0);
    partition.release();
    assert!(read().is_none());
}

/// Otherwise the event thread would turn to it again and again.
#[test]
fn a_partition_that_is_closed_or_paused_or_held_gives_nothing() {
    let (_reads, partition) = partition();
    let read = || {
        lock(&partition.notices).push_back((-191, "the end".into(), 5));
        partition.read(&mut Fetched::new(), |_| ())
    };
    assert!(!read(), "not open yet");
    partition.open();
    assert!(read());
    partition.pause();
    assert!(!read(), "paused");
    partition.resume();
    assert!(read());
    partition.hold();
    assert!(!read(), "held");
    partition.release();
    assert!(read());
    partition.close();
    assert!(!read(), "closed");
}

#[test]
fn a_forked_child_frees_nothing_of_a_batch_of_its_parent() {
    let message = GivenMessage { offset: 1, timestamp: 7, payload: Some(b"1"), key: None, headers: Vec::new() };
    let mut batch = GivenPartition::new("t", 0, Format::LAZY, None).batch(&[message], 9);
    let own = std::mem::replace(&mut batch.origin, Origin::of_another_process());
    assert_eq!((0, 1), (batch.release(), batch.chunks().len()));
    batch.origin = own;
    assert_eq!((1, 0), (batch.release(), batch.chunks().len()));
}
