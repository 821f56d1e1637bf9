//! A producer's connections. They open with the producer, close by `disconnect` or when it is idle, and open again at
//! the next use. A disconnect ends librdkafka's whole client, which would otherwise keep its bootstrap connection.

use super::{LiveProducer, MAIN_QUEUE, Producer};
use crate::closing::CALLS_WAIT;
use crate::config;
use crate::error::Error;
use crate::events::{self, EventKind};
use crate::lock;
use crate::rd::{Client, ClientKind, Conf, Queue, Token, codes, event_types};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// librdkafka's options, to open the same client again.
pub(super) type Settings = Vec<(String, String)>;

/// The user's options, and those that Pelton always sets.
pub(crate) fn prepare<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Conf, Error> {
    let mut conf = config::build(settings)?;
    conf.set("log.queue", "true").map_err(|reason| Error::from((codes::INVALID_ARG, reason)))?;
    conf.set_events(event_types::DR | events::COMMON);
    Ok(conf)
}

/// A new client, and whether it lingers.
pub(super) fn open(settings: &Settings) -> Result<(LiveProducer, bool), Error> {
    let conf = prepare(settings.iter().map(|(key, value)| (key.as_str(), value.as_str())))?;
    let lingers = conf.get("linger.ms").is_none_or(|millis| millis.parse() != Ok(0.0));
    let room = conf.get("queue.buffering.max.kbytes").and_then(|kilobytes| kilobytes.parse::<usize>().ok());
    let room = room.map_or(usize::MAX, |kilobytes| kilobytes * 1024);
    let client = Client::new(ClientKind::Producer, conf).map_err(config::refused)?;
    let queue = Arc::new(Queue::main(&client));
    client.logs_to(&queue);
    Ok((LiveProducer { client, queue, topics: HashMap::new(), room }, lingers))
}

impl Producer {
    /// Whether it has a client at present. Takes no lock.
    pub fn is_connected(&self) -> bool {
        !self.disconnected.load(Ordering::Acquire) && !self.closing.done()
    }

    /// Disconnects after this long without a message (checked once a second); `None` for never.
    pub fn disconnect_idle(&self, limit: Option<Duration>) {
        self.idle.set(limit);
    }

    /// Ends the client and all its connections, unless a message is pending, a transaction could be open, or it is
    /// closed or disconnected already: false. Blocks until the connections are closed. The next use opens them again.
    pub fn disconnect(&self) -> Result<bool, Error> {
        self.check_origin()?;
        Ok(self.disconnect_if(false, || true))
    }

    fn disconnect_if(&self, idle: bool, still: impl FnOnce() -> bool) -> bool {
        let live = {
            // No thread can enqueue while this is held.
            let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
            if self.closing.started() || self.pending() > 0 || self.is_transactional() || !still() {
                return false;
            }
            let Some(live) = live.take() else { return false };
            // Published under the lock, so that the event of a reconnect comes later.
            events::emit(self.poller.events(), &self.name, EventKind::Disconnected { idle });
            self.disconnected.store(true, Ordering::Release);
            live
        };
        live.queue.unsignal();
        let client = Arc::clone(&live.client);
        drop(live);
        Client::end(client, CALLS_WAIT);
        true
    }

    /// After a transaction's end the coordinator still knows the client, so only its owner ends it.
    fn is_transactional(&self) -> bool {
        self.settings.iter().any(|(key, _)| key == "transactional.id")
    }

    /// Opens the client again that was disconnected.
    pub(super) fn reconnect(&self) -> Result<(), Error> {
        if self.closing.started() {
            return Err(Error::Closed);
        }
        let _turn = lock(&self.opening);
        if self.live().is_some() {
            return Ok(());
        }
        // Takes a while, during which the event thread may serve this producer.
        let (opened, _) = open(&self.settings)?;
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        if self.closing.started() {
            Client::end_aside(Arc::clone(&opened.client));
            return Err(Error::Closed);
        }
        opened.queue.signal(self.poller.wakeup(), Token { client: self.id, queue: MAIN_QUEUE });
        if let Some(linger) = &self.linger {
            linger.follow(&opened.client);
        }
        *live = Some(opened);
        self.disconnected.store(false, Ordering::Release);
        events::emit(self.poller.events(), &self.name, EventKind::Reconnected);
        drop(live);
        // Events that were queued before the signals were switched on.
        self.poller.wake(Token { client: self.id, queue: u32::MAX });
        Ok(())
    }

    /// Called by the event thread once a second.
    pub(super) fn check_idle(&self) {
        if self.disconnected.load(Ordering::Relaxed) {
            return;
        }
        let uses = self.sent.load(Ordering::SeqCst);
        if !self.idle.is_over(uses, self.pending() > 0, Instant::now()) {
            return;
        }
        let Some(producer) = self.me.upgrade() else { return };
        let work = move || producer.disconnect_if(true, || producer.sent.load(Ordering::SeqCst) == uses);
        // Without a thread it stays connected until the next time.
        let _ = std::thread::Builder::new().name("pelton.close".into()).spawn(work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poller::Poller;

    /// A producer that no event thread serves.
    fn producer(option: (&str, &str)) -> Arc<Producer> {
        let poller = Poller::new("test.poll").expect("a pipe");
        let options = [("bootstrap.servers", "127.0.0.1:1"), ("log_level", "0"), option];
        let producer = Producer::new("test", options, &poller).expect("a producer");
        poller.unregister(producer.id);
        producer
    }

    /// Has the idle time of a producer pass, and waits for a thread that disconnects it, which begins after `use_it`.
    fn pass_idle_time(producer: &Arc<Producer>, use_it: impl FnOnce()) {
        producer.disconnect_idle(Some(Duration::from_millis(1)));
        producer.check_idle();
        let over = Instant::now() + Duration::from_millis(1);
        while Instant::now() < over {
            std::thread::yield_now();
        }
        let owners = Arc::strong_count(producer);
        let using = producer.live();
        producer.check_idle();
        assert_eq!(owners + 1, Arc::strong_count(producer), "the thread waits for the use to end");
        use_it();
        drop(using);
        let deadline = Instant::now() + Duration::from_secs(60);
        while Arc::strong_count(producer) > owners {
            assert!(Instant::now() < deadline, "not in time");
            std::thread::yield_now();
        }
    }

    /// Connects and disconnects.
    fn changes(producer: &Producer) -> Vec<EventKind> {
        let kinds = producer.poller.events().take_all().into_iter().map(|event| event.kind);
        kinds.filter(|kind| matches!(kind, EventKind::Disconnected { .. } | EventKind::Reconnected)).collect()
    }

    #[test]
    fn an_idle_producer_is_disconnected_and_opens_again_with_its_next_use() {
        let producer = producer(("linger.ms", "0"));
        pass_idle_time(&producer, || ());
        assert!(!producer.is_connected());
        assert_eq!(Ok(false), producer.disconnect(), "it is disconnected");
        assert!(producer.client().is_ok() && producer.is_connected());
        assert_eq!(Ok(true), producer.disconnect());
        let changes = changes(&producer);
        assert!(
            matches!(
                changes[..],
                [
                    EventKind::Disconnected { idle: true },
                    EventKind::Reconnected,
                    EventKind::Disconnected { idle: false }
                ]
            ),
            "{changes:?}"
        );
        let _ = producer.close(Duration::ZERO);
        assert_eq!(Err(Error::Closed), producer.reconnect());
    }

    #[test]
    fn a_producer_that_is_used_when_its_idle_time_is_over_stays_connected() {
        let producer = producer(("linger.ms", "0"));
        pass_idle_time(&producer, || {
            producer.sent.fetch_add(1, Ordering::SeqCst);
            producer.settled.fetch_add(1, Ordering::SeqCst);
        });
        assert!(producer.is_connected() && changes(&producer).is_empty());
        let _ = producer.close(Duration::ZERO);
    }

    #[test]
    fn a_producer_with_a_pending_message_or_a_transactional_id_is_not_disconnected() {
        for (option, pending) in [(("linger.ms", "0"), 1), (("transactional.id", "t"), 0)] {
            let producer = producer(option);
            producer.sent.fetch_add(pending, Ordering::SeqCst);
            assert_eq!((Ok(false), true), (producer.disconnect(), producer.is_connected()), "{option:?}");
            producer.sent.fetch_sub(pending, Ordering::SeqCst);
            let _ = producer.close(Duration::ZERO);
        }
    }
}
