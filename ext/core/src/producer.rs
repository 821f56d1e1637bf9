//! A producer: enqueues without blocking, resolves its deliveries on the event thread.

use crate::closing::Closing;
use crate::config;
use crate::delivery::Delivery;
use crate::error::{Error, KafkaError};
use crate::events::{self, Kind};
use crate::lock;
use crate::poller::{Poller, Source};
use crate::rd::{self, Client, ClientKind, Headers, Queue, Report, Token, Topic, generation};
use crate::wait::{self, Outcome, Parker, Waiters, Wake};
use rdkafka_sys as sys;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

const MAIN_QUEUE: u32 = 0;
const QUEUE_FULL: i32 = -184;
const UNKNOWN_TOPIC: i32 = -188;
/// How long an unclosed producer that was garbage collected goes on sending.
const ABANDONED_FLUSH: Duration = Duration::from_secs(30);
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

/// What exists only while the client lives.
struct Live {
    client: Arc<Client>,
    queue: Arc<Queue>,
    topics: HashMap<Arc<str>, Topic>,
}

pub struct Producer {
    name: String,
    poller: Arc<Poller>,
    id: u32,
    /// Emptied when closed. Held for reading during an enqueue, so a close never pulls a client from under one.
    live: RwLock<Option<Live>>,
    /// Messages accepted by librdkafka; written by producing threads.
    sent: AtomicU64,
    /// Messages reported; written by the event thread.
    reported: AtomicU64,
    /// Those who wait for `reported` to change: room in the queue, or the last report.
    progress: Waiters,
    closing: Arc<Closing>,
    /// What went wrong last, until a message is delivered again: why a wait is in vain.
    last_error: Mutex<Option<KafkaError>>,
    /// Fork generation; a child takes none of these locks.
    made_in: u64,
}

impl Producer {
    /// Starts a producer; `options` are librdkafka's. Connects in the background.
    pub fn new<'a>(
        name: &str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
        poller: &Arc<Poller>,
    ) -> Result<Arc<Self>, Error> {
        let mut conf = config::build(options)?;
        conf.set("log.queue", "true").map_err(|reason| Error::from((-186, reason)))?;
        conf.set_events(
            sys::RD_KAFKA_EVENT_DR | sys::RD_KAFKA_EVENT_ERROR | sys::RD_KAFKA_EVENT_STATS | sys::RD_KAFKA_EVENT_LOG,
        );
        let client = Client::new(ClientKind::Producer, conf).map_err(config::refused)?;
        let queue = Arc::new(Queue::main(&client));
        client.logs_to(&queue);
        poller.register(|id| {
            queue.signal(poller.wakeup(), Token { client: id, queue: MAIN_QUEUE });
            Arc::new(Self {
                name: name.into(),
                poller: Arc::clone(poller),
                id,
                live: RwLock::new(Some(Live { client, queue, topics: HashMap::new() })),
                sent: AtomicU64::new(0),
                reported: AtomicU64::new(0),
                progress: Waiters::default(),
                closing: Arc::default(),
                last_error: Mutex::default(),
                made_in: generation(),
            })
        })
    }

    fn live(&self) -> RwLockReadGuard<'_, Option<Live>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn client(&self) -> Result<Arc<Client>, Error> {
        if self.is_foreign() {
            return Err(Error::Forked);
        }
        self.live().as_ref().map(|live| Arc::clone(&live.client)).ok_or(Error::Closed)
    }

    /// Runs `call` with the live client and the topic's handle, which is made the first time.
    fn with_topic<R>(&self, topic: &str, call: impl Fn(&Live, &Arc<str>, &Topic) -> R) -> Result<R, Error> {
        if self.is_foreign() {
            return Err(Error::Forked);
        }
        loop {
            {
                let guard = self.live();
                let live = guard.as_ref().ok_or(Error::Closed)?;
                if self.closing.started() {
                    return Err(Error::Closed);
                }
                if let Some((name, handle)) = live.topics.get_key_value(topic) {
                    return Ok(call(live, name, handle));
                }
            }
            let mut guard = self.live.write().unwrap_or_else(PoisonError::into_inner);
            let live = guard.as_mut().ok_or(Error::Closed)?;
            let made = is_topic_name(topic).then(|| Topic::new(&live.client, topic)).flatten();
            let handle = made.ok_or(Error::Invalid {
                what: "topic",
                value: topic.into(),
                allowed: "1 to 249 of the letters a-z A-Z 0-9 . _ -",
            })?;
            live.topics.insert(topic.into(), handle);
        }
    }

    /// Sends one message with a handle of its own. Never blocks: `QueueFull` is for the caller to wait out
    /// (`wait_for_room`) and try again.
    pub fn produce(&self, mut message: Outgoing<'_>) -> Result<Arc<Delivery>, Error> {
        let topic = message.topic;
        let headers = Cell::new(message.headers.take());
        self.with_topic(topic, |live, name, handle| {
            let delivery = Delivery::single(Arc::clone(name));
            rd::hold(&delivery);
            match self.send(live, handle, &message, headers.take(), &delivery, 0) {
                Ok(()) => Ok(delivery),
                Err(error) => {
                    rd::report_unsent(&delivery, 0, Report { partition: -1, offset: -1001, error: UNKNOWN_TOPIC });
                    Err(error)
                }
            }
        })?
    }

    /// A handle for many messages, each of which must then be given to `enqueue` or `refuse`, in any order.
    pub fn batch<'a>(&self, topics: impl Iterator<Item = &'a str>) -> Result<Arc<Delivery>, Error> {
        let mut names: Vec<Arc<str>> = Vec::with_capacity(topics.size_hint().0);
        for topic in topics {
            match names.last() {
                Some(last) if **last == *topic => names.push(Arc::clone(last)),
                _ => names.push(self.with_topic(topic, |_, name, _| Arc::clone(name))?),
            }
        }
        if names.len() >= rd::MAX_POSITIONS {
            let value = names.len().to_string();
            return Err(Error::Invalid { what: "batch size", value, allowed: "fewer than 524288 messages a call" });
        }
        let delivery = Delivery::batch(names);
        if !delivery.is_empty() {
            rd::hold(&delivery);
        }
        Ok(delivery)
    }

    /// Sends one message of a batch.
    pub fn enqueue(&self, mut message: Outgoing<'_>, delivery: &Arc<Delivery>, position: u32) -> Result<(), Error> {
        let headers = Cell::new(message.headers.take());
        self.with_topic(message.topic, |live, _, handle| {
            self.send(live, handle, &message, headers.take(), delivery, position)
        })?
    }

    /// Resolves a position of a batch whose message was not accepted.
    pub fn refuse(&self, delivery: &Arc<Delivery>, position: u32, code: i32) {
        rd::report_unsent(delivery, position, Report { partition: -1, offset: -1001, error: code });
    }

    fn send(
        &self,
        live: &Live,
        topic: &Topic,
        message: &Outgoing<'_>,
        headers: Option<Headers>,
        delivery: &Arc<Delivery>,
        position: u32,
    ) -> Result<(), Error> {
        let Outgoing { payload, key, partition, timestamp, .. } = *message;
        // Counted first: the report may come before this call returns.
        self.sent.fetch_add(1, Ordering::SeqCst);
        let result = if headers.is_none() && timestamp == 0 {
            live.client.produce(topic, partition, payload, key, delivery, position)
        } else {
            live.client.produce_with(topic, partition, payload, key, headers, timestamp, delivery, position)
        };
        result.map_err(|code| {
            self.sent.fetch_sub(1, Ordering::SeqCst);
            self.progress.wake_all();
            if code == QUEUE_FULL { Error::QueueFull } else { Error::code(code) }
        })
    }

    /// Reports so far: to be read before an attempt that may find the queue full.
    pub fn reports(&self) -> u64 {
        self.reported.load(Ordering::SeqCst)
    }

    /// Parks until a report came since `seen` (each makes room).
    pub fn wait_for_room(&self, seen: u64, parker: &Arc<Parker>, deadline: Option<Instant>) -> Outcome {
        self.progress.wait(parker, deadline, || self.reports() != seen || self.closing.started())
    }

    /// Messages accepted and not yet reported.
    pub fn pending(&self) -> u64 {
        let reported = self.reports();
        self.sent.load(Ordering::SeqCst).saturating_sub(reported)
    }

    /// Why nothing gets through at present, as far as librdkafka said: the broker refuses connections, …
    pub fn last_error(&self) -> Option<KafkaError> {
        lock(&self.last_error).clone()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this is a forked child's view of its parent's producer.
    pub fn is_foreign(&self) -> bool {
        self.made_in != generation()
    }

    /// Starts sending everything at once, whatever `linger.ms` says, for at most `timeout`. Waiting is `add_waiter` /
    /// `wait_flushed`.
    pub fn start_flush(self: &Arc<Self>, timeout: Duration) -> Result<(), Error> {
        let client = self.client()?;
        if self.pending() > 0 {
            let millis = timeout.as_millis().min(i32::MAX as u128) as i32;
            let flush = move || client.flush(millis);
            std::thread::Builder::new().name("pelton.flush".into()).spawn(flush).expect("a thread to flush");
        }
        Ok(())
    }

    /// Parks until nothing is pending.
    pub fn wait_flushed(&self, parker: &Arc<Parker>, deadline: Option<Instant>) -> Outcome {
        self.progress.wait(parker, deadline, || self.pending() == 0)
    }

    pub fn add_waiter(&self, waiter: Arc<dyn Wake>) {
        self.progress.add(waiter);
    }

    pub fn remove_waiter(&self, waiter: &Arc<dyn Wake>) {
        self.progress.remove(waiter);
    }

    /// Fails everything pending; the reports come as always.
    pub fn purge(&self) -> Result<(), Error> {
        self.client()?.purge();
        Ok(())
    }

    pub fn closing(&self) -> &Arc<Closing> {
        &self.closing
    }

    /// Starts closing: nothing new is accepted, what is pending is sent within `timeout`, the rest fails with
    /// `_PURGE_…` reports. Idempotent; wait with `closing()`.
    pub fn close(self: &Arc<Self>, timeout: Duration) -> Result<(), Error> {
        if self.is_foreign() {
            return Err(Error::Forked);
        }
        let producer = Arc::clone(self);
        self.closing.start(move || producer.end(timeout));
        self.progress.wake_all();
        Ok(())
    }

    /// The owner is gone without a close (it was garbage collected): goes on sending for a while, then tells.
    pub fn abandon(self: &Arc<Self>) {
        if self.is_foreign() {
            return;
        }
        let producer = Arc::clone(self);
        self.closing.start(move || {
            let lost = producer.end(ABANDONED_FLUSH);
            events::emit(&producer.name, Kind::Unclosed { lost });
            lost
        });
    }

    /// On the closing thread.
    fn end(&self, timeout: Duration) -> usize {
        let Ok(client) = self.client() else { return 0 };
        // An enqueue that began before `closing` was set has ended once the lock was ours.
        drop(self.live.write());
        let deadline = wait::deadline(Some(timeout));
        if self.pending() > 0 {
            client.flush(timeout.as_millis().min(i32::MAX as u128) as i32);
        }
        let parker = Parker::new();
        let mut lost = 0;
        if self.wait_flushed(&parker, deadline) != Outcome::Ready {
            lost = self.pending() as usize;
            client.purge();
            self.wait_flushed(&parker, wait::deadline(Some(PURGE_WAIT)));
        }
        self.poller.unregister(self.id);
        let live = self.live.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(live) = &live {
            live.queue.unsignal();
        }
        drop(live);
        drop(client);
        lost
    }
}

/// Kafka's own rule: what breaks it could never be delivered.
fn is_topic_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && !matches!(name, "." | "..") && name.bytes().all(allowed)
}

impl Source for Producer {
    fn serve(&self, queues: &mut Vec<u32>, deadline: Instant) {
        let Some(queue) = self.live().as_ref().map(|live| Arc::clone(&live.queue)) else { return queues.clear() };
        while let Some(event) = queue.poll() {
            if event.kind() == sys::RD_KAFKA_EVENT_DR {
                let failures = Cell::new(0);
                let count = event.deliver_reports(|delivery: &Delivery, position, report: Report| {
                    failures.set(failures.get() + 1);
                    if !delivery.is_watched() {
                        let topic = delivery.topic(position as usize).to_string();
                        let failed = Kind::DeliveryFailed { code: report.error, topic, partition: report.partition };
                        events::emit(&self.name, failed);
                    }
                });
                if failures.get() < count {
                    *lock(&self.last_error) = None;
                }
                // The room that the messages took is free only now: who is woken must find it.
                drop(event);
                self.reported.fetch_add(count as u64, Ordering::SeqCst);
                self.progress.wake_all();
            } else {
                if event.kind() == sys::RD_KAFKA_EVENT_ERROR {
                    *lock(&self.last_error) = Some(KafkaError::of(&event));
                }
                events::emit_common(&self.name, &event);
            }
            if Instant::now() >= deadline {
                return;
            }
        }
        queues.clear();
    }

    fn all_queues(&self, queues: &mut Vec<u32>) {
        queues.push(MAIN_QUEUE);
    }
}
