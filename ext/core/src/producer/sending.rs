//! Sending messages: enqueued without blocking, with one handle each or one for a batch.

use super::{LiveProducer, Outgoing, Producer, fatal};
use crate::delivery::Delivery;
use crate::error::Error;
use crate::rd::{self, Headers, Report, Topic, codes};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Producer {
    /// Sends one message with a handle of its own. Never blocks: `QueueFull` is for the caller to wait out
    /// (`wait_for_room`) and try again.
    pub fn produce(&self, message: Outgoing<'_>) -> Result<Delivery, Error> {
        self.produce_awaited(message, false)
    }

    /// The same; with `awaited`, for a caller that then waits for the delivery.
    pub fn produce_awaited(&self, mut message: Outgoing<'_>, awaited: bool) -> Result<Delivery, Error> {
        let topic = message.topic;
        let headers = Cell::new(message.headers.take());
        self.with_topic(topic, |live, known| {
            let delivery = known.slabs.next();
            if awaited {
                delivery.expect_wait();
            }
            match self.send(live, &known.handle, &message, headers.take(), &delivery, 0) {
                Ok(()) => Ok(delivery),
                Err(error) => {
                    self.refuse(&delivery, 0, codes::UNKNOWN_TOPIC);
                    delivery.expect_no_wait();
                    Err(error)
                }
            }
        })?
    }

    /// A topic's name as `batch` takes it.
    pub fn topic(&self, name: &str) -> Result<Arc<str>, Error> {
        self.with_topic(name, |_, known| Arc::clone(&known.name))
    }

    /// A handle for many messages, each of which must then be given to `enqueue` or `refuse`, in any order.
    pub fn batch(&self, topics: Vec<Arc<str>>) -> Result<Delivery, Error> {
        if topics.len() >= rd::MAX_POSITIONS {
            let value = topics.len().to_string();
            return Err(Error::Invalid { what: "batch size", value, allowed: "fewer than 524288 messages per call" });
        }
        Ok(Delivery::batch(topics, self.linger.clone(), Arc::clone(&self.publisher)))
    }

    /// Sends one message of a batch.
    pub fn enqueue(&self, mut message: Outgoing<'_>, delivery: &Delivery, index: usize) -> Result<(), Error> {
        let headers = Cell::new(message.headers.take());
        self.with_topic(message.topic, |live, known| {
            self.send(live, &known.handle, &message, headers.take(), delivery, index)
        })?
    }

    /// Resolves a message that was not accepted; its caller reports it.
    pub fn refuse(&self, delivery: &Delivery, index: usize, code: i32) {
        rd::report_unsent(delivery.slab(), delivery.position(index), unsent(code, -1), false);
    }

    /// The same, but published as any failure, because the caller does not check each message that it handed over at
    /// once.
    pub fn give_up(&self, delivery: &Delivery, index: usize, code: i32, partition: i32) {
        rd::report_unsent(delivery.slab(), delivery.position(index), unsent(code, partition), true);
    }

    fn send(
        &self,
        live: &LiveProducer,
        topic: &Topic,
        message: &Outgoing<'_>,
        headers: Option<Headers>,
        delivery: &Delivery,
        index: usize,
    ) -> Result<(), Error> {
        let Outgoing { payload, key, partition, timestamp, .. } = *message;
        let (slab, position) = (delivery.slab(), delivery.position(index));
        let size = payload.map_or(0, <[u8]>::len) + key.map_or(0, <[u8]>::len);
        // Counted first: the report may come before this call returns.
        if !self.queued.add(size) {
            return Err(Error::QueueFull);
        }
        self.sent.fetch_add(1, Ordering::SeqCst);
        let result = if headers.is_none() && timestamp == 0 {
            live.client.produce(topic, partition, payload, key, slab, position)
        } else {
            live.client.produce_with(topic, partition, payload, key, headers, timestamp, slab, position)
        };
        result.map_err(|code| {
            self.sent.fetch_sub(1, Ordering::SeqCst);
            self.queued.remove(1, size);
            self.progress.wake_all();
            match code {
                // No wait would make room for it.
                codes::QUEUE_FULL if payload.is_some_and(|payload| payload.len() > live.room) => {
                    Error::code(codes::LARGER_THAN_QUEUE)
                }
                codes::QUEUE_FULL => Error::QueueFull,
                codes::FATAL => Error::Kafka(fatal(&live.client)),
                _ => Error::code(code),
            }
        })
    }
}

fn unsent(code: i32, partition: i32) -> Report {
    Report { partition, offset: -1001, error: code, micros: 0 }
}

#[cfg(test)]
mod tests {
    use crate::poller::Poller;
    use crate::producer::Producer;
    use crate::wait::{self, Outcome, Parker};
    use std::sync::PoisonError;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    /// Otherwise a message that `produce` took would be lost without being counted.
    #[test]
    fn a_close_waits_for_a_call_that_is_sending_a_message() {
        let poller = Poller::new("test.poll").expect("a pipe");
        let options = [("bootstrap.servers", "127.0.0.1:1"), ("log_level", "0")];
        let producer = Producer::new("test", options, &poller).expect("a producer");
        let sending = producer.live.read().unwrap_or_else(PoisonError::into_inner);
        producer.close(Duration::ZERO).expect("ours");
        // Time for an end that does not wait, which would leave the poller next.
        let soon = wait::deadline(Some(Duration::from_millis(100)));
        producer.progress.wait(&Parker::new(), soon, || poller.clients() == 0);
        producer.sent.fetch_add(1, Ordering::SeqCst);
        drop(sending);
        while producer.closing().lost() == 0 && !producer.closing().done() {
            std::thread::yield_now();
        }
        producer.reported.fetch_add(1, Ordering::SeqCst);
        producer.progress.wake_all();
        assert_eq!(
            Outcome::Ready,
            producer.closing().wait(&Parker::new(), wait::deadline(Some(Duration::from_secs(60))))
        );
        assert_eq!(1, producer.closing().lost());
    }
}
