//! What the event thread does for a producer: it serves the queue of reports and events.

use super::{MAIN_QUEUE, Producer};
use crate::delivery::Slab;
use crate::events::{self, EventKind};
use crate::lock;
use crate::poller::Source;
use crate::rd::{Reports, codes, event_types};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Producer {
    /// Messages that a caller waits for skip the linger.
    fn send_on(&self) {
        if let Some(linger) = &self.linger
            && self.pending() > 0
        {
            linger.again();
        }
    }
}

impl Source for Producer {
    fn serve(&self, queues: &mut Vec<u32>, deadline: Instant) {
        let Some(queue) = self.live().as_ref().map(|live| Arc::clone(&live.queue)) else { return queues.clear() };
        while let Some(event) = queue.poll() {
            if event.kind() == event_types::DR {
                let failures = Cell::new(0);
                let counts = self.times.get();
                let mut times = counts.map(|_| Vec::new());
                let timed = self.publisher.times_reports();
                let Reports { count, bytes, panics } = event.deliver_reports::<Slab>(times.as_mut(), timed, |report| {
                    self.settled.fetch_add(1, Ordering::SeqCst);
                    if report.error == 0 {
                        return false;
                    }
                    failures.set(failures.get() + 1);
                    !self.transactions.failed(report.error)
                });
                counts.into_iter().flatten().for_each(|counts| counts.add(times.as_deref().unwrap_or_default()));
                if failures.get() < count {
                    *lock(&self.publisher.last_error) = None;
                }
                if panics {
                    let reason = "a panic while a report was looked at".into();
                    events::emit(
                        self.poller.events(),
                        &self.name,
                        EventKind::Error { code: codes::FAIL, reason, fatal: false },
                    );
                }
                // The messages' room in the queue is free only now. A woken thread must find it.
                drop(event);
                self.queued.remove(count, bytes);
                self.reported.fetch_add(count as u64, Ordering::SeqCst);
                self.progress.wake_all();
                // Messages that had no place among those in flight have one now.
                self.send_on();
            } else {
                events::emit_and_keep(self.poller.events(), &self.name, &event, &self.publisher.last_error);
            }
            if Instant::now() >= deadline {
                return;
            }
        }
        queues.clear();
    }

    fn all_queues(&self, queues: &mut Vec<u32>) {
        self.send_on();
        self.check_idle();
        queues.push(MAIN_QUEUE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::ClientEvent;
    use crate::poller::Poller;
    use crate::producer::Outgoing;
    use crate::wait::Wake;
    use std::time::Duration;

    /// A producer that no event thread serves.
    fn producer(option: (&str, &str)) -> Arc<Producer> {
        let options = [("bootstrap.servers", "127.0.0.1:1"), option];
        let producer = Producer::new("test", options, Poller::global().expect("a pipe")).expect("a producer");
        producer.poller.unregister(producer.id);
        producer
    }

    /// Otherwise the event thread would come back at once, and never sleep.
    #[test]
    fn a_queue_with_nothing_left_is_not_served_again() {
        let producer = producer(("log_level", "0"));
        let mut queues = Vec::new();
        producer.all_queues(&mut queues);
        assert_eq!(vec![MAIN_QUEUE], queues);
        producer.serve(&mut queues, Instant::now() + Duration::from_secs(60));
        assert!(queues.is_empty(), "{queues:?}");
        let _ = producer.close(Duration::ZERO);
    }
    /// There is no signal for an event that was there before.
    #[test]
    fn events_that_the_deadline_leaves_in_the_queue_are_served_in_the_next_turn() {
        let producer = producer(("debug", "all"));
        let ends = Instant::now() + Duration::from_secs(60);
        let mut queues = Vec::new();
        while queues.is_empty() {
            assert!(Instant::now() < ends, "no event");
            queues.push(MAIN_QUEUE);
            producer.serve(&mut queues, Instant::now());
        }
        producer.serve(&mut queues, ends);
        assert!(queues.is_empty(), "{queues:?}");
        let _ = producer.close(Duration::ZERO);
    }

    struct Trap;

    impl Wake for Trap {
        fn wake(&self) {
            panic!("as asked for");
        }
    }

    /// The producer is as good as before. A fatal error would say that it is lost.
    #[test]
    fn a_panic_over_a_report_is_an_error_that_is_not_fatal() {
        let poller = Poller::new("own").expect("a pipe");
        let options = [("bootstrap.servers", "127.0.0.1:1"), ("log_level", "0")];
        let producer = Producer::new("test", options, &poller).expect("a producer");
        poller.unregister(producer.id);
        let message = Outgoing { topic: "t", payload: Some(b"x"), ..Outgoing::default() };
        let delivery = producer.produce(message).expect("room");
        delivery.add_waiter(Arc::new(Trap));
        producer.with_client(|client| client.purge()).expect("open");
        let ends = Instant::now() + Duration::from_secs(60);
        while producer.pending() > 0 {
            assert!(Instant::now() < ends, "no report");
            producer.serve(&mut vec![MAIN_QUEUE], ends);
        }
        let error = |event: ClientEvent| match event.kind {
            EventKind::Error { code: codes::FAIL, fatal, .. } => Some(fatal),
            _ => None,
        };
        let errors: Vec<_> = poller.events().take_all().into_iter().filter_map(error).collect();
        assert_eq!(vec![false], errors);
        let _ = producer.close(Duration::ZERO);
    }
}
