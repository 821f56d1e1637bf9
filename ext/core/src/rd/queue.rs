//! `rd_kafka_queue_t`: polled for events, or for fetched messages, never both.

use super::{Event, Fetched, Token, Wakeup, client::Client, fetching, sys};
use std::ffi::CString;
use std::sync::Arc;

/// Keeps its client alive: librdkafka wants every queue destroyed before the client is.
pub struct Queue {
    raw: *mut sys::rd_kafka_queue_t,
    _client: Arc<Client>,
    /// Of a partition's queue.
    watched: Option<fetching::Watched>,
}

impl Queue {
    /// A queue for answers that no other code gets.
    pub fn new(client: &Arc<Client>) -> Self {
        // SAFETY: a live client.
        Self::own(unsafe { sys::rd_kafka_queue_new(client.raw()) }, client).expect("a queue")
    }

    /// Delivery reports, errors, statistics, logs.
    pub fn main(client: &Arc<Client>) -> Self {
        // SAFETY: a live client always has a main queue.
        Self::own(unsafe { sys::rd_kafka_queue_get_main(client.raw()) }, client).expect("main queue")
    }

    /// Rebalances and errors of a consumer; `None` without a group.
    pub fn consumer(client: &Arc<Client>) -> Option<Self> {
        // SAFETY: a live client.
        Self::own(unsafe { sys::rd_kafka_queue_get_consumer(client.raw()) }, client)
    }

    /// A partition's own messages, cut off from the consumer queue. To be called before the partition is assigned:
    /// librdkafka then leaves the forwarding alone (`RD_KAFKA_Q_F_FWD_APP`).
    pub fn partition(client: &Arc<Client>, topic: &str, partition: i32) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: live client and string.
        let queue = unsafe { sys::rd_kafka_queue_get_partition(client.raw(), topic.as_ptr(), partition) };
        let mut queue = Self::own(queue, client)?;
        // SAFETY: a live queue; null means "to nowhere".
        unsafe { sys::rd_kafka_queue_forward(queue.raw, std::ptr::null_mut()) };
        queue.watched = Some(fetching::watch(queue.raw));
        Some(queue)
    }

    fn own(raw: *mut sys::rd_kafka_queue_t, client: &Arc<Client>) -> Option<Self> {
        (!raw.is_null()).then(|| Self { raw, _client: Arc::clone(client), watched: None })
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_queue_t {
        self.raw
    }

    /// Has `token` written to the wake-up whenever the queue turns from empty to non-empty. The wake-up must outlive
    /// the queue's signals: call `unsignal` first.
    pub fn signal(&self, wakeup: &Wakeup, token: Token) {
        let payload = token.to_bytes();
        // SAFETY: librdkafka copies the payload.
        unsafe {
            sys::rd_kafka_queue_io_event_enable(self.raw, wakeup.descriptor(), payload.as_ptr().cast(), payload.len());
        }
    }

    pub fn unsignal(&self) {
        // SAFETY: −1 disables; no payload is read then.
        unsafe { sys::rd_kafka_queue_io_event_enable(self.raw, -1, std::ptr::null(), 0) };
    }

    /// A partition's queue in the account of what is fetched.
    pub fn watched(&self) -> Option<fetching::Watched> {
        self.watched
    }

    /// The next event without waiting.
    pub fn poll(&self) -> Option<Event> {
        // SAFETY: a live queue; the event is ours.
        Event::own(unsafe { sys::rd_kafka_queue_poll(self.raw, 0) })
    }

    /// Blocks up to `millis` for one event: for native threads that wait for nothing else (the poller drives the
    /// others).
    pub fn poll_wait(&self, millis: i32) -> Option<Event> {
        // SAFETY: as `poll`.
        Event::own(unsafe { sys::rd_kafka_queue_poll(self.raw, millis) })
    }

    /// Up to `max` fetched messages, waiting at most `millis` for the first.
    pub fn fetch(&self, max: usize, millis: i32, into: &mut Fetched) -> usize {
        into.refill(max, |buffer, room| {
            // SAFETY: the buffer has room for that many pointers; the messages become ours.
            unsafe { sys::rd_kafka_consume_batch_queue(self.raw, millis, buffer, room) }
        })
    }
}

impl Queue {
    /// The same without waiting, one by one: slower, but right when the position counts. A batch may contain an entry
    /// that is no message but has an offset, say 7: the end of the partition (`enable.partition.eof`) or a fetch error.
    /// Then `fetch` moves the position to 8, and message 7 is left out when fetching starts again after a pause.
    /// Without `rebalance_pause`, each rebalance in which partitions stay is such a pause (cooperative, or protocol
    /// `consumer`). This is librdkafka issue 4844, fixed in 2.13.2 for partition ends only.
    pub fn fetch_singly(&self, max: usize, into: &mut Fetched) -> usize {
        into.refill(max, |buffer, room| {
            for count in 0..room {
                // SAFETY: a live queue; the message becomes ours.
                let message = unsafe { sys::rd_kafka_consume_queue(self.raw, 0) };
                if message.is_null() {
                    return count as isize;
                }
                // SAFETY: the buffer has room for that many pointers.
                unsafe { buffer.add(count).write(message) };
            }
            room as isize
        })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self._client.is_foreign() {
            return;
        }
        if let Some(watched) = self.watched {
            fetching::forget(watched);
        }
        // SAFETY: owned, destroyed once.
        unsafe { sys::rd_kafka_queue_destroy(self.raw) };
    }
}

// SAFETY: librdkafka's queues are internally locked.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}
