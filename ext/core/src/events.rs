//! What clients report: logs, errors, statistics. Each poller has one mailbox, which one Ruby thread reads. The core
//! writes no text and keeps no metrics.

use crate::error::KafkaError;
use crate::lock;
use crate::mailbox::Mailbox;
use crate::rd::{Event, PerProcess, codes, event_types};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientEvent {
    /// The name that the client was made with.
    pub client: String,
    pub kind: EventKind,
    /// When it was emitted.
    pub at: Instant,
}

pub type Feed = Mailbox<ClientEvent>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// Syslog level 0 (emergency) to 7 (debug).
    Log {
        level: i32,
        facility: String,
        message: String,
    },
    Error {
        code: i32,
        reason: String,
        fatal: bool,
    },
    /// librdkafka's JSON. Of each client only the newest waits to be read: a document may have megabytes.
    Statistics(String),
    /// A message failed, and no caller waited for it.
    DeliveryFailed {
        code: i32,
        topic: String,
        partition: i32,
        /// `Delivery::id` of its handle, and which of the handle's messages it is.
        delivery: u64,
        position: u32,
    },
    /// A message was delivered, if the producer publishes reports.
    Acknowledged {
        topic: Arc<str>,
        partition: i32,
        offset: i64,
        /// Microseconds since the produce call.
        micros: i64,
        /// As in `DeliveryFailed`.
        delivery: u64,
        position: u32,
    },
    /// A message was purged before Kafka had it, if the producer publishes reports.
    Purged {
        code: i32,
        topic: Arc<str>,
        partition: i32,
        /// As in `DeliveryFailed`.
        delivery: u64,
        position: u32,
    },
    /// What became of a message of a delivery that publishes its reports (`Delivery::publish_reports`).
    Reported {
        code: i32,
        topic: Arc<str>,
        partition: i32,
        offset: i64,
        /// Microseconds since the produce call.
        micros: i64,
        /// As in `DeliveryFailed`.
        delivery: u64,
        position: u32,
    },
    /// Producing threads had to wait for room in the queue: how often and how long since the last event.
    QueueFull {
        waits: u64,
        time: std::time::Duration,
    },
    /// All connections were closed. `idle`: because the producer had nothing to send.
    Disconnected {
        idle: bool,
    },
    /// And opened again.
    Reconnected,
    /// The client was garbage collected unclosed, with this many messages unsent when it ended.
    Unclosed {
        lost: usize,
    },
}

/// The most unread events. Beyond that, the newest are dropped. Logs and statistics have a lower limit, so that reports
/// of losses have room.
const LIMIT: usize = 1_000_000;
const CHATTER_LIMIT: usize = 10_000;

/// The events that every client requests from librdkafka; `emit_common` handles them.
pub(crate) const COMMON: i32 =
    event_types::ERROR | event_types::STATS | event_types::LOG | event_types::OAUTHBEARER_TOKEN_REFRESH;

/// Names of clients that want a token (SASL/OAUTHBEARER). Apart from the events, so that no subscriber delays a log-in.
static TOKENS: PerProcess<Mailbox<String>> = PerProcess::new();

pub fn tokens() -> &'static Mailbox<String> {
    TOKENS.get_or_init(Mailbox::default)
}

pub fn emit(feed: &Feed, client: &str, kind: EventKind) {
    let event = ClientEvent { client: client.into(), kind, at: Instant::now() };
    match event.kind {
        EventKind::Statistics(_) => {
            let same = |older: &ClientEvent| matches!(older.kind, EventKind::Statistics(_)) && older.client == client;
            feed.replace_bounded(event, CHATTER_LIMIT, same)
        }
        EventKind::Log { .. } => feed.push_bounded(event, CHATTER_LIMIT),
        _ => feed.push_bounded(event, LIMIT),
    };
}

/// Publishes events in the name of a client that may be gone by then. Does not keep the mailbox alive.
pub(crate) struct ReportPublisher {
    feed: Weak<Feed>,
    client: String,
    /// Whether each delivered, or purged, message becomes an event. Failures that no caller waits for always do.
    acknowledged: AtomicBool,
    purged: AtomicBool,
    /// Whether a delivery publishes its reports, so that they need their time.
    timed: AtomicBool,
    /// Failed messages that no caller waited for, by topic and code.
    failures: Mutex<BTreeMap<(Arc<str>, i32), u64>>,
    /// The last error (see `keep`), until a message is delivered again. It explains why a wait ends without success.
    pub last_error: Mutex<Option<KafkaError>>,
}

impl ReportPublisher {
    pub fn new(feed: &Arc<Feed>, client: &str) -> Arc<Self> {
        Arc::new(Self {
            feed: Arc::downgrade(feed),
            client: client.into(),
            acknowledged: AtomicBool::default(),
            purged: AtomicBool::default(),
            timed: AtomicBool::default(),
            failures: Mutex::default(),
            last_error: Mutex::default(),
        })
    }

    /// A message failed that no caller waits for: counts and publishes it.
    pub fn failed(&self, kind: EventKind) {
        if let EventKind::DeliveryFailed { code, topic, .. } = &kind {
            *lock(&self.failures).entry((topic.as_str().into(), *code)).or_default() += 1;
        }
        self.emit(kind);
    }

    /// Failed messages so far that no caller waited for, by topic and code.
    pub fn failures(&self) -> BTreeMap<(Arc<str>, i32), u64> {
        lock(&self.failures).clone()
    }

    pub fn publish_reports(&self, acknowledged: bool, purged: bool) {
        self.acknowledged.store(acknowledged, Ordering::Relaxed);
        self.purged.store(purged, Ordering::Relaxed);
    }

    /// From now on, reports have the time of their messages.
    pub fn time_reports(&self) {
        self.timed.store(true, Ordering::Relaxed);
    }

    pub fn times_reports(&self) -> bool {
        self.timed.load(Ordering::Relaxed) || self.publishes_report(0)
    }

    /// Whether a report with this code is published.
    pub fn publishes_report(&self, code: i32) -> bool {
        match code {
            0 => self.acknowledged.load(Ordering::Relaxed),
            codes::PURGE_QUEUE | codes::PURGE_INFLIGHT => self.purged.load(Ordering::Relaxed),
            _ => false,
        }
    }

    pub fn emit(&self, kind: EventKind) {
        if let Some(feed) = self.feed.upgrade() {
            emit(&feed, &self.client, kind);
        }
    }
}

/// As `emit_common`, and keeps the error that says best why.
pub(crate) fn emit_and_keep(feed: &Feed, name: &str, event: &Event, last: &Mutex<Option<KafkaError>>) {
    if event.kind() == event_types::ERROR {
        keep(&mut lock(last), KafkaError::of(event));
    }
    emit_common(feed, name, event);
}

fn keep(last: &mut Option<KafkaError>, error: KafkaError) {
    if last.as_ref().is_none_or(|older| error.weight() >= older.weight()) {
        *last = Some(error);
    }
}

/// The events that every client has; others are the client's own business.
pub(crate) fn emit_common(feed: &Feed, name: &str, event: &Event) {
    match event.kind() {
        event_types::LOG => {
            if let Some((facility, message, level)) = event.log() {
                emit(feed, name, EventKind::Log { level, facility, message });
            }
        }
        event_types::STATS => emit(feed, name, EventKind::Statistics(event.statistics())),
        event_types::ERROR => {
            let KafkaError { code, reason, fatal, .. } = KafkaError::of(event);
            emit(feed, name, EventKind::Error { code, reason, fatal });
        }
        // librdkafka asks once and waits for the answer: at most one a client is here.
        event_types::OAUTHBEARER_TOKEN_REFRESH => tokens().push(name.into()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(feed: &Feed) -> Vec<(String, String)> {
        let counts = feed.take_all().into_iter().filter_map(|event| match event.kind {
            EventKind::Statistics(json) => Some((event.client, json)),
            _ => None,
        });
        counts.collect()
    }

    /// A slow machine broke the connection before the next refusal; the wait then told of that.
    #[test]
    fn a_refusal_stays_until_the_next_one() {
        const SSL: i32 = -181;
        const AUTHENTICATION: i32 = -169;
        let mut last = None;
        let mut after = |code| {
            keep(&mut last, KafkaError::new(code));
            last.as_ref().map(|kept| kept.code)
        };
        assert_eq!(Some(codes::ALL_BROKERS_DOWN), after(codes::ALL_BROKERS_DOWN));
        assert_eq!(Some(codes::RESOLVE), after(codes::RESOLVE));
        assert_eq!(Some(codes::TRANSPORT), after(codes::TRANSPORT));
        assert_eq!(Some(codes::TRANSPORT), after(codes::ALL_BROKERS_DOWN));
        assert_eq!(Some(AUTHENTICATION), after(AUTHENTICATION));
        assert_eq!(Some(AUTHENTICATION), after(codes::TRANSPORT));
        assert_eq!(Some(AUTHENTICATION), after(codes::ALL_BROKERS_DOWN));
        assert_eq!(Some(SSL), after(SSL));
    }

    /// A topic of 2,000 partitions has 1.5 MB of them: unread ones took gigabytes before their number was limited.
    #[test]
    fn unread_statistics_keep_the_newest_of_each_client_only() {
        let feed = Feed::default();
        for number in 0..1000 {
            emit(&feed, "one", EventKind::Statistics(format!("1-{number}")));
            emit(&feed, "two", EventKind::Statistics(format!("2-{number}")));
            emit(&feed, "one", EventKind::Log { level: 6, facility: "F".into(), message: number.to_string() });
        }
        assert_eq!(1002, feed.pushed(), "what a reader counts");
        let expected = [("one", "1-999"), ("two", "2-999")].map(|(client, json)| (client.into(), json.into()));
        assert_eq!(expected.to_vec(), statistics(&feed));
        emit(&feed, "one", EventKind::Statistics("next".into()));
        assert_eq!(vec![("one".into(), "next".into())], statistics(&feed));
    }

    #[test]
    fn statistics_take_the_place_of_older_ones_where_there_is_no_room() {
        let feed = Feed::default();
        emit(&feed, "one", EventKind::Statistics("old".into()));
        for _ in 0..CHATTER_LIMIT {
            emit(&feed, "one", EventKind::Disconnected { idle: true });
        }
        emit(&feed, "one", EventKind::Statistics("new".into()));
        emit(&feed, "two", EventKind::Statistics("no room".into()));
        assert_eq!(vec![("one".into(), "new".into())], statistics(&feed));
    }

    #[test]
    fn reports_are_published_as_far_as_asked_for() {
        let publisher = ReportPublisher::new(&Arc::default(), "p");
        let published =
            || [0, codes::PURGE_QUEUE, codes::PURGE_INFLIGHT, 3].map(|code| publisher.publishes_report(code));
        assert_eq!([false; 4], published());
        publisher.publish_reports(true, false);
        assert_eq!([true, false, false, false], published());
        publisher.publish_reports(false, true);
        assert_eq!([false, true, true, false], published());
    }

    #[test]
    fn failures_are_counted_by_topic_and_code() {
        let feed = Arc::default();
        let publisher = ReportPublisher::new(&feed, "p");
        for (topic, code) in [("a", 3), ("b", 3), ("a", 3), ("a", 7)] {
            let topic = topic.into();
            publisher.failed(EventKind::DeliveryFailed { code, topic, partition: 0, delivery: 1, position: 0 });
        }
        let counted: Vec<_> = publisher.failures().into_iter().collect();
        assert_eq!(vec![(("a".into(), 3), 2), (("a".into(), 7), 1), (("b".into(), 3), 1)], counted);
        assert_eq!(4, feed.pushed());
    }
}
