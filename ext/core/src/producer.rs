//! A producer: enqueues without blocking, resolves its deliveries on the event thread.

use crate::budget::Queued;
use crate::closing::{CALLS_WAIT, Closing};
use crate::delivery::Slabs;
use crate::error::{Error, KafkaError};
use crate::events::{self, EventKind, ReportPublisher};
use crate::idle::Idle;
use crate::linger::Linger;
use crate::lock;
use crate::poller::{Poller, Polling};
use crate::queue_waits::QueueWaits;
use crate::rd::{Client, Headers, Origin, Queue, Token, Topic, codes};
use crate::send_times::SendTimes;
use crate::wait::{self, Outcome, Parker, Waiters};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::time::{Duration, Instant};

mod connection;
pub mod exit;
mod sending;
mod serving;
mod transactions;
mod waiting;
pub(crate) use connection::prepare;
use transactions::Transactions;
pub use transactions::{Ticket, group_metadata};

const MAIN_QUEUE: u32 = 0;
/// How long an unclosed producer continues to send after it was garbage collected.
const ABANDONED_FLUSH: Duration = Duration::from_secs(30);
/// How long a missing topic is requested again: the first request may have created it (auto.create.topics.enable).
const CREATION: Duration = Duration::from_secs(1);
const NOT_THERE: [i32; 3] = [codes::UNKNOWN_TOPIC_OR_PART, codes::LEADER_NOT_AVAILABLE, codes::UNKNOWN_TOPIC];
const NO_ANSWER: [i32; 2] = [codes::TIMED_OUT, codes::TRANSPORT];
/// Purged messages are reported at once; this only bounds the unthinkable.
const PURGE_WAIT: Duration = Duration::from_secs(5);

/// A message to be sent; everything is copied.
#[derive(Default)]
pub struct Outgoing<'a> {
    pub topic: &'a str,
    /// `None` is a tombstone; an empty payload is not.
    pub payload: Option<&'a [u8]>,
    pub key: Option<&'a [u8]>,
    /// −1 lets the partitioner choose.
    pub partition: i32,
    /// Milliseconds since 1970; 0 is now.
    pub timestamp: i64,
    pub headers: Option<Headers>,
}

/// A topic that was produced to.
struct KnownTopic {
    name: Arc<str>,
    handle: Topic,
    slabs: Slabs,
}

/// What exists only while the client does.
struct LiveProducer {
    client: Arc<Client>,
    queue: Arc<Queue>,
    topics: HashMap<Arc<str>, KnownTopic>,
    /// Bytes of payload that the queue has room for (`queue.buffering.max.kbytes`).
    room: usize,
}

pub struct Producer {
    name: String,
    settings: connection::Settings,
    poller: Arc<Poller>,
    /// For its messages' failures.
    publisher: Arc<ReportPublisher>,
    id: u32,
    me: Weak<Self>,
    /// Set while `live` is empty although it is not closed.
    disconnected: AtomicBool,
    idle: Idle,
    /// Emptied when closed or disconnected. Held for reading during an enqueue, so a close never pulls a client from
    /// under one.
    live: RwLock<Option<LiveProducer>>,
    /// Held while a client is opened again.
    opening: Mutex<()>,
    /// Messages accepted by librdkafka; written by producing threads.
    sent: AtomicU64,
    /// What the accepted messages take until they are reported.
    queued: Queued,
    /// Reported messages. Each is counted before its waiters wake. Written by the event thread.
    settled: AtomicU64,
    /// Messages reported whose failures are counted and whose room in the queue is free again; written by the event
    /// thread.
    reported: AtomicU64,
    /// The waiters for a change of `reported`: for room in the queue, or the last report.
    progress: Waiters,
    closing: Arc<Closing>,
    /// `None` where `linger.ms` is 0.
    linger: Option<Arc<Linger>>,
    transactions: Transactions,
    queue_waits: QueueWaits,
    /// What metrics get to know of its messages; usually not set.
    times: OnceLock<Box<[Arc<SendTimes>]>>,
    /// `None`: the end of the process is nothing to it.
    exit: Mutex<Option<exit::Exit>>,
    /// A forked child takes none of these locks.
    origin: Origin,
}

impl Producer {
    /// Starts a producer; `options` are librdkafka's. Connects in the background.
    pub fn new<'a>(
        name: &str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
        polling: impl Into<Polling>,
    ) -> Result<Arc<Self>, Error> {
        let Polling { poller, max_time } = polling.into();
        let settings = options.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        let (live, lingers) = connection::open(&settings)?;
        let linger = lingers.then(|| Linger::new(&live.client));
        poller.register(name, max_time, |id| {
            live.queue.signal(poller.wakeup(), Token { client: id, queue: MAIN_QUEUE });
            Arc::new_cyclic(|me| Self {
                name: name.into(),
                settings,
                poller: Arc::clone(&poller),
                publisher: ReportPublisher::new(poller.events(), name),
                id,
                me: me.clone(),
                live: RwLock::new(Some(live)),
                opening: Mutex::default(),
                disconnected: AtomicBool::new(false),
                idle: Idle::default(),
                sent: AtomicU64::new(0),
                queued: Queued::default(),
                settled: AtomicU64::new(0),
                reported: AtomicU64::new(0),
                progress: Waiters::default(),
                closing: Arc::default(),
                linger,
                transactions: Transactions::default(),
                queue_waits: QueueWaits::default(),
                times: OnceLock::new(),
                exit: Mutex::default(),
                origin: Origin::here(),
            })
        })
    }

    fn live(&self) -> RwLockReadGuard<'_, Option<LiveProducer>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a use: reconnects where need be.
    fn client(&self) -> Result<Arc<Client>, Error> {
        loop {
            match self.with_client(Arc::clone) {
                Err(Error::Closed) => self.reconnect()?,
                result => return result,
            }
        }
    }

    /// Calls librdkafka briefly, also during a close, but not while the producer is disconnected.
    pub fn with_client<R>(&self, call: impl FnOnce(&Arc<Client>) -> R) -> Result<R, Error> {
        self.check_origin()?;
        self.live().as_ref().map(|live| call(&live.client)).ok_or(Error::Closed)
    }

    /// Runs `call` with the live client and the topic, which is made known the first time.
    fn with_topic<R>(&self, topic: &str, call: impl Fn(&LiveProducer, &KnownTopic) -> R) -> Result<R, Error> {
        self.check_origin()?;
        loop {
            {
                let guard = self.live();
                if self.closing.started() {
                    return Err(Error::Closed);
                }
                if let Some((live, known)) = guard.as_ref().and_then(|live| Some((live, live.topics.get(topic)?))) {
                    return Ok(call(live, known));
                }
            }
            self.reconnect()?;
            let mut guard = self.live.write().unwrap_or_else(PoisonError::into_inner);
            // Disconnected in between: once more.
            let Some(live) = guard.as_mut() else { continue };
            let handle = handle(&live.client, topic)?;
            let name: Arc<str> = topic.into();
            let slabs = Slabs::new(Arc::clone(&name), self.linger.clone(), Arc::clone(&self.publisher));
            live.topics.insert(Arc::clone(&name), KnownTopic { name, handle, slabs });
        }
    }

    /// How many partitions a topic has, as Kafka says. Blocks up to the time given.
    pub fn partition_count(&self, topic: &str, timeout: Duration) -> Result<i32, Error> {
        let client = self.client()?;
        let handle = handle(&client, topic)?;
        let (started, deadline) = (Instant::now(), wait::deadline(Some(timeout)));
        loop {
            let answer = client.metadata(Some(&handle), wait::millis_left(deadline));
            let code = match answer.map(|(_, topics)| topics.into_iter().next()) {
                Ok(Some((_, Ok(count)))) if count > 0 => return Ok(count as i32),
                Ok(Some((_, Err(code)))) => code,
                Ok(_) => codes::UNKNOWN_TOPIC,
                Err(code) if NO_ANSWER.contains(&code) => return Err(Error::TimedOut),
                Err(code) => return Err(Error::code(code)),
            };
            let pause = Instant::now() + CREATION / 10;
            if !NOT_THERE.contains(&code) || pause > started + CREATION || deadline.is_some_and(|end| pause > end) {
                return Err(Error::code(code));
            }
            self.progress.wait(&Parker::new(), Some(pause), || self.closing.started());
            if self.closing.started() {
                return Err(Error::Closed);
            }
        }
    }

    /// Messages accepted and not yet reported.
    pub fn pending(&self) -> u64 {
        let settled = self.settled.load(Ordering::SeqCst);
        self.sent.load(Ordering::SeqCst).saturating_sub(settled)
    }

    /// Why no message gets through at present, if librdkafka said so: the broker refuses connections, …
    pub fn last_error(&self) -> Option<KafkaError> {
        if self.is_foreign() {
            return None;
        }
        lock(&self.publisher.last_error).clone()
    }

    /// Failed messages that no caller waited for, by topic and code.
    pub fn failures(&self) -> impl Iterator<Item = (Arc<str>, i32, u64)> {
        self.publisher.failures().into_iter().map(|((topic, code), count)| (topic, code, count))
    }

    /// Sets whether each delivered, or purged, message becomes an event from now on.
    pub fn publish_reports(&self, acknowledged: bool, purged: bool) {
        self.publisher.publish_reports(acknowledged, purged);
    }

    /// Sets, once, where the times of delivered messages are counted.
    pub fn count_times(&self, times: Box<[Arc<SendTimes>]>) {
        let _ = self.times.set(times);
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The error for a forked child that uses its parent's producer.
    pub fn check_origin(&self) -> Result<(), Error> {
        self.origin.check()
    }

    /// Whether this is a forked child's view of its parent's producer.
    pub fn is_foreign(&self) -> bool {
        self.origin.is_foreign()
    }

    /// Fails everything pending; the reports come as always.
    pub fn purge(&self) -> Result<(), Error> {
        match self.with_client(|client| client.purge()) {
            Err(Error::Closed) if !self.closing.started() => Ok(()),
            result => result,
        }
    }

    pub fn closing(&self) -> &Arc<Closing> {
        &self.closing
    }

    /// Starts closing. New messages are refused, pending ones are sent within `timeout`, and the rest fails with
    /// `_PURGE_…` reports. Idempotent. Wait with `closing()`.
    pub fn close(self: &Arc<Self>, timeout: Duration) -> Result<(), Error> {
        self.check_origin()?;
        let producer = Arc::clone(self);
        self.closing.start(move || producer.end(timeout));
        self.progress.wake_all();
        Ok(())
    }

    /// Messages that a close, which may still run, has not delivered: given up, or on their way.
    pub fn undelivered(&self) -> u64 {
        self.pending().max(self.closing.lost() as u64)
    }

    /// The owner was garbage collected without a close: sends for a while longer, then publishes what is lost.
    pub fn abandon(self: &Arc<Self>) {
        if self.is_foreign() {
            return;
        }
        let producer = Arc::clone(self);
        self.closing.start(move || {
            let lost = producer.end(ABANDONED_FLUSH);
            events::emit(producer.poller.events(), &producer.name, EventKind::Unclosed { lost });
            lost
        });
    }

    /// On the closing thread.
    fn end(&self, timeout: Duration) -> usize {
        let Ok(client) = self.client() else {
            self.poller.unregister(self.id);
            return 0;
        };
        // An enqueue that began before `closing` was set has ended once the lock was ours.
        drop(self.live.write());
        let deadline = wait::deadline(Some(timeout));
        if !timeout.is_zero() {
            self.abort_abandoned(&client, deadline);
        }
        if !self.is_flushed() {
            client.flush(wait::millis_left(deadline));
        }
        let parker = Parker::new();
        let mut lost = 0;
        if self.wait_flushed(&parker, deadline) != Outcome::Ready {
            lost = self.pending() as usize;
            self.closing.gives_up(lost); // before nothing is pending any more
            client.purge();
            self.wait_flushed(&parker, wait::deadline(Some(PURGE_WAIT)));
        }
        self.queue_waits.publish(self.poller.events(), &self.name);
        self.poller.unregister(self.id);
        let live = self.live.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(live) = &live {
            live.queue.unsignal();
        }
        drop(live);
        Client::end(client, CALLS_WAIT);
        lost
    }
}

/// The error that ended the client.
fn fatal(client: &Client) -> KafkaError {
    let (code, reason) = client.fatal_error().unwrap_or((codes::FATAL, String::new()));
    KafkaError { fatal: true, ..KafkaError::with_reason(code, reason) }
}

fn handle(client: &Arc<Client>, topic: &str) -> Result<Topic, Error> {
    let made = is_topic_name(topic).then(|| Topic::new(client, topic)).flatten();
    let allowed = "1 to 249 of the letters a-z A-Z 0-9 . _ -";
    made.ok_or(Error::Invalid { what: "topic", value: topic.into(), allowed })
}

/// Whether a topic may have this name. This is Kafka's own rule: messages to other names could never be delivered.
pub fn is_topic_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && !matches!(name, "." | "..") && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::is_topic_name;

    #[test]
    fn names_of_topics_are_those_of_kafka() {
        for name in ["a", "...", "Aa0._-", &"x".repeat(249)] {
            assert!(is_topic_name(name), "{name}");
        }
        for name in ["", ".", "..", "a b", "a/b", "ä", "a\0", &"x".repeat(250)] {
            assert!(!is_topic_name(name), "{name}");
        }
    }
}
