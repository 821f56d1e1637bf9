//! What clients say: logs, errors, statistics. One mailbox a process; Ruby reads it with one thread. No text is made and
//! no metric kept in the core.

use crate::error::KafkaError;
use crate::mailbox::Mailbox;
use crate::rd::{Event, PerProcess};
use rdkafka_sys as sys;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientEvent {
    /// The name that the client was made with.
    pub client: String,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
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
    /// librdkafka's JSON.
    Statistics(String),
    /// A message that failed and that nobody waits for.
    DeliveryFailed {
        code: i32,
        topic: String,
        partition: i32,
    },
    /// The client was garbage collected unclosed, with this many messages unsent when it ended.
    Unclosed {
        lost: usize,
    },
}

/// Events kept while nobody reads; then the newest are dropped. Logs and statistics go first: what was lost is told as
/// long as memory allows.
const LIMIT: usize = 1_000_000;
const CHATTER_LIMIT: usize = 10_000;

static MAILBOX: PerProcess<Mailbox<ClientEvent>> = PerProcess::new();

pub fn mailbox() -> &'static Mailbox<ClientEvent> {
    MAILBOX.get_or_init(Mailbox::default)
}

pub fn emit(client: &str, kind: Kind) {
    let limit = if matches!(kind, Kind::Log { .. } | Kind::Statistics(_)) { CHATTER_LIMIT } else { LIMIT };
    mailbox().push_bounded(ClientEvent { client: client.into(), kind }, limit);
}

/// The events that every client has; others are the client's own business.
pub(crate) fn emit_common(name: &str, event: &Event) {
    match event.kind() {
        sys::RD_KAFKA_EVENT_LOG => {
            if let Some((facility, message, level)) = event.log() {
                emit(name, Kind::Log { level, facility, message });
            }
        }
        sys::RD_KAFKA_EVENT_STATS => emit(name, Kind::Statistics(event.statistics())),
        sys::RD_KAFKA_EVENT_ERROR => {
            let KafkaError { code, reason, fatal, .. } = KafkaError::of(event);
            emit(name, Kind::Error { code, reason, fatal });
        }
        _ => {}
    }
}
